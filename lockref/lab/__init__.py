"""The laboratory's side of a lock: its recording, its contract, and its loading."""
