"""All resources of a soak, each with its slope, its interval and its verdict, and the verdict of the soak.

What the processes of the lock hold decides: descriptors, sockets, threads, child processes, memory. The same of the
server and of the harness is told beside it, and decides nothing: it is not the lock's. Neither do latency, processor
time and network traffic, which say how fast a lock is: they drift with the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from lockref.durations import plain_duration
from lockref.samples import HARNESS, LOCK, SERVER, Sample
from lockref.words import counted
from reports.checks.verdicts import whole_verdict
from reports.soak.growth import BLOCKS, Growth, Verdict, counted_least, growth_of, memory_least
from reports.soak.series import (
    WARM_UP_SHARE,
    Series,
    Stretch,
    median_wait_ns,
    parted_series,
    stock_series,
    taken_per_cycle,
)
from reports.soak.slopes import Slope, theil_sen

PER: Final = 1000
"""Slopes are told for so many cycles, and for an hour."""

RISES_SHARE: Final = 0.5
"""A time or a traffic rises where its slope, over the whole soak, is half of its level at least."""

ResourceVerdict = Literal["flat", "leaks", "inconclusive", "rises"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource that a process holds. unit: of `amount`, divided by `scale`.

    per_client: a pool holds so many for each client, and may fill late.
    """

    name: str
    title: str
    unit: str
    amount: Callable[[Sample], float]
    scale: float = 1.0
    is_counted: bool = True
    per_client: int = 1


MIB: Final = float(1 << 20)
STOCKS: Final = (
    Resource(name="fds", title="open file descriptors", unit="descriptors", amount=lambda each: each.fds),
    Resource(name="sockets", title="sockets", unit="sockets", amount=lambda each: each.sockets),
    # A grant has a watchdog and a renewal, and an idle thread is kept for the next one.
    Resource(name="threads", title="threads", unit="threads", amount=lambda each: each.threads, per_client=2),
    Resource(name="children", title="child processes", unit="processes", amount=lambda each: each.children),
    Resource(
        name="memory", title="resident memory of its own", unit="MiB", amount=lambda each: each.memory_bytes, scale=MIB,
        is_counted=False,
    ),
)  # fmt: skip
"""What processes hold, and a leak keeps."""

