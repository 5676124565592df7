"""The judge: all clauses over all runs of a history, in one call.

Each part is built once (truth from the chain, operations, tenures, effects)
and every clause reads from them. Nothing here loops over events, and nothing
over runs except to describe violations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.checks.classes import checks_tokens, class_table
from reports.checks.clauses.answers import check_answers
from reports.checks.clauses.belief import check_belief_exclusion
from reports.checks.clauses.commits import check_commits
from reports.checks.clauses.effect import asks_for_tokens, check_effect_exclusion
from reports.checks.clauses.fairness import check_fairness, fairness_table
from reports.checks.clauses.liveness import check_liveness
from reports.checks.clauses.ownership import check_ownership, find_revivals
from reports.checks.clauses.store_faults import check_truth_exclusion, pointed_at_store
from reports.checks.clauses.takeover import check_early_takeover
from reports.checks.clauses.tokens import check_token_order, find_returned_tokens, has_no_tokens
from reports.checks.facts.case import Case, open_case
from reports.checks.facts.columns import Flags, Ints
from reports.checks.facts.surroundings.host import host_lateness_ns, lateness_text
from reports.checks.facts.surroundings.integrity import altered
from reports.checks.facts.surroundings.store_answers import store_answers_table
from reports.checks.facts.tables import grants_table, tenures_table
from reports.checks.measures.bounded import threshold_samples
from reports.checks.measures.endings import endings_table
from reports.checks.measures.handoff import handoffs_table
from reports.checks.measures.latency import calls_table
from reports.checks.measures.speed import speed_table
from reports.checks.promised import with_departures
from reports.checks.rulings import (
    UNRECORDED,
    UNSETTLED,
    Ruling,
    Violations,
    verdict_table,
    with_damaged,
    with_doubt,
    with_witnesses,
)
from reports.checks.situations import reach_table
from reports.checks.spec import CLAUSES, LIVENESS, VIOLATED
from reports.checks.witness_rows import witness_writes

UNREADABLE = "the lock's records cannot be decoded, so grants and tokens are unknown"
UNCHAINED = "the clause is about chains of records, and no lock of this run keeps one"
UNTIMED = "no grant has an end of validity: each lasts as long as a session"
ENDLESS = "no record tells when its grant ends, nor does the run"
TOKENLESS = "the lock gives no tokens"
CONTRADICTED = "the store showed a state that a confirmed write had replaced, so who held the lock in a call is unknown"
UNBOUNDED = "broken only if all clocks agree, and nothing says how far they may differ: the run has no row in runs"
WITH_WRITES: Final = ("S2", "S3", "S4", "S5", "S6", "S7", "L4", "L6")
"""Clauses about one lock's record. S1 names the two requests, L1 to L3 the record that stood in the way."""
UNBOUNDED_NS: Final = 2**58
"""Nine years: a clock bound that explains every difference, and leaves room to add times in 64 bits."""
_CLOCKS: Final = ("drift_bound_ns",)
_SPANS: Final = ("validity_ns", "poll_interval_ns", "request_timeout_ns", "wait_timeout_ns", "watch_ns", *_CLOCKS)
ABOUT_TIME: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(LIVENESS, _SPANS),
    **dict.fromkeys(("S4", "S5", "S6"), _CLOCKS),
}
"""The clauses that a late machine may break for a lock, and which times of the runs table its lateness lengthens.

L1 to L6 say until when something must have happened. S4, S5 and S6 ask whether a validity was over: its end is placed
by two clocks that were read one after the other, and the machine may have stopped the thread between the two.

The others need no allowance. S1 and S2 read the order of writes. S3 reads when clients said "mine", and each says so
with the instant at which it was asked. S7 gives a call the time from its beginning to its return, which lateness only
widens. F1 counts grants, F2 asks whether a client was ever served, DL1 to DL5 read what stands in a log.
"""
NO_BELIEF = "no client ever said that it held the lock"
NO_EFFECT = "nothing was written under the lock to a protected resource"
NEEDS_TOKEN = "the scenario shows what a token is worth, and the lock gives none"
NO_CALLS = "the record is of requests on the wire; what calls were made and what they returned is not seen there"


