"""Look at many znodes in every pass: ask for lists and versions, and read no body twice.

A body that was read once is not read again while the server says that its version is the same. The server is asked in
every pass: a watch alone would be trusted to arrive before the answers behind it, and a client's library need not
promise that. Reads that do not depend on each other are under way together, where the channel can do that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from lockref.coordination.port import EXISTS, GET, Failure, NamesReply, Stat, WatchEvent, is_failure
from lockref.coordination.session import Event, ReadRequest, Session
from lockref.errors import ConfigError
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import Reply, of_fields
from lockref.words import Outcome

T = TypeVar("T")


class _Known(NamedTuple):
    """A znode's bytes, the version of which they are, and what was made of them, by what it is."""

    version: Stat
    body: bytes
    made: dict[str, Any]


class Looking:
    """Looks at znodes under one session after the other, and watches them.

    require: given each answer; raises where it is none, and the pass must begin again. A body that this client may not
    read is an answer, too: see `record`.
    """

    def __init__(self, session: Session, require: Callable[[Reply | NamesReply], None]) -> None:
        self._session = session
        self._require = require
        self.forget()

    def forget(self) -> None:
        """The session is over, and with it every watch."""
        self._known: dict[str, _Known] = {}
        self._looked_at: dict[str, None] = {}

    def heard(self, event: Event) -> None:
        """A watch fired: what it tells of is read anew, without being asked for its version first."""
        if isinstance(event, WatchEvent):
            self._known.pop(event.path, None)

    def begin(self) -> None:
        """A new pass begins."""
        self._looked_at.clear()

    def end(self) -> None:
        """The pass is over: what it did not look at, such as the states of a session that is over, is forgotten."""
        self._known = {path: known for path, known in self._known.items() if path in self._looked_at}

    def was_looked_at(self, path: str) -> bool:
        """In this pass?"""
        return path in self._looked_at

    def lists(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The names below each of these; None where there is no such znode."""
        replies = self._session.children_of_all(paths)
        for reply in replies:
            self._require(reply)
        return [reply.body for reply in replies]

    def names(self, path: str) -> list[str]:
        """The names below it; none where there is no such znode."""
        (found,) = self.lists([path])
        return found or []

    def bodies(self, paths: Sequence[str]) -> list[Reply]:
        """Bodies that are read this once, and not watched."""
        return self._read([ReadRequest(GET, path, is_watching=False) for path in paths])

    def is_there(self, path: str) -> bool:
        """True if there is such a znode. Unlike a look, this sets a watch also where there is none."""
        (reply,) = self._session.read_all([ReadRequest(EXISTS, path)])
        self._require(reply)
        return not reply.missing

    def looks(self, paths: Iterable[str]) -> list[Reply]:
        """Bodies and versions; `missing` where there is none. What is known is only asked for its version."""
        wanted, known = list(paths), self._known
        self._looked_at.update(dict.fromkeys(wanted))
        found = self._read([ReadRequest(EXISTS if path in known else GET, path) for path in wanted])
        changed = [
            place for place, path in enumerate(wanted) if path in known and found[place].version != known[path].version
        ]
        if changed:
            anew = self._read([ReadRequest(GET, wanted[place]) for place in changed])
            for place, reply in zip(changed, anew, strict=True):
                found[place] = reply
        for place, path in enumerate(wanted):
            outcome, version, body, missing, status, reason = reply = found[place]
            if missing or _is_forbidden(reply):
                known.pop(path, None)
            elif body is None:
                found[place] = of_fields(Reply, (outcome, version, known[path].body, missing, status, reason))
            else:
                assert isinstance(version, Stat), "a znode that was read has a stat"
                known[path] = _Known(version, body, {})
        return found

    def _read(self, reads: Sequence[ReadRequest]) -> list[Reply]:
        replies = self._session.read_all(reads)
        for reply in replies:
            # Nearly every answer is one.
            if reply.outcome is not Outcome.APPLIED and not _is_forbidden(reply):
                self._require(reply)
        return replies

    def record(self, path: str, reply: Reply) -> ZNRecord:
        """The record that the reply holds.

        Errors: ConfigError for a body that is no record, or a znode that may not be read.
        """
        return self.once(path, reply, "record", partial(ZNRecord.from_json, reply.body or b"", path))

    def once(self, path: str, reply: Reply, what: str, make: Callable[[], T]) -> T:
        """Make a value of a znode's body, once for each version.

        Errors: ConfigError for a znode that may not be read.
        """
        if _is_forbidden(reply):
            raise ConfigError(f"{path} may not be read ({reply.reason})")
        made = self._known[path].made
        if what not in made:
            made[what] = make()
        result: T = made[what]
        return result


def _is_forbidden(reply: Reply) -> bool:
    return is_failure(reply, Failure.NO_AUTH)
