"""Thresholds, judged: exact quantiles of the samples of all runs that demand a limit.

Quantiles are samples that occurred (nearest rank), never interpolated: a limit that is kept was kept by a run. A limit
without a sample is inconclusive, not kept. They are judged on their own, after safety: a broken threshold is exit
code 4.

In a real run a limit on a time is broken only if it is broken without the time that the lateness of the machine may
have added to each sample; else it is inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.checks.thresholds.limits import Threshold, parse_threshold

SAMPLES_SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.int64(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("value", pa.int64(), nullable=False),
        pa.field("late_ns", pa.int64(), nullable=False),
        pa.field("client", pa.string()),
        pa.field("lock", pa.string()),
        pa.field("at_ns", pa.int64()),
    ]
)
"""One row per sample of a measure that the run's thresholds name. value: nanoseconds, a number, or bytes.

late_ns: how much of it the lateness of the machine may be. at_ns: when the sample was complete, from the run's begin.
"""


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest sample: in which run, of which client and lock, and when, from the run's begin. None: not known."""

    value: int
    run: int
    client: str | None
    lock: str | None
    at_ns: int | None

    def told(self, threshold: Threshold) -> str:
        """`15.000 s: n3 at 42.000 s, table/lock, run 17`."""
        at = "" if self.at_ns is None else f" at {self.at_ns / 1e9:.3f} s"
        where = ", ".join(filter(None, (f"{self.client or 'nobody'}{at}", self.lock, f"run {self.run}")))
        return f"{threshold.figure(self.value)}: {where}"


@dataclass(slots=True)
class Samples:
    """The samples of one measure over some runs. late_ns: see `SAMPLES_SCHEMA`."""

    values: list[np.ndarray] = field(default_factory=list)
    late_ns: list[np.ndarray] = field(default_factory=list)
    worst: Worst | None = None

    def add(self, table: pa.Table) -> None:
        """Add rows of `SAMPLES_SCHEMA`, all of this measure."""
        if not len(table):
            return
        values = table["value"].to_numpy()
        self.values.append(values)
        self.late_ns.append(table["late_ns"].to_numpy())
        row = table.slice(int(values.argmax()), 1).to_pylist()[0]
        self._note(Worst(row["value"], row["run"], row["client"], row["lock"], row["at_ns"]))

    def join(self, other: Samples) -> None:
        """Add the samples of other runs."""
        self.values += other.values
        self.late_ns += other.late_ns
        if other.worst is not None:
            self._note(other.worst)

    def _note(self, found: Worst) -> None:
        """Keep the larger one; of equal ones that of the lower run, in whatever order runs are counted."""
        known = self.worst
        if known is None or (found.value, -found.run) > (known.value, -known.run):
            self.worst = found


@dataclass(frozen=True, slots=True)
class LimitOutcome:
    """The outcome of a limit: `held`, `violated`, or `inconclusive` for want of samples, or since the machine was late.

    late_ns: how much of the figure the lateness of the machine may be, where it decides; else 0.
    """

    threshold: Threshold
    verdict: str
    samples: int
    measured: float | None
    late_ns: float = 0
    worst: Worst | None = None

    def __str__(self) -> str:
        if self.measured is None:
            return f"{self.threshold.text}: no samples"
        figure = self.threshold.figure
        late = f", of which a late machine may be {figure(self.late_ns)}" if self.late_ns else ""
        samples = f"{self.samples:,} sample{'' if self.samples == 1 else 's'}"
        told = f"{self.threshold.text}: {figure(self.measured)} over {samples}{late}"
        return (
            told if self.verdict == "held" or self.worst is None else f"{told}; worst {self.worst.told(self.threshold)}"
        )


def sorted_samples(texts: Iterable[str], samples: pa.Table) -> dict[str, Samples]:
    """By the text of each limit, the samples that it is about. samples: of `SAMPLES_SCHEMA`."""
    found = {}
    for text in texts:
        own = found[text] = Samples()
        own.add(samples.filter(pc.equal(samples["measure"], parse_threshold(text).measure)))
    return found


def judged_threshold(text: str, samples: Samples) -> LimitOutcome:
    """The verdict on a limit, by its text, over the samples of all runs that demand it."""
    threshold = parse_threshold(text)
    if not samples.values:
        return LimitOutcome(threshold, "inconclusive", 0, None)
    values = np.concatenate(samples.values)
    measured = _statistic(threshold.statistic, values)
    if threshold.allows(measured):
        return LimitOutcome(threshold, "held", len(values), measured, worst=samples.worst)
    in_time = _statistic(threshold.statistic, values - np.concatenate(samples.late_ns))
    if threshold.allows(in_time):
        return LimitOutcome(threshold, "inconclusive", len(values), measured, measured - in_time, worst=samples.worst)
    return LimitOutcome(threshold, "violated", len(values), measured, worst=samples.worst)


def _statistic(name: str, samples: Any) -> float:
    if name == "mean":
        return float(samples.mean())
    share = 1.0 if name == "max" else int(name[1:]) / 100
    return int(np.quantile(samples, share, method="inverted_cdf"))
