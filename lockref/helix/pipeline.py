"""The controller's decisions: from what the cluster is to what is sent next, each stage a function of values.

    snapshot ─► best possible ─► messages ─► selection ─► throttle ─► what is sent
                                                              external view, alarms

Nothing here reads a clock, a network or a past run, so a new leader decides as the old one would (T19).

Why two instances never hold one lock (limit 1): a message into the top state is selected only while no live instance
is reported in it and no message into it is pending. A slot is free only once its holder is reported to have left:
selection counts up and never down (Z16). A hand-off is thus a drop in one run and a grant in a later one (T6).

Source: `org.apache.helix.controller.stages`; the versions differ (`Semantics`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from lockref.errors import ConfigError
from lockref.helix.rebalancers import Assignment, AssignsNothing, Question, Rebalancer, checked
from lockref.helix.records.messages import STATE_TRANSITION, Message
from lockref.helix.state_model import DROPPED, ERROR, StateModel


class Semantics(StrEnum):
    """The kind of controller that decides.

    FIRST: the version of the recipe's README. It sends nothing to an instance that is not mapped, so a live holder is
    never told to drop, and its successor waits for ever (Z2). V0_7_1: drops what is not mapped, and everything if the
    rebalancer fails (Z4). CURRENT: drops what is not mapped where the map of the lock is not empty, and does nothing
    if the rebalancer fails. OURS: drops what is not mapped, keeps holders if the rebalancer fails, gives no lock to a
    disabled instance (HJ12), and grants past a replica whose grant failed or that is disabled for the lock (Z7).
    """

    FIRST = "first"
    V0_7_1 = "0.7.1"
    CURRENT = "current"
    OURS = "ours"


class Replica(NamedTuple):
    """One instance's state of one lock, as it reports it. previous: the state before; "" if it did not say.

    doubt: why nobody can tell whether it holds the lock, whatever it reports; "" where its word counts. A doubtful
    replica counts as that of a holder, and is sent nothing (T28).
    """

    state: str
    previous: str = ""
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockGroup:
    """One resource: what the controller decides about. locks: in lexicographic order."""

    name: str
    locks: tuple[str, ...]
    replicas: int
    model: StateModel

    def per_lock(self, live: int) -> int:
        """The number of holders that a lock shall have; 0 if the top state is unbounded."""
        return self.model.limit(self.model.top, replicas=self.replicas, live=live) or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The records that the controller has read, of live sessions only.

    live: instance to session, sorted by name. replicas: by lock, the states that live instances report. pending:
    messages to live sessions. stale: paths of messages to sessions that are over. disabled: instances that shall hold
    nothing; disabled_locks: by instance, locks that it shall not hold.
    """

    groups: tuple[LockGroup, ...]
    live: Mapping[str, str]
    replicas: Mapping[str, Mapping[str, Replica]] = field(default_factory=dict)
    pending: tuple[Message, ...] = ()
    stale: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    disabled_locks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def disables_something(self) -> bool:
        """True if there is an instance or a lock that an operator has disabled."""
        return bool(self.disabled) or any(self.disabled_locks.values())

    def of(self, lock: str) -> Mapping[str, Replica]:
        return self.replicas.get(lock, {})


class AlarmKind(StrEnum):
    """The kinds of trouble of which an operator must hear."""

    REBALANCER_FAILED = "rebalancer failed"
    NOTHING_ASSIGNED = "nothing assigned"
    NO_WAY = "no way"
    HOLDER_IN_ERROR = "holder in error"
    GRANT_FAILED = "grant failed"
    TOO_FEW = "too few instances"
    UNREADABLE = "unreadable"
    UNHEEDED = "unheeded"
    UNKNOWN_HOLDER = "unknown holder"
    REFUSED = "refused"
    ZOMBIE = "zombie"
    SLOW = "slow"
    PAUSED = "paused"


class Alarm(NamedTuple):
    """One thing that is not as it should be."""

    kind: AlarmKind
    text: str


