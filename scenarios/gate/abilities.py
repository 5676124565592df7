"""The abilities of a lock, found by running it: a handful of short scenarios in virtual time, the same for every lock.

A lock that is only read would be taken at its word. So it is run, and what was seen counts: an ability that it showed
in any run is one that it is held to. A declaration adds an ability, and the lock is then held to that, too; where the
runs say otherwise, the contradiction is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lockref.claims import LEASE, LOSSES, NO_LEASE, ONE_TASK, RENEWS, TOKENS
from lockref.durations import plain_duration
from lockref.errors import LockrefError
from lockref.history import runs_table, to_table
from lockref.lab.loading import ProviderSpec
from lockref.provider import LockContext, LockEvent, LockEventKind, LockProvider
from lockref.words import Kind, Op, Outcome, counted
from reports.checks import judge
from reports.checks.situation_names import TOKEN
from reports.checks.summary import Summary
from scenarios.batch import run_seeds
from scenarios.definition.load import parse_scenario
from scenarios.definition.schema import Scenario
from scenarios.gate.demands import Ability

SEEDS: Final = range(1, 4)

_LOCK: Final = "lock: {validity: 10s, renew_every: 1s, poll_every: 1s}"
_HOLD: Final = f"""
version: 1
name: ability-hold
clients: 1
duration: 170s
{_LOCK}
workload: {{cycles: 12, start: 0s, think: 100ms, hold: 40s, writes: 4, wait: 5s}}
"""
_CRASH: Final = f"""
version: 1
name: ability-crash
clients: 2
duration: 60s
{_LOCK}
workload: {{cycles: 1, start: 1s, think: 0s, hold: 1s, writes: 1, wait: 55s, clients: {{n1: {{start: 0s, hold: 40s}}}}}}
faults:
  - {{kind: crash, client: n1, at: 2s}}
"""
_CUT_OFF: Final = f"""
version: 1
name: ability-cut-off
clients: 1
duration: 40s
{_LOCK}
workload: {{cycles: 1, start: 0s, think: 0s, hold: 30s, writes: 30, wait: 5s}}
faults:
  - {{kind: partition, at: 2s, groups: [[n1], [store]], for: 30s}}
"""
_REENTRY: Final = f"""
version: 1
name: ability-reentry
clients: 1
duration: 40s
{_LOCK}
workload: {{life: reentrant, cycles: 2, start: 0s, think: 100ms, hold: 1s, writes: 1, wait: 5s}}
"""
_TASKS: Final = f"""
version: 1
name: ability-tasks
clients: 1
duration: 60s
{_LOCK}
workload: {{life: two_threads, cycles: 3, start: 0s, think: 0s..300ms, hold: 1s, writes: 2, wait: 10s}}
"""

_CRASH_NS: Final = 2_000_000_000
_HOLD_S: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class AbilityFinding:
    """The state of knowledge about one ability.

    has: whether the lock is held to it. evidence: what was seen, in one line. is_declared: the lock, or whoever runs
    it, says so. contradiction: what was declared and seen otherwise; "" where nothing contradicts.
    """

    ability: Ability
    has: bool
    evidence: str
    is_declared: bool = False
    contradiction: str = ""


@dataclass(frozen=True, slots=True)
class Abilities:
    """The abilities of one lock, or of several side by side.

    is_of_fleet: of several locks. What their runs show together is no longer booked on any of them.
    """

    findings: Mapping[Ability, AbilityFinding]
    is_of_fleet: bool = False

    @property
    def has(self) -> frozenset[Ability]:
        """The abilities that the lock is held to."""
        return frozenset(ability for ability, found in self.findings.items() if found.has)

    def seen_later(self, reached: Mapping[str, int], *, where: str) -> Abilities:
        """The same, with what further runs have shown: an ability that a lock showed anywhere counts everywhere.

        reached: situation to how often it came about. where: the name of the scenario.
        """
        shown = {
            ability: situation
            for ability, situation in _SHOWN_BY.items()
            if reached.get(situation) and not self.findings[ability].has
        }
        if not shown or self.is_of_fleet:
            return self
        later = {
            ability: replace(
                self.findings[ability],
                has=True,
                evidence=f"{counted(reached[situation], situation)} in {where}, though none when it was asked",
            )
            for ability, situation in shown.items()
        }
        return Abilities({**self.findings, **later})


_CLAIMED: Final = {LEASE: Ability.LEASE, RENEWS: Ability.RENEWS, TOKENS: Ability.TOKENS}
_DISCLAIMED: Final = {NO_LEASE: Ability.LEASE, ONE_TASK: Ability.TASKS}
"""The claims of a class by which it has an ability, or has it not."""

_SHOWN_BY: Final[Mapping[Ability, str]] = {
    Ability.RENEWS: "renewal",
    Ability.TOKENS: TOKEN,
    Ability.LEASE: "takeover_after_expiry",
    Ability.RELEASES: "release",
}
"""The situation that shows an ability, in whatever run it comes about."""


@dataclass(slots=True)
class _Watch:
    """The lock's requests to its runtime and reports to its listener, over the runs of one question."""

    asked_for_tasks: int = 0
    mutexes: int = 0
    spawned: int = 0
    losses: int = 0

    @property
    def is_for_several(self) -> bool:
        """True if it knows which task calls, or keeps tasks apart though it has none of its own."""
        return bool(self.asked_for_tasks or (self.mutexes and not self.spawned))


