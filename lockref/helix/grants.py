"""What an instance may hold, although it does not say so.

A controller cannot tell from states and messages alone: a participant that removes a message without writing its state
looks like one that was never asked (T28, HJ8). So each leader writes down whom it tells to take a lock, in the
transaction that sends the message (CONTROLLER/GRANTS). A later leader reads it, and so decides as the old one would.

    GRANTED    told to take it. If the message is gone and the instance does not report that it holds: nobody knows.
    RECALLED   told to give it back. Over once the instance reports, in words that can be read, that it does not hold.

A lock in doubt stays with its instance, until that reports or its session ends: nobody else gets it.

A leader of another make writes nothing down. Each leader changes HISTORY, so the root of this book names the version
of HISTORY that its own last leader wrote. If HISTORY has moved on since, the book is thrown away: what it says may have
been undone. Its new root then tells, by its creation, which sessions are younger than the book: it covers those whole.
A session that is older is covered from its first page on, which begins with all that it reported to hold.

Rejected: to keep it in the leader's memory, which ends with the leader; to ask the instance again, which cannot be told
from the first time if it removes that message, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lockref.helix.messages import Message
from lockref.helix.pipeline import LockGroup, Replica
from lockref.helix.state_model import DROPPED, ERROR
from lockref.helix.zn_record import ZNRecord

TERM: Final = "TERM"
"""The field of the root: the version of HISTORY that the leader wrote who keeps the book."""

SESSION: Final = "SESSION_ID"


class Standing(StrEnum):
    """What an instance was last told about a lock."""

    GRANTED = "GRANTED"
    RECALLED = "RECALLED"


@dataclass(frozen=True, slots=True)
class Page:
    """What one session of one instance was told, by lock."""

    session: str
    told: Mapping[str, Standing] = field(default_factory=dict)

    def to_record(self, instance: str) -> ZNRecord:
        lists = {each.value: sorted(lock for lock, told in self.told.items() if told is each) for each in Standing}
        return ZNRecord(instance, {SESSION: self.session}, {}, lists)

    @classmethod
    def from_record(cls, record: ZNRecord) -> Page:
        told = {lock: each for each in Standing for lock in record.lists.get(each.value, ())}
        return cls(record.simple.get(SESSION, ""), told)

    def without(self, locks: Sequence[str]) -> Page:
        gone = frozenset(locks)
        return Page(self.session, {lock: told for lock, told in self.told.items() if lock not in gone})


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one instance says of one resource.

    states: by lock; None for an entry that names no state. is_fresh: False where the znode cannot be read now, and
    `states` is what it said before; None if nobody has ever read it.
    """

    states: Mapping[str, Replica | None] | None
    is_fresh: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that tells who may hold what. By instance: reports by resource, page, doubt.

    pages: of live sessions alone. is_covered: the page tells of the whole life of the session. silent: instances that
    nobody can send a message to, with the reason; what they report to hold, they may hold. trusts: every word counts as
    it is, and nothing else; True is the original.
    """

    groups: Sequence[LockGroup]
    reports: Mapping[str, Mapping[str, Report]]
    pending: Sequence[Message] = ()
    pages: Mapping[str, Page] = field(default_factory=dict)
    covered: Sequence[str] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    trusts: bool = False


Replicas = dict[str, dict[str, Replica]]
"""By lock and instance."""


def replicas_of(evidence: Evidence) -> tuple[Replicas, dict[str, list[str]]]:
    """The replicas as the pipeline takes them, doubtful ones marked; and what the page of an instance may leave out."""
    found: Replicas = {}
    for instance, reports in evidence.reports.items():
        for group in evidence.groups:
            if group.name in reports:
                _take(found, instance, group, reports[group.name], trusts=evidence.trusts)
    if evidence.trusts:
        return found, {}
    under_way: dict[tuple[str, str], list[str]] = {}
    for each in evidence.pending:
        under_way.setdefault((each.instance, each.lock), []).append(each.target)
    owner = {lock: group for group in evidence.groups for lock in group.locks}
    settled: dict[str, list[str]] = {}
    for instance, page in evidence.pages.items():
        reports = evidence.reports.get(instance, {})
        for lock, told in page.told.items():
            if lock not in owner:
                continue
            group = owner[lock]
            is_fresh = group.name not in reports or reports[group.name].is_fresh
            replica = found.get(lock, {}).get(instance)
            doubt = _doubt(group, told, replica, under_way.get((instance, lock), ()), is_fresh=is_fresh)
            if doubt is None:
                settled.setdefault(instance, []).append(lock)
            elif doubt:
                found.setdefault(lock, {})[instance] = Replica(group.model.initial, doubt=doubt)
    _fear_the_worst(evidence, found)
    _without_the_silent(evidence, found)
    return found, settled


def _take(found: Replicas, instance: str, group: LockGroup, report: Report, *, trusts: bool) -> None:
    """What one instance says of one resource, so far as it says anything."""
    model = group.model
    known = {*model.states, ERROR, DROPPED}
    for lock, replica in (report.states or {}).items():
        if replica is not None and (trusts or replica.state in known):
            taken = replica
        elif trusts:
            continue
        elif replica is None:
            taken = Replica(model.initial, doubt="its entry names no state")
        else:
            taken = Replica(model.initial, doubt=f"it reports {replica.state!r}, which {model.name} does not have")
        if lock in found:
            found[lock][instance] = taken
        else:
            found[lock] = {instance: taken}


def _doubt(
    group: LockGroup, told: Standing, replica: Replica | None, targets: Sequence[str], *, is_fresh: bool
) -> str | None:
    """Why nobody knows whether an instance holds a lock; "" where its word or a message under way tells it.

    None: it has given back, or never got it, and the page need not name the lock any more.
    """
    model = group.model
    if replica is not None and replica.doubt:
        return ""  # Somebody has told why already.
    if replica is not None and replica.state not in (model.initial, DROPPED):
        never_held = replica.state == ERROR and replica.previous != model.top and not targets and is_fresh
        return None if never_held else ""
    if model.top in targets:
        return ""  # The message under way counts.
    if not is_fresh:
        return "what it reports cannot be read"
    if told is Standing.RECALLED:
        return "" if targets else None
    return "the message by which it was granted is gone, and it does not report that it holds"


def _fear_the_worst(evidence: Evidence, found: Replicas) -> None:
    """We cannot read its states, and no page covers its session: it may hold every lock that nobody else holds."""
    for instance, reports in evidence.reports.items():
        for group in evidence.groups:
            report = reports.get(group.name)
            if report is None or report.states is not None or instance in evidence.covered:
                continue
            for lock in group.locks:
                others = found.get(lock, {})
                if instance not in others and all(
                    each.state != group.model.top and not each.doubt for each in others.values()
                ):
                    doubt = "what it reports cannot be read, and never could"
                    found.setdefault(lock, {})[instance] = Replica(group.model.initial, doubt=doubt)


def _without_the_silent(evidence: Evidence, found: Replicas) -> None:
    """Whoever cannot be sent a message keeps what it may hold; what else it says is of no use."""
    for instance, reason in evidence.silent.items():
        for group in evidence.groups:
            top = group.model.top
            for lock in group.locks:
                own = found.get(lock, {}).get(instance)
                if own is None or own.doubt:
                    continue
                if own.state == top or (own.state == ERROR and own.previous == top):
                    found[lock][instance] = own._replace(doubt=reason)
                else:
                    del found[lock][instance]
