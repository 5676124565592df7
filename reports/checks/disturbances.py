"""The disturbances of each run: FAULT and CLOCK rows, read once.

The detail of such a row is JSON for people; runs repeat a few texts many
times, so each distinct text is read once, however many rows carry it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from lockref.strict_json import NotJson, read_object
from lockref.words import ABSENT, Kind
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Codes, Events, Flags, Ints, Runs
from reports.checks.situation_names import STRUCK

CLOCK_KINDS = frozenset({"drift", "offset", "step", "freeze", "slew", "suspend"})
PAUSE_KINDS = frozenset({"pause", "suspend"})
REQUEST_KINDS = frozenset(
    {
        "delay",
        "drip",
        "duplicate",
        "error",
        "ghost_write",
        "hidden_retry",
        "ignore_conditions",
        "lose_reply",
        "lose_request",
        "reorder_replies",
        "stale_read",
        "throttle",
    }
)
"""Faults that strike a request. What they did to its sender is told by the answer, or by its absence."""

FAULT_SITUATIONS: Final[dict[str, frozenset[str] | None]] = {
    "partition": frozenset({"partition"}),
    "clock_fault": CLOCK_KINDS,
    "crash": frozenset({"crash"}),
    STRUCK: None,
}
"""Situations that only faults bring about: of which kinds; None for any."""


@dataclass(frozen=True, kw_only=True)
class Disturbances:
    """One entry per FAULT or CLOCK row.

    kind, phase and fault are codes into `kinds`, `phases` and `faults`; -1 for none.
    """

    row: Ints
    run: Ints
    at_ns: Ints
    node: Codes
    kind: Ints
    phase: Ints
    fault: Ints
    kinds: list[str]
    phases: list[str]
    faults: list[str]

    def are(self, kinds: frozenset[str], *phases: str) -> Flags:
        """True for rows of these kinds (and phases, where given)."""
        found = _are_named(self.kind, self.kinds, kinds)
        return found & _are_named(self.phase, self.phases, phases) if phases else found

    def strikes_that_mattered(self, runs: Runs) -> Flags:
        """True for each strike that changed something: the rows by which a fault begins or fires.

        A run says how often each of its faults changed something (`fault_effects`), not at which strike: as many of the
        first ones count. A fault of which it does not say is taken to have changed something each time.
        """
        struck = self.are(frozenset(self.kinds), "begin", "fired")
        effects = runs.maps("fault_effects")
        if not any(effects):
            return struck
        rows = np.flatnonzero(struck)
        key = self.run[rows] * (len(self.faults) + 1) + self.fault[rows] + 1
        distinct, first, inverse, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        allowed = count.copy()
        for position, row in enumerate(rows[first].tolist()):
            known = effects[int(self.run[row])]
            name = self.faults[int(self.fault[row])] if self.fault[row] >= 0 else None
            if name in known:
                allowed[position] = known[name]
        order = np.argsort(key, kind="stable")
        place = np.empty(len(rows), dtype=np.int64)
        place[order] = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        assert len(distinct) == len(allowed), "each fault of each run is asked once"
        mattered = np.zeros(len(struck), dtype=np.bool_)
        mattered[rows] = place < allowed[inverse.reshape(-1)]
        return mattered

    # The disturbances of one process. A query costs as much as these are many, however many runs are judged at once.

    @cached_property
    def _by_node(self) -> tuple[Ints, Ints, int]:
        """Rows in the order of their process, the process of each, and how many nodes there are."""
        nodes = int(self.node.max()) + 2 if len(self.node) else 1
        key = self.run * nodes + self.node
        order = np.argsort(key, kind="stable")
        return order, key[order], nodes

    @cached_property
    def _are_crashes(self) -> Flags:
        return self.are(frozenset({"crash"}), "begin")

    @cached_property
    def _are_pauses(self) -> tuple[Flags, Flags]:
        return self.are(PAUSE_KINDS, "begin"), self.are(PAUSE_KINDS, "end")

    def on(self, run: int, node: int) -> Ints:
        """Positions of what befell this node of this run, in order."""
        order, key, nodes = self._by_node
        if node + 1 >= nodes:
            return np.zeros(0, dtype=np.int64)
        wanted = run * nodes + node
        return order[np.searchsorted(key, wanted) : np.searchsorted(key, wanted, side="right")]

    @cached_property
    def _strike_requests(self) -> Flags:
        return self.are(REQUEST_KINDS)

    def befell_process(self, run: int, node: int, after_row: int, before_row: int) -> bool:
        """True if something befell this node itself, and not a request of it alone, between two rows."""
        here = self.on(run, node)
        rows = self.row[here[~self._strike_requests[here]]]
        return bool(np.searchsorted(rows, after_row, side="right") < np.searchsorted(rows, before_row))

    @cached_property
    def _crashes(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """By run and node: row and instant of every crash, in order. A node may crash as often as it is asked about."""
        found: dict[tuple[int, int], list[tuple[int, int]]] = {}
        which = np.flatnonzero(self._are_crashes)
        columns = (self.run, self.node, self.row, self.at_ns)
        for run, node, row, at_ns in zip(*(column[which].tolist() for column in columns), strict=True):
            found.setdefault((run, node), []).append((row, at_ns))
        return found

    def crashed_ns(self, run: int, node: int, *, after_row: int) -> int:
        """When this node crashed for the first time after a row; FOREVER if it did not."""
        crashes = self._crashes.get((run, node), [])
        place = bisect_left(crashes, (after_row + 1,))
        return crashes[place][1] if place < len(crashes) else FOREVER

    def last_crash_row(self, run: int, node: int, *, before_row: int) -> int:
        """The row of this node's last crash before a row; -1 if there was none."""
        crashes = self._crashes.get((run, node), [])
        place = bisect_left(crashes, (before_row,))
        return crashes[place - 1][0] if place else -1

    def paused_ns(self, run: int, node: int, since_ns: int, until_ns: int) -> int:
        """For how long this node was paused between two instants; overlapping pauses count each."""
        here = self.on(run, node)
        begins, _ = self._are_pauses
        return sum(
            max(0, min(self._pause_end_ns(here, begin), until_ns) - max(int(self.at_ns[begin]), since_ns))
            for begin in here[begins[here]].tolist()
        )

    def pauses_at(self, run: int, node: int, at_ns: int, *, after_row: int) -> bool:
        """True if a pause of this node began at this instant, after a row."""
        here = self.on(run, node)
        begins, _ = self._are_pauses
        return bool(np.any((self.row[here] > after_row) & begins[here] & (self.at_ns[here] == at_ns)))

    @cached_property
    def pauses(self) -> dict[int, list[tuple[int, int, int]]]:
        """By run: node, begin and end of every pause; FOREVER where it does not end."""
        begins, _ = self._are_pauses
        found: dict[int, list[tuple[int, int, int]]] = {}
        for begin in np.flatnonzero(begins).tolist():
            run, node = int(self.run[begin]), int(self.node[begin])
            pause = (node, int(self.at_ns[begin]), self._pause_end_ns(self.on(run, node), begin))
            found.setdefault(run, []).append(pause)
        return found

    def strikes(self) -> list[tuple[int, int, int]]:
        """Run, begin and end of whatever kept requests from their answers: faults on requests, and cuts of the network.

        A fault on a request is an instant; a cut without an end lasts to the end of the run.
        """
        others = ~self.are(PAUSE_KINDS | CLOCK_KINDS | frozenset({"crash"}))
        fired = others & self.are(frozenset(self.kinds), "fired")
        found = [(int(self.run[each]), int(self.at_ns[each]), int(self.at_ns[each])) for each in np.flatnonzero(fired)]
        ends = others & self.are(frozenset(self.kinds), "end")
        for begin in np.flatnonzero(others & self.are(frozenset(self.kinds), "begin")).tolist():
            later = np.flatnonzero(ends & (self.run == self.run[begin]) & (self.fault == self.fault[begin]))
            later = later[later > begin]
            end_ns = int(self.at_ns[later[0]]) if len(later) else FOREVER
            found.append((int(self.run[begin]), int(self.at_ns[begin]), end_ns))
        return found

    def _pause_end_ns(self, here: Ints, begin: int) -> int:
        """here: what befell the node. begin: which of it is the begin of the pause."""
        _, ends = self._are_pauses
        over = here[ends[here] & (here > begin) & (self.fault[here] == self.fault[begin])]
        return int(self.at_ns[over[0]]) if len(over) else FOREVER

    def is_paused_for_good(self, run: int, node: int) -> bool:
        """True if this node was paused more often than it went on."""
        here = self.on(run, node)
        begins, ends = self._are_pauses
        return int(np.count_nonzero(begins[here])) > int(np.count_nonzero(ends[here]))


