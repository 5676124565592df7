"""The rows that one request leaves: one for each lock that its body tells of, all with one request number.

Nearly every object tells of one lock, named as the object's key. Some tell of
several: a table's leases in one file, a resource's queue. A write of such a
body says what becomes of each lock. It grants one and carries the others along,
and a lock that it leaves out is given back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from lockref.provider import LockView
from lockref.words import ABSENT, Op, detail

_LONG_MAX: Final = 2**63 - 1
_LONG_MIN: Final = -_LONG_MAX

Row = tuple[str, Op, LockView | None, int, str, int, str]
"""Lock, what becomes of it, and what the body says of it (None where it says nothing), also as `lock_columns`."""


_NO_COLUMNS: Final = (ABSENT, "", ABSENT, "")


def lock_columns(view: LockView | None) -> tuple[int, str, int, str]:
    """A view of a lock as columns of a row: token, owner, end of validity, and its duration as the row's detail.

    None, where there is no lock record, gives "no value" for each.
    """
    if view is None:
        return _NO_COLUMNS
    token, until_ns, duration_ns = view.token, view.valid_until_ns, view.duration_ns
    # Numbers are nearly always short enough, and to call `_held` would take longer than to see that.
    return (
        ABSENT if token is None else token if _LONG_MIN <= token <= _LONG_MAX else _held(token),
        view.owner,
        ABSENT if until_ns is None else until_ns if _LONG_MIN <= until_ns <= _LONG_MAX else _held(until_ns),
        "" if duration_ns is None else _lasting(duration_ns),
    )


@lru_cache(maxsize=64)
def _lasting(duration_ns: int) -> str:
    """The detail of a row whose record tells its duration. Remembered: a lock tells one duration again and again."""
    return detail(duration_ns=_held(duration_ns))


def _row(lock: str, op: Op, view: LockView | None) -> Row:
    return (lock, op, view, *lock_columns(view))


def sized(view: LockView | None, length: int, **others: str) -> str:
    """The detail of a row whose body has so many bytes, beside the duration that a record may tell, and `others`."""
    told: dict[str, object] = {**others, "bytes": length}
    if view is not None and view.duration_ns is not None:
        told["duration_ns"] = _held(view.duration_ns)
    return detail(**told)


def _held(value: int) -> int:
    """The nearest number that a column of 64 bits holds. A stranger's record may tell a lease of a billion years."""
    # Compared first: `max` and `min` cost ten times as much, and hardly any number is too long.
    if _LONG_MIN <= value <= _LONG_MAX:
        return value
    return _LONG_MAX if value > 0 else _LONG_MIN


OBJECTS_MAX: Final = 4096
"""Objects of several locks that are remembered. Each session of an instance has one of its own, and soaks have many."""


class LockRows:
    """The rows of one service's requests, as one observer of its objects sees them: a client, or the service."""

    __slots__ = ("_present",)

    def __init__(self) -> None:
        # By key of an object that has told of locks by their names, and by lock: what stands there as far as is known.
        self._present: dict[str, dict[str, LockView]] = {}

    def known(self, key: str) -> Mapping[str, LockView]:
        """By lock, what stands in an object that tells of several; nothing of other objects."""
        return self._present.get(key, {})

    def is_only_lock(self, key: str, lock: str) -> bool:
        """True if, as far as is known, the object tells of no lock but this one."""
        return key not in self._present or self._present[key].keys() <= {lock}

    def rows(self, key: str, op: Op, views: Sequence[LockView], ops: Sequence[Op] = ()) -> Sequence[Row]:
        """The rows of a request for `key`, at least one.

        ops: what becomes of the lock of each view; () means `op` for each.
        """
        if key not in self._present:
            if not views:
                return ((key, op, None, *_NO_COLUMNS),)
            if len(views) == 1:
                [view] = views
                return ((view.lock or key, op, view, *lock_columns(view)),)
        rows = [
            _row(view.lock or key, its_op, view) for view, its_op in zip(views, ops or [op] * len(views), strict=True)
        ]
        if op is not Op.READ:
            left_out = self.known(key).keys() - {view.lock for view in views}
            if op is Op.DELETE:
                rows += [_row(lock or key, op, None) for lock in sorted(left_out)]
            else:
                rows += [_row(lock or key, Op.RELEASE, self._present[key][lock]) for lock in sorted(left_out)]
        return rows or (_row(key, op, None),)

    def rows_from_outside(self, key: str, op: Op, views: Sequence[LockView]) -> Sequence[Row]:
        """The rows of a change that no client of the lock made, at least one.

        What an operator writes over the records of locks gives none of them back: nobody knows who holds them then.
        """
        known = self.known(key)
        if op is Op.WRITE and not views and known:
            return [_row(lock or key, op, None) for lock in sorted(known)]
        return self.rows(key, op, views)

    def remember(self, key: str, views: Sequence[LockView]) -> None:
        """This is what stands in the object now. The next write may leave out a lock that has a name of its own."""
        present = self._present
        if len(views) > 1 or key in present or (views and views[0].lock):
            # Put last: the object that was not looked at for longest is forgotten first.
            present.pop(key, None)
            if views:
                present[key] = {view.lock: view for view in views}
            if len(present) > OBJECTS_MAX:
                del present[next(iter(present))]