class _WatchedRuntime:
    """A runtime that notes whether the lock asks which task calls it, or keeps its tasks apart."""

    def __init__(self, runtime: Any, watch: _Watch) -> None:
        self._runtime = runtime
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        self._watch.asked_for_tasks += name == "current_task"
        self._watch.mutexes += name == "mutex"
        self._watch.spawned += name == "spawn"
        return getattr(self._runtime, name)


@dataclass(slots=True)
class _WatchedFactory:
    """Makes the locks of `made`, and watches what they ask and tell. made: as of any factory that wraps another."""

    made: Callable[[LockContext], LockProvider]
    watch: _Watch = field(default_factory=_Watch)

    def __call__(self, context: LockContext) -> LockProvider:
        def listener(event: LockEvent) -> None:
            if event.kind is LockEventKind.LOST:
                self.watch.losses += 1
            context.listener(event)

        return self.made(replace(context, runtime=_WatchedRuntime(context.runtime, self.watch), listener=listener))


@dataclass(frozen=True, slots=True)
class _Answer:
    """The runs of one question, judged. watch: what the lock asked and told meanwhile. events: its history."""

    summary: Summary
    events: pa.Table
    watch: _Watch

    def count(self, situation: str) -> int:
        return self.summary.reach.get(situation, (0, 0))[1]

    @property
    def broken(self) -> list[str]:
        """The clauses that broke."""
        return sorted({finding.clause for finding in self.summary.findings})

    def requests(self, op: Op) -> int:
        """Requests of this operation that left a client."""
        return len(self.rows(Kind.SENT, op))

    def renewals_sent(self) -> int:
        """Renewals that left a client, but for those that a task sends within its own acquire.

        A lock that finds its own lapsed record, and takes it for its next grant, renews nothing: it acquires.
        """
        acquiring: set[tuple[int, str, str]] = set()
        count = 0
        columns = (self.events[name].to_pylist() for name in ("run", "node", "task", "kind", "op"))
        for run, node, task, kind, op in zip(*columns, strict=True):
            client = (run, node, task)
            if op == Op.ACQUIRE.name.lower() and kind == Kind.CALL.name.lower():
                acquiring.add(client)
            elif op == Op.ACQUIRE.name.lower() and kind == Kind.RETURN.name.lower():
                acquiring.discard(client)
            elif op == Op.RENEW.name.lower() and kind == Kind.SENT.name.lower():
                count += client not in acquiring
        return count

    def rows(self, kind: Kind, op: Op) -> pa.Table:
        """The events of this kind and operation."""
        of_kind = pc.equal(self.events["kind"], kind.name.lower())
        return self.events.filter(pc.and_(of_kind, pc.equal(self.events["op"], op.name.lower())))


def ask(spec: ProviderSpec, declared: Iterable[Ability] = (), denied: Iterable[Ability] = ()) -> Abilities:
    """Run the lock and say what it can do.

    declared: abilities that it is held to whatever is seen. denied: abilities that it is not held to, as long as they
    are not seen: a lock that shows an ability in any run has it. A lock that fails when it is asked is held to
    everything; what is wrong with it the scenarios tell.
    """
    try:
        held, crashed, cut_off = _run(spec, _HOLD), _run(spec, _CRASH), _run(spec, _CUT_OFF)
        reentered, together = _run(spec, _REENTRY), _run(spec, _TASKS)
    except LockrefError as error:
        evidence = f"could not be asked: {error}"
        return Abilities({each: AbilityFinding(ability=each, has=True, evidence=evidence) for each in Ability})
    seen = [
        *_of_holding(held),
        _lease(crashed),
        _reentry(reentered),
        _tasks(together),
        _losses(spec, cut_off),
    ]
    said = {*_declared_by(spec), *declared}
    refused = set(denied) | {ability for claim, ability in _DISCLAIMED.items() if claim in spec.claims}
    return Abilities({found.ability: _with_word(found, said, refused) for found in seen})


