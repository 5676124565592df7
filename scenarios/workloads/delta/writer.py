"""One writer of a Delta table's log, whichever protocol it commits by, and what it is told of a commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lockref.delta.renaming import PendingRename
from lockref.dynamodb.table import TableClient
from lockref.provider import CarriesData
from lockref.runtime import NS_PER_MS, Runtime
from lockref.words import Outcome
from scenarios.workloads.delta.log_files import Log

_PAUSE_NS: Final = 100 * NS_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAnswer:
    """The answer that a writer gets about its commit.

    outcome: APPLIED: it is in `version`. PRECONDITION_FAILED: it is in none, rivals were always first. REJECTED: it is
    in none, the lock was lost or a request refused. AMBIGUOUS: nobody can say. gets: log objects read. attempts:
    versions tried. is_lock_kept: the writer went away without giving its lock back (B12).
    """

    outcome: Outcome
    version: int | None = None
    gets: int = 0
    attempts: int = 0
    is_lock_kept: bool = False


@dataclass(slots=True, kw_only=True)
class Writer:
    """The tools of a commit protocol: one table's log, the rows of a log store if there are any, and the lock's guard.

    gets, attempts: of the present commit, as in `CommitAnswer`.
    may_write: asked right before each write that the lock protects. known: the newest version that it has seen.
    lock, prepared: of a rename: the lock, if its record carries data, and what is to be renamed.
    """

    log: Log
    runtime: Runtime
    may_write: Callable[[], bool] = lambda: True
    rows: TableClient | None = None
    known: int = -1
    gets: int = 0
    attempts: int = 0
    lock: CarriesData | None = None
    prepared: PendingRename | None = None

    def load(self) -> int:
        """Read the state. Returns the version that comes next."""
        loaded = self.log.load()
        self.gets += loaded.gets
        self.known = loaded.version
        return loaded.version + 1

    def pause(self) -> None:
        """Between two attempts, with jitter (B21)."""
        self.runtime.sleep(_PAUSE_NS + self.runtime.random.randrange(_PAUSE_NS))

    def told(self, outcome: Outcome, version: int | None = None, *, is_lock_kept: bool = False) -> CommitAnswer:
        if version is not None:
            self.known = max(self.known, version)
        return CommitAnswer(
            outcome=outcome, version=version, gets=self.gets, attempts=self.attempts, is_lock_kept=is_lock_kept
        )
