"""The judge: all clauses over all runs of a history, in one call.

Each part is built once (truth from the chain, operations, tenures, effects)
and every clause reads from them. Nothing here loops over events, and nothing
over runs except to describe violations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.checks.belief import check_belief_exclusion, find_tenures
from reports.checks.classes import checks_tokens, class_table
from reports.checks.columns import Events, Flags, Runs, complete_runs
from reports.checks.disturbances import find_disturbances
from reports.checks.effect import check_effect_exclusion, find_effects
from reports.checks.honesty import check_honesty
from reports.checks.operations import join_operations
from reports.checks.ownership import call_of_grant, check_ownership, find_revivals
from reports.checks.spec import INCONCLUSIVE, LIVENESS, SAFETY, VIOLATED
from reports.checks.tables import grants_table, tenures_table
from reports.checks.takeover import check_early_takeover
from reports.checks.tokens import check_token_order, has_no_tokens
from reports.checks.truth import Truth, check_truth_exclusion
from reports.checks.vacuity import reach_table, unreached
from reports.checks.verdicts import Ruling, verdict_table

UNREADABLE = "the lock's records cannot be decoded, so grants and tokens are unknown"
TOKENLESS = "the lock gives no tokens"

Overall = Literal["held", "violated", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the checks found, as tables keyed by run number.

    verdicts: `VERDICT_SCHEMA`, every run and clause. classes: run, class.
    reach: `REACH_SCHEMA`. grants, tenures: see reports.checks.tables.
    unreached: (scenario, provider, situation) demanded and never reached.
    """

    verdicts: pa.Table
    classes: pa.Table
    reach: pa.Table
    grants: pa.Table
    tenures: pa.Table
    unreached: tuple[tuple[str, str, str], ...]


def judge(events: pa.Table, runs: pa.Table) -> Judgement:
    """Judge many runs at once.

    events: `lockref.history.SCHEMA`, rows in any order; runs: `RUNS_SCHEMA`.
    A run without a row in `runs` is judged by defaults. Raises
    HistoryUnreadable for tables of another shape.
    """
    facts = Runs(complete_runs(events, runs))
    history = Events(events, facts.number)
    truth = Truth(history, facts)
    operations = join_operations(history, truth)
    tenures = find_tenures(history, operations)
    effects = find_effects(history, operations)
    disturbances = find_disturbances(history)
    revived = find_revivals(truth, operations)
    called_in = call_of_grant(truth, operations)

    def unreadable() -> list[tuple[Flags, str]]:
        return [(~truth.is_readable, UNREADABLE)]

    rulings = [
        Ruling(check_truth_exclusion(truth), excused=unreadable()),
        Ruling(check_token_order(truth, revived), excused=[(has_no_tokens(truth), TOKENLESS), *unreadable()]),
        Ruling(check_belief_exclusion(history, tenures)),
        Ruling(check_effect_exclusion(history, truth, operations, effects)),
        Ruling(check_early_takeover(truth), excused=unreadable()),
        Ruling(check_ownership(truth, revived), excused=unreadable()),
        Ruling(check_honesty(truth, operations, called_in), excused=unreadable()),
    ]
    broken = {ruling.violations.clause: _runs_of(ruling, facts.count) for ruling in rulings}
    reach = reach_table(truth, operations, tenures, effects, disturbances)
    return Judgement(
        verdicts=verdict_table(facts.number, rulings),
        classes=class_table(
            facts.number,
            overlapped=broken["S3"],
            fenced=checks_tokens(history, effects, facts.count),
            regressed=broken["S2"],
            harmed=broken["S4"],
        ),
        reach=reach,
        grants=grants_table(truth),
        tenures=tenures_table(truth, operations, tenures),
        unreached=tuple(unreached(reach, facts.table)),
    )


def _runs_of(ruling: Ruling, count: int) -> Flags:
    flags = np.zeros(count, dtype=np.bool_)
    flags[ruling.violations.run] = True
    return flags


def overall(judgement: Judgement) -> Overall:
    """The safety verdict of the batch: one violation breaks it; what never happened leaves it open."""
    found = _verdicts_on(judgement, SAFETY)
    if VIOLATED in found:
        return "violated"
    return "inconclusive" if judgement.unreached or INCONCLUSIVE in found else "held"


def overall_liveness(judgement: Judgement) -> Overall:
    """The same for the clauses L1-L6; vacuity is safety's business."""
    found = _verdicts_on(judgement, LIVENESS)
    if VIOLATED in found:
        return "violated"
    return "inconclusive" if INCONCLUSIVE in found else "held"


def _verdicts_on(judgement: Judgement, clauses: tuple[str, ...]) -> set[str]:
    table = judgement.verdicts
    wanted = pc.is_in(table["clause"], value_set=pa.array(clauses))
    return set(pc.unique(table.filter(wanted)["verdict"]).to_pylist())
