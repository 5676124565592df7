"""The background task that undoes orphaned writes: one at a time, repeated until done.

Tasks, threads that cannot be had, and whatever may kill a thread are the
platform's affair; a port takes a scheduled executor. What undoing means stands
in `Cleanup.undo`.
"""

from __future__ import annotations

from typing import Generic, Protocol

from lockref.locks.cell import Cell
from lockref.locks.notices import Notices
from lockref.locks.values import Attempt, R
from lockref.runtime import Runtime


class Undoing(Protocol[R]):
    """The work of the background task: the part of `Cleanup` that knows the writes. orphans: writes to be undone."""

    cell: Cell[R]
    runtime: Runtime
    orphans: list[Attempt[R]]

    def unlapsed(self, orphans: list[Attempt[R]]) -> list[Attempt[R]]:
        """The orphans that would still keep other owners waiting."""
        ...

    def undo(self, orphans: list[Attempt[R]]) -> bool:
        """One attempt to undo them: True if none is left."""
        ...

    def settle(self, settled: list[Attempt[R]]) -> None:
        """These stand in the store no more."""
        ...


class Background(Generic[R]):
    """Undoes the orphans of one `Cleanup`, which each call names. name: of its task."""

    def __init__(self, notices: Notices, name: str) -> None:
        self._notices = notices
        self._name = name
        # Rises whenever a call takes the cleaning over: the task of an older epoch ends.
        self._epoch = 0

    def stop(self) -> None:
        """The present task, if any, ends before its next attempt."""
        self._epoch += 1

    def start(self, cleanup: Undoing[R], orphans: list[Attempt[R]]) -> None:
        """Undo them in a new task, which takes the place of the present one; nothing if all have lapsed."""
        if not orphans or not cleanup.unlapsed(orphans):
            return
        self._epoch += 1
        epoch = self._epoch
        self._notices.left_behind(len(orphans))
        try:
            cleanup.runtime.spawn(lambda: self._clean_up(cleanup, epoch, orphans), name=self._name)
        except (RuntimeError, MemoryError):
            # No thread to be had: once, here. If that fails, the next call or `close` tries again.
            self._try_to_undo(cleanup, orphans)

    def finish(self, cleanup: Undoing[R]) -> None:
        """Try once now; what is left then is undone in a task."""
        orphans = cleanup.unlapsed(cleanup.orphans)
        if not orphans:
            return
        is_undone = False
        try:
            is_undone = self._try_to_undo(cleanup, orphans)
        finally:
            if not is_undone:
                self.start(cleanup, orphans)

    def _clean_up(self, cleanup: Undoing[R], epoch: int, orphans: list[Attempt[R]]) -> None:
        """Remove the orphans: until all are gone, until all have lapsed, or until a new call takes over the task.

        It goes on after `close`: a caller who closes a lock does not wait for a store that does not answer.
        """
        failures = 0
        is_over = False
        try:
            while epoch == self._epoch and cleanup.unlapsed(orphans):
                if self._try_to_undo(cleanup, orphans):
                    is_over = True
                    return
                failures += 1
                cleanup.runtime.sleep(cleanup.cell.backoff_ns(failures))
            if epoch == self._epoch:
                self._notices.not_undone()
            is_over = True
        finally:
            if not is_over and epoch == self._epoch:
                # Somebody has killed this task; what it was for is still to be done.
                self.start(cleanup, orphans)

    def _try_to_undo(self, cleanup: Undoing[R], orphans: list[Attempt[R]]) -> bool:
        """One attempt. An error of the store is logged, and the attempt repeated; only the end of the task stops it."""
        try:
            is_undone = cleanup.undo(orphans)
        except Exception as error:  # noqa: BLE001 - in a task without a caller; logged, repeated, bounded by the lease
            self._notices.cleanup_failed(error)
            return False
        if is_undone:
            cleanup.settle(orphans)
            self._notices.undone()
        return is_undone
