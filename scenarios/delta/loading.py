"""The number of objects that a writer reads before it may write the next version of a Delta table.

Source: the post "Concurrency limitations for Delta Lake on AWS", "Curse of stale table state". LIST requests and the
read that misses `_last_checkpoint` before the first checkpoint are not counted.
"""

from __future__ import annotations

CHECKPOINT_EVERY = 10
"""Delta writes a checkpoint at every tenth version, by convention."""


def checkpoint_of(version: int) -> int:
    """The newest version at or below `version` that has a checkpoint; 0 where there is none yet."""
    return version - version % CHECKPOINT_EVERY


def gets(version: int, *, checkpoint: int | None = None) -> int:
    """GetObject requests to load `version`: G(v).

    checkpoint: the newest checkpoint that the reader sees, 0 for none. By default the newest that there is.
    A writer that loads version 10 before its checkpoint is visible reads eleven entries of the log.
    """
    seen = checkpoint_of(version) if checkpoint is None else checkpoint
    assert 0 <= seen <= version, f"checkpoint {seen} is newer than version {version}"
    # Without a checkpoint: the entries 0 to `version`.
    # With one: `_last_checkpoint`, the checkpoint, the entries after it.
    return version + 1 if seen == 0 else 2 + version - seen
