"""The verdict: what counted facts amount to. It is decided here and nowhere else.

`Counts` says what was counted over some runs, whoever counted: the process
(`reports.checks.summary`) or Spark (`reports.pipeline.summary`). `decide` turns
counts into verdicts and into the reasons why something could not be decided.
Exit codes, pages, expectations and gates follow from that answer.

A violation that was seen outranks every doubt. "Held" is said only if nothing
stands against it: every run could be judged, somebody was granted the lock,
and every demanded situation came about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa

from lockref.words import counted
from reports.checks.demands import parse_demand
from reports.checks.disturbances import FAULT_SITUATIONS
from reports.checks.facts.surroundings.host import lateness_text
from reports.checks.measures.outages import is_lost, outage_doubts, outage_notices
from reports.checks.measures.turnout import turnout_doubts, turnout_notices
from reports.checks.situation_names import COMMIT, GRANT, IDLE, STRUCK, TOKEN, UNFENCED
from reports.checks.spec import (
    CLAUSES,
    FAIRNESS,
    HELD,
    INCONCLUSIVE,
    LIVENESS,
    NOT_APPLICABLE,
    SAFETY,
    VIOLATED,
    Verdict,
)
from reports.checks.thresholds.kept import LimitOutcome, Samples, judged_threshold, sorted_samples

DAMAGE_TOLD_MAX: Final = 5
"""So many damaged runs are named in a notice; the others are only counted."""

THRESHOLD: Final = "threshold "
"""The beginning of each notice and reason about a threshold."""

Whole = Verdict | Literal["not_live"]
"""The verdict of a whole run. not_live: a liveness clause, a threshold or a claim of fairness broke, and no safety
clause.
"""

Party = tuple[str, str]
"""Scenario and provider. Each party must reach its situations: a crash under another lock says nothing of this one."""

Occurred = tuple[int, int]
"""In how many runs a situation came about, and how often in all of them."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """The counts over some runs: all that a verdict is made of.

    runs: those that were judged. damaged: runs that were not, because their
    record is damaged. damage: name of a damaged run to what is wrong with it,
    where that is known. nameless: records set aside that name no run. cut_off:
    judged runs whose record ends early. broken_runs: judged runs in which any
    safety clause broke.
    verdicts: clause to verdict to runs.
    demanded: by party, how often a situation must come about at least.
    reached: by party, how often each situation came about.
    not_demanded: clauses that are not demanded of these runs, because no lock can
    keep them there. They are counted and reported, and decide nothing.
    answers: rows of `reports.checks.facts.surroundings.store_answers.STORE_ANSWERS_SCHEMA`, one per real run:
    what its store answered. speeds: of `reports.checks.measures.speed.SPEED_SCHEMA`.
    endings: how grants ended to how many (`reports.checks.measures.endings`). longest_gap_ns: for how long a lock
    belonged to nobody between two grants, at most; None where nobody came after any.
    host_late_ns: by how much the machine of a real run was late, at its worst.
    doubts: further reasons why these runs prove nothing, as sentences, which
    the counts above do not show.
    unsafe: what RFC-91 would forbid about the timing of some runs, in words;
    it decides nothing, and stands beside every verdict.
    limits: by party and text of a threshold, the samples that it is about.
    """

    runs: int = 0
    damaged: int = 0
    damage: dict[str, str] = field(default_factory=dict)
    nameless: int = 0
    cut_off: int = 0
    broken_runs: int = 0
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    demanded: dict[Party, dict[str, int]] = field(default_factory=dict)
    reached: dict[Party, dict[str, Occurred]] = field(default_factory=dict)
    not_demanded: frozenset[str] = frozenset()
    answers: list[dict[str, Any]] = field(default_factory=list)
    speeds: list[dict[str, Any]] = field(default_factory=list)
    endings: Counter[str] = field(default_factory=Counter)
    longest_gap_ns: int | None = None
    host_late_ns: int = 0
    doubts: list[str] = field(default_factory=list)
    unsafe: list[str] = field(default_factory=list)
    limits: dict[tuple[Party, str], Samples] = field(default_factory=dict)

    @property
    def notices(self) -> list[str]:
        """The notices under every verdict: forbidden timing, damage (of few runs by name), silence."""
        damage = [f"{name} not judged: {why}" for name, why in list(self.damage.items())[:DAMAGE_TOLD_MAX]]
        if rest := len(self.damage) - len(damage):
            damage.append(f"{counted(rest, 'more run')} not judged because of a damaged record")
        unsafe = [f"unsafe timing, which the scenario asks for: {timing}" for timing in self.unsafe]
        cut = [f"{counted(self.cut_off, 'run')} ended early: judged up to there"] if self.cut_off else []
        return [
            *unsafe,
            *damage,
            *cut,
            *self._idle_faults(),
            *self._unfenced,
            *outage_notices(self.answers),
            *turnout_notices(self.speeds),
            *self._late_host,
            *(f"{THRESHOLD}{kept.verdict}: {kept}{self.party_text(party)}" for party, kept in self.thresholds),
        ]

    @property
    def thresholds(self) -> list[tuple[Party, LimitOutcome]]:
        """The outcome of each limit, party by party: a figure of one lock says nothing about another lock."""
        return [(party, judged_threshold(text, samples)) for (party, text), samples in self.limits.items()]

    def party_text(self, party: Party) -> str:
        """Which party a sentence is about, where there are several."""
        return f" in {' with '.join(filter(None, party))}" if len(self.demanded) > 1 and any(party) else ""

    def _idle_faults(self) -> list[str]:
        """Kinds of faults that struck and never changed anything. Where one is demanded, the doubt tells of it."""
        found = []
        for party, situations in sorted(self.reached.items()):
            where = f" in {' with '.join(filter(None, party))}" if len(self.reached) > 1 and any(party) else ""
            demanded = self.unreached.get(party, {})
            told = {kind for name in demanded for kind in _idle_kinds(name, situations)}
            found += [
                f"{kind} struck {situations[IDLE + kind][1]:,}×, which changed nothing{where}"
                for kind in _idle_kinds(STRUCK, situations)
                if kind not in told and f"fault:{kind}" not in situations
            ]
        return found

    @property
    def _unfenced(self) -> list[str]:
        runs, writes = self.reach.get(UNFENCED, (0, 0))
        if not writes:
            return []
        return [
            f"{counted(writes, 'write')} in {counted(runs, 'run')} left under a good grant and landed after a later "
            "grant's write: the lock shows no token by which the resource could refuse them (not counted as S4)"
        ]

    @property
    def _late_host(self) -> list[str]:
        """Figures of a late machine are true of the machine as well as of the lock, and no clause tells so."""
        if not self.host_late_ns:
            return []
        return [
            f"{lateness_text(self.host_late_ns)}: waits, hand-offs, droughts, gaps and rates are also the machine's"
        ]

    @property
    def judged(self) -> set[str]:
        """The clauses that applied to some run."""
        return {name for name, found in self.verdicts.items() if set(found) != {NOT_APPLICABLE}}

    @property
    def reach(self) -> dict[str, Occurred]:
        """Every situation that was counted or demanded, over all parties, in the order of names."""
        total: dict[str, Occurred] = dict.fromkeys(self.required, (0, 0))
        for situations in self.reached.values():
            for name, occurred in situations.items():
                total[name] = _added(total.get(name, (0, 0)), occurred)
        return dict(sorted(total.items()))

    @property
    def required(self) -> dict[str, int]:
        """The situations that a party's runs demand by name, and how often at least."""
        least: dict[str, int] = {}
        for demands in self.demanded.values():
            for name, count in demands.items():
                least[name] = max(count, least.get(name, 0))
        return least

    @property
    def unreached(self) -> dict[Party, dict[str, Shortfall]]:
        """By party, the demanded situations that came about too seldom.

        A grant is demanded of all but those that demand a commit: to commit, nobody needs a lock.
        """
        missing: dict[Party, dict[str, Shortfall]] = {}
        for party, demands in sorted(self.demanded.items()):
            reached = self.reached.get(party, {})
            implied = {} if COMMIT in demands else {GRANT: 1}
            for name, least in sorted({**implied, **demands}.items()):
                found = reached.get(name, (0, 0))[1]
                if found < least:
                    missing.setdefault(party, {})[name] = Shortfall(found=found, least=least)
        return missing

    def demand(self, party: Party, must_happen: Iterable[str]) -> None:
        """Take note of what one run of `party` demands; the runs of a party demand together, not each for itself."""
        demands = self.demanded.setdefault(party, {})
        for text in must_happen:
            name, least = parse_demand(text)
            demands[name] = max(least, demands.get(name, 1))

    def note_limits(self, party: Party, texts: Iterable[str], samples: pa.Table) -> None:
        """Take note of what some runs of `party` are limited to. samples: of `SAMPLES_SCHEMA`, of these runs alone."""
        for text, found in sorted_samples(texts, samples).items():
            self.limits.setdefault((party, text), Samples()).join(found)

    def note_unsafe(self, timing: str | None) -> None:
        """Take note of a run's forbidden timing, each wording once."""
        if timing and timing not in self.unsafe:
            self.unsafe.append(timing)

    def count_endings(self, endings: Mapping[str, int], longest_gap_ns: int | None) -> None:
        """Add how the grants of other runs ended, and their longest gap."""
        self.endings.update(endings)
        known = [gap for gap in (self.longest_gap_ns, longest_gap_ns) if gap is not None]
        self.longest_gap_ns = max(known, default=None)

    def note_host(self, late_ns: int) -> None:
        """Take note of how late the machine of another run was."""
        self.host_late_ns = max(self.host_late_ns, late_ns)

    def reach_situation(self, party: Party, situation: str, *, runs: int, count: int) -> None:
        """Add `count` occurrences of a situation in `runs` runs of `party`."""
        situations = self.reached.setdefault(party, {})
        situations[situation] = _added(situations.get(situation, (0, 0)), (runs, count))

    def add_counts(self, other: Counts) -> None:
        """Join the counts of other runs to these."""
        self.runs += other.runs
        self.damaged += other.damaged
        self.damage |= other.damage
        self.nameless += other.nameless
        self.cut_off += other.cut_off
        self.broken_runs += other.broken_runs
        for clause, counts in other.verdicts.items():
            self.verdicts.setdefault(clause, Counter()).update(counts)
        for party, demands in other.demanded.items():
            own = self.demanded.setdefault(party, {})
            own.update({name: max(least, own.get(name, 0)) for name, least in demands.items()})
        for party, situations in other.reached.items():
            for name, (runs, count) in situations.items():
                self.reach_situation(party, name, runs=runs, count=count)
        self.not_demanded |= other.not_demanded
        self.answers += other.answers
        self.count_endings(other.endings, other.longest_gap_ns)
        self.note_host(other.host_late_ns)
        self.speeds += other.speeds
        self.doubts += [doubt for doubt in other.doubts if doubt not in self.doubts]
        for timing in other.unsafe:
            self.note_unsafe(timing)
        for limit, samples in other.limits.items():
            self.limits.setdefault(limit, Samples()).join(samples)


