"""One lock of a cluster, as the laboratory drives it: to ask is to join the cluster, to give back is to leave it.

Helix's locks are assigned, not asked for: whoever is live is a candidate. So each call of `lock` joins under a new
session and waits until the controller has given the lock to this instance; `unlock` leaves. The live instances are the
waiters.

Several locks of one process share one instance (`membership`): it is live while any of them is asked for or held.

`HelixLock` is the participant as it should be. `RecipeLock` is the recipe's: it believes what its callbacks told it
until it hears otherwise (Z9, Z10), and it has no callback for being dropped (Z8).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

from lockref.coordination.session import COORDINATION, Session
from lockref.errors import (
    BackendUnavailable,
    ConfigError,
    LockError,
    LockLost,
    LockNotHeld,
    LockTimeout,
    OutcomeUnknown,
    ReleaseFailed,
    quote,
)
from lockref.grammar import decimal
from lockref.helix.cluster.configured import creates
from lockref.helix.cluster.declared import Cluster, RebalanceMode, Resource
from lockref.helix.controller.controller import Controller, ControllerSettings
from lockref.helix.participant.application import Handlers, Listener, ParticipantSettings
from lockref.helix.participant.membership import Membership
from lockref.helix.participant.participant import Participant
from lockref.helix.pipeline import Semantics
from lockref.helix.records.messages import Message
from lockref.helix.records.views import decode_state
from lockref.helix.state_model import StateModel, Transition
from lockref.provider import Grant, LockContext, LockEvent, LockEventKind, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S, Event, MonoNs, Task
from lockref.words import Outcome

_LOG: Final = logging.getLogger("lockref")

CLUSTER: Final = "locks"
RESOURCE: Final = "locks"

RESTART_NS: Final = 100 * NS_PER_MS
"""So long does a controller's node wait that was given no session, before it asks again."""

LOCK_UNLOCK: Final = StateModel(
    name="lock-unlock",
    states=("LOCKED", "RELEASED", "DROPPED"),
    initial="RELEASED",
    transitions=(
        Transition(name="Unlock", source="LOCKED", target="RELEASED"),
        Transition(name="Lock", source="RELEASED", target="LOCKED"),
        Transition(name="Undrop", source="DROPPED", target="RELEASED"),
        Transition(name="DropUnlock", source="RELEASED", target="DROPPED"),
        Transition(name="DropLock", source="LOCKED", target="DROPPED"),
    ),
    counts={"LOCKED": "1"},
)
"""The state model of the recipe."""

ALL_HANDLED: Final[Handlers] = {(each.source, each.target): lambda _message: None for each in LOCK_UNLOCK.transitions}
"""A participant that hears of its locks by its listener has nothing to do in its handlers."""