FLOWS: Final = (
    ("cpu", "processor time of a cycle", "ms", LOCK, lambda each: each.cpu_ns, 1e6),
    ("network", "traffic of the whole machine in a cycle", "KiB", HARNESS, lambda each: each.network_bytes, 1024.0),
)
"""What a cycle takes: name, title, unit, whose samples tell it, amount, scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One resource of one role. slope: in `unit` for each cycle; per_hour: at the rate of the soak. at_most: no leak
    above that, per cycle, can have gone unseen; None where nothing is bounded. decides: it counts for the verdict.

    needs_s: seconds of a soak that would tell; None where this one did.
    """

    role: str
    name: str
    title: str
    unit: str
    verdict: ResourceVerdict
    decides: bool
    reason: str
    level: float
    growth: float
    slope: Slope | None
    per_hour: Slope | None
    at_most: float | None
    needs_s: float | None
    series: Series

    @property
    def lines(self) -> tuple[list[float], ...]:
        """The line of the slope through the middle of the values, and both of its bounds; none without a slope."""
        if self.slope is None:
            return ()
        away = self.series.cycles - np.median(self.series.cycles)
        drawn = [
            np.median(self.series.values) + each * away for each in (self.slope.value, self.slope.low, self.slope.high)
        ]
        return drawn[0].tolist(), np.minimum(drawn[1], drawn[2]).tolist(), np.maximum(drawn[1], drawn[2]).tolist()

    def told(self) -> dict[str, Any]:
        """The finding as plain data for JSON, slopes for 1,000 cycles and for an hour."""
        return {
            "role": self.role,
            "resource": self.name,
            "unit": self.unit,
            "verdict": self.verdict,
            "decides": self.decides,
            "reason": self.reason,
            "level": _rounded(self.level),
            "growth": _rounded(self.growth),
            "slope_per_1000_cycles": _interval(self.slope and self.slope.times(PER)),
            "slope_per_hour": _interval(self.per_hour),
            "at_most_per_1000_cycles": None if self.at_most is None else _rounded(self.at_most * PER),
            "needs_s": None if self.needs_s is None else round(self.needs_s),
            "samples": len(self.series.values),
        }

    @property
    def line(self) -> str:
        """The finding in one line, for people."""
        if self.slope is None or self.per_hour is None:
            return f"{self.title}: {self.verdict}: {self.reason}{self._needs}"
        slope = self.slope.times(PER)
        bound = ""
        if self.verdict != "leaks" and self.at_most is not None:
            bound = f"; at most {_short(self.at_most * PER)} per {PER:,} cycles"
        why = "" if self.verdict == "flat" else f": {self.reason}"
        # What a short soak is from flat, in an hour, is a large number that says nothing.
        hourly = "" if self.verdict == "flat" else f", {signed(self.per_hour.value)} {self.unit} an hour"
        return (
            f"{self.title}: {self.verdict}, {_short(self.level)} {self.unit}, "
            f"growth {signed(self.growth)} {self.unit}; "
            f"{signed(slope.value)} [{signed(slope.low)} to {signed(slope.high)}] {self.unit} per {PER:,} cycles"
            f"{hourly}{bound}{why}{self._needs}"
        )

    @property
    def _needs(self) -> str:
        return "" if self.needs_s is None else f" (about {plain_duration(round(self.needs_s) * 1_000_000_000)} in all)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakVerdict:
    """The verdict of a soak, with all findings. lasted_s: from the first cycle to the last, of all stretches together.

    cycles: granted acquires.
    """

    verdict: Verdict
    findings: Sequence[Finding]
    cycles: int
    lasted_s: float
    stretches: int

    @property
    def statement(self) -> str:
        """The verdict in one sentence."""
        deciding = [each for each in self.findings if each.decides]
        named = [each.title for each in deciding if each.verdict == self.verdict]
        over = f"over {counted(self.cycles, 'cycle')} in {plain_duration(round(self.lasted_s) * 1_000_000_000)}"
        if self.verdict == "leaks":
            return f"the lock leaks {', '.join(named)} {over}"
        if self.verdict == "inconclusive":
            return f"it is not known whether the lock leaks {', '.join(named) or 'anything'} {over}"
        return f"the lock leaks nothing that would show {over}"

    def whole(self, *, safety: str, liveness: str, fairness: str) -> str:
        """The verdict of the whole soak in a word: the clauses', or what the lock leaks."""
        clauses = whole_verdict(safety=safety, liveness=liveness, fairness=fairness)
        if self.verdict == "leaks" and clauses != "violated":
            return self.verdict
        if clauses in ("violated", "not_live"):
            return clauses
        return "inconclusive" if "inconclusive" in (clauses, self.verdict) else "held"

    def told(self) -> dict[str, Any]:
        """The account as plain data for JSON."""
        return {
            "soak": {
                "verdict": self.verdict,
                "statement": self.statement,
                "cycles": self.cycles,
                "lasted_s": round(self.lasted_s, 1),
                "cycles_per_s": _rounded(self.cycles / max(self.lasted_s, 1e-9)),
                "stretches": self.stretches,
                "warm_up_share": WARM_UP_SHARE,
            },
            "slopes": [each.told() for each in self.findings],
        }


