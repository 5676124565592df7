"""Locks that a controller assigns (Helix), with one defect each: of the controller, or of the participant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lockref.coordination.port import Stat
from lockref.errors import LockLost
from lockref.helix.controller.asking import Interrupted
from lockref.helix.controller.batch import Batch
from lockref.helix.controller.controller import Controller
from lockref.helix.lock import ALL_HANDLED, LOCK_UNLOCK, ControllerNode, HelixLock
from lockref.helix.participant.application import Listener, ParticipantSettings
from lockref.helix.participant.participant import Participant
from lockref.helix.participant.transitions import Transitions
from lockref.helix.pipeline import Decision, Replica, Snapshot, decide
from lockref.helix.rebalancers import Rebalancer
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import Reply
from lockref.provider import LockContext
from lockref.runtime import NS_PER_MS

HERE = "tests.quality.planted.assigned"
LONG_HANDLER_NS = 300 * NS_PER_MS
PATIENCE_NS = 1_000 * NS_PER_MS


class ModNode(ControllerNode):
    """The recipe's rule, which takes locks from holders that live, whenever somebody joins or leaves."""

    def __init__(self, context: LockContext) -> None:
        settings = context.settings
        options = {**settings.options, "rebalancer": "mod"}
        super().__init__(replace(context, settings=replace(settings, options=options)))


class TakesByTheRecipesRule(HelixLock):
    """Correct: the same participant under a rule that moves locks of live holders."""

    companion = f"{HERE}:ModNode"


class _Variant(HelixLock):
    """Its participant is of another class. It takes a while to stop its work."""

    companion = f"{HERE}:ModNode"
    participant: type[Participant] = Participant

    def _made(self, listener: Listener) -> Participant:
        def slow(_message: Message) -> None:
            self._runtime.sleep(LONG_HANDLER_NS)

        return self.participant(
            self._session,
            cluster="locks",
            instance=self._session.client,
            runtime=self._runtime,
            handlers={LOCK_UNLOCK.name: {**ALL_HANDLED, ("LOCKED", "DROPPED"): slow, ("LOCKED", "RELEASED"): slow}},
            settings=ParticipantSettings(session_timeout_ns=self._timeout_ns),
            listener=listener,
        )


class StopsSlowly(_Variant):
    """Correct: its callback ends, then it says that it has given back."""


class Hasty(Controller):
    """It sends the next holder its lock beside the message that takes it from the one before."""

    @staticmethod
    def _decide(snapshot: Snapshot, rebalancers: Mapping[str, Rebalancer], **how: Any) -> Decision:
        decision = decide(snapshot, rebalancers, **how)
        (group,) = snapshot.groups
        initial = group.model.initial
        more = [
            replace(taken, instance=each, session=snapshot.live[each], source=initial, target=group.model.top)
            for taken in decision.messages
            if taken.source == group.model.top
            for each in decision.wanted.get(taken.lock, ())
        ]
        return replace(decision, messages=(*decision.messages, *more))


class HastyNode(ModNode):
    controller = Hasty


class GrantsBeforeTheDropIsConfirmed(_Variant):
    """The slot of a holder counts as free when it is told to give back, not when it has (Z16, T6)."""

    companion = f"{HERE}:HastyNode"


class Stale(Controller):
    """It decides by the states that it read one pass ago, and by the live instances and messages of now (Z12)."""

    def _read(self) -> Any:
        reading = super()._read()
        before: Mapping[str, Mapping[str, Replica]] = getattr(self, "_before", {})
        self._before = reading.snapshot.replicas
        return replace(reading, snapshot=replace(reading.snapshot, replicas=before))


class StaleNode(ModNode):
    controller = Stale


class DecidesByAStaleSnapshot(HelixLock):
    """Current states and live instances are of two instants (Z12)."""

    companion = f"{HERE}:StaleNode"


class Forgetful(Controller):
    """The first pass of each reign overlooks what earlier leaders have sent, and who holds (Z12, Z14)."""

    def _elected(self) -> int | None:
        self._is_new = True
        return super()._elected()

    def _read(self) -> Any:
        reading = super()._read()
        if not self._is_new:
            return reading
        self._is_new = False
        return replace(reading, snapshot=replace(reading.snapshot, pending=(), replicas={}))


class ForgetfulNode(ControllerNode):
    controller = Forgetful


class GrantsAnewAfterAFailover(HelixLock):
    """A new leader grants what is held already (Z14, T19)."""

    companion = f"{HERE}:ForgetfulNode"


class Usurper(Controller):
    """It leads without having been elected, and checks nothing before it sends (Z11)."""

    def _elected(self) -> int | None:
        history = self._asking.answered(lambda: self._session.get(self._paths.leader_history)).version
        assert isinstance(history, Stat), "a cluster has HISTORY"
        return history.version

    def _is_reigning(self) -> bool:
        return True


class UsurperNode(ControllerNode):
    controller = Usurper

    def __init__(self, context: LockContext) -> None:
        settings = context.settings
        options = {**settings.options, "checks_leadership": "false"}
        super().__init__(replace(context, settings=replace(settings, options=options)))


class LeadsUnelected(HelixLock):
    """Two controllers decide at once (Z11, T18)."""

    companion = f"{HERE}:UsurperNode"


class Blind(Controller):
    """It does not count messages that are under way (T6)."""

    def _read(self) -> Any:
        reading = super()._read()
        return replace(reading, snapshot=replace(reading.snapshot, pending=()))


class BlindNode(ControllerNode):
    controller = Blind


class OverlooksWhatIsUnderWay(HelixLock):
    """It grants a lock to a second instance before the first has said that it took it (T6)."""

    companion = f"{HERE}:BlindNode"


