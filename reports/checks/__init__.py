"""The specification of safety: numbered clauses over a history, for both worlds.

`judge(events, runs)` takes the two tables of a history and answers with tables
of verdicts. It knows the history record alone: never the simulator, never a
lock. docs/spec.md states every clause with its allowances.
"""

from reports.checks.judge import Judgement, Measures, judge, judge_with_handoffs, measure
from reports.checks.measures.confidence import bound_95, wilson_95
from reports.checks.rulings import VERDICT_SCHEMA
from reports.checks.situations import REACH_SCHEMA, SITUATIONS
from reports.checks.spec import CLAUSES
from reports.checks.verdicts import decide

__all__ = [
    "CLAUSES",
    "REACH_SCHEMA",
    "SITUATIONS",
    "VERDICT_SCHEMA",
    "Judgement",
    "Measures",
    "bound_95",
    "decide",
    "judge",
    "judge_with_handoffs",
    "measure",
    "wilson_95",
]