class ThrottleRule(NamedTuple):
    """At most `limit` messages under way at a time, for each combination of the named attributes.

    where: attribute to value, `*` for each value by itself. Attributes: MESSAGE_TYPE, TRANSITION, RESOURCE, PARTITION,
    INSTANCE, STATE. limit: None for any number.
    """

    where: Mapping[str, str]
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decisions of one run of the pipeline.

    messages: in the order in which they are sent. wanted: by lock, who shall hold it. views: by resource, lock,
    instance: its state. removals: paths of messages that nobody will execute (Z20).
    """

    messages: tuple[Message, ...]
    wanted: Assignment
    views: Mapping[str, Mapping[str, Mapping[str, str]]]
    alarms: tuple[Alarm, ...] = ()
    removals: tuple[str, ...] = ()


Desired = dict[str, dict[str, str]]
"""By lock and instance, the state that the replica shall have."""


def decide(
    snapshot: Snapshot,
    rebalancers: Mapping[str, Rebalancer],
    *,
    semantics: Semantics = Semantics.OURS,
    throttles: Sequence[ThrottleRule] = (),
    is_descending: bool = False,
) -> Decision:
    """One run. rebalancers: by resource. is_descending: the order of live instances that a rebalancer is given."""
    alarms: list[Alarm] = []
    chosen: list[Message] = []
    wanted: dict[str, tuple[str, ...]] = {}
    for group in snapshot.groups:
        assignment = assign(snapshot, group, rebalancers[group.name], semantics, alarms, is_descending=is_descending)
        if assignment is None and semantics is Semantics.CURRENT:
            continue
        desired = best_possible(snapshot, group, assignment, semantics, alarms)
        wanted |= assignment or {}
        chosen += select(snapshot, group, generate(snapshot, group, desired, alarms), semantics)
    alarms += _doubts(snapshot)
    views = {group.name: external_view(snapshot, group) for group in snapshot.groups}
    sent = throttle(chosen, snapshot.pending, throttles)
    return Decision(
        messages=tuple(sent), wanted=wanted, views=views, alarms=tuple(dict.fromkeys(alarms)), removals=snapshot.stale
    )


def assign(
    snapshot: Snapshot,
    group: LockGroup,
    rebalancer: Rebalancer,
    semantics: Semantics,
    alarms: list[Alarm],
    *,
    is_descending: bool = False,
) -> Assignment | None:
    """Ask the rebalancer.

    None if it failed, or its answer is impossible; empty if it says that no instance shall hold.
    """
    live = [each for each in snapshot.live if semantics is not Semantics.OURS or each not in snapshot.disabled]
    live.sort(reverse=is_descending)
    top = group.model.top
    holders = {
        lock: tuple(
            sorted(
                each
                for each, replica in snapshot.of(lock).items()
                if (replica.state == top or replica.doubt) and each in snapshot.live
            )
        )
        for lock in group.locks
    }
    disabled: dict[str, list[str]] = {}
    if semantics is Semantics.OURS:
        for each in live:
            for lock in snapshot.disabled_locks.get(each, ()):
                disabled.setdefault(lock, []).append(each)
    question = Question(group.locks, tuple(live), holders, group.per_lock(len(live)), group.model.count(top), disabled)
    try:
        assignment = checked(question, rebalancer(question))
    except AssignsNothing as error:
        alarms.append(Alarm(AlarmKind.NOTHING_ASSIGNED, f"{group.name}: {error}"))
        return {}
    except ConfigError as error:
        alarms.append(Alarm(AlarmKind.REBALANCER_FAILED, f"{group.name}: {error}"))
    except Exception as error:  # noqa: BLE001 - a stranger's rebalancer may raise anything (T9)
        alarms.append(Alarm(AlarmKind.REBALANCER_FAILED, f"{group.name}: it raised {type(error).__name__}: {error}"))
    else:
        if live and len(live) < question.per_lock:
            words = f"{group.name}: {len(live)} live instances for {question.per_lock} holders a lock"
            alarms.append(Alarm(AlarmKind.TOO_FEW, words))  # Z6
        return assignment
    return None


def best_possible(
    snapshot: Snapshot,
    group: LockGroup,
    assignment: Assignment | None,
    semantics: Semantics,
    alarms: list[Alarm],
) -> Desired:
    """The state that each replica shall have. assignment: None where the rebalancer failed (Z4)."""
    top, initial = group.model.top, group.model.initial
    if assignment is None and semantics is Semantics.FIRST:
        return {}
    load = dict.fromkeys(snapshot.live, 0)
    for holders in (assignment or {}).values():
        for each in holders:
            load[each] += 1
    desired: Desired = {}
    nothing: dict[str, Replica] = {}
    heeds_disabled = semantics in (Semantics.OURS, Semantics.V0_7_1) and snapshot.disables_something
    for lock in group.locks:
        reported = snapshot.replicas.get(lock, nothing)
        mapped = () if assignment is None else assignment.get(lock, ())
        if heeds_disabled:
            # Who is disabled is not mapped. Otherwise an unlocked lock would be granted to it again, for ever (T23).
            able = [each for each in mapped if not _is_disabled(snapshot, lock, each)]
            if semantics is Semantics.OURS and len(able) < len(mapped):
                # The original's table stays one short: nobody holds the lock (Z7).
                able += _substitutes(snapshot, group, lock, mapped, load, count=len(mapped) - len(able))
            mapped = tuple(able)
        states = dict.fromkeys(mapped, top)
        if semantics is Semantics.FIRST:
            desired[lock] = states
            continue
        if semantics is Semantics.OURS:
            if assignment is None:
                # The rebalancer failed: whoever has a replica keeps it (Z4).
                states = {each: replica.state for each, replica in reported.items()}
            else:
                states = _past_errors(snapshot, group, lock, states, load, alarms)
        if semantics is not Semantics.CURRENT or states:
            for each in reported:
                states.setdefault(each, DROPPED)
        for each, replica in reported.items():
            # 0.7.1 leaves every replica in ERROR alone, the current version those that are mapped (Z7).
            is_left = semantics is Semantics.V0_7_1 or (semantics is Semantics.CURRENT and each in mapped)
            if replica.state == ERROR and is_left:
                states[each] = ERROR
            if heeds_disabled and replica.state == top and not replica.doubt and _is_disabled(snapshot, lock, each):
                states[each] = initial
        desired[lock] = states
    return desired


def _is_disabled(snapshot: Snapshot, lock: str, instance: str) -> bool:
    return instance in snapshot.disabled or lock in snapshot.disabled_locks.get(instance, ())


def _substitutes(
    snapshot: Snapshot, group: LockGroup, lock: str, taken: Collection[str], load: dict[str, int], *, count: int
) -> list[str]:
    """Other instances for a lock: those that hold it first, then those with the fewest locks.

    taken: instances that are none. load: by instance, how many locks it shall hold; the substitutes are added.
    """
    reported = snapshot.of(lock)
    found = sorted(
        (
            each
            for each in snapshot.live
            if each not in taken
            and not _is_disabled(snapshot, lock, each)
            and reported.get(each, Replica("")).state != ERROR
        ),
        key=lambda each: (reported.get(each, Replica("")).state != group.model.top, load[each], each),
    )[:count]
    for each in found:
        load[each] += 1
    return found


def _past_errors(
    snapshot: Snapshot,
    group: LockGroup,
    lock: str,
    states: dict[str, str],
    load: dict[str, int],
    alarms: list[Alarm],
) -> dict[str, str]:
    """The policy for replicas in ERROR (Z7, T15), and for those that are in doubt (T28): they stay as they are.

    An instance whose *grant* failed does not hold the lock: another one gets it. An instance that failed to *give back*
    may still work under it: nobody else gets it until that session ends or somebody resets the replica.
    """
    found = dict(states)
    for each, replica in snapshot.of(lock).items():
        if replica.doubt:
            found[each] = replica.state
            continue
        if replica.state != ERROR:
            continue
        if replica.previous == group.model.top:
            found[each] = ERROR
            alarms.append(Alarm(AlarmKind.HOLDER_IN_ERROR, f"{each} failed to give back {lock}; it stays with {each}"))
            continue
        was_mapped = found.get(each) == group.model.top
        # It stays in ERROR until its session ends or somebody resets it: a reset by us would be tried for ever.
        found[each] = ERROR
        if was_mapped:
            alarms.append(Alarm(AlarmKind.GRANT_FAILED, f"{each} failed to take {lock}; another instance gets it"))
            substitutes = _substitutes(snapshot, group, lock, found, load, count=1)
            found |= dict.fromkeys(substitutes, group.model.top)
    return found


def generate(snapshot: Snapshot, group: LockGroup, desired: Desired, alarms: list[Alarm]) -> list[Message]:
    """One message for each replica that is not where it shall be and has none under way."""
    model = group.model
    under_way = {(each.lock, each.instance) for each in snapshot.pending}
    priority = {state: place for place, state in enumerate(model.states)}
    found: list[tuple[int, int, str, Message]] = []
    for place, lock in enumerate(group.locks):
        reported = snapshot.of(lock)
        for instance, wanted in desired.get(lock, {}).items():
            present = reported[instance].state if instance in reported else model.initial
            if present == wanted or (lock, instance) in under_way or instance not in snapshot.live:
                continue
            if wanted == DROPPED and instance not in reported:
                continue
            hop = model.next_hop(present, wanted)
            if hop is None:
                alarms.append(Alarm(AlarmKind.NO_WAY, f"{lock} on {instance}: no way from {present} to {wanted}"))
                continue
            message = Message(
                instance=instance,
                session=snapshot.live[instance],
                resource=group.name,
                lock=lock,
                model=model.name,
                source=present,
                target=hop,
            )
            found.append((priority.get(wanted, len(priority)), place, instance, message))
    return [message for *_, message in sorted(found, key=lambda each: each[:3])]


def select(snapshot: Snapshot, group: LockGroup, messages: Sequence[Message], semantics: Semantics) -> list[Message]:
    """The messages that leave every state within its limit, in whatever order they are executed."""
    model = group.model
    rank = {(each.source, each.target): place for place, each in enumerate(model.transitions)}
    pending_by_lock: dict[str, list[Message]] = {}
    for each in snapshot.pending:
        pending_by_lock.setdefault(each.lock, []).append(each)
    by_lock: dict[str, list[Message]] = {}
    for each in messages:
        by_lock.setdefault(each.lock, []).append(each)
    accepted: list[Message] = []
    for lock, candidates in by_lock.items():
        counts: dict[str, int] = {}
        for replica in snapshot.of(lock).values():
            state = replica.state
            if semantics is Semantics.OURS and (replica.doubt or (state == ERROR and replica.previous == model.top)):
                state = model.top  # It may still work as the holder.
            counts[state] = counts.get(state, 0) + 1
        for each in pending_by_lock.get(lock, ()):
            counts[each.target] = counts.get(each.target, 0) + 1
        for each in sorted(candidates, key=lambda each: rank.get((each.source, each.target), len(rank))):
            limit = model.limit(each.target, replicas=group.replicas, live=len(snapshot.live))
            if limit is None or counts.get(each.target, 0) + 1 <= limit:
                counts[each.target] = counts.get(each.target, 0) + 1
                accepted.append(each)
    return accepted


_ANY: Final = "*"


def throttle(messages: Iterable[Message], pending: Iterable[Message], rules: Sequence[ThrottleRule]) -> list[Message]:
    """The messages that the rules let pass now; messages under way are charged first (T25)."""
    if not rules:
        return list(messages)
    charged: dict[tuple[tuple[str, str], ...], int] = {}

    def passes(message: Message, *, is_forced: bool) -> bool:
        attributes = _attributes(message)
        binding: dict[tuple[str, ...], ThrottleRule] = {}
        for rule in rules:
            if all(attributes[name] == value or value == _ANY for name, value in rule.where.items()):
                names = tuple(sorted(rule.where))
                binding[names] = min(filter(None, (binding.get(names), rule)), key=_precedence)
        keys = [(tuple((name, attributes[name]) for name in names), rule) for names, rule in binding.items()]
        if not is_forced and any(rule.limit is not None and charged.get(key, 0) >= rule.limit for key, rule in keys):
            return False
        for key, _ in keys:
            charged[key] = charged.get(key, 0) + 1
        return True

    for message in pending:
        passes(message, is_forced=True)
    return [message for message in messages if passes(message, is_forced=False)]


def _precedence(rule: ThrottleRule) -> tuple[int, float]:
    """The most specific rule first, then the smallest limit."""
    vague = sum(value == _ANY for value in rule.where.values())
    return vague, float("inf") if rule.limit is None else rule.limit


def _attributes(message: Message) -> dict[str, str]:
    return {
        "MESSAGE_TYPE": STATE_TRANSITION,
        "TRANSITION": f"{message.source}-{message.target}",
        "RESOURCE": message.resource,
        "PARTITION": message.lock,
        "INSTANCE": message.instance,
        "STATE": message.target,
    }


def external_view(snapshot: Snapshot, group: LockGroup) -> Mapping[str, Mapping[str, str]]:
    """The states that the instances report, by lock. The view is derived, it lags, and no decision reads it."""
    return {
        lock: {
            each: replica.state
            for each, replica in sorted(snapshot.of(lock).items())
            if replica.state != DROPPED and not replica.doubt
        }
        for lock in group.locks
        if snapshot.of(lock)
    }


def _doubts(snapshot: Snapshot) -> list[Alarm]:
    """One alarm for each instance and reason, with the locks that it may hold."""
    found: dict[tuple[str, str], list[str]] = {}
    for group in snapshot.groups:
        for lock in group.locks:
            for each, replica in snapshot.of(lock).items():
                if replica.doubt:
                    found.setdefault((each, replica.doubt), []).append(lock)
    return [
        Alarm(
            AlarmKind.UNKNOWN_HOLDER,
            f"{instance} may hold {', '.join(locks[:3])}{f' and {len(locks) - 3} more' if len(locks) > 3 else ''}: "
            f"{doubt}. No other instance gets that until {instance} reports, or its session ends",
        )
        for (instance, doubt), locks in sorted(found.items())
    ]
