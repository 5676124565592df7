"""Which store to take: a sentence made from the data, and never a winner where the data tell none.

Two stores that nothing speaks against are compared by their grants per second under the most clients. With several runs
of each, the difference is told by the runs (`differences.between_runs`). With one run of each, runs of one store are
known to vary by a fifth and more, so a store is called faster only if the whole interval of the ratio lies beyond
`ONCE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lockref.durations import duration, plain_duration
from lockref.words import counted
from reports.comparison.carrying import NO, NOT_REACHED, YES
from reports.comparison.comparison import compare
from reports.comparison.differences import Interval
from reports.comparison.standing import RATE, Crowd, Standing, interval
from reports.comparison.store_runs import HELD, STARVED, VIOLATED

ONCE: Final = 2.0
"""With one run of each, a store is called faster if it is so by this factor at least, over the whole interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The advice.

    take: the stores that are advised, none of which is known to be better than another; empty for none.
    serves: stores that nothing speaks against, and that are slower. headline: the sentence. reasons: one about each
    other store. notes: what the advice does not rest on, and what the faults proved.
    """

    take: tuple[str, ...]
    serves: tuple[str, ...]
    headline: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]

    def facts(self) -> Mapping[str, object]:
        """For the document."""
        return {
            "take": list(self.take), "serves": list(self.serves), "headline": self.headline,
            "reasons": list(self.reasons), "notes": list(self.notes),
        }  # fmt: skip


def advise(standings: Sequence[Standing], *, lock: str, has_limits: bool, lasting_ns: int) -> Advice:
    """The advice about these stores.

    lock: its name. has_limits: `--require` demanded something. lasting_ns: of each contention run.
    """
    fit = sorted((one for one in standings if not one.obstacles), key=_rate, reverse=True)
    ratios = {one.name: _ratio(one, fit[0]) for one in fit[1:]}
    slower = [one for one in fit[1:] if (ratio := ratios[one.name]) is not None and _is_slower(ratio)]
    take = [one for one in fit if one not in slower]
    reasons = [
        f"{one.in_text} can be taken, too, and is slower: {_figures(one)}, {_times(ratios[one.name])} of "
        f"{fit[0].in_text}"
        for one in slower
    ]
    reasons += [f"{one.in_text} {'; it '.join(one.obstacles)}" for one in standings if one.obstacles]
    reasons += [f"{one.in_text}: {each}" for one in fit for each in one.reservations]
    return Advice(
        take=tuple(one.name for one in take),
        serves=tuple(one.name for one in slower),
        headline=_headline(standings, take, slower, lock=lock, has_limits=has_limits),
        reasons=tuple(f"{reason}." for reason in reasons),
        notes=tuple(
            f"{note}." for note in (*_doubts(fit), *_of_fewer(standings, lasting_ns), *_of_baseline(standings, lock))
        ),
    )


def _headline(
    standings: Sequence[Standing], take: Sequence[Standing], slower: Sequence[Standing], *, lock: str, has_limits: bool
) -> str:
    if not take:
        return _none(standings, lock, has_limits=has_limits)
    if len(take) == 1:
        [one] = take
        if len(standings) == 1:
            return f"{one.in_text} can be taken for {lock}: {_figures(one)}{_faults(one)}."
        rest = "the only one that nothing speaks against" if not slower else "faster than the others that serve"
        return f"Take {one.in_text} for {lock}: it is {rest}, with {_figures(one)}{_faults(one)}."
    told = ", ".join(f"{one.in_text} with {_figures(one)}" for one in take)
    return f"{_listed(take)} cannot be told apart in this run: {told}. Take either of them for {lock}."


def _none(standings: Sequence[Standing], lock: str, *, has_limits: bool) -> str:
    reached = [one for one in standings if one.carries != NOT_REACHED]
    if not reached:
        return "No advice: no store was reached." if len(standings) > 1 else f"{standings[0].in_text} was not reached."
    if all(one.carries == NO for one in reached):
        if len(reached) == 1:
            return f"{reached[0].in_text} cannot carry {lock}."
        return f"No advice: none of the stores can carry {lock}."
    able = [one for one in reached if one.carries != NO]
    if has_limits and all(one.missed for one in able):
        return f"No advice: no store that can carry {lock} meets what was required."
    if len(able) == 1 and len(able[0].obstacles) == 1 and (crowd := able[0].left_out_by_the_lock) is not None:
        return _of_the_lock(able[0], crowd, lock)
    return f"No advice: something speaks against {'each of the stores' if len(able) > 1 else able[0].in_text}."


def _of_the_lock(one: Standing, crowd: Crowd, lock: str) -> str:
    """No advice, where the lock is the likely reason and not its store."""
    assert crowd.handoff.value is not None, "a crowd without one tells no reason"
    left_out = f"{crowd.contenders - crowd.served:,} of {counted(crowd.contenders, 'client')}"
    return (
        f"No advice: {lock} never served {left_out} on {one.in_text}. The store is hardly the reason: a hand-off took "
        f"{duration(crowd.handoff.value)}, and a request alone takes {duration(one.request_ns)}. Look at how often the "
        "lock's waiters look."
    )


def _figures(one: Standing) -> str:
    """The figures under the most clients: rate, hand-off, served."""
    crowd = one.largest
    assert crowd is not None, "a store that nothing speaks against was contended on"
    told = f"{interval(crowd.rate, unit='1/s')} grants/s"
    if crowd.handoff_99.value is not None:
        told += f" and a hand-off of {duration(crowd.handoff_99.value)} at 99 %"
    return f"{told}, all {counted(crowd.contenders, 'client')} served"


def _faults(one: Standing) -> str:
    if not one.struck:
        return ""
    held = sum(struck.word == HELD for struck in one.struck)
    return f"; it held under {held} of {counted(len(one.struck), 'scenario')} with faults"


def _rate(one: Standing) -> float:
    crowd = one.largest
    return 0.0 if crowd is None or crowd.rate.value is None else crowd.rate.value


def _ratio(one: Standing, best: Standing) -> Interval | None:
    """The rate of this store over that of the best one, as an interval; None where the data do not tell."""
    crowd, other = one.largest, best.largest
    if crowd is None or other is None or crowd.contenders != other.contenders:
        return None
    subjects = [each.subjects.get(crowd.contenders) for each in (best, one)]
    if subjects[0] is None or subjects[1] is None:
        return None
    row = next((row for row in compare([subjects[0], subjects[1]]).rows if row.name == RATE), None)
    if row is None:
        return None
    cell = row.cells[1]
    low, high = cell.difference_low, cell.difference_high
    if low is None or high is None or cell.apart not in ("apart", "one_run"):
        return None
    if cell.apart == "one_run" and high > 1 / ONCE:
        return None
    return Interval(low, high)


def _is_slower(ratio: Interval) -> bool:
    return ratio.high < 1


def _times(ratio: Interval | None) -> str:
    assert ratio is not None, "what is slower was told apart"
    return f"{ratio.low:.2g} to {ratio.high:.2g} times the rate"


def _doubts(fit: Sequence[Standing]) -> list[str]:
    """The limits of the advice."""
    if len(fit) < 2:
        return []
    if any(crowd.runs > 1 for one in fit for crowd in one.crowds):
        return ["Faster and slower are told by the differences between repeats"]
    return [
        f"One run of each store tells only a difference by more than a factor of {ONCE:g}, since runs of one store "
        "differ; --repeats 6 tells smaller ones"
    ]


def _of_fewer(standings: Sequence[Standing], lasting_ns: int) -> list[str]:
    """Notes where clients were left out under the most: who was served under fewer, and what a longer run may tell."""
    able = [one for one in standings if one.carries == YES and not one.broke]
    most = max((one.most for one in able), default=0)
    if not able or any(crowd.contenders == most and crowd.word == HELD for one in able for crowd in one.crowds):
        return []
    if not any(crowd.word == STARVED for one in able for crowd in one.crowds):
        return []
    served = [
        (one, crowd) for one in able for crowd in one.crowds if crowd.word == HELD and 1 < crowd.contenders < most
    ]
    found = [
        f"Clients may only have waited their turn: a run lasted {plain_duration(lasting_ns)}, and a longer one (--for) "
        "tells"
    ]
    if served:
        fewer = max(crowd.contenders for _, crowd in served)
        figures = ", ".join(
            f"{one.in_text} with {interval(crowd.rate, unit='1/s')} grants/s"
            for one, crowd in served
            if crowd.contenders == fewer
        )
        found.append(f"All of {counted(fewer, 'client')} were served by {figures}")
    return found


def _of_baseline(standings: Sequence[Standing], lock: str) -> list[str]:
    """The worth of the faults, by their effect on a lock that is known to break."""
    asked = [(one, struck) for one in standings for struck in one.struck if struck.baseline]
    if not asked:
        return []
    broke = [(one, struck) for one, struck in asked if struck.baseline == VIOLATED]
    if not broke:
        return [f"The faults broke hudi nowhere, either: they prove little about {lock}"]
    told = dict.fromkeys(f"{struck.scenario} ({', '.join(struck.kinds)})" for _, struck in broke)
    own = dict.fromkeys(struck.scenario for _, struck in broke if struck.word == VIOLATED)
    end = f"; {lock} broke in {', '.join(own)}, too" if own else f"; {lock} did not break there"
    return [f"The same faults broke hudi in {', '.join(told)}{end}"]


def _listed(standings: Sequence[Standing]) -> str:
    names = [one.in_text for one in standings]
    return " and ".join([", ".join(names[:-1]), names[-1]])
