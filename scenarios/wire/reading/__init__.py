"""The requests of foreign clients and their answers, read from a copy of the bytes that pass."""
