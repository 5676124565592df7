"""Peers: somebody else's lock, the original, behind our provider protocol."""
