"""Is this store fit to carry a lock? Asked of the store itself."""
