"""The standing of a store at the end of an evaluation: what it carries, how fast it was, what speaks against it.

A store is advised if nothing speaks against it. Every obstacle is a sentence, and stands beside the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lockref.durations import duration
from lockref.stores.probe.fingerprint import Fingerprint
from lockref.words import counted
from reports.comparison.carrying import NO, NOT_REACHED, UNKNOWN
from reports.comparison.comparison import Cell, figures_of
from reports.comparison.store_runs import FEW, FEW_HANDOFFS, HELD, NOT_LIVE, NOTHING, OPEN, STARVED, VIOLATED, Requests
from reports.comparison.subjects import Subject

RATE: Final = "grants per second"
HANDOFF: Final = "hand-off after release, median"
HANDOFF_99: Final = "hand-off after release, 99 %"
BILLS: Final = ("cloud", "emulator", "other", "none")
"""The sender of a bill for the requests: the cloud itself; nobody, for an emulator of it; the owner of another server
of that protocol, whose prices nobody here knows; nobody, for a store of this machine."""

_REQUESTS_OF_HANDOFF: Final = 5
"""More requests than a hand-off of a lock takes: a look, a write, a look after it, and one of each to spare."""

_WORST: Final = (VIOLATED, NOT_LIVE, NOTHING, STARVED, FEW, FEW_HANDOFFS, OPEN, HELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """One store under one number of clients, over all repeats.

    word: of the worst repeat. rate, handoff, handoff_99: with their intervals. served: of the repeat that served
    fewest. requests: for each grant, over all repeats. cost: US dollars for 1,000 cycles at the list price; None
    without one. limits: what was demanded: text, verdict and figure of the worst repeat.
    """

    contenders: int
    runs: int
    word: str
    rate: Cell
    handoff: Cell
    handoff_99: Cell
    served: int
    jain: float | None
    requests: float | None
    cost: float | None
    limits: tuple[tuple[str, str, str], ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One scenario with faults on the wire. kinds: of its faults. word: of the lock. baseline: of `hudi`, or ""."""

    scenario: str
    kinds: tuple[str, ...]
    word: str
    baseline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A store, at the end.

    name: for people. carries: see `Carrying`. why: in one sentence, "" where it simply can.
    most: the largest number of clients that was asked for. no_faults: why there were no runs with faults, or "".
    ended: why the store was asked nothing more, or "". price: see `scenarios.evaluation.prices`, as data; None without
    one. bill: one of BILLS.
    """

    name: str
    carries: str
    why: str = ""
    reservations: tuple[str, ...] = ()
    most: int = 0
    crowds: tuple[Crowd, ...] = ()
    struck: tuple[Struck, ...] = ()
    no_faults: str = ""
    no_baseline: str = ""
    ended: str = ""
    fingerprint: Fingerprint | None = None
    price: Mapping[str, Any] | None = None
    bill: str = "none"
    subjects: Mapping[int, Subject] = field(default_factory=dict)

    @property
    def largest(self) -> Crowd | None:
        """The run by the most clients that the store got to."""
        return max(self.crowds, key=lambda crowd: crowd.contenders, default=None)

    @property
    def in_text(self) -> str:
        """The name within a sentence: in quotation marks where its end would be read as a mark of the sentence."""
        return in_text(self.name)

    @property
    def left_out_by_the_lock(self) -> Crowd | None:
        """A crowd that was not served though its store was quick enough; None where the store may be the reason.

        Its hand-offs took longer than `_REQUESTS_OF_HANDOFF` requests of every client would, one after the other.
        """
        if self.fingerprint is None or not self.fingerprint.latency:
            return None
        for crowd in self.crowds:
            handoff_ns = crowd.handoff.value
            by_the_store_ns = _REQUESTS_OF_HANDOFF * crowd.contenders * self.request_ns
            if crowd.word == STARVED and handoff_ns is not None and handoff_ns > by_the_store_ns:
                return crowd
        return None

    @property
    def request_ns(self) -> int:
        """The median of the slowest kind of request, each sent alone; 0 where none was timed."""
        times = () if self.fingerprint is None else self.fingerprint.latency.values()
        return max((seen.p50_ns for seen in times), default=0)

    @property
    def broke(self) -> tuple[str, ...]:
        """The crowds and scenarios under which the lock broke a safety clause on this store."""
        return (
            *(counted(crowd.contenders, "client") for crowd in self.crowds if crowd.word == VIOLATED),
            *(struck.scenario for struck in self.struck if struck.word == VIOLATED),
        )

    @property
    def missed(self) -> tuple[str, ...]:
        """The limits that were demanded and not met, each with its figure."""
        return tuple(
            f"{text}: {figure} ({counted(crowd.contenders, 'client')})"
            for crowd in self.crowds
            for text, verdict, figure in crowd.limits
            if verdict != HELD
        )

    @property
    def obstacles(self) -> tuple[str, ...]:
        """The reasons against the store, the worst first, in sentences without a subject. Empty: it is advised."""
        found = []
        if self.carries == NO:
            return (f"cannot carry this lock because {self.why}",)
        if self.carries == NOT_REACHED:
            return (f"was not reached ({self.why})",)
        if self.broke:
            found.append(f"is where this lock broke ({', '.join(self.broke)})")
        if self.carries == UNKNOWN:
            advice = "" if self.ended else "; a longer --probe-for may"
            found.append(f"did not show that it can carry this lock ({self.why}{advice})")
        if self.ended:
            found.append(f"was not asked to the end ({self.ended})")
        found += self._want_of_service()
        if self.missed:
            found.append(f"misses {'; '.join(self.missed)}")
        lagging = [struck.scenario for struck in self.struck if struck.word in (NOT_LIVE, NOTHING)]
        if lagging:
            found.append(f"left clients waiting under faults ({', '.join(lagging)})")
        return tuple(found)

    def _want_of_service(self) -> list[str]:
        """The crowds that were not served. Few clients that wait in vain count as much as many."""
        found = []
        for crowd in self.crowds:
            of = f"{crowd.served:,} of {counted(crowd.contenders, 'client')}"
            if crowd.word == STARVED:
                found.append(f"served {of}")
            elif crowd.word != HELD and crowd.word != VIOLATED:
                why = f": {crowd.reasons[0]}" if crowd.reasons else ""
                found.append(f"showed too little with {counted(crowd.contenders, 'client')} ({crowd.word}{why})")
        return found


def in_text(name: str) -> str:
    """The name of a store within a sentence; `memory:` would be read with its colon as a mark of the sentence."""
    return f"'{name}'" if name[-1:] in ":.,;" else name


def standing_of(store: Mapping[str, Any], subjects: Mapping[int, Subject], *, most: int) -> Standing:
    """The standing of a store from its part of the document, and from its recorded runs by number of clients."""
    probe = None if store["probe"] is None else Fingerprint.model_validate(store["probe"])
    carries = store["carries"]
    runs: dict[int, list[Mapping[str, Any]]] = {}
    for run in store["contention"]:
        runs.setdefault(run["contenders"], []).append(run)
    return Standing(
        name=store["name"],
        carries=carries["verdict"],
        why=carries["why"],
        reservations=tuple(carries["reservations"]),
        most=most,
        crowds=tuple(_crowd(crowd, each, subjects.get(crowd), store["price"]) for crowd, each in runs.items()),
        struck=tuple(
            Struck(
                scenario=run["scenario"],
                kinds=tuple(run["kinds"]),
                word=run["word"],
                baseline=run["baseline"]["word"] if run["baseline"] else "",
            )
            for run in store["faults"]
        ),
        no_faults=store["no_faults"],
        no_baseline=store["no_baseline"],
        ended=store["ended"],
        fingerprint=probe,
        price=store["price"],
        bill=store["bill"],
        subjects=subjects,
    )


def _crowd(
    contenders: int, runs: Sequence[Mapping[str, Any]], subject: Subject | None, price: Mapping[str, Any] | None
) -> Crowd:
    figures = {} if subject is None else figures_of(subject)
    speeds = [run["speed"] for run in runs if run["speed"] is not None]
    total, cycles = _requests(runs), sum(speed["grants"] for speed in speeds)
    jains = [speed["jain"] for speed in speeds if speed["jain"] is not None]
    sent = total.reads + total.writes + total.deletes
    return Crowd(
        contenders=contenders,
        runs=len(runs),
        word=min((run["word"] for run in runs), key=_WORST.index),
        rate=figures.get(RATE, Cell()),
        handoff=figures.get(HANDOFF, Cell()),
        handoff_99=figures.get(HANDOFF_99, Cell()),
        served=min((speed["clients_served"] for speed in speeds), default=0),
        jain=min(jains, default=None),
        requests=sent / cycles if cycles and sent else None,
        cost=None if price is None or not sent else total.cost(price, cycles=cycles),
        limits=_limits(runs),
        reasons=tuple(dict.fromkeys(reason for run in runs for reason in run["reasons"])),
    )


def _requests(runs: Sequence[Mapping[str, Any]]) -> Requests:
    known = [run["requests"] for run in runs if run["requests"] is not None]
    return Requests(**{name: sum(each[name] for each in known) for name in ("reads", "writes", "deletes", "refused")})


def _limits(runs: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str, str], ...]:
    """The worst repeat of each limit."""
    order = ("violated", "inconclusive", "held")
    worst: dict[str, tuple[str, str]] = {}
    for run in runs:
        for limit in run["limits"]:
            found = (limit["verdict"], limit["told"])
            known = worst.get(limit["limit"])
            if known is None or order.index(found[0]) < order.index(known[0]):
                worst[limit["limit"]] = found
    return tuple((text, *found) for text, found in worst.items())


def interval(cell: Cell, *, unit: str) -> str:
    """A figure with its interval: `12.3 (11.0 to 13.9)`; an en dash where it was not measured."""
    if cell.value is None:
        return "–"
    figure = duration if unit == "ns" else _rate
    around = "" if cell.low is None or cell.high is None else f" ({figure(cell.low)} to {figure(cell.high)})"
    return f"{figure(cell.value)}{around}"


def _rate(value: float) -> str:
    return f"{value:,.3g}" if value < 1_000 else f"{value:,.0f}"
