"""A store for the length of one test: a folder on this machine, shared by all threads and processes of the test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A folder in which each table has a store of its own. It is made with the first lock.

    folder: its absolute path.
    """

    folder: Path

    def table(self, name: str) -> str:
        """The base path of a table, such as `file:///tmp/…/orders`, for `open_lock` or `hoodie.base.path`."""
        return f"{self.folder.as_uri()}/{quote(name)}"
