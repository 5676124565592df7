"""What a scenario file means: its model, its units, its faults, its expectations."""