def _are_named(codes: Ints, names: list[str], wanted: Collection[str]) -> Flags:
    """Per code into `names`, -1 for none: its name is wanted."""
    # The last entry is that of the code -1.
    found: Flags = np.array([*(name in wanted for name in names), False], dtype=np.bool_)[codes]
    return found


def without_crashes_ns(faults_end_ns: Ints, disturbances: Disturbances, is_client: Flags) -> Ints:
    """Per run, when its faults ended, where the crash of a client is none.

    is_client: per disturbance, it befell a client. The end of the faults stays where something else than such a crash,
    or the start of the process after it, came last.
    """
    found = faults_end_ns.copy()
    crashes = disturbances.are(frozenset({"crash"})) & is_client
    last = {}
    for name, which in (("crash", crashes), ("other", ~crashes)):
        last[name] = np.full(len(found), ABSENT, dtype=np.int64)
        np.maximum.at(last[name], disturbances.run[which], disturbances.at_ns[which])
    by_crash = (found != ABSENT) & (last["crash"] == found) & (last["other"] < found)
    begin = np.minimum(found, 0)
    found[by_crash] = np.maximum(last["other"], begin)[by_crash]
    return found


def find_disturbances(events: Events) -> Disturbances:
    """Read every distinct detail once. A detail that is no JSON object names no kind."""
    rows = events.rows(Kind.FAULT, Kind.CLOCK)
    assert bool(np.all(np.diff(rows) > 0)), "`Disturbances.befell_process` searches rows in order"
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
        faults=list(faults),
    )


def _read(text: str) -> dict[str, object]:
    try:
        return read_object(text) if text else {}
    except NotJson:
        return {}
