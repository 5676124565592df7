"""Errors, sorted by what the reader does next.

Every error that lockref raises on purpose derives from `LockrefError`, so one
`except` catches all of them and nothing else. A message begins with what the
caller did, gives the values, and ends with the next step.

Two families: errors a *lock user* meets (`LockLost`, `OutcomeUnknown`,
`CorruptRecord`, …) and errors a *laboratory user* meets (`ConfigError`,
`BackendUnavailable`, `DeterminismError`, …). Each class names the exit code
that the command line gives it; the table is in `docs/results.md`. That a lock
broke is no error: it is a verdict (`reports.checks`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C, SIGTERM or SIGHUP ended: no error, and no verdict."""


class LockrefError(Exception):
    """Base of every deliberate error; `exit_code` is what the command line answers."""

    exit_code: ClassVar[int] = 70


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file, one-based; line and column are absent where a file has none."""

    path: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [self.path, *(str(part) for part in (self.line, self.column) if part is not None)]
        return ":".join(parts)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: " Did you mean 'freeze'?", or nothing if no known word is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""


def quote(value: object) -> str:
    """A foreign text, quoted in an error about it: at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class ConfigError(LockrefError):
    """The call, the configuration or the scenario is wrong: fix it and run again."""

    exit_code = 2

    def __init__(self, message: str, *, location: Location | None = None) -> None:
        super().__init__(f"{location}: {message}" if location else message)
        self.message = message
        self.location = location


class HistoryUnreadable(LockrefError):
    """A history file is not one: wrong format, no usable record before the damage."""

    exit_code = 2


class NothingRecorded(LockrefError):
    """A run ended before its first event: there is nothing to judge, and nothing wrong with the call."""

    exit_code = 5


class CapabilityMissing(LockrefError):
    """The backend cannot do what the scenario needs: choose another of the two."""

    exit_code = 5


class BackendUnavailable(LockrefError):
    """A server did not start, does not answer or refuses us: fix the environment.

    Causes: nothing listens at the address; the bucket does not exist; the
    credentials are refused; the server hung. The message carries the address,
    how long we waited and, for a server that we started, its last log lines.
    """

    exit_code = 5


class LockError(LockrefError):
    """Base of what a lock's user meets while locking."""


class LockTimeout(LockError):
    """The wait ended without a grant: somebody else held the lock. Wait longer or give up."""


class LockNotHeld(LockError):
    """The caller asked for something only the holder may do: a bug in the calling code."""


class LockForked(LockNotHeld):
    """The lock was made in another process, and this one is its forked child: make a new lock here (H9).

    A child inherits the memory of a lock, not the lock: the parent holds it, and
    only the parent renews it. In the child `holds` is False; `assert_held`,
    `lock`, `try_lock`, `unlock` and `repair` raise this; `close` does nothing.
    """


class LockLost(LockError):
    """The grant ended while it was wanted: stop protected work now.

    Attributes: `token`, the fencing token of the lost grant (None where the
    lock has none); `reason`, why. Source: H4, H8, H15, L4.
    """

    def __init__(self, message: str, *, token: int | None = None, reason: str = "") -> None:
        super().__init__(message)
        self.token = token
        self.reason = reason


class OutcomeUnknown(LockError):
    """A call whose outcome is not known (A1, S7).

    A write may have landed: re-read before deciding. An assigned lock may be given to this instance yet, after its call
    ended in vain: until its session ends.
    """


class ReleaseFailed(LockError):
    """The critical section ended well, but the lock could not be given back (H24, D16).

    The protected work is done: do not repeat it. Others wait until the lease
    lapses, at worst one validity.
    """


class CorruptRecord(LockError):
    """The lock object holds something that is not a lock record (D6, H17).

    Never a reason to take over. The message names the object; `repair`
    rewrites it by a conditional write on the version that was read.
    """


class LockNotAcquirable(LockError):
    """An operator has closed the lock: nobody gets it until that is undone (`isNonAcquirable`, delta-rs PR #429)."""


class StoreRejected(LockError):
    """The store refused the request for good (403, 501, other 4xx): fix access or choose another store."""


class DeterminismError(LockrefError):
    """Two runs of one seed differ, or a run touched real time, entropy or threads.

    Common causes: iteration over a set, `id()` in a key, a lock that calls
    `time` or `random` itself instead of its Runtime.
    """

    exit_code = 6


class BudgetExceeded(LockrefError):
    """A bound on events or virtual time was hit: look for a livelock in the last events."""

    exit_code = 70
