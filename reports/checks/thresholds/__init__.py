"""Thresholds: limits on what is measured, their words (`limits`) and their verdicts (`kept`)."""
