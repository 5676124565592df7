"""How fast, how fair, how sure: figures of a run, measured from its history."""