def ask_fleet(
    locks: Sequence[ProviderSpec], declared: Iterable[Ability] = (), denied: Iterable[Ability] = ()
) -> Abilities:
    """The abilities of locks that run side by side: each is asked alone, and the fleet has what all of them have.

    So nothing is demanded of a fleet that one of its locks could not keep. One that compares wall clocks is enough for
    `STAMPS`, by which less is demanded. declared, denied: as of `ask`, of each lock.
    """
    said, refused = list(declared), list(denied)
    asked = {lock.name: ask(lock, declared=said, denied=refused) for lock in locks}
    if len(asked) == 1:
        return next(iter(asked.values()))
    return Abilities({each: _of_fleet(each, asked) for each in Ability}, is_of_fleet=True)


def _of_fleet(ability: Ability, asked: Mapping[str, Abilities]) -> AbilityFinding:
    found = {name: abilities.findings[ability] for name, abilities in asked.items()}
    having = [each.has for each in found.values()]
    contradictions = {name: each.contradiction for name, each in found.items() if each.contradiction}
    return AbilityFinding(
        ability=ability,
        has=any(having) if ability is Ability.STAMPS else all(having),
        evidence=_by_lock({name: each.evidence for name, each in found.items()}),
        is_declared=any(each.is_declared for each in found.values()),
        contradiction=_by_lock(contradictions) if contradictions else "",
    )


def _by_lock(texts: Mapping[str, str]) -> str:
    """The texts with the name of the lock that each is about; one text where it is the same of all."""
    if len(texts) > 1 and len(set(texts.values())) == 1:
        return f"each: {next(iter(texts.values()))}"
    return "; ".join(f"{name}: {text}" for name, text in texts.items())


def _declared_by(spec: ProviderSpec) -> Sequence[Ability]:
    """The abilities that the class itself declares."""
    return [
        *([Ability.REENTRY] if spec.is_reentrant else []),
        *([Ability.LOSSES] if LOSSES in spec.claims else []),
        *(ability for claim, ability in _CLAIMED.items() if claim in spec.claims),
    ]


def _with_word(found: AbilityFinding, declared: set[Ability], denied: set[Ability]) -> AbilityFinding:
    """A finding, with what was declared about its ability."""
    if found.ability in declared:
        contradiction = "" if found.has else f"declared, but {found.evidence}"
        return replace(found, has=True, is_declared=True, contradiction=contradiction)
    if found.ability in denied and found.ability is Ability.TASKS:
        # How a lock is used is not seen: whoever uses it says so.
        return replace(found, has=False, is_declared=True)
    if found.ability in denied:
        contradiction = f"declared not to, but {found.evidence}" if found.has else ""
        return replace(found, is_declared=True, contradiction=contradiction)
    return found


def _run(spec: ProviderSpec, text: str) -> _Answer:
    """Run one question over its seeds and judge the runs."""
    scenario: Scenario = parse_scenario(text.lstrip("\n"))
    factory = _WatchedFactory(spec.factory)
    watched = replace(spec, factory=factory, reference=None)
    outcomes = run_seeds(scenario, watched, list(SEEDS))
    events = to_table([outcome.recorder for outcome in outcomes], [outcome.seed for outcome in outcomes])
    runs = runs_table(outcome.run_row for outcome in outcomes)
    return _Answer(Summary.of(judge(events, runs), events, runs), events, factory.watch)


