"""One transaction of a leader: messages, and the pages of the book that they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lockref.coordination.port import Operation, create
from lockref.helix.grants import Page, Standing
from lockref.helix.pipeline import Snapshot
from lockref.helix.records import layout
from lockref.helix.records.messages import Message

BATCH_BYTES_MAX: Final = 500_000
"""How much of a transaction messages and pages may fill."""

PAGE_BYTES_EACH: Final = 8
"""What a name takes in a page beside itself."""


class Batch:
    """One transaction in the making.

    controller, session: who sends it. now_ms: wall time, for people. known: the pages as they are; None where no book
    is kept. unwritten: those that say less than their znodes.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        paths: layout.ClusterPaths,
        *,
        controller: str,
        session: str,
        now_ms: int,
        known: Mapping[str, Page] | None,
        unwritten: Mapping[str, Page],
    ) -> None:
        self.snapshot = snapshot
        self.messages: list[tuple[str, Message]] = []
        self.operations: list[Operation] = []
        self._paths = paths
        self._controller = controller
        self._session = session
        self._now_ms = now_ms
        self._known = known
        self._tops = {group.name: group.model.top for group in snapshot.groups}
        self._sessions: dict[str, str] = {}
        self._told: dict[str, dict[str, Standing]] = {}
        self._size = 0
        for name, page in unwritten.items():
            self._open(name, page)

    @property
    def is_full(self) -> bool:
        return bool(self.messages) and self._size > BATCH_BYTES_MAX

    @property
    def pages(self) -> dict[str, Page]:
        """By instance, the pages that change, as they are afterwards."""
        return {name: Page(self._sessions[name], told) for name, told in self._told.items()}

    def add(self, message: Message) -> None:
        """Add a message, with the id under which it is sent."""
        path = self._paths.instance(message.instance).message(message.id)
        record = message.to_record(controller=self._controller, controller_session=self._session, now_ms=self._now_ms)
        body = record.to_json()
        self.operations.append(create(path, body))
        self.messages.append((path, message))
        self._size += len(path) + len(body)
        if self._known is not None:
            self._write_down(message, self._known)

    def _write_down(self, message: Message, known: Mapping[str, Page]) -> None:
        name, top = message.instance, self._tops[message.resource]
        if self._sessions.get(name) != message.session:
            page = known.get(name)
            is_its = page is not None and page.session == message.session
            self._open(name, page if is_its and page is not None else self._first_page(name, message.session))
        if message.target == top:
            self._told[name][message.lock] = Standing.GRANTED
        elif message.source == top:
            self._told[name][message.lock] = Standing.RECALLED
        self._size += len(message.lock) + PAGE_BYTES_EACH

    def _first_page(self, name: str, session: str) -> Page:
        """The first page of a session names all locks that it holds already: leaders without a book granted these."""
        held = (
            lock
            for group in self.snapshot.groups
            for lock in group.locks
            if (replica := self.snapshot.of(lock).get(name)) and (replica.state == group.model.top or replica.doubt)
        )
        return Page(session, dict.fromkeys(held, Standing.GRANTED))

    def _open(self, name: str, page: Page) -> None:
        self._sessions[name] = page.session
        self._told[name] = dict(page.told)
        self._size += sum(len(lock) + PAGE_BYTES_EACH for lock in page.told)
