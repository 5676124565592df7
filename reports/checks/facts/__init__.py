"""Facts: the values that are read from a history before any clause is judged."""
