"""The leaders' book in ZooKeeper: the last orders to each live instance. `grants` explains its purpose.

Only the leader writes the book. Every write is part of a transaction, which also checks that no other leader has been
there since. So a leader that has read the book once knows its content from its own writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from lockref.coordination.port import Operation, Stat, change, create, delete
from lockref.coordination.session import Session
from lockref.errors import ConfigError
from lockref.helix.controller.asking import Asking
from lockref.helix.grants import TERM, Page
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord


class Book:
    """pages: by instance, of whatever session was last written down. zxid: the transaction that began the book; None
    before it is read. complaints: of the last reading, what could not be read.
    """

    def __init__(self, session: Session, asking: Asking, paths: layout.ClusterPaths) -> None:
        self._session = session
        self._asking = asking
        self._paths = paths
        self.pages: dict[str, Page] = {}
        self.zxid: int | None = None
        self.complaints: tuple[str, ...] = ()
        self._is_there: dict[str, None] = {}
        self._unwritten: dict[str, None] = {}

    def renewal(self, written: int, own_term: int | None) -> list[Operation]:
        """The operations by which this leader takes over the book, for the transaction that writes HISTORY.

        If a leader that keeps no book has led since, the book is deleted and made again.

        written: the version of HISTORY that was read. own_term: of the leader that has led all the time since.
        """
        root = self._paths.grants
        body = ZNRecord("GRANTS", {TERM: str(written + 1)}).to_json()
        found = self._asking.answered(lambda: self._session.get(root))
        if not isinstance(found.version, Stat):
            return [create(root, body)]
        try:
            term = ZNRecord.from_json(found.body or b"", root).simple.get(TERM, "")
        except ConfigError:
            term = ""
        if term in [str(each) for each in (written, own_term) if each is not None]:
            return [change(root, body, found.version.version)]
        return [*(delete(path) for path in reversed(self._below(root))), create(root, body)]

    def _below(self, root: str) -> list[str]:
        """A znode and all below it, parents first."""
        paths = [root]
        for path in paths:  # Grows while it is walked.
            reply = self._asking.answered(partial(self._session.children, path))
            paths += [f"{path}/{name}" for name in reply.body or ()]
        return paths

    def read(self, *, is_continuing: bool) -> None:
        """Read it anew, after its renewal. is_continuing: what this leader knows stays, where nothing can be read."""
        root = self._paths.grants
        pages = self.pages if is_continuing else {}
        complaints: list[str] = []
        found = self._asking.answered(lambda: self._session.get(root))
        self.zxid = found.version.created_zxid if isinstance(found.version, Stat) else None
        self.refresh()
        for name in self._is_there:
            path = self._paths.grants_of(name)
            reply = self._asking.answered(partial(self._session.get, path))
            try:
                pages[name] = Page.from_record(ZNRecord.from_json(reply.body or b"", path))
            except ConfigError as error:
                complaints.append(f"{error}. Only the report of {name} tells what it may hold")
        self.pages = pages
        self.complaints = tuple(complaints)
        self._unwritten.clear()

    def refresh(self) -> None:
        """See again which pages there are."""
        reply = self._asking.answered(lambda: self._session.children(self._paths.grants))
        self._is_there = dict.fromkeys(reply.body or ())

    def settle(self, settled: Mapping[str, Sequence[str]]) -> None:
        """Strike out what is over; it is written with the next batch."""
        for name, locks in settled.items():
            self.pages[name] = self.pages[name].without(locks)
            self._unwritten[name] = None

    def unwritten(self) -> dict[str, Page]:
        """Pages that say less than their znodes."""
        return {name: self.pages[name] for name in self._unwritten}

    def operations(self, pages: Mapping[str, Page]) -> list[Operation]:
        """The operations that write these pages."""
        found = []
        for name, page in pages.items():
            path, body = self._paths.grants_of(name), page.to_record(name).to_json()
            found.append(change(path, body) if name in self._is_there else create(path, body))
        return found

    def committed(self, pages: Mapping[str, Page]) -> None:
        """Note that the operations on these pages have happened."""
        for name, page in pages.items():
            self.pages[name] = page
            self._is_there[name] = None
            self._unwritten.pop(name, None)
