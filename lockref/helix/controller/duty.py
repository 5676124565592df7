"""The duty of a controller: whether it leads, and whether its session holds; told once for each change."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Duty(StrEnum):
    """A change in the life of a controller.

    SESSION: a new session was opened. LEADS: it decides from now on. STANDS_BY: another one leads. SUSPENDED: no server
    answers, and the session may end unseen. RESUMED: a server answers again, in the same session. LOST: the session is
    over, and the leadership with it.
    """

    SESSION = "session"
    LEADS = "leads"
    STANDS_BY = "stands by"
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    LOST = "lost"


class DutyTeller:
    """Tells each change once. tell: called in the controller's own thread."""

    def __init__(self, tell: Callable[[Duty], None]) -> None:
        self._tell = tell
        self._rank: Duty | None = None
        self._is_suspended = False

    def opened(self) -> None:
        self._is_suspended = False
        self._tell(Duty.SESSION)

    def ranked(self, *, is_leader: bool) -> None:
        """Tell who leads, after the controller has asked for that."""
        rank = Duty.LEADS if is_leader else Duty.STANDS_BY
        if rank is not self._rank:
            self._rank = rank
            self._tell(rank)

    def suspended(self) -> None:
        if not self._is_suspended:
            self._is_suspended = True
            self._tell(Duty.SUSPENDED)

    def resumed(self) -> None:
        """A server answers. Nothing is told unless it did not answer before."""
        if self._is_suspended:
            self._is_suspended = False
            self._tell(Duty.RESUMED)

    def lost(self) -> None:
        self._rank = None
        self._tell(Duty.LOST)
