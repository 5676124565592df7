"""What the laboratory needs of any lock: its recording, its contract, how it is loaded."""
