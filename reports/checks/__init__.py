"""The specification of safety: numbered clauses over a history, for both worlds.

`judge(events, runs)` takes the two tables of a history and answers with tables
of verdicts. It knows the history record alone: never the simulator, never a
lock. docs/spec.md states every clause with its allowances.

Names load on use: who asks only for the words of the specification (`spec`,
`demands`, `situation_names`) does not wait for NumPy and Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from reports.checks.judgement import Judgement, Measures, judge, judge_with_handoffs, measure
    from reports.checks.measures.confidence import bound_95, wilson_95
    from reports.checks.rulings import VERDICT_SCHEMA
    from reports.checks.situation_names import SITUATIONS
    from reports.checks.situations import REACH_SCHEMA
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

_HOMES: Final = {
    "CLAUSES": "spec",
    "REACH_SCHEMA": "situations",
    "SITUATIONS": "situation_names",
    "VERDICT_SCHEMA": "rulings",
    "Judgement": "judgement",
    "Measures": "judgement",
    "bound_95": "measures.confidence",
    "decide": "verdicts",
    "judge": "judgement",
    "judge_with_handoffs": "judgement",
    "measure": "judgement",
    "wilson_95": "measures.confidence",
}
"""The module of each name. No module has the name of what it defines: the import of it would hide that."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
