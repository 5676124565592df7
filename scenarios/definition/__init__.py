"""The meaning of a scenario file: its model, its units, its faults, its expectations."""