def _of_holding(held: _Answer) -> list[AbilityFinding]:
    """The abilities that a holder of its own shows: renewals, tokens, records, releases, writes beside the record."""
    holds = held.count("grant")
    span = f"{counted(holds, 'hold')} of up to {_HOLD_S} s"
    renewals = max(held.count("renewal"), held.renewals_sent())
    tokens, releases, beside = held.count(TOKEN), held.count("release"), held.requests(Op.WRITE)
    records = held.requests(Op.ACQUIRE)
    stamped = held.rows(Kind.SENT, Op.ACQUIRE)["valid_until_ns"]
    stamps = len(stamped) - stamped.null_count
    return [
        AbilityFinding(
            ability=Ability.RENEWS,
            has=bool(renewals),
            evidence=f"renewed {renewals:,} times in {span}" if renewals else f"never renewed in {span}",
        ),
        AbilityFinding(
            ability=Ability.TOKENS,
            has=bool(tokens),
            evidence=f"{tokens:,} of {counted(holds, 'grant')} carried a fencing token"
            if tokens
            else f"none of {counted(holds, 'grant')} carried a fencing token",
        ),
        AbilityFinding(
            ability=Ability.RECORD,
            has=bool(records),
            evidence=f"its decoder reads its records in {counted(records, 'write')}"
            if records
            else "none of its writes reads as a record: it declares no decoder, or the decoder reads nothing",
        ),
        AbilityFinding(
            ability=Ability.STAMPS,
            has=bool(stamps),
            evidence=f"{stamps:,} of {counted(records, 'record')} said until when, by a wall clock"
            if records
            else "nobody can read its records",
        ),
        AbilityFinding(
            ability=Ability.RELEASES,
            has=bool(releases),
            evidence=f"gave back {releases:,} of {counted(holds, 'grant')}",
        ),
        AbilityFinding(
            ability=Ability.BESIDE,
            has=bool(beside),
            evidence=f"{counted(beside, 'write')} to other objects than its record"
            if beside
            else "writes nothing but its record",
        ),
    ]


def _lease(crashed: _Answer) -> AbilityFinding:
    """Does somebody else get the lock after its holder has crashed?"""
    answers = crashed.rows(Kind.RETURN, Op.ACQUIRE)
    granted = pc.equal(answers["outcome"], Outcome.APPLIED.name.lower())
    later = [at_ns for at_ns in answers.filter(granted)["at_ns"].to_pylist() if at_ns > _CRASH_NS]
    if later:
        slowest = plain_duration(max(later) - _CRASH_NS)
        evidence = f"after its holder had crashed, another had it within {slowest} (validity 10 s)"
    else:
        evidence = "after its holder had crashed, nobody else had it within 58 s"
    return AbilityFinding(ability=Ability.LEASE, has=bool(later), evidence=evidence)


def _reentry(reentered: _Answer) -> AbilityFinding:
    """Does the task that holds get in again?"""
    entries = reentered.count("reentry")
    late = [clause for clause in reentered.broken if clause.startswith("L")]
    if entries:
        evidence = f"the task that held entered {entries:,} times more"
    elif late:
        evidence = f"the task that held could not enter again, and its call did not end in time ({', '.join(late)})"
    else:
        evidence = "the task that held was not let in again"
    return AbilityFinding(ability=Ability.REENTRY, has=bool(entries), evidence=evidence)


def _tasks(together: _Answer) -> AbilityFinding:
    """Can two tasks of one process use one lock?

    The interface promises the calls of one task. A lock that asks which task calls it is made for more, and so is one
    that has a mutex though no task of its own needs it. Such a lock is held to it, also if it fails here: a mistake
    must not be taken for a missing ability. With another lock this is not tried, unless its user declares it.
    """
    watch = together.watch
    broken = [clause for clause in together.broken if not clause.startswith("L")]
    took = f"two tasks of one process: {counted(together.count('grant'), 'grant')}"
    took += f", and {', '.join(broken)} broke" if broken else ", one at a time"
    why = "it never asks which task calls it"
    why += ", and its mutex serves its own tasks" if watch.mutexes else ", and makes no mutex"
    if not watch.is_for_several:
        took = f"{why}: scenarios in which two tasks share it are left out (--declare {Ability.TASKS} runs them)"
    return AbilityFinding(ability=Ability.TASKS, has=watch.is_for_several, evidence=took)


def _losses(spec: ProviderSpec, cut_off: _Answer) -> AbilityFinding:
    """Is the listener told when a holder is cut off for longer than its lease?"""
    told = cut_off.watch.losses
    runs = counted(cut_off.summary.runs, "run")
    evidence = (
        f"told its listener of {counted(told, 'loss')} in {runs} without its store"
        if told
        else f"told its listener of no loss in {runs} without its store"
    )
    return AbilityFinding(ability=Ability.LOSSES, has=LOSSES in spec.claims, evidence=evidence)
