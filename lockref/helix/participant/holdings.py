"""The locks that one instance holds by its own knowledge, and those that it held until its session fell silent."""

from __future__ import annotations

from lockref.coordination.port import SessionState
from lockref.coordination.session import Session
from lockref.helix.participant.application import Listener, ParticipantSettings
from lockref.runtime import Mutex


class Holdings:
    """Tells the listener of every change, and is asked by the application before it acts.

    mutex: of the participant; taken here, except by `take`, whose caller has it.
    """

    def __init__(self, session: Session, mutex: Mutex, settings: ParticipantSettings, listener: Listener) -> None:
        self.settings = settings
        self._session = session
        self._mutex = mutex
        self._listener = listener
        # Token by lock: what is held, and what was held until the session fell silent.
        self._held: dict[str, int] = {}
        self._suspended: dict[str, int] = {}

    def may_be_used(self, lock: str) -> bool:
        """May the application still act under this lock? Local: no request, no waiting."""
        if lock not in self._held:
            return False
        settings = self.settings
        if not settings.fences_itself:
            return True
        return self._session.is_safe(rate_bound_ppm=settings.rate_bound_ppm, margin_ns=settings.margin_ns)

    def token(self, lock: str) -> int | None:
        """The fencing token of a lock that is held; None of another."""
        return self._held.get(lock)

    @property
    def locks(self) -> tuple[str, ...]:
        """The locks that are held, sorted."""
        return tuple(sorted(self._held))

    def take(self, lock: str, token: int) -> None:
        """The cluster knows that it is held. The caller has the mutex, and tells the listener after it."""
        self._held[lock] = token

    def give_up(self, lock: str) -> None:
        """The controller takes it back."""
        with self._mutex:
            self._suspended.pop(lock, None)
            was_held = self._held.pop(lock, None) is not None
        if was_held:
            self._listener.revoked(lock)

    def give_up_all(self) -> bool:
        """The instance leaves. Was anything held?"""
        with self._mutex:
            held, self._held, self._suspended = self._held, {}, {}
        for lock in held:
            self._listener.revoked(lock)
        return bool(held)

    def lose_all(self, reason: str) -> None:
        """The session is over, and what was held under it."""
        with self._mutex:
            held, self._held, self._suspended = self._held, {}, {}
        for lock in held:
            self._listener.lost(lock, reason)

    def suspend(self) -> None:
        """No server answers. A participant that fences itself stops here; the original goes on (Z10).

        If somebody answers by now, nothing is lost. Looked at under the mutex: `resume` comes after the answer.
        """
        with self._mutex:
            if not self.settings.fences_itself or self._session.state is not SessionState.SUSPENDED:
                return
            held, self._held = self._held, {}
            self._suspended |= held
        for lock in held:
            self._listener.lost(lock, "session suspended")

    def resume(self) -> None:
        """The session is still alive: what was held before it fell silent may be used again, under the same tokens."""
        with self._mutex:
            back, self._suspended = self._suspended, {}
            self._held |= back
        for lock, token in back.items():
            self._listener.granted(lock, token)
