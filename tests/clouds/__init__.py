"""Tests of what the clouds answer, and of every reader of these answers."""
