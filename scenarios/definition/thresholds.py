"""Limits on what was measured: `handoff.p99 < 12s`.

Quantiles are samples that occurred (nearest rank), never interpolated: a limit
that is kept was kept by a run. A limit without a sample is inconclusive, not
kept. Timing is judged on its own, after safety: a failed threshold is exit 4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.checks import measure
from scenarios.definition.units import NS_PER_UNIT, duration_ns

HANDOFFS = {"handoff": "release", "handoff_after_expiry": "expiry", "handoff_after_death": "death"}
"""Which hand-offs a measure means (`reports.checks.measures.handoff`)."""
MEASURES = ("wait", "hold", *HANDOFFS)
STATISTICS = ("p50", "p90", "p95", "p99", "max", "mean")
_FORM = re.compile(rf"({'|'.join(MEASURES)})\.({'|'.join(STATISTICS)})\s*(<=|<)\s*(\S+)")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit. wait: of granted lock calls. hold: from grant to unlock. handoff: from a release until one who
    waited then is granted the lock; handoff_after_expiry: from the end of a validity; handoff_after_death: from
    the holder's crash.
    """

    text: str
    measure: str
    statistic: str
    is_strict: bool
    limit_ns: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a limit: `held`, `violated`, or `inconclusive` for want of samples."""

    threshold: Threshold
    verdict: str
    samples: int
    measured_ns: int | None

    def __str__(self) -> str:
        if self.measured_ns is None:
            return f"{self.threshold.text}: no samples"
        return f"{self.threshold.text}: {self.measured_ns / NS_PER_UNIT['s']:.3f} s over {self.samples} samples"


def parse_threshold(text: str) -> Threshold:
    """Raises ValueError that names the accepted form."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"is {text!r}; expected such as 'handoff.p99 < 12s' ({', '.join(MEASURES)}; {', '.join(STATISTICS)})"
        )
    return Threshold(text.strip(), match[1], match[2], match[3] == "<", duration_ns(match[4]))


def check_thresholds(texts: Sequence[str], *, calls: pa.Table, handoffs: pa.Table) -> list[Kept]:
    """Compare with `reports.checks.judge.Measures`, over all runs of the batch."""
    results = []
    for threshold in map(parse_threshold, texts):
        samples = _samples(threshold.measure, calls, handoffs)
        if not len(samples):
            results.append(Kept(threshold, "inconclusive", 0, None))
            continue
        measured_ns = _statistic(threshold.statistic, samples)
        is_kept = measured_ns < threshold.limit_ns or (measured_ns == threshold.limit_ns and not threshold.is_strict)
        results.append(Kept(threshold, "held" if is_kept else "violated", len(samples), measured_ns))
    return results


def judged_thresholds(texts: Sequence[str], events: pa.Table, runs: pa.Table) -> list[tuple[str, str]]:
    """The verdict on each limit, and its text with the figure that was measured, over the runs of a history."""
    if not texts:
        return []
    measured = measure(events, runs)
    return [
        (kept.verdict, str(kept)) for kept in check_thresholds(texts, calls=measured.calls, handoffs=measured.handoffs)
    ]


def _samples(measure: str, calls: pa.Table, handoffs: pa.Table) -> np.ndarray:
    if measure in ("wait", "hold"):
        granted = pc.and_(pc.equal(calls["op"], "acquire"), pc.equal(calls["outcome"], "applied"))
        column = calls.filter(granted)[f"{measure}_ns"]
    else:
        column = handoffs.filter(pc.equal(handoffs["after"], HANDOFFS[measure]))["handoff_ns"]
    found: np.ndarray = column.drop_null().to_numpy()
    return found


def _statistic(name: str, samples: np.ndarray) -> int:
    if name == "mean":
        return round(float(samples.mean()))
    share = 1.0 if name == "max" else int(name[1:]) / 100
    return int(np.quantile(samples, share, method="inverted_cdf"))
