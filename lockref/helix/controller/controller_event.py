"""The events in the life of a controller: whether it leads, and whether its session holds; each is told once."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class ControllerEvent(StrEnum):
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


class EventTeller:
    """Tells each change once. tell: called in the controller's own thread."""

    def __init__(self, tell: Callable[[ControllerEvent], None]) -> None:
        self._tell = tell
        self._leadership: ControllerEvent | None = None
        self._is_suspended = False

    def opened(self) -> None:
        self._is_suspended = False
        self._tell(ControllerEvent.SESSION)

    def leadership(self, *, is_leader: bool) -> None:
        """Tell who leads, after the controller has asked for that."""
        found = ControllerEvent.LEADS if is_leader else ControllerEvent.STANDS_BY
        if found is not self._leadership:
            self._leadership = found
            self._tell(found)

    def suspended(self) -> None:
        if not self._is_suspended:
            self._is_suspended = True
            self._tell(ControllerEvent.SUSPENDED)

    def resumed(self) -> None:
        """A server answers. Nothing is told unless it did not answer before."""
        if self._is_suspended:
            self._is_suspended = False
            self._tell(ControllerEvent.RESUMED)

    def lost(self) -> None:
        self._leadership = None
        self._tell(ControllerEvent.LOST)
