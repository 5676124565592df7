"""Files that a reader sees all of or not at all, whenever their writer dies."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a file beside `path`, then give it the name; text is UTF-8. Makes the folder; answers `path`.

    A writer that is killed leaves the file before, and beside it a hidden one that nobody reads. Two writers at
    once do not mix. What is there and is no file, such as /dev/stdout, is written to and not replaced.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    beside.replace(path)
    return path
