"""Evidence: what the originals do, shown on themselves. Somebody else's released locks, on real servers.

Not in the wheel, and reached by no command of `lockref`: `python -m tests.evidence` runs the experiments, in a clone.
"""
