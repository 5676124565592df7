"""The specification of safety: numbered clauses over a history, for both worlds.

`judge(events, runs)` takes the two tables of a history and answers with tables
of verdicts. It knows the history record alone: never the simulator, never a
lock. docs/spec.md states every clause with its allowances.
"""

from reports.checks.judgement import Judgement, judge
from reports.checks.verdicts import VERDICT_SCHEMA

__all__ = ["VERDICT_SCHEMA", "Judgement", "judge"]
