"""Were the limits on what was measured kept? `thresholds` has their form.

Quantiles are samples that occurred (nearest rank), never interpolated: a limit
that is kept was kept by a run. A limit without a sample is inconclusive, not
kept. Timing is judged on its own, after safety: a failed threshold is exit 4.

In a real run a limit is broken only if it is broken without the time that the
lateness of the machine may have added to each sample; else it is inconclusive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.checks import measure
from scenarios.definition.thresholds import HANDOFFS, Threshold, parse_threshold
from scenarios.definition.units import NS_PER_UNIT


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a limit: `held`, `violated`, or `inconclusive` for want of samples, or since the machine was late.

    late_ns: how much of the figure the lateness of the machine may be, where it decides; else 0.
    """

    threshold: Threshold
    verdict: str
    samples: int
    measured_ns: int | None
    late_ns: int = 0

    def __str__(self) -> str:
        if self.measured_ns is None:
            return f"{self.threshold.text}: no samples"
        late = f", of which a late machine may be {self.late_ns / NS_PER_UNIT['s']:.3f} s" if self.late_ns else ""
        return f"{self.threshold.text}: {self.measured_ns / NS_PER_UNIT['s']:.3f} s over {self.samples} samples{late}"


def check_thresholds(texts: Sequence[str], *, calls: pa.Table, handoffs: pa.Table) -> list[Kept]:
    """Compare with `reports.checks.judgement.Measures`, over all runs of the batch."""
    results = []
    for threshold in map(parse_threshold, texts):
        samples, late = _samples(threshold.measure, calls, handoffs)
        if not len(samples):
            results.append(Kept(threshold, "inconclusive", 0, None))
            continue
        measured_ns = _statistic(threshold.statistic, samples)
        if threshold.allows(measured_ns):
            results.append(Kept(threshold, "held", len(samples), measured_ns))
            continue
        in_time_ns = _statistic(threshold.statistic, samples - late)
        if threshold.allows(in_time_ns):
            results.append(Kept(threshold, "inconclusive", len(samples), measured_ns, measured_ns - in_time_ns))
        else:
            results.append(Kept(threshold, "violated", len(samples), measured_ns))
    return results


def judged_thresholds(texts: Sequence[str], events: pa.Table, runs: pa.Table) -> list[tuple[str, str]]:
    """The verdict on each limit, and its text with the figure that was measured, over the runs of a history."""
    if not texts:
        return []
    measured = measure(events, runs)
    return [
        (kept.verdict, str(kept)) for kept in check_thresholds(texts, calls=measured.calls, handoffs=measured.handoffs)
    ]


def _samples(measure: str, calls: pa.Table, handoffs: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The samples of a measure, and how much of each the lateness of the machine may be."""
    if measure in ("wait", "hold"):
        granted = pc.and_(pc.equal(calls["op"], "acquire"), pc.equal(calls["outcome"], "applied"))
        found = calls.filter(pc.and_(granted, pc.is_valid(calls[f"{measure}_ns"])))
        return found[f"{measure}_ns"].to_numpy(), found[f"{measure}_late_ns"].to_numpy()
    found = handoffs.filter(pc.equal(handoffs["after"], HANDOFFS[measure]))
    return found["handoff_ns"].to_numpy(), found["late_ns"].to_numpy()


def _statistic(name: str, samples: np.ndarray) -> int:
    if name == "mean":
        return round(float(samples.mean()))
    share = 1.0 if name == "max" else int(name[1:]) / 100
    return int(np.quantile(samples, share, method="inverted_cdf"))
