"""Delta Lake's commits in numbers: queues of versions, writers, one lock per table, and what waiting costs."""
