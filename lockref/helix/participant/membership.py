"""One instance of a cluster for several locks of one process: live while any of them is asked for or held.

In Helix the rule decides how many locks an instance gets, and the instance leaves with all of them. So the first lock
that is asked for makes the instance join, and the last one that is given back makes it leave. A lock that is given back
earlier is not used any more. But nobody else can get it before the instance leaves, so `unlock` waits for that (S7).
"""

from __future__ import annotations

from collections.abc import Callable

from lockref.coordination.session import Session, has_ended
from lockref.errors import (
    BackendUnavailable,
    ConfigError,
    LockError,
    LockLost,
    LockTimeout,
    OutcomeUnknown,
    ReleaseFailed,
    StoreRejected,
)
from lockref.helix.participant.application import Listener
from lockref.helix.participant.participant import Participant
from lockref.runtime import NS_PER_MS, MonoNs, Runtime


class Membership(Listener):
    """Passes on to each lock what its participant is told about it.

    session: of the instance; the membership ends it. called_back: the locks whose last callback gave them, of a
    participant that believes its callbacks.
    """

    def __init__(self, session: Session, runtime: Runtime) -> None:
        self.session = session
        self.called_back: dict[str, None] = {}
        self._runtime = runtime
        self._mutex = runtime.mutex()
        self._participant: Participant | None = None
        self._has_left = runtime.event()
        self._failure: LockError | None = None
        self._listeners: dict[str, Listener] = {}

    def enter(
        self, lock: str, listener: Listener, make: Callable[[Listener], Participant], deadline_ns: int
    ) -> Participant:
        """Be live from now on, until `leave`. listener: told of this lock. make: the participant, if there is none.

        Errors: LockTimeout if nobody lets this instance join by then, on the monotonic clock; OutcomeUnknown if the
        cluster may know it all the same, and may give it locks until its session ends.
        """
        if not self._mutex.acquire(max(0, deadline_ns - self._runtime.monotonic_ns())):
            raise LockTimeout(f"{lock}: this instance is still joining or leaving")
        is_ending = False
        try:
            self._listeners[lock] = listener
            participant = self._participant
            if participant is None:
                participant = self._participant = self._joined(lock, make(self), deadline_ns)
                self._has_left, self._failure = self._runtime.event(), None
            elif (token := participant.token(lock)) is not None:
                listener.granted(lock, token)
            return participant
        except (LockTimeout, OutcomeUnknown):
            self._listeners.pop(lock, None)
            # The last request may have been under way at the deadline. The call must not wait for another one (L5).
            is_ending = True
            self._runtime.spawn(self._end_session, name=f"end of the session of {self.session.client}")
            raise
        finally:
            if not is_ending:
                self._mutex.release()

    def _end_session(self) -> None:
        """End the session of an instance that could not join. Until then, the mutex keeps others from a new session."""
        try:
            self.session.end()
        finally:
            self._mutex.release()

    def _joined(self, lock: str, participant: Participant, deadline_ns: int) -> Participant:
        is_in_doubt = False
        while True:
            try:
                participant.join(until_ns=MonoNs(deadline_ns))
                return participant
            except (ConfigError, BackendUnavailable, LockLost, StoreRejected) as error:
                if self._runtime.monotonic_ns() >= deadline_ns:
                    if is_in_doubt or participant.may_be_live:
                        raise OutcomeUnknown(f"{lock}: joining was not confirmed, nor is leaving: {error}") from error
                    raise LockTimeout(f"{lock}: cannot join: {error}") from error
                # The controller makes the cluster, and may come later; an earlier session of ours may still live.
                reply = self.session.end()
                is_in_doubt |= participant.may_be_live and not has_ended(reply)
                left_ns = deadline_ns - self._runtime.monotonic_ns()
                if left_ns > 0:
                    self._runtime.sleep(min(left_ns, 100 * NS_PER_MS))

    def leave(self, lock: str, *, is_waiting: bool = False, of: Listener | None = None) -> bool:
        """This lock no longer needs the instance. False if others do: it stays live, and may be given this lock yet.

        The last lock of the instance ends its session; see `Participant.leave`.
        is_waiting: return once the instance has left; raises what was raised then. of: the listener that leaves, if a
        later call may have entered for this lock before; the instance is that call's then.
        """
        with self._mutex:
            if of is not None and self._listeners.get(lock) is not of:
                return False
            self._listeners.pop(lock, None)
            has_left = self._has_left
            participant = self._participant
            if not self._listeners and participant is not None:
                self._participant = None
                try:
                    participant.leave()
                except LockError as error:
                    self._failure = error
                    raise
                finally:
                    has_left.set()
                return True
        if participant is None:
            return True
        if is_waiting:
            has_left.wait(None)
            if self._failure is not None:
                raise ReleaseFailed(f"{lock}: {self._failure}") from self._failure
        return is_waiting

    def close(self) -> None:
        """End the session, once no lock needs it. Idempotent."""
        if not self._listeners:
            self.session.close()

    # What the participant is told.

    def granted(self, lock: str, token: int) -> None:
        listener = self._listeners.get(lock)
        if listener is not None:
            listener.granted(lock, token)

    def revoked(self, lock: str) -> None:
        listener = self._listeners.get(lock)
        if listener is not None:
            listener.revoked(lock)

    def lost(self, lock: str, reason: str) -> None:
        listener = self._listeners.get(lock)
        if listener is not None:
            listener.lost(lock, reason)
