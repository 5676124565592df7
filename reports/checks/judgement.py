"""The judge: all clauses over all runs of a history, in one call.

Each part is built once (truth from the chain, operations, tenures, effects)
and every clause reads from them. Nothing here loops over events, and nothing
over runs except to describe violations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from reports.checks.belief import check_belief_exclusion, find_tenures
from reports.checks.columns import Events, Runs, complete_runs
from reports.checks.effect import check_effect_exclusion, find_effects
from reports.checks.operations import join_operations
from reports.checks.truth import Truth, check_truth_exclusion
from reports.checks.verdicts import Ruling, verdict_table

UNREADABLE = "the lock's records cannot be decoded, so grants and tokens are unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the checks found, as tables keyed by run number.

    verdicts: `VERDICT_SCHEMA`, every run and clause.
    """

    verdicts: pa.Table


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
    unreadable = [(np.logical_not(truth.is_readable), UNREADABLE)]
    rulings = [
        Ruling(check_truth_exclusion(truth), excused=unreadable),
        Ruling(check_belief_exclusion(history, tenures)),
        Ruling(check_effect_exclusion(history, truth, operations, effects)),
    ]
    return Judgement(verdicts=verdict_table(facts.number, rulings))
