"""What a run went through: what disturbed it, what its store answered, and whether its record is whole."""
