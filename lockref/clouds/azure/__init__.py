"""Azure Blob Storage, by its ETags."""