def judge_soak(stretches: Sequence[Stretch], *, clients: int) -> SoakVerdict:
    """Judge all resources of a soak. stretches: in the order in which they were run. clients: that shared the lock."""
    sampled = [each for each in stretches if each.samples]
    lasted_s = sum(each.lasted_ns for each in sampled) / 1e9
    cycles = sum(each.cycles.total for each in stretches)
    rate = cycles / max(lasted_s, 1e-9)
    roles = [
        role for role in (LOCK, SERVER, HARNESS) if any(each.role == role for one in sampled for each in one.samples)
    ]
    findings = [_stock(stretches, role, resource, rate, clients) for role in roles for resource in STOCKS]
    findings += [
        _flow(
            parted_series(stretches, taken_per_cycle(role, amount), parts=BLOCKS), name, title, unit, role, scale, rate
        )
        for name, title, unit, role, amount, scale in FLOWS
    ]
    waits = parted_series(stretches, median_wait_ns, parts=BLOCKS)
    findings.append(_flow(waits, "latency", "median wait for a grant", "ms", LOCK, 1e6, rate))
    verdicts = {each.verdict for each in findings if each.decides}
    joint: Verdict = "leaks" if "leaks" in verdicts else "flat" if verdicts == {"flat"} else "inconclusive"
    return SoakVerdict(verdict=joint, findings=findings, cycles=cycles, lasted_s=lasted_s, stretches=len(sampled))


def _stock(stretches: Sequence[Stretch], role: str, resource: Resource, rate: float, clients: int) -> Finding:
    series = stock_series(stretches, role, resource.amount)
    least = counted_least(clients * resource.per_client) if resource.is_counted else memory_least(series.level)
    growth = growth_of(series.cycles, series.values, least=least, is_counted=resource.is_counted, clients=clients)
    scaled = _scaled(series, resource.scale)
    slope = growth.slope and growth.slope.times(1 / resource.scale)
    return Finding(
        role=role,
        name=resource.name,
        title=resource.title,
        unit=resource.unit,
        verdict=growth.verdict,
        decides=role == LOCK,
        reason=growth.reason,
        level=scaled.level,
        growth=growth.growth / resource.scale,
        slope=slope,
        per_hour=slope.times(3600 * rate) if slope and rate > 0 else None,
        at_most=None if growth.at_most is None else growth.at_most / resource.scale,
        needs_s=_needs_s(growth, rate),
        series=scaled,
    )


def _needs_s(growth: Growth, rate: float) -> float | None:
    """Seconds that a soak must last in all for the cycles that a verdict needs, at this rate, with its warm-up."""
    if growth.verdict != "inconclusive" or not growth.cycles_needed or rate <= 0:
        return None
    return growth.cycles_needed / rate / (1 - WARM_UP_SHARE)


def _flow(series: Series, name: str, title: str, unit: str, role: str, scale: float, rate: float) -> Finding:
    scaled = _scaled(series, 1.0 * scale)
    slope = theil_sen(scaled.cycles, scaled.values) if len(scaled.values) >= BLOCKS // 2 else None
    rise = 0.0 if slope is None else slope.value * float(scaled.cycles[-1] - scaled.cycles[0])
    verdict: ResourceVerdict = "inconclusive"
    reason = f"{len(scaled.values)} parts of the run have a value; {BLOCKS // 2} are needed"
    if slope is not None:
        is_rising = slope.low > 0 and rise >= RISES_SHARE * scaled.level
        verdict = "rises" if is_rising else "flat"
        reason = (
            "it rose by half of its level, or more" if is_rising else "it stands still, or changes with the machine"
        )
    return Finding(
        role=role,
        name=name,
        title=title,
        unit=unit,
        verdict=verdict,
        decides=False,
        reason=reason,
        level=scaled.level,
        growth=rise,
        slope=slope,
        per_hour=slope.times(3600 * rate) if slope and rate > 0 else None,
        at_most=None,
        needs_s=None,
        series=scaled,
    )


def _scaled(series: Series, scale: float) -> Series:
    return Series(cycles=series.cycles, values=series.values / scale, at_s=series.at_s, level=series.level / scale)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def signed(value: float) -> str:
    """A growth or a slope with its sign, to three digits and four places; never in powers of ten."""
    told = f"{round(float(f'{value:.3g}'), 4) + 0.0:+,.4f}".rstrip("0").rstrip(".")
    return "0" if told in ("+0", "-0") else told


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"


def _interval(slope: Slope | None) -> dict[str, float] | None:
    if slope is None:
        return None
    return {"slope": _rounded(slope.value), "low": _rounded(slope.low), "high": _rounded(slope.high)}