def _added(first: Occurred, second: Occurred) -> Occurred:
    return first[0] + second[0], first[1] + second[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A situation that came about `found` times where `least` were demanded."""

    found: int
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The verdicts of a batch of runs.

    safety: held, violated or inconclusive, over those of S1 to S7 that are
    demanded. liveness, fairness: over L1 to L6 with the thresholds, and the fairness that the lock
    claims; "not applicable" where they apply to no run. clauses: each clause over all runs. reasons: why
    something is inconclusive, as sentences; they stay beside a violation, too.
    is_store_lost: in some run the store went away and never came back; where
    nothing is violated, that is the environment's failure, not the lock's.
    """

    safety: Verdict
    liveness: Verdict
    fairness: Verdict
    clauses: Mapping[str, Verdict]
    reasons: tuple[str, ...]
    is_store_lost: bool = False


def decide(counts: Counts) -> Verdicts:
    """The verdicts on these counts, and the reasons for doubt."""
    clauses = {
        name: joint_verdict([verdict for verdict, runs in counts.verdicts[name].items() if runs])
        for name in CLAUSES
        if name in counts.verdicts
    }
    demanded = {name: verdict for name, verdict in clauses.items() if name not in counts.not_demanded}
    seen = _joint(demanded, SAFETY)
    doubts = _doubts(counts)
    if not doubts and seen == "not_applicable":
        doubts.append("no safety clause applies to these runs")
    safety: Verdict = "violated" if seen == VIOLATED else "inconclusive" if doubts or seen == INCONCLUSIVE else "held"
    assert safety != HELD or not doubts, "held is said only if nothing speaks against it"
    thresholds = counts.thresholds
    return Verdicts(
        safety=safety,
        liveness=joint_verdict([_joint(demanded, LIVENESS), *(kept.verdict for _, kept in thresholds)]),
        fairness=_joint(demanded, FAIRNESS),
        clauses=clauses,
        reasons=(
            *doubts,
            *_undecided(counts),
            *(f"{THRESHOLD}{kept}" for _, kept in thresholds if kept.verdict == INCONCLUSIVE),
        ),
        is_store_lost=any(is_lost(row) for row in counts.answers),
    )


def joint_verdict(verdicts: Collection[str]) -> Verdict:
    """One verdict for several, of runs or of clauses: a violation outranks every doubt, and a doubt what held."""
    if VIOLATED in verdicts:
        return "violated"
    if INCONCLUSIVE in verdicts:
        return "inconclusive"
    return "held" if HELD in verdicts else "not_applicable"


def whole_verdict(*, safety: str, liveness: str, fairness: str) -> Whole:
    """One verdict for clauses of all kinds, ranked as exit codes are. fairness: of the claims that a lock makes."""
    if safety == VIOLATED:
        return "violated"
    if VIOLATED in (liveness, fairness):
        return "not_live"
    return joint_verdict([safety, liveness, fairness])


def _joint(clauses: Mapping[str, Verdict], names: Iterable[str]) -> Verdict:
    return joint_verdict([clauses[name] for name in names if name in clauses])


def _doubts(counts: Counts) -> list[str]:
    """Why these runs prove nothing about safety, whatever the clauses say of them; empty if nothing speaks against."""
    doubts = []
    if counts.damaged:
        doubts.append(f"{counted(counts.damaged, 'run')} could not be judged: the record is damaged")
    if counts.nameless:
        doubts.append(f"{counted(counts.nameless, 'record')} could not be assigned to a run")
    if not counts.runs:
        return doubts or ["no run could be judged"]
    # A cause before its consequences: without a store there are no grants.
    doubts += outage_doubts(counts.answers)
    for party, missing in counts.unreached.items():
        where = counts.party_text(party)
        never = [name for name, shortfall in missing.items() if not shortfall.found and name not in (GRANT, TOKEN)]
        if GRANT in missing and not missing[GRANT].found:
            doubts.append(f"no client was ever granted the lock{where}")
        elif TOKEN in missing and not missing[TOKEN].found:
            doubts.append(f"the lock gave no fencing token, and the scenario needs one{where}")
        if never:
            told = [name + _why_idle(name, counts.reached.get(party, {})) for name in never]
            doubts.append(f"never happened{where}: {', '.join(told)}")
        if few := [scarce(name, shortfall) for name, shortfall in missing.items() if shortfall.found]:
            doubts.append(f"only {', '.join(few)}{where}")
    return doubts + turnout_doubts(counts.speeds) + counts.doubts


_NOUNS: Final = {GRANT: "grant", COMMIT: "commit", "handoff": "hand-off", "clients_served": "client"}


def scarce(situation: str, shortfall: Shortfall) -> str:
    """The situations that came about too seldom, in words: `6 grants (at least 100 asked for)`."""
    noun = _NOUNS.get(situation)
    what = counted(shortfall.found, noun) if noun else f"{shortfall.found:,} times {situation}"
    served = " served" if situation == "clients_served" else ""
    return f"{what}{served} (at least {shortfall.least:,} asked for)"


def _idle_kinds(situation: str, situations: Mapping[str, Occurred]) -> list[str]:
    """The kinds of faults that could have brought a situation about, and struck without changing anything."""
    struck = [name.removeprefix(IDLE) for name in situations if name.startswith(IDLE)]
    kinds = FAULT_SITUATIONS.get(situation, frozenset({situation.removeprefix("fault:")}))
    return sorted(kind for kind in struck if kinds is None or kind in kinds)


def _why_idle(situation: str, situations: Mapping[str, Occurred]) -> str:
    """Why a situation that a fault should have brought about did not come about, though the fault struck."""
    told = [f"{kind} struck {situations[IDLE + kind][1]:,}×" for kind in _idle_kinds(situation, situations)]
    return f" ({', '.join(told)}, which changed nothing)" if told else ""


def _undecided(counts: Counts) -> list[str]:
    found = {
        name: counts.verdicts.get(name, Counter())[INCONCLUSIVE] for name in CLAUSES if name not in counts.not_demanded
    }
    by_count: dict[int, list[str]] = {}
    for name, runs in found.items():
        if runs:
            by_count.setdefault(runs, []).append(name)
    return [f"{', '.join(names)} could not be decided in {counted(runs, 'run')}" for runs, names in by_count.items()]