class _AnySession(Participant):
    def _readable(self, name: str, path: str, reply: Reply) -> Message | None:
        """It takes every message for one of its present session."""
        assert isinstance(reply.version, Stat), "a znode that was read has a stat"
        record = ZNRecord.from_json(reply.body or b"", path)
        message = Message.from_record(record, created_zxid=reply.version.created_zxid)
        return replace(message, session=layout.session_name(self._session.id))


class ExecutesMessagesOfDeadSessions(_Variant):
    """What was meant for a session that is over grants a lock under the next one (Z20, T13)."""

    companion = HelixLock.companion
    participant = _AnySession


class WorksOnAfterDisconnect(HelixLock):
    """A participant that holds until it hears that its session is over (Z9, Z10, T17)."""

    def _made(self, listener: Listener) -> Participant:
        participant = super()._made(listener)
        participant._holdings.settings = replace(participant._holdings.settings, fences_itself=False)
        return participant


class _OneClock(HelixLock):
    """Its guard asks one clock for how long nobody has answered."""

    def _silent_ns(self) -> int:
        raise NotImplementedError

    def holds(self) -> bool:
        participant, tenure = self._participant, self._tenure
        if participant is None or tenure is None or tenure.reason or participant.token(self._lock) is None:
            return False
        return self._silent_ns() < self._session.timeout_ns - LONG_HANDLER_NS


class AsksTheMonotonicClockAlone(_OneClock):
    """That one stands still while the machine is suspended (Z9, U2)."""

    def _silent_ns(self) -> int:
        return self._runtime.monotonic_ns() - self._session._confirmed.mono_ns


class AsksTheWallClockAlone(_OneClock):
    """That one may be set back (Z9, T17)."""

    def _silent_ns(self) -> int:
        return self._runtime.wall_ns() - self._session._confirmed.wall_ns


class _Early(Transitions):
    def _is_executed(self, states: Any, replica: Any, message: Message) -> bool:
        """It says first that it has given back, and stops then."""
        if message.source == states.model.top:
            held = self._holdings.token(message.lock)
            self._write_states_early(states, replica, message)
            if held is not None:
                self._runtime.sleep(LONG_HANDLER_NS)
            self._holdings.give_up(message.lock)
            return True
        return super()._is_executed(states, replica, message)

    def _write_states_early(self, states: Any, replica: Any, message: Message) -> None:
        replica.state, replica.token = states.model.initial, None
        replica.is_reported = message.target != "DROPPED"
        while states.is_writing:
            self._runtime.sleep(NS_PER_MS)
        states.is_writing = True
        self._write_states(states, [message])
        states.is_writing = False


class _EarlyParticipant(Participant):
    transitions = _Early


class AcknowledgesBeforeItsCallbackEnds(_Variant):
    """It reports that it has given back while it still works (T14)."""

    participant = _EarlyParticipant


class _UntilTheAnswer(_Early):
    def _is_executed(self, states: Any, replica: Any, message: Message) -> bool:
        """It stops when its writing has been answered, which is milliseconds later as a rule."""
        if message.source == states.model.top:
            self._write_states_early(states, replica, message)
            self._holdings.give_up(message.lock)
            return True
        return Transitions._is_executed(self, states, replica, message)


class _ParticipantUntilTheAnswer(Participant):
    transitions = _UntilTheAnswer


class BelievesUntilGivingBackIsAnswered(HelixLock):
    """It holds until the service has answered that it gave back; the others have read it before (T14, Z16)."""

    def _made(self, listener: Listener) -> Participant:
        return _ParticipantUntilTheAnswer(
            self._session,
            cluster="locks",
            instance=self._session.client,
            runtime=self._runtime,
            handlers={LOCK_UNLOCK.name: ALL_HANDLED},
            settings=ParticipantSettings(session_timeout_ns=self._timeout_ns),
            listener=listener,
        )


class Impatient(Controller):
    """A holder that does not answer within a second has given back, it thinks."""

    def _await_event(self, timeout_ns: int | None) -> Any:
        return super()._await_event(PATIENCE_NS if timeout_ns else timeout_ns)

    def _read(self) -> Any:
        reading = super()._read()
        snapshot, now_ns = reading.snapshot, self._runtime.monotonic_ns()
        since: dict[str, int] = getattr(self, "_told_at", {})
        recalls = [each for each in snapshot.pending if each.source == snapshot.groups[0].model.top]
        self._told_at = {each.id: since.get(each.id, now_ns) for each in recalls}
        overdue = [each for each in recalls if now_ns - self._told_at[each.id] >= PATIENCE_NS]
        if not overdue:
            return reading
        replicas = {lock: dict(of) for lock, of in snapshot.replicas.items()}
        for each in overdue:
            replicas.get(each.lock, {}).pop(each.instance, None)
        pending = tuple(each for each in snapshot.pending if each not in overdue)
        return replace(reading, snapshot=replace(snapshot, replicas=replicas, pending=pending))


class ImpatientNode(ControllerNode):
    controller = Impatient


class GrantsWhenTheDropTakesTooLong(HelixLock):
    """A holder is told to drop the lock; a second later somebody else is told to take it (Z16, T6)."""

    companion = f"{HERE}:ImpatientNode"


class Insistent(Controller):
    """What it has decided it sends, if need be under its next session (Z11, Z14)."""

    def _commit(self, batch: Batch) -> int:
        try:
            return super()._commit(batch)
        except LockLost:
            self._begin_anew()
            self._session.multi(batch.operations)
            raise Interrupted from None


class InsistentNode(ControllerNode):
    controller = Insistent


class SendsUnderItsNextSession(HelixLock):
    """A deposed leader sends its last batch once more, without asking who leads now (Z11, T18)."""

    companion = f"{HERE}:InsistentNode"
