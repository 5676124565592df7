"""Verdicts: one row per run and clause, with the first witness of each violation.

Clauses answer with `Violations`: flat arrays and a function that describes one
of them. Only the first violation of a run and clause is described, so that a
batch with a million violations costs what its runs cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lockref.words import ABSENT
from reports.checks.facts.columns import Flags, Ints
from reports.checks.spec import CLAUSES, HELD, INCONCLUSIVE, NOT_APPLICABLE, VIOLATED

VERDICT_SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.int64(), nullable=False),
        pa.field("clause", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("at_ns", pa.int64()),
        pa.field("witness", pa.string()),
    ]
)
"""`verdict`: held, violated, inconclusive or not_applicable. `count`, `at_ns`: violations, the first one's true time.

`witness`: JSON. Violated: what happened, with event numbers and intervals.
Otherwise the reason, or null for a plain "held".
"""

UNRECORDED: Final = "a write replaced a state that no recorded write had made: an unrecorded writer was at work"
"""Why a clause is inconclusive where the record has a hole."""

UNSETTLED: Final = (
    "a write does not fit what it replaced; an unanswered or unconditional write that was under way, or a state that "
    "came again, may be why"
)
"""Why a clause is inconclusive where the order of the writes cannot be known."""

HOLED: Final = "the record has a hole: an unrecorded writer was at work, or the order of the writes cannot be known"
"""Why a clause is inconclusive about a wait or a loss within which there is a hole, of either cause."""

_VERDICTS: Final = (HELD, NOT_APPLICABLE, INCONCLUSIVE, VIOLATED)
_EXCUSED, _UNDECIDED, _BROKEN = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Violations:
    """The violations of one clause: the run (position) and the instant of each, and a function that describes it."""

    clause: str
    run: Ints
    at_ns: Ints
    witness: Callable[[int], dict[str, Any]]

    def __post_init__(self) -> None:
        assert len(self.run) == len(self.at_ns), "each violation has a run and an instant"


def no_violations(clause: str) -> Violations:
    """The violations of a clause that nothing can have broken."""
    none = np.zeros(0, dtype=np.int64)
    return Violations(clause=clause, run=none, at_ns=none, witness=_no_witness)


def _no_witness(index: int) -> dict[str, Any]:
    raise AssertionError(f"violation {index} of none was asked for its witness")


@dataclass(slots=True)
class Ruling:
    """One clause over all runs: its violations, and where and why it says nothing.

    excused: pairs of (runs, reason) for which the clause does not apply;
    undecided: where it could not be decided. A violation that was seen outranks
    both.
    """

    violations: Violations
    excused: list[tuple[Flags, str]] = field(default_factory=list)
    undecided: list[tuple[Flags, str]] = field(default_factory=list)


def with_witnesses(rulings: Sequence[Ruling], told: Callable[[Violations], Violations]) -> list[Ruling]:
    """The rulings, with the violations that `told` makes of theirs. Nobody asks for a witness where nothing broke."""
    return [
        replace(ruling, violations=told(ruling.violations)) if len(ruling.violations.run) else ruling
        for ruling in rulings
    ]


def _canonical(witness: dict[str, Any]) -> str:
    return json.dumps(witness, separators=(",", ":"), sort_keys=True)


@lru_cache(maxsize=256)
def _reason(words: str) -> str:
    """The witness of a verdict for which there is a reason alone. Most runs are told one of a few reasons."""
    return _canonical({"reason": words})


def with_damaged(verdicts: pa.Table, damaged: Mapping[int, str]) -> pa.Table:
    """These verdicts, and every clause inconclusive for runs whose record is damaged; ordered by run.

    damaged: run number to what is wrong with its record.
    """
    if not damaged:
        return verdicts
    assert damaged.keys().isdisjoint(verdicts["run"].to_pylist()), "a damaged run is judged by nobody"
    rows = [
        {
            "run": run,
            "clause": clause,
            "verdict": INCONCLUSIVE,
            "count": 0,
            "witness": _canonical({"reason": f"the record is damaged: {why}"}),
        }
        for run, why in sorted(damaged.items())
        for clause in CLAUSES
    ]
    joined = pa.concat_tables([verdicts, pa.Table.from_pylist(rows, VERDICT_SCHEMA)])
    return joined.take(pa.array(np.argsort(joined["run"].to_numpy(), kind="stable")))


def with_doubt(verdicts: pa.Table, generous: pa.Table, reason: str) -> pa.Table:
    """These verdicts. Where a run was judged once more, a violation stays one only if it was found again.

    generous: the verdicts of those runs under the most generous assumptions. reason: why the rest is inconclusive.
    """
    again = {(row["run"], row["clause"]): row for row in generous.to_pylist()}
    doubt = {"verdict": INCONCLUSIVE, "count": 0, "at_ns": None, "witness": _canonical({"reason": reason})}

    def revised(row: dict[str, Any]) -> dict[str, Any]:
        found = again.get((row["run"], row["clause"]))
        if row["verdict"] != VIOLATED or found is None:
            return row
        return found if found["verdict"] == VIOLATED else {**row, **doubt}

    joined = pa.Table.from_pylist([revised(row) for row in verdicts.to_pylist()], VERDICT_SCHEMA)
    assert joined["clause"].equals(verdicts["clause"]), "doubt adds no verdict and takes none away"
    return joined


def verdict_table(run_numbers: Ints, rulings: Sequence[Ruling]) -> pa.Table:
    """Verdicts of `VERDICT_SCHEMA`, ordered by run, then in the order of the rulings."""
    runs, clauses = len(run_numbers), len(rulings)
    verdict = np.zeros((runs, clauses), dtype=np.int32)
    count = np.zeros((runs, clauses), dtype=np.int64)
    at_ns = np.full((runs, clauses), ABSENT, dtype=np.int64)
    witness = np.zeros((runs, clauses), dtype=np.int32)
    texts: list[str] = [""]
    for place, ruling in enumerate(rulings):
        for code, reasons in ((_EXCUSED, ruling.excused), (_UNDECIDED, ruling.undecided)):
            for where, reason in reasons:
                if where.any():
                    verdict[where, place] = code
                    witness[where, place] = len(texts)
                    texts.append(_reason(reason))
        found = ruling.violations
        if len(found.run) == 0:
            continue
        count[:, place] = np.bincount(found.run, minlength=runs)
        order = np.lexsort((found.at_ns, found.run))
        firsts = order[np.concatenate(([True], np.diff(found.run[order]) != 0))]
        for position in firsts.tolist():
            run = int(found.run[position])
            verdict[run, place] = _BROKEN
            at_ns[run, place] = found.at_ns[position]
            witness[run, place] = len(texts)
            texts.append(_canonical(found.witness(position)))
    assert int(count.sum()) == sum(len(ruling.violations.run) for ruling in rulings), "a violation without a run"
    assert bool(np.array_equal(verdict == _BROKEN, count > 0)), "a clause is violated where it has a violation"
    column = np.tile(np.arange(clauses, dtype=np.int32), runs)
    names = pa.array([ruling.violations.clause for ruling in rulings], pa.string())
    times, told = at_ns.reshape(-1), witness.reshape(-1)
    return pa.table(
        [
            pa.array(np.repeat(run_numbers, clauses)),
            names.take(pa.array(column)),
            pa.array(_VERDICTS, pa.string()).take(pa.array(verdict.reshape(-1))),
            pa.array(count.reshape(-1)),
            pa.array(times, mask=times == ABSENT),
            pa.array(texts, pa.string()).take(pa.array(told, mask=told == 0)),
        ],
        schema=VERDICT_SCHEMA,
    )