TABLES: Final = (
    "verdicts", "classes", "reach", "grants", "tenures", "records", "answers", "speeds", "endings", "threshold_samples",
)  # fmt: skip
"""The tables of a `Judgement`."""

Made: TypeAlias = pa.Table | Callable[[], pa.Table]
"""A table, or what makes it."""


class _MadeOnUse:
    """A table of a judgement, by its name in the class; it is made when it is first asked for."""

    def __set_name__(self, _judgement: type, name: str) -> None:
        self._name = name

    def __get__(self, judgement: Judgement, _type: type) -> pa.Table:
        return judgement.table(self._name)


@final
class Judgement:
    """The findings of the checks, as tables keyed by run number.

    verdicts: `VERDICT_SCHEMA`, every run and clause. classes: run, class.
    reach: `REACH_SCHEMA`. grants, tenures: see reports.checks.facts.tables.
    records: `RECORD_SCHEMA`, which runs are whole, which cut off and judged up
    to there, which damaged. A damaged run is in no other table but `verdicts`,
    where every clause of it is inconclusive.
    answers, speeds: `STORE_ANSWERS_SCHEMA` and `SPEED_SCHEMA`, of real runs only.
    endings: `ENDINGS_SCHEMA`, how the grants of each run ended.
    threshold_samples: `SAMPLES_SCHEMA`, of the measures that each run's thresholds limit.

    Most who judge a single run read its verdicts alone, and the other tables take as long again. So each of them is
    made when it is first asked for; until all are made, the facts that were read off the history are kept.
    """

    verdicts, classes, reach, grants, tenures = (_MadeOnUse() for _ in range(5))
    records, answers, speeds, endings, threshold_samples = (_MadeOnUse() for _ in range(5))

    def __init__(
        self,
        *,
        verdicts: pa.Table,
        classes: Made,
        reach: Made,
        grants: Made,
        tenures: Made,
        records: Made,
        answers: Made,
        speeds: Made,
        endings: Made,
        threshold_samples: Made,
    ) -> None:
        tables = verdicts, classes, reach, grants, tenures, records, answers, speeds, endings, threshold_samples
        self._tables: dict[str, Made] = dict(zip(TABLES, tables, strict=True))

    def table(self, name: str) -> pa.Table:
        """The table of this name in `TABLES`."""
        found = self._tables[name]
        if not isinstance(found, pa.Table):
            found = self._tables[name] = found()
        return found

    def with_verdicts(self, verdicts: pa.Table) -> Judgement:
        """This judgement with other verdicts."""
        return Judgement(**{**self._tables, "verdicts": verdicts})


def judge(events: pa.Table, runs: pa.Table, *, known_damage: Mapping[int, str] | None = None) -> Judgement:
    """Judge many runs at once.

    events: `lockref.history.SCHEMA`, rows in any order; runs: `RUNS_SCHEMA`.
    Where `runs` is empty, all runs are judged by defaults. A run whose record is
    damaged (`reports.checks.facts.surroundings.integrity`) is not judged; known_damage: run number
    to what is wrong with it, as found elsewhere. Raises HistoryUnreadable for
    tables of another shape.
    """
    return _judged(events, runs, known_damage)[0]


def judge_with_handoffs(
    events: pa.Table, runs: pa.Table, *, known_damage: Mapping[int, str] | None = None
) -> tuple[Judgement, pa.Table]:
    """As `judge`, and the hand-offs of `measure`, from one reading of the history."""
    judgement, case = _judged(events, runs, known_damage)
    return judgement, handoffs_table(case)