class HelixLock:
    """One lock of a cluster for one client.

    context.settings: `key` is the lock's name, `validity_ns` the timeout of its sessions.
    """

    stands_on = "coordination"
    protocol = "helix"
    record_format = "helix"
    default_lock_key = "lock-group_0"
    companion = "lockref.helix.lock:ControllerNode"
    decode_state = staticmethod(decode_state)

    def __init__(self, context: LockContext, membership: Membership | None = None) -> None:
        self._runtime = context.runtime
        self._listener = context.listener
        self._lock = context.settings.key
        self._timeout_ns = context.settings.validity_ns
        self._attempt_ns = max(context.settings.poll_interval_ns, NS_PER_S)
        self._drift_ppm = _ppm(context.settings)
        self._request_ns = max(100 * NS_PER_MS, self._timeout_ns // 4)
        if membership is None:
            membership = Membership(context.open(COORDINATION, timeout_ns=self._request_ns), context.runtime)
        self._membership = membership
        self._session: Session = membership.session
        self._gate = context.runtime.mutex()
        self._owner: Task | None = None
        self._participant: Participant | None = None
        self._tenure: _Tenure | None = None

    @classmethod
    def several(cls, contexts: Sequence[LockContext]) -> list[Self]:
        """Locks of one process that share one instance of the cluster. contexts: at least one; each with its lock."""
        first = cls(contexts[0])
        return [first, *(cls(context, first._membership) for context in contexts[1:])]

    # What the laboratory calls.

    @property
    def grant(self) -> Grant | None:
        """The grant in force; None when there is none."""
        participant = self._participant
        if participant is None or not self.holds():
            return None
        token = self._believed_token(participant)
        return Grant(owner=self._session.client, token=token, deadline_ns=self._deadline_ns())

    def try_lock(self) -> bool:
        """Join, and wait for one poll interval, at least a second: nobody is assigned a lock at once.

        Errors: as of `_granted_by`.
        """
        return self._join_and_wait(self._attempt_ns)

    def lock(self, timeout_s: float) -> bool:
        return self._join_and_wait(int(timeout_s * NS_PER_S))

    def _join_and_wait(self, timeout_ns: int) -> bool:
        deadline_ns = self._runtime.monotonic_ns() + timeout_ns
        if self._owner == self._runtime.current_task():
            raise LockError(f"{self._lock}: this task holds it already; unlock first")
        # One task of a process at a time: an instance is in the cluster once.
        if not self._gate.acquire(timeout_ns):
            raise LockTimeout(f"{self._lock} is held by another task of this process")
        is_granted = False
        try:
            is_granted = self._granted_by(deadline_ns, timeout_ns)
        finally:
            self._owner = self._runtime.current_task() if is_granted else None
            if not is_granted:
                self._gate.release()
        return True

    def _granted_by(self, deadline_ns: int, timeout_ns: int) -> bool:
        """True once the lock is assigned to this instance.

        Errors: LockTimeout if it was not, and this instance has left; OutcomeUnknown if nobody confirmed that it left,
        or if it stays live for other locks of this process: the lock may be assigned to it until its session ends.
        """
        tenure = self._tenure = _Tenure(self._lock, self._runtime.event(), self._told_lost)
        self._participant = self._membership.enter(self._lock, tenure, self._made, deadline_ns)
        tenure.changed.wait(max(0, deadline_ns - self._runtime.monotonic_ns()))
        if tenure.is_granted and self.holds():
            self._report(LockEventKind.GRANTED)
            return True
        # Nobody tells a participant why it was not chosen: another may hold the lock, or no controller may be there.
        words = f"{self._lock} was not assigned to {self._session.client} within {timeout_ns / NS_PER_S:g} s"
        doubt = self._doubt_after_leaving(tenure, deadline_ns + self._request_ns)
        raise OutcomeUnknown(f"{words}; {doubt}") if doubt else LockTimeout(words)

    def _doubt_after_leaving(self, tenure: _Tenure, until_ns: int) -> str:
        """Leave after a wait in vain. Returns why the lock may be assigned to this instance yet; "" if it cannot be.

        until_ns: when to return at the latest, on the monotonic clock (L5). To leave may take longer: while the
        instance joins under a new session, the answer to that comes first, and each request may time out. So a task of
        its own does it.
        """
        participant, self._participant = self._participant, None
        assert participant is not None, "a call that has waited has entered"
        doubts, has_ended = ["the instance is still leaving, and nobody confirmed it"], self._runtime.event()

        def leave() -> None:
            # An error that nobody foresaw leaves the first doubt standing: it must not look like a definite no.
            try:
                has_left = self._membership.leave(self._lock, of=tenure)
                others = "the instance stays live for other locks, and may be assigned this one yet"
                doubts.append("" if has_left else others)
            except LockLost:
                doubts.append("")  # Its session was over, so it has left.
            except ReleaseFailed as error:
                doubts.append(str(error))
            finally:
                has_ended.set()

        self._runtime.spawn(leave, name=f"leaving of {self._session.client}")
        has_ended.wait(max(0, until_ns - self._runtime.monotonic_ns()))
        return doubts[-1]

    def unlock(self) -> None:
        participant, tenure = self._participant, self._tenure
        if participant is None or tenure is None or self._owner != self._runtime.current_task():
            raise LockNotHeld(f"{self._lock} is not locked by this task")
        token, lost = self._believed_token(participant), tenure.reason
        if not lost and not self.holds():
            lost = "the session may have ended"
        try:
            self._leave(is_waiting=not lost)
        except (ReleaseFailed, LockLost):
            if not lost:
                raise
        finally:
            self._owner = None
            self._gate.release()
        if lost:
            raise LockLost(f"{self._lock} was lost before it was given back: {lost}", token=token, reason=lost)
        self._report(LockEventKind.RELEASED)

    def holds(self) -> bool:
        """The guard: is the lock assigned to this instance, and can its session not have ended?"""
        participant, tenure = self._participant, self._tenure
        return participant is not None and tenure is not None and not tenure.reason and participant.holds(self._lock)

    def close(self) -> None:
        """Leave the cluster, also while a task holds the lock. Idempotent."""
        try:
            self._leave()
        finally:
            self._membership.close()

    def _leave(self, *, is_waiting: bool = False) -> bool:
        """False if the instance stays live for other locks."""
        participant, self._participant = self._participant, None
        return participant is None or self._membership.leave(self._lock, is_waiting=is_waiting)

    # What a variant may decide.

    def _made(self, listener: Listener) -> Participant:
        return Participant(
            self._session,
            cluster=CLUSTER,
            instance=self._session.client,
            runtime=self._runtime,
            handlers={LOCK_UNLOCK.name: ALL_HANDLED},
            settings=ParticipantSettings(session_timeout_ns=self._timeout_ns, rate_bound_ppm=self._drift_ppm),
            listener=listener,
        )

    def _believed_token(self, participant: Participant) -> int | None:
        return participant.token(self._lock)

    def _deadline_ns(self) -> MonoNs | None:
        settings = ParticipantSettings(rate_bound_ppm=self._drift_ppm)
        return self._session.safe_until_ns(rate_bound_ppm=settings.rate_bound_ppm, margin_ns=settings.margin_ns)

    def _report(self, kind: LockEventKind, reason: str = "") -> None:
        self._listener(LockEvent(kind=kind, grant=self.grant, reason=reason))

    def _told_lost(self, reason: str) -> None:
        _LOG.warning("lock %s: the grant is lost: %s", self._lock, reason)
        self._report(LockEventKind.LOST, reason)


class _Tenure(Listener):
    """From one call of `lock` to its end. reason: why it ended before `unlock`; "" while it has not."""

    def __init__(self, lock: str, changed: Event, on_loss: Callable[[str], None]) -> None:
        self.changed = changed
        self.is_granted = False
        self.reason = ""
        self._lock = lock
        self._on_loss = on_loss

    def granted(self, lock: str, token: int) -> None:
        if lock == self._lock:
            self.is_granted = True
            self.changed.set()

    def revoked(self, lock: str) -> None:
        self.lost(lock, "the controller takes it back")

    def lost(self, lock: str, reason: str) -> None:
        if lock == self._lock and self.is_granted and not self.reason:
            self.reason = reason
            self._on_loss(reason)


class RecipeLock(HelixLock):
    """The participant of the recipe: it holds from its Lock callback to its Unlock callback, whatever its session says.

    It learns of the end of its session when it is connected again (Z9, Z10), and a drop calls nothing (Z8).
    """

    def _made(self, listener: Listener) -> Participant:
        # A new one each time: what calls an earlier participant back late says nothing of this one.
        callbacks: dict[str, None] = {}
        self._membership.called_back = callbacks

        def locked(message: Message) -> None:
            callbacks[message.lock] = None

        def unlocked(message: Message) -> None:
            callbacks.pop(message.lock, None)

        return Participant(
            self._session,
            cluster=CLUSTER,
            instance=self._session.client,
            runtime=self._runtime,
            handlers={LOCK_UNLOCK.name: {("RELEASED", "LOCKED"): locked, ("LOCKED", "RELEASED"): unlocked}},
            settings=ParticipantSettings(
                session_timeout_ns=self._timeout_ns, fences_itself=False, requires_handlers=False
            ),
            listener=_Reset(callbacks, listener),
        )

    def holds(self) -> bool:
        return self._participant is not None and self._lock in self._membership.called_back

    def _leave(self, *, is_waiting: bool = False) -> bool:
        self._membership.called_back.pop(self._lock, None)
        return super()._leave(is_waiting=is_waiting)

    def _believed_token(self, participant: Participant) -> int | None:
        return None  # The recipe has no fencing.

    def _deadline_ns(self) -> MonoNs | None:
        return None


class _Reset(Listener):
    """The lock object is reset when its participant hears that its session is over; nothing else calls it."""

    def __init__(self, called_back: dict[str, None], listener: Listener) -> None:
        self._called_back = called_back
        self._listener = listener

    def granted(self, lock: str, token: int) -> None:
        self._listener.granted(lock, token)

    def lost(self, lock: str, reason: str) -> None:
        self._called_back.pop(lock, None)
        self._listener.lost(lock, reason)


class ControllerNode:
    """A controller as a node of a scenario. It makes the cluster if that is not there.

    options: `locks`, their names with commas between, where there are several; `semantics` (first, 0.7.1, current,
    ours), `rebalancer`, `checks_leadership` (true, false), `session_ms`.
    """

    stands_on = "coordination"

    controller: type[Controller] = Controller
    """A variant may run another."""

    def __init__(self, context: LockContext) -> None:
        options = context.settings.options
        semantics = options.get("semantics", Semantics.OURS)
        if semantics not in list(Semantics):
            raise ConfigError(f"semantics is {semantics!r}; expected one of {', '.join(Semantics)}")
        session_ms = _whole(options, "session_ms", context.settings.validity_ns // NS_PER_MS, "milliseconds")
        self._runtime = context.runtime
        self._locks = tuple(options.get("locks", context.settings.key).split(","))
        self._rebalancer = options.get("rebalancer", "sticky")
        self._session_ns = session_ms * NS_PER_MS
        self._session: Session = context.open(COORDINATION, timeout_ns=max(100 * NS_PER_MS, self._session_ns // 4))
        controller_settings = ControllerSettings(
            session_timeout_ns=self._session_ns,
            semantics=Semantics(semantics),
            rebalancer=self._rebalancer,
            checks_leadership=options.get("checks_leadership", "true") == "true",
        )
        self._is_closed = False
        self._controller = self.controller(
            self._session,
            cluster=CLUSTER,
            name=self._session.client,
            runtime=self._runtime,
            settings=controller_settings,
        )

    def run(self) -> None:
        while not self._is_closed:
            self._make_cluster()
            try:
                if not self._is_closed:
                    self._controller.run()
                return
            except BackendUnavailable:
                # It has not led yet, and no server gave it a session. A supervisor would start such a process again.
                self._session.end()
                self._runtime.sleep(RESTART_NS)

    def close(self) -> None:
        """End the session: another controller may lead at once. Idempotent."""
        self._is_closed = True
        self._controller.stop()

    def _make_cluster(self) -> None:
        cluster = open_cluster(self._locks, self._rebalancer)
        while not self._is_closed:
            try:
                self._session.start(self._runtime, timeout_ns=self._session_ns)
                if self._session.multi(creates(cluster)).outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
                    return
            except BackendUnavailable:
                pass
            self._session.end()
            self._runtime.sleep(RESTART_NS)


def open_cluster(locks: tuple[str, ...], rebalancer: str) -> Cluster:
    """A cluster that every instance may join, with locks of these names."""
    resource = Resource(
        name=RESOURCE, locks=len(locks), replicas=1, mode=RebalanceMode.USER_DEFINED, rebalancer=rebalancer,
        model=LOCK_UNLOCK, names=locks,
    )  # fmt: skip
    return Cluster(name=CLUSTER, resources=(resource,), instances=(), allows_joining=True)


def _ppm(settings: LockSettings) -> int:
    """The option `rate_bound_ppm`: how much faster the server's clock may run than the holder's."""
    return _whole(settings.options, "rate_bound_ppm", 10_000, "parts per million")


def _whole(options: Mapping[str, str], name: str, default: int, unit: str) -> int:
    text = options.get(name, str(default))
    found = decimal(text)
    if found is None:
        raise ConfigError(f"option {name} is {quote(text)}; expected {unit}, such as {default}")
    return found
