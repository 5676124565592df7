"""Faults of a node's clocks.

Rate errors and offsets under way add up, so that they may end in any order.
Timers that run on a changed clock are solved again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from lockref.words import Kind, detail
from sim.faults.fault import ArmedFault, Fault, StateFault
from sim.faults.quantities import Duration, NodeName, Quantity, Rate, Shift
from sim.kernel.clocks import PPM

if TYPE_CHECKING:
    from sim.faults.drawing import Drawing
    from sim.faults.surroundings import Machine, Surroundings

RATE_PPM_MAX = PPM - 1
"""A clock that runs backwards or stands still has no inverse; rate errors that add up to one stop here."""


SLEW_PPM_MAX = 100_000
"""Linux lets nobody slew faster: adjtimex(2) bounds the length of a tick at 10 % off."""

CLOCKS_ARE_SHARED = "the clocks of a machine cannot be set for one process alone"
"""Why no real run has such faults."""

SlewRate = Annotated[int, Field(ge=1, le=SLEW_PPM_MAX), Quantity.RATE]


class ClockFault(StateFault):
    """A fault of both clocks, or of the wall clock, of one node."""

    begins_with_node: ClassVar[bool] = True
    never_real: ClassVar[str] = CLOCKS_ARE_SHARED

    client: NodeName

    def _matters(self, armed: ArmedFault[Fault], node: Machine, for_ns: int | None) -> None:
        """Count that it changed something, once a process is there that can read the clock. for_ns: None for good."""
        node.when_running(armed.has_mattered, until_ns=None if for_ns is None else armed.now_ns + armed.clipped(for_ns))


class Drift(ClockFault):
    """Both clocks run too fast or too slow by `rate`, for good or for `for`."""

    kind: Literal["drift"] = "drift"
    rate_ppm: Rate
    for_ns: Duration | None = None

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        node, rate_ppm = around.machines[self.client], self.rate_ppm
        if rate_ppm:
            self._matters(armed, node, self.for_ns)
        around.rates_ppm.setdefault(node.name, []).append(rate_ppm)
        _set_rate(node, around)
        if self.for_ns is not None:
            armed.end_after(armed.clipped(self.for_ns), lambda: _end_rate(node, around, rate_ppm))

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any] | None:
        client, at_ns, for_ns = drawing.client(), drawing.instant(), drawing.length()
        rate_ppm = drawing.shape.rate_error_ppm
        if drawing.shape.is_bounded:
            # Over its length the rate moves the clock. That counts against the same allowance as offsets.
            rate_ppm = min(rate_ppm, drawing.clock_error(client) * PPM // max(1, for_ns))
        if rate_ppm == 0:
            return None
        rate_ppm = drawing.rng.choice((-1, 1)) * drawing.rng.randint(1, rate_ppm)
        return {"client": client, "at_ns": at_ns, "for_ns": for_ns, "rate_ppm": rate_ppm}

    def happened(self) -> str:
        return f"the clocks of {self.client} ran {abs(self.rate_ppm)} ppm too {'fast' if self.rate_ppm > 0 else 'slow'}"


class Offset(ClockFault):
    """The wall clock shows `by` more than it would, for good or for `for` (U12, E4, E5)."""

    kind: Literal["offset"] = "offset"
    by_ns: Shift
    for_ns: Duration | None = None

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        node, by_ns = around.machines[self.client], self.by_ns
        if by_ns:
            self._matters(armed, node, self.for_ns)
        _step_wall(node, around, by_ns)
        if self.for_ns is not None:
            armed.end_after(armed.clipped(self.for_ns), lambda: _step_wall(node, around, -by_ns))

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return _draw_shift(drawing)

    def happened(self) -> str:
        return f"the clock of {self.client} was {abs(self.by_ns)} ns {'ahead' if self.by_ns > 0 else 'behind'}"


class Step(ClockFault):
    """The wall clock jumps by `by`, forward or back (E31)."""

    kind: Literal["step"] = "step"
    by_ns: Shift

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        node = around.machines[self.client]
        if self.by_ns:
            self._matters(armed, node, None)
        _step_wall(node, around, self.by_ns)

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return _draw_shift(drawing)

    def happened(self) -> str:
        return f"the clock of {self.client} jumped {abs(self.by_ns)} ns {'forward' if self.by_ns > 0 else 'back'}"


class Freeze(ClockFault):
    """Both clocks stand still for `for` while tasks may run.

    Timers wait, then the wall clock catches up in one step.
    """

    kind: Literal["freeze"] = "freeze"
    for_ns: Duration

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        node, for_ns = around.machines[self.client], armed.clipped(self.for_ns)
        if for_ns:
            self._matters(armed, node, for_ns)
        freeze_clock(node, around, for_ns)
        armed.end_after(for_ns)

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        client = drawing.client()
        return {"client": client, "at_ns": drawing.instant(), "for_ns": drawing.clock_error(client)}

    def happened(self) -> str:
        return f"the clocks of {self.client} stood still for {self.for_ns} ns"


class Slew(ClockFault):
    """NTP slews the clock: it is brought forward or back by `by` without a jump, at `rate` (U12).

    Both clocks run too fast, or for a negative `by` too slow, by `rate` for as long as that takes: half a second takes
    1,000 s at the 500 ppm of adjtime and ntpd. chrony slews at up to 83,333 ppm. As on Linux the monotonic clock is
    slewed with the wall clock; only CLOCK_MONOTONIC_RAW is not.
    """

    # Sources: clock_gettime(2) and adjtime(3) on CLOCK_MONOTONIC; chrony.conf(5), maxslewrate.
    kind: Literal["slew"] = "slew"
    by_ns: Shift
    rate_ppm: SlewRate = 500

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        node = around.machines[self.client]
        rate_ppm = self.rate_ppm if self.by_ns > 0 else -self.rate_ppm
        if not self.by_ns:
            return
        self._matters(armed, node, None)
        around.rates_ppm.setdefault(node.name, []).append(rate_ppm)
        _set_rate(node, around)
        for_ns = armed.clipped(abs(self.by_ns) * PPM // self.rate_ppm)
        armed.end_after(for_ns, lambda: _end_rate(node, around, rate_ppm))

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        rate_ppm = max(1, min(drawing.shape.rate_error_ppm, SLEW_PPM_MAX))
        return {**_draw_shift(drawing), "rate_ppm": rate_ppm}

    def forms(self) -> list[str]:
        return [f"{self.kind} {'forward' if self.by_ns > 0 else 'back'}"]

    def happened(self) -> str:
        return f"the clock of {self.client} was slewed {abs(self.by_ns)} ns {'forward' if self.by_ns > 0 else 'back'}"


def freeze_clock(node: Machine, around: Surroundings, for_ns: int) -> None:
    """Both clocks of the node stand still from now on, for `for_ns` of true time."""
    node.clock.freeze(around.kernel.now_ns, for_ns)
    _clock_changed(node, around, change="freeze", for_ns=for_ns)


def _clock_changed(node: Machine, around: Surroundings, **what: object) -> None:
    around.kernel.retime(node.clock)
    now = around.kernel.now_ns
    wall_ns, mono_ns = node.clock.both_ns(now)
    around.recorder.event(Kind.CLOCK, (now, wall_ns, mono_ns, ""), node.name, detail=detail(**what))


def _set_rate(node: Machine, around: Surroundings) -> None:
    rate_ppm = max(-RATE_PPM_MAX, min(RATE_PPM_MAX, sum(around.rates_ppm[node.name])))
    node.clock.set_rate(around.kernel.now_ns, rate_ppm)
    _clock_changed(node, around, change="rate", rate_ppm=rate_ppm)


def _end_rate(node: Machine, around: Surroundings, rate_ppm: int) -> None:
    around.rates_ppm[node.name].remove(rate_ppm)
    _set_rate(node, around)


def _step_wall(node: Machine, around: Surroundings, by_ns: int) -> None:
    node.clock.step_wall(around.kernel.now_ns, by_ns)
    _clock_changed(node, around, change="step", by_ns=by_ns)


def _draw_shift(drawing: Drawing) -> dict[str, Any]:
    client = drawing.client()
    sign = drawing.rng.choice((-1, 1))
    return {"client": client, "at_ns": drawing.instant(), "by_ns": sign * drawing.clock_error(client)}
