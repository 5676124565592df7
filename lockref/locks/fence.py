"""Fencing tokens that rise whoever writes the lock object in between (H21, S2).

The record carries the token of the last grant, and the next hardened holder
takes the next number. That chain breaks where somebody writes who does not
know our fields: Hudi drops them with every write, and an operator may delete
the record. So there is a second object beside the lock object, the *fence
object*. It holds one number, the *mark*: no token above the mark is ever used.
Hudi neither reads nor writes it.

Rules. (1) A client that needs a token above the mark first raises the mark, by
a conditional write, a block of numbers at a time. (2) Where the record carries
our token, the next one is that token + 1. (3) Where it does not, the next one
is the mark + 1, read after the record was; the mark is raised first.

Why tokens rise. Every token used is at most the mark of that moment, and the
mark only rises. Take a grant by rule 3: every earlier grant of this chain used
a token at or below the mark that was read, for its record was written before
the one that we replace. A later grant makes our own conditional write of the
record fail. A grant by rule 2 follows its predecessor's token directly.

Cost. Records carry the mark that their writer knew. While only hardened
clients write, a client looks at the fence object once in a block, and a warm
cycle stays at two requests. After a foreign writer a grant costs two requests
more: one reads the mark, one raises it. What was reserved for one state of the
record serves until that state changes, so that a repeated write costs nothing.

Races and faults, one by one:

- Two clients read one mark, or find no lock at all: one of them raises or makes
  the mark. The other's condition fails. The first one is probably being granted
  the lock, so it waits as after a lost race, and looks again at the record.
- The answer of a raise is lost: the mark is read again. If the raise landed, a
  block of numbers stays unused, which no one minds.
- A client is paused after its raise: its late write of the record fails if the
  record has changed; unused numbers stay unused.
- A delayed raise cannot lower the mark: it is conditional, and each body has a
  nonce, so that no version comes back (A6).
- A hardened client of a version without the fence object wrote last: its record
  carries a token and no mark. The next token is that token + 1, and the mark
  is raised above it before it is used.
- The fence object is deleted: while records carry tokens it is made anew above
  them. If a foreign writer was last as well, the numbers start again above
  what this client has seen. Nobody can know more; do not delete it.
- The lock object is deleted: rule 3. One case is left: a client has seen that
  there is none, another is granted and releases, and the object is deleted a
  second time before the first client creates it. A create has no version to
  depend on, so its token may be below the other's.
- The fence object cannot be read or written for good (403), or holds something else: this
  grant has no token (`fencing_token` is None), and the log says so. The lock
  goes on excluding. The record then carries no token, so rule 3 applies to the
  next client that can reach the mark. A token of None is never mistaken for a
  number; a guessed number would be.

Rejected: the version of the lock object as token (ETags have no order, and
Google does not promise that generations increase); tokens above what one
client remembers (two clients remember differently: that was S2, "token 40
after token 40"); no tokens at all while foreigners write (a fence that is gone
exactly where an unsafe neighbour is); a mark that follows every grant (one
request more per cycle, and it can lag behind the record after a crash).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from lockref.locks.decisions import next_token
from lockref.locks.values import UNFENCED, ConditionalStore, Record, Refusal, Reserved, Stored
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.strict_json import read_object, whole_number
from lockref.words import Outcome

BLOCK = 1_000
"""How many tokens one write of the fence object reserves."""

_BODY_BYTES_MAX = 64 * 1024
"""A larger object holds something else than a mark."""

_MARK_MAX = 2**62
"""Beyond this a number is damage: it leaves room for blocks below what a history column holds."""


def fence_key(lock_key: str) -> str:
    """The key of the fence object, beside the lock object: `table_lock.json` has `table_lock.fence.json`."""
    return f"{lock_key.removesuffix('.json')}.fence.json"


class MarkedRecord(Record, Protocol):
    """A record that also carries the mark that its writer knew; None where it carries none."""

    @property
    def mark(self) -> int | None: ...


M = TypeVar("M", bound=MarkedRecord)


@dataclass(frozen=True, slots=True)
class _Mark:
    """The content of the fence object. version: None if there is no such object."""

    value: int
    version: Version | None


class FenceMark(Generic[M]):
    """One client's view of the fence object.

    on_void: told why, when tokens can no longer be given; once, until they can again.
    """

    def __init__(
        self, store: ConditionalStore, lock_key: str, *, new_nonce: Callable[[], str], on_void: Callable[[str], None]
    ) -> None:
        self._store = store
        self._key = fence_key(lock_key)
        self._new_nonce = new_nonce
        self._on_void = on_void
        self._is_void = False
        # Nothing was asked of the fence object yet.
        self._is_new = True
        # The mark is at least this, for ever.
        self._least = 0
        # What the fence object held when we last saw or wrote it. A conditional write on it proves that it still does.
        self._last: _Mark | None = None
        # By rule 3, for the record of this version. While that one stands nobody has been granted anything since.
        self._kept: tuple[Version, Reserved] | None = None

    def reserve(self, stored: Stored[M], *, seen: int, is_over: Callable[[], bool]) -> Reserved | Refusal:
        """The token of the grant that replaces what is stored (H21).

        stored: as read just now, or as we know it to stand.
        seen: the highest token that this client knows of.
        is_over: no further request may begin (L5).
        """
        record = stored.record
        if record is not None and record.token is not None:
            token = next_token(stored, seen)
            self._least = max(self._least, record.mark or 0)
            if token <= self._least:
                return Reserved(token, self._least)
        elif self._kept is not None and self._kept[0] == stored.version:
            return self._kept[1]
        else:
            token = None
        # Rule 3 reads the mark anew, after the record was read. This order makes it safe: any grant that this record
        # could follow has raised the mark before it was written. A mark that was read earlier might miss that raise.
        mark = None if token is None else self._last
        if mark is None:
            if is_over():
                return Refusal.TROUBLE
            if record is None and self._is_new and seen == 0:
                # A new lock, as far as this client knows. To make the fence object tells as much as to read it: others
                # that come at the same time meet a 412, and need not read it in turn.
                return self._raise(_Mark(0, None), 1)
            looked = self._look()
            if not isinstance(looked, _Mark):
                return looked
            mark = looked
        if token is None:
            reserved = Refusal.TROUBLE if is_over() else self._raise(mark, max(mark.value, seen) + 1)
            if isinstance(reserved, Reserved) and reserved.token is not None and stored.version is not None:
                self._kept = stored.version, reserved
            return reserved
        if token <= mark.value:
            self._least = max(self._least, mark.value)
            return self._fenced(Reserved(token, mark.value))
        if is_over():
            return Refusal.TROUBLE
        return self._raise(mark, token)

    def _look(self) -> _Mark | Reserved | Refusal:
        self._is_new = False
        reply = self._store.read(self._key)
        if reply.outcome is Outcome.REJECTED:
            return self._unfenced(f"the store refused to read {self._key} ({reply.status} {reply.reason})")
        if reply.outcome is not Outcome.APPLIED:
            return Refusal.TROUBLE
        found = _parse(reply)
        if found is None:
            return self._unfenced(f"{self._key} does not hold a mark")
        self._last = found
        return found

    def _raise(self, mark: _Mark, token: int) -> Reserved | Refusal:
        """Make every number up to the end of a block that begins with `token` durable before the first is used."""
        value = token - 1 + BLOCK
        body = json.dumps({"mark": value, "nonce": self._new_nonce()}, separators=(",", ":")).encode()
        # Forgotten before the request: whatever comes of it, an exception included, is looked up.
        self._last, self._is_new = None, False
        reply = self._write(mark.version, body)
        match reply.outcome:
            case Outcome.APPLIED:
                assert reply.version is not None, "an applied write has a version"
                self._last = _Mark(value, reply.version)
                self._least = max(self._least, value)
                return self._fenced(Reserved(token, value))
            case Outcome.PRECONDITION_FAILED:
                return Refusal.LOST_RACE
            case Outcome.REJECTED:
                return self._unfenced(f"the store refused to write {self._key} ({reply.status} {reply.reason})")
            case _:
                return Refusal.TROUBLE

    def _write(self, version: Version | None, body: bytes) -> WriteReply:
        if version is None:
            return self._store.put_if_absent(self._key, body)
        return self._store.put_if_version(self._key, body, version)

    def _fenced(self, reserved: Reserved) -> Reserved:
        self._is_void = False
        return reserved

    def _unfenced(self, reason: str) -> Reserved:
        if not self._is_void:
            self._is_void = True
            self._on_void(reason)
        return UNFENCED


def _parse(reply: ReadReply) -> _Mark | None:
    """The mark in a reply; None where the object holds something else."""
    if reply.body is None or reply.version is None:
        return _Mark(0, None)
    if len(reply.body) > _BODY_BYTES_MAX:
        return None
    try:
        value = whole_number(read_object(reply.body).get("mark"), least=0, most=_MARK_MAX)
    except ValueError:
        return None
    return _Mark(value, reply.version)
