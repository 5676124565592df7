"""Shrinking a failing run: fewer faults, shorter, closer to the default schedule.

Only candidates that break the *same clause* are accepted; another failure is
another bug. In order: delta-debug the faults (Zeller and Hildebrandt, 2002),
shorten durations towards 0, delta-debug the schedule's deviations, round
numbers. The result is confirmed twice. At last each remaining fault is left
out once more, to say whether it matters.

Shrinking knows no scenario: `fails` runs a candidate and judges it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lockref.errors import DeterminismError
from lockref.runtime import NS_PER_MS, NS_PER_S
from sim.faults.fault import Fault
from sim.faults.plan import FaultPlan
from sim.faults.quantities import Quantity, fields_holding

T = TypeVar("T")

Deviations = tuple[tuple[int, int], ...]
Fails = Callable[[FaultPlan, Deviations], bool]
"""(plan, deviations) -> does this run break the clause in question?"""

GRAINS_NS = (NS_PER_S, 100 * NS_PER_MS, 10 * NS_PER_MS, NS_PER_MS)
"""Rounding tries the coarsest first."""


@dataclass(slots=True, kw_only=True)
class Shrunk:
    """The smallest failing run found.

    matters: by fault id of the original plan: does the failure vanish without
        it? Only the faults that were tried are in it. is_cut_off: the bound on runs, or the caller's own, was hit
        before shrinking was done.
    """

    plan: FaultPlan
    deviations: Deviations
    runs: int = 0
    is_cut_off: bool = False
    matters: dict[str, bool] = field(default_factory=dict)


class _SpentError(Exception):
    """A bound is reached: no further candidate may be run."""


class _Shrinker:
    def __init__(
        self, fails: Fails, plan: FaultPlan, deviations: Deviations, runs_max: int, is_spent: Callable[[], bool]
    ) -> None:
        self._fails = fails
        self._runs_max = runs_max
        self._is_spent = is_spent
        self.result = Shrunk(plan=plan, deviations=deviations)
        self._known: dict[tuple[FaultPlan, Deviations], bool] = {}

    def fails(self, plan: FaultPlan, deviations: Deviations) -> bool:
        """Run a candidate, unless it was run before."""
        candidate = (plan, deviations)
        known = self._known.get(candidate)
        if known is None:
            known = self._known[candidate] = self.run(plan, deviations)
        return known

    def run(self, plan: FaultPlan, deviations: Deviations) -> bool:
        if self.result.runs >= self._runs_max or self._is_spent():
            raise _SpentError
        self.result.runs += 1
        return self._fails(plan, deviations)

    def accept(self, plan: FaultPlan, deviations: Deviations) -> bool:
        """Keep the candidate if it still fails."""
        if (plan, deviations) == (self.result.plan, self.result.deviations) or not self.fails(plan, deviations):
            return False
        self.result.plan, self.result.deviations = plan, deviations
        return True

    def drop_faults(self) -> None:
        def still_fails(kept: Sequence[Fault]) -> bool:
            ids = {fault.id for fault in kept}
            plan = self.result.plan
            smaller = plan.without([fault.id for fault in plan.faults if fault.id not in ids])
            return self.accept(smaller, self.result.deviations)

        _delta_debug(lambda: self.result.plan.faults, still_fails)

    def drop_deviations(self) -> None:
        _delta_debug(lambda: self.result.deviations, lambda kept: self.accept(self.result.plan, tuple(kept)))

    def shorten(self) -> None:
        for fault in self.result.plan.faults:
            for name in fields_holding(type(fault), *fault.shortens):
                self._halve(fault.id, name)

    def _value(self, fault_id: str, name: str) -> int | None:
        fault = next(fault for fault in self.result.plan.faults if fault.id == fault_id)
        value = getattr(fault, name, None)
        return value if isinstance(value, int) else None

    def _try_value(self, fault_id: str, name: str, value: int) -> bool:
        plan = self.result.plan
        fault = next(fault for fault in plan.faults if fault.id == fault_id)
        return self.accept(plan.replacing(fault.model_copy(update={name: value})), self.result.deviations)

    def _halve(self, fault_id: str, name: str) -> None:
        """Bisect between 0 (or what is known to pass) and the present value, to a millisecond."""
        high = self._value(fault_id, name)
        if not high or self._try_value(fault_id, name, 0):
            return
        # Bisection is right only where a longer fault fails whenever a shorter one does. That need not hold: a pause
        # may break a clause at 3 s, none at 4 s, and again at 5 s. `high` failed whenever it was set, so the result
        # fails in any case; it may miss a smaller value. Rejected: a search of all values, which costs a run for each.
        passes = 0
        while abs(high - passes) > NS_PER_MS:
            middle = (passes + high) // 2
            if self._try_value(fault_id, name, middle):
                high = middle
            else:
                passes = middle

    def round(self) -> None:
        for fault in self.result.plan.faults:
            for name in fields_holding(type(fault), Quantity.INSTANT, *fault.shortens):
                value = self._value(fault.id, name)
                if not value:
                    continue
                for grain in GRAINS_NS:
                    if value % grain == 0:
                        break
                    sign = 1 if value > 0 else -1
                    down = sign * (abs(value) // grain * grain)
                    up = down + sign * grain
                    # A rounder number is worth a tenth more, not a second.
                    is_near = abs(up) <= abs(value) * 11 // 10
                    if self._try_value(fault.id, name, down) or (is_near and self._try_value(fault.id, name, up)):
                        break


def _delta_debug(present: Callable[[], Sequence[T]], still_fails: Callable[[Sequence[T]], bool]) -> None:
    """Find a 1-minimal subsequence. `still_fails` keeps what it accepts, so `present` is always the best so far."""
    # `ddmin` of Zeller and Hildebrandt (2002), without its first half: their algorithm also tries each part alone. Here
    # the empty sequence comes first instead, since most faults of a swarm have nothing to do with a failure, and then
    # complements only. 1-minimal: no single item can be left out; two together perhaps could.
    if present() and still_fails(()):
        return
    parts = 2
    while len(items := list(present())) >= 2:
        size = -(-len(items) // parts)
        chunks = [(start, min(start + size, len(items))) for start in range(0, len(items), size)]
        if any(still_fails(items[:start] + items[end:]) for start, end in chunks):
            parts = max(parts - 1, 2)
        elif size == 1:
            return
        else:
            parts = min(parts * 2, len(items))


def shrink(
    fails: Fails,
    plan: FaultPlan,
    deviations: Sequence[tuple[int, int]],
    *,
    runs_max: int = 1000,
    is_spent: Callable[[], bool] = lambda: False,
) -> Shrunk:
    """Shrink a run that fails.

    runs_max: bound on the runs of candidates. is_spent: a bound of the caller's own, such as on time; once it says yes,
    only the three runs that confirm the result are made.
    Raises DeterminismError if the run does not fail to begin with, or the
    result does not fail twice more: then `fails` does not depend on its
    arguments alone.
    """
    original = plan
    shrinker = _Shrinker(fails, plan, tuple(deviations), runs_max, is_spent)
    result = shrinker.result
    result.runs += 1
    if not fails(plan, tuple(deviations)):
        raise DeterminismError(
            "the run to be shrunk does not fail: it was stored from other code, or it is not deterministic"
        )
    try:
        size = None
        # Dropping a fault can make another droppable; repeat until nothing moves.
        while size != (len(result.plan.faults), len(result.deviations)):
            size = (len(result.plan.faults), len(result.deviations))
            shrinker.drop_faults()
            shrinker.shorten()
            shrinker.drop_deviations()
        shrinker.round()
    except _SpentError:
        result.is_cut_off = True
    # Twice, and not from memory (`fails`, which the shrinker keeps the answers of): a run that depends on more than its
    # plan and schedule, such as on the order of a set, shows itself here and not at a user's replay.
    for _ in range(2):
        result.runs += 1
        if not fails(result.plan, result.deviations):
            raise DeterminismError("the shrunk run failed once and not again: look for what its run does not determine")
    kept = {fault.id for fault in result.plan.faults}
    for fault in original.faults:
        if fault.id not in kept:
            result.matters[fault.id] = False
        elif not is_spent():
            result.runs += 1
            result.matters[fault.id] = not fails(result.plan.without([fault.id]), result.deviations)
    return result
