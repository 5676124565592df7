"""The cycles of a history, and how long each waited, counted while its pieces pass: in bins of time, not one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.soak.slopes import Floats

BIN_NS: Final = 250_000_000


@dataclass(slots=True)
class Cycles:
    """A cycle is one granted acquire. at_ns: the end of each bin that has some; waits_ns: its median wait."""

    at_ns: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    waits_ns: list[float] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The cycles of all pieces."""
        return sum(self.counts)

    def add(self, piece: pa.Table) -> None:
        """Count the next events of a run: `SCHEMA`, in the order of `seq`.

        A wait whose call was in an earlier piece is not known; its cycle counts.
        """
        acquires = piece.filter(pc.equal(piece["op"], "acquire")).select(["kind", "outcome", "request", "at_ns"])
        called = acquires.filter(pc.equal(acquires["kind"], "call"))
        is_granted = pc.and_kleene(pc.equal(acquires["kind"], "return"), pc.equal(acquires["outcome"], "applied"))
        granted = acquires.filter(is_granted)
        if not len(granted):
            return
        ends, requests = granted["at_ns"].to_numpy(), granted["request"].to_numpy()
        numbers, begins = called["request"].to_numpy(), called["at_ns"].to_numpy()
        order = np.argsort(numbers, kind="stable")
        place = np.minimum(np.searchsorted(numbers[order], requests), max(0, len(order) - 1))
        waits: Floats = np.full(len(ends), np.nan)
        if len(order):
            is_known = numbers[order][place] == requests
            waits[is_known] = (ends - begins[order][place])[is_known]
        bins = ends // BIN_NS
        for number in np.unique(bins).tolist():
            here = bins == number
            known = waits[here & ~np.isnan(waits)]
            self.at_ns.append((number + 1) * BIN_NS)
            self.counts.append(int(here.sum()))
            self.waits_ns.append(float(np.median(known)) if len(known) else float("nan"))

    @property
    def begin_ns(self) -> int | None:
        """The instant before the first cycle, to a bin; None without a cycle."""
        return min(self.at_ns) - BIN_NS if self.at_ns else None

    @property
    def end_ns(self) -> int | None:
        """The instant after the last cycle, to a bin; None without a cycle."""
        return max(self.at_ns, default=None)

    def until(self, at_ns: Floats) -> Floats:
        """The cycles that were over at each of these instants."""
        if not self.at_ns:
            return np.zeros(len(at_ns))
        order = np.argsort(self.at_ns, kind="stable")
        ends = np.asarray(self.at_ns, dtype=np.float64)[order]
        sums = np.cumsum(np.asarray(self.counts, dtype=np.float64)[order])
        return np.interp(at_ns, np.concatenate(([ends[0] - BIN_NS], ends)), np.concatenate(([0.0], sums)))
