"""Released programs with locks of their own, unmodified, on the wire."""
