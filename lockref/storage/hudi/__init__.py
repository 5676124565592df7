"""Hudi's own lock, answer by answer: the baseline that RFC-91's lock is compared with."""