def _judged(events: pa.Table, runs: pa.Table, known_damage: Mapping[int, str] | None) -> tuple[Judgement, Case]:
    """As `judge`, and the facts that were read from the events."""
    case = open_case(events, runs, known_damage=known_damage)
    judgement, rulings = _ruled(case)
    if tampered := altered(case.records, _accused(judgement) if _is_any_broken(rulings) else ()):
        case = open_case(events, runs, known_damage={**(known_damage or {}), **tampered})
        judgement, rulings = _ruled(case)
    return _with_doubts(judgement, rulings, case), case


def judge_with_violations(events: pa.Table, runs: pa.Table) -> tuple[Judgement, Mapping[str, Violations], Case]:
    """As `judge`, and by clause every violation, in any order; `Judgement` describes the first of each run alone. Last,
    the facts that were read from the events.

    Where a run was judged once more, with longer times, the counts of its verdicts may be smaller. The digest of a run
    is not asked for.
    """
    case = open_case(events, runs)
    judgement, rulings = _ruled(case)
    judgement = _with_doubts(judgement, rulings, case)
    return judgement, {ruling.violations.clause: ruling.violations for ruling in rulings}, case


def _is_any_broken(rulings: list[Ruling]) -> bool:
    return any(len(ruling.violations.run) for ruling in rulings)


def _accused(judgement: Judgement) -> set[int]:
    """The numbers of the runs in which a clause broke."""
    verdicts = judgement.verdicts
    return set(verdicts["run"].filter(pc.equal(verdicts["verdict"], VIOLATED)).to_pylist())


def _with_doubts(judgement: Judgement, rulings: list[Ruling], case: Case) -> Judgement:
    """The judgement, with doubts about what broke. Nothing is asked where nothing broke, as in nearly every run."""
    if not _is_any_broken(rulings):
        return judgement
    return _without_late_host(_without_guessed_bounds(judgement, case), case)


def _without_guessed_bounds(judgement: Judgement, case: Case) -> Judgement:
    """The judgement. A run without a row in the runs table is accused only of what no clock bound can explain.

    The clock bound β of such a run is unknown. It was judged with β = 0, the strictest bound, so a clause that held
    would hold under every bound. A run in which a clause broke is judged once more, with a bound that explains every
    difference of clocks. A clause that breaks then, too, is violated; otherwise it is inconclusive.
    """
    inferred = case.records.runs.filter(pc.fill_null(case.records.runs["is_inferred"], False))
    inferred = inferred.filter(pc.is_in(inferred["run"], value_set=pa.array(sorted(_accused(judgement)), pa.int64())))
    if not len(inferred):
        return judgement
    place = inferred.column_names.index("drift_bound_ns")
    generous = inferred.set_column(
        place, inferred.schema.field(place), pa.array([UNBOUNDED_NS] * len(inferred), pa.int64())
    )
    events = case.records.events
    again = _judge(open_case(events.filter(pc.is_in(events["run"], value_set=inferred["run"])), generous))
    return judgement.with_verdicts(with_doubt(judgement.verdicts, again.verdicts, UNBOUNDED))


def _without_late_host(judgement: Judgement, case: Case) -> Judgement:
    """The judgement. No lock is accused of the time in which its machine did not run it.

    A run that breaks a clause of `ABOUT_TIME` on a machine that woke its threads up late is judged once more, as if
    every time that the clause is made of (V, p, q, w, β) were longer by the worst of that lateness. What breaks then,
    too, is violated. Otherwise the clause is inconclusive: the lock was not in time, and nobody knows whose fault that
    is.
    """
    verdicts = judgement.verdicts
    mask = pc.and_(pc.equal(verdicts["verdict"], VIOLATED), pc.is_in(verdicts["clause"], pa.array(list(ABOUT_TIME))))
    accused = verdicts.filter(mask).select(["run", "clause"]).to_pylist()
    if not accused:
        return judgement
    late_ns = dict(zip(case.runs.number.tolist(), case.once(host_lateness_ns).tolist(), strict=True))
    # A set of clauses that lengthen the same times is judged once.
    asked: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for row in accused:
        if late_ns.get(row["run"]):
            asked.setdefault((row["run"], ABOUT_TIME[row["clause"]]), []).append(row["clause"])
    for (number, names), clauses in sorted(asked.items()):
        again = _judged_longer(case, number, names, late_ns[number])
        again = again.filter(pc.is_in(again["clause"], pa.array(clauses)))
        reason = f"{lateness_text(late_ns[number])}, and that may be all of it"
        verdicts = with_doubt(verdicts, again, reason)
    return judgement.with_verdicts(verdicts)


