"""Locks with one planted bug each, and correct locks that look unusual: what the laboratory itself is tested with."""
