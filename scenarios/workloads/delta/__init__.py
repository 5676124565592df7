"""Commits to the log of a Delta table: its files, how writers commit, and the store that keeps it."""
