"""Measures of a run, from its history: speed, fairness, confidence."""