def _judged_longer(case: Case, number: int, names: tuple[str, ...], late_ns: int) -> pa.Table:
    """The verdicts on one run as if these times of the runs table were longer. A clock bound that is null counts as 0.

    What the lock was promised, and is told beside a violation, is no longer than before.
    """
    only = pa.array([number], pa.int64())
    described = case.records.runs.filter(pc.is_in(case.records.runs["run"], value_set=only))
    events = case.records.events.filter(pc.is_in(case.records.events["run"], value_set=only))
    runs = described
    for name in names:
        if name in runs.column_names:
            place = runs.column_names.index(name)
            known = pc.fill_null(runs[name], 0) if name in _CLOCKS else runs[name]
            runs = runs.set_column(place, runs.schema.field(place), pc.add(known, late_ns))
    return _judge(open_case(events, runs), promised=open_case(events, described)).verdicts


def _judge(case: Case, *, promised: Case | None = None) -> Judgement:
    """Every clause over a case. promised: the same runs with the bounds that their lock was promised, if others."""
    return _ruled(case, promised=promised)[0]


def _ruled(case: Case, *, promised: Case | None = None) -> tuple[Judgement, list[Ruling]]:
    """As `_judge`, and the rulings of which the verdicts are made."""
    truth, operations = case.truth, case.operations
    revived = find_revivals(truth, case.call_of_grant)
    unreadable = [(~truth.is_readable, UNREADABLE)]
    # Hole: a write replaced a state that no write on record had made. Nobody knows then who had held the lock before,
    # under which token, who gave it back, and which denials were right.
    holed = [(truth.has_holes, UNRECORDED), (truth.is_unsettled, UNSETTLED)]
    unchained = [(_runs_without_chain(case), UNCHAINED)]
    untimed = [(_runs_without_lease(case), UNTIMED), (truth.is_endless, ENDLESS)]
    tokenless = has_no_tokens(truth, operations)
    unfenced = tokenless & asks_for_tokens(case)
    # Where no record can be read, the tokens that calls returned can be compared all the same.
    unseen = ~truth.is_readable & _runs_without(case, operations.run[find_returned_tokens(truth, operations)])
    safety = [
        Ruling(check_truth_exclusion(truth), excused=[*unchained, *unreadable], undecided=holed),
        Ruling(
            check_token_order(truth, operations, revived),
            excused=[(tokenless, TOKENLESS), (unseen, UNREADABLE)],
            undecided=[(where & ~tokenless, why) for where, why in holed],
        ),
        Ruling(
            check_belief_exclusion(case.events, case.runs, case.tenures),
            excused=[(_runs_without(case, case.tenures.run), NO_BELIEF)],
        ),
        Ruling(
            check_effect_exclusion(case, unfenced),
            excused=[(unfenced, NEEDS_TOKEN), (_runs_without(case, case.effects.run), NO_EFFECT)],
        ),
        Ruling(check_early_takeover(truth, case.disturbances), excused=[*untimed, *unreadable], undecided=holed),
        Ruling(
            check_ownership(truth, operations, revived, case.tenure_of_release),
            excused=[*unchained, *unreadable],
            undecided=holed,
        ),
        Ruling(
            check_answers(
                truth, operations, case.call_of_grant, case.tenure_of_release, case.disturbances, case.contradictions
            ),
            excused=[(truth.is_on_wire, NO_CALLS), *unreadable],
            undecided=[*holed, (case.contradictions.runs(case.runs.count), CONTRADICTED)],
        ),
    ]
    count = case.runs.count
    broken = {ruling.violations.clause: _runs_of(ruling, count) for ruling in safety}
    commits = check_commits(case.events, case.commits, count)
    rulings = [*safety, *check_liveness(case), *check_fairness(case), *commits]
    assert [ruling.violations.clause for ruling in rulings] == list(CLAUSES), "one ruling for each clause, in order"
    pointed = pointed_at_store(rulings, safety[0].violations, truth, case.contradictions)
    told = with_departures(_with_surroundings(pointed, case), promised or case)
    judgement = Judgement(
        verdicts=with_damaged(verdict_table(case.runs.number, told), case.records.damaged),
        classes=lambda: class_table(
            case.runs.number,
            overlapped=broken["S3"],
            fenced=checks_tokens(case.events, case.effects, count),
            regressed=broken["S2"],
            harmed=broken["S4"],
        ),
        reach=partial(reach_table, case),
        grants=partial(grants_table, truth),
        tenures=partial(tenures_table, case),
        records=lambda: case.records.table,
        answers=lambda: store_answers_table(case.store_answers, case.runs, truth, case.contradictions, case.origin_ns),
        speeds=partial(speed_table, case),
        endings=partial(endings_table, case),
        # Made at once, because this one raises for a threshold that cannot be read.
        threshold_samples=threshold_samples(case),
    )
    return judgement, told


