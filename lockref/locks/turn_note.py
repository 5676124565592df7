"""The note in a record: what its writer tells those who wait for the lock.

The nonce of a record ends with `.LEFT.ROUND.NUMBER`. Hudi's writers drop it together with the nonce, other readers take
it for a part of the nonce. Nobody's safety rests on a note: one that is missing or wrong makes a waiter slower.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from lockref.locks.values import Record

LEFT_MAX: Final = 30
ROUND_MAX: Final = 999_999
NUMBERS: Final = 1_000_000_000
"""Numbers of turns lie below this, and begin with 0 again."""
_NOTE: Final = re.compile(r"\.([0-9]{1,2})\.([0-9]{1,6})\.([0-9]{1,9})\Z")


@dataclass(frozen=True, slots=True)
class TurnNote:
    """The part of a record that tells of its writer's turn.

    left: how many grants the writer still means to take after this one, before it leaves the lock to others.
    round: how many turns lie between two turns of one client, as far as the writers of the lock know; None: unknown.
    number: counts the turns of all clients; 0: unknown.
    """

    left: int = 0
    round: int | None = None
    number: int = 0

    def text(self) -> str:
        """The end of the nonce."""
        return f".{self.left}.{self.round or 0}.{self.number}"

    @classmethod
    def of(cls, record: Record) -> TurnNote:
        """The note in a record; the default where its nonce has another end."""
        return _NO_NOTE if record.nonce is None else _note_in(record.nonce)


_NO_NOTE: Final = TurnNote()


@lru_cache(maxsize=64)
def _note_in(nonce: str) -> TurnNote:
    """Remembered, because a waiter asks several times for the note of one record."""
    found = _NOTE.search(nonce)
    return _NO_NOTE if found is None else TurnNote(min(int(found[1]), LEFT_MAX), int(found[2]), int(found[3]))
