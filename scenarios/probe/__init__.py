"""Can this store carry a lock? Every clause asked of the store itself, by requests that nobody softens on the way."""