def _with_surroundings(rulings: list[Ruling], case: Case) -> list[Ruling]:
    """The rulings, with what every witness of a run needs.

    `origin_ns`: see `Case.origin_ns`. `store`: who wrote around the violation, on which condition, with what success.
    """

    def shown(violations: Violations) -> Violations:
        def witness(index: int) -> dict[str, Any]:
            run = int(violations.run[index])
            found = {**violations.witness(index), "origin_ns": int(case.origin_ns[run])}
            if violations.clause not in WITH_WRITES:
                return found
            by_service = bool(case.truth.is_recorded_by_service[run])
            at_ns = int(violations.at_ns[index])
            writes = witness_writes(case.events, run, found["lock"], at_ns, is_recorded_by_service=by_service)
            return {**found, "store": writes} if writes else found

        return replace(violations, witness=witness)

    return with_witnesses(rulings, shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Figures without a verdict: `fairness` per run and lock, `calls` and `handoffs` as raw samples."""

    fairness: pa.Table
    calls: pa.Table
    handoffs: pa.Table


def measure(events: pa.Table, runs: pa.Table) -> Measures:
    """Measure many runs at once; the same inputs and errors as `judge`."""
    case = open_case(events, runs)
    return Measures(fairness=fairness_table(case), calls=calls_table(case), handoffs=handoffs_table(case))


def _runs_without(case: Case, run: Ints) -> Flags:
    """Per run of the case: it is not among these."""
    flags = np.ones(case.runs.count, dtype=np.bool_)
    flags[run] = False
    return flags


def _runs_without_chain(case: Case) -> Flags:
    """Per run: its locks changed, and none of the changes was a write of a record."""
    changes = case.truth.changes
    if not changes.source.any():
        return np.zeros(case.runs.count, dtype=np.bool_)
    return _runs_without(case, changes.run[changes.is_record]) & ~_runs_without(case, changes.run)


def _runs_without_lease(case: Case) -> Flags:
    """Per run: there were grants, and none of them lapses by itself."""
    grants = case.truth.grants
    if grants.lapses.all():
        return np.zeros(case.runs.count, dtype=np.bool_)
    return _runs_without(case, grants.run[grants.lapses]) & ~_runs_without(case, grants.run)


def _runs_of(ruling: Ruling, count: int) -> Flags:
    flags = np.zeros(count, dtype=np.bool_)
    flags[ruling.violations.run] = True
    return flags
