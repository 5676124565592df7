"""What disturbed each run: FAULT and CLOCK rows, read once.

The detail of such a row is JSON for people; runs repeat a few texts many
times, so each distinct text is read once, however many rows carry it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from lockref.history import Kind
from reports.checks.columns import Codes, Events, Flags, Ints

CLOCK_KINDS = frozenset({"drift", "offset", "step", "freeze", "suspend"})
PAUSE_KINDS = frozenset({"pause", "suspend"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbances:
    """One entry per FAULT or CLOCK row. kind and phase are codes into `kinds` and `phases`; -1 for none."""

    row: Ints
    run: Ints
    at_ns: Ints
    node: Codes
    kind: Ints
    phase: Ints
    fault: Ints
    kinds: list[str]
    phases: list[str]

    def are(self, kinds: frozenset[str], *phases: str) -> Flags:
        """True for rows of these kinds (and phases, where given)."""
        wanted = [code for code, name in enumerate(self.kinds) if name in kinds]
        found = np.isin(self.kind, wanted)
        if phases:
            found &= np.isin(self.phase, [code for code, name in enumerate(self.phases) if name in phases])
        return found


def find_disturbances(events: Events) -> Disturbances:
    """Read every distinct detail once. A detail that is no JSON object names no kind."""
    rows = events.rows(Kind.FAULT, Kind.CLOCK)
    detail = events.codes("detail")[rows]
    kinds: dict[str, int] = {}
    phases: dict[str, int] = {}
    faults: dict[str, int] = {}
    distinct, inverse = np.unique(detail, return_inverse=True)
    described = np.full((len(distinct), 3), -1, dtype=np.int64)
    for position, code in enumerate(distinct.tolist()):
        said = _read(events.text("detail", code))
        for column, (key, names) in enumerate((("kind", kinds), ("phase", phases), ("id", faults))):
            if key in said:
                described[position, column] = names.setdefault(str(said[key]), len(names))
    kind, phase, fault = described[inverse.reshape(-1)].T
    return Disturbances(
        row=rows,
        run=events.run[rows],
        at_ns=events.integers("at_ns")[rows],
        node=events.codes("node")[rows],
        kind=kind,
        phase=phase,
        fault=fault,
        kinds=list(kinds),
        phases=list(phases),
    )


def _read(text: str) -> dict[str, object]:
    try:
        said = json.loads(text) if text else {}
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
