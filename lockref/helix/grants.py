"""The leaders' book of grants: which locks an instance may hold, although it does not report them.

States and messages are not enough to know that. A participant may remove a message without writing its state. Then it
looks as if it had never been asked (T28, HJ8). So each leader writes down which instance it told to take a lock, in the
transaction that sends the message (CONTROLLER/GRANTS). A later leader reads the book, and decides as the old one would.

    GRANTED    The instance was told to take the lock. The lock is in doubt if the message is gone and the instance does
               not report that it holds.
    RECALLED   The instance was told to give the lock back. The entry ends when the instance reports, in a record that
               can be read, that it does not hold.

A lock in doubt stays with its instance until the instance reports, or its session ends. Nobody else gets it.

A real Helix leader keeps no book. But each leader changes HISTORY. So the root of the book names the version of HISTORY
that the book's last leader wrote. If HISTORY has changed since, entries may be outdated, and the next leader of ours
begins a new book. The book covers every session that is younger than the book's root. An older session is covered from
its first page on; that page begins with all locks that the session reported to hold.

Rejected: to keep the grants in the leader's memory, which ends with the leader. Rejected: to ask the instance again; if
it removes the second message as well, nothing is known about either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lockref.helix.pipeline import LockGroup, Replica
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.state_model import DROPPED, ERROR

TERM: Final = "TERM"
"""The field of the root with the version of HISTORY that was written by the leader who keeps the book."""

SESSION: Final = "SESSION_ID"


class Standing(StrEnum):
    """The last order to an instance about a lock."""

    GRANTED = "GRANTED"
    RECALLED = "RECALLED"


@dataclass(frozen=True, slots=True)
class Page:
    """The last orders to one session of one instance, by lock."""

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
    """The report of one instance about one resource.

    states: by lock; None as the value for an entry that names no state; None as a whole if the znode could never be
    read. is_fresh: False if the znode cannot be read now; `states` is then its last readable content.
    """

    states: Mapping[str, Replica | None] | None
    is_fresh: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that tells which instance may hold which lock.

    reports: by instance and resource. pending: messages under way. pages: by instance, of live sessions only.
    covered: instances whose page covers the whole life of their session. silent: instances that cannot be sent
    messages, with the reason; they may hold what they report to hold. trusts: believe the reports and look at nothing
    else, as the original does.
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
    """The replicas for the pipeline, with the doubtful ones marked; and by instance, page entries that have ended."""
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
    """Add the replicas that one instance reports of one resource."""
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
    """Why it is not known whether an instance holds a lock; "" if its report or a message under way tells.

    None if the instance has given the lock back or never got it, so that the page need not name the lock any more.
    """
    model = group.model
    if replica is not None and replica.doubt:
        return ""  # The replica has its reason already.
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
    """An instance may hold every lock that no other one holds, if its states were never read and no page covers it."""
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
    """Mark the locks that silent instances may hold as doubtful, and drop the rest of what these instances report."""
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
