"""The surroundings of a run: the answers of its store, the host that it ran on, and whether its record is whole."""
