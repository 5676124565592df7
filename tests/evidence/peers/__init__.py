"""Peers: other projects' locks, the originals, behind our provider protocol."""
