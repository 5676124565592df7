"""What a run went through: what its store answered, on which host it ran, and whether its record is whole."""
