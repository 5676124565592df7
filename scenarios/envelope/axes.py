"""The axes of an envelope: the disturbances that a cell has more or less of, their values, and how a user writes them.

A value is a whole number: nanoseconds of a duration, or parts per million of a rate or of a share. So equal cells are
equal, and the middle of two values is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lockref.errors import did_you_mean, quote
from lockref.quantities import NS_PER_UNIT, duration_ns, split_quantity

_S: Final = NS_PER_UNIT["s"]
_MS: Final = NS_PER_UNIT["ms"]
PPM_PER_PERCENT: Final = 10_000

VALUES_MAX: Final = 64
"""Values of one axis."""

FIRST_STEPS, SECOND_STEPS = 10, 8
"""Steps of an axis whose line names none: of the first axis, and of the second."""

STEPS_PER_RESOLUTION: Final = 8
"""The boundary is searched to this part of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A disturbance that can be an axis.

    usual: its value where it is no axis. least, most: the values that it may have. parse: the text of a value to its
    number. is_share: the number is in parts per million, else in nanoseconds. label: of the axis of a figure.
    amount: a value in a sentence, where `{}` stands for it. nothing: the value 0 there. within: the values up to one.
    freely: all values.
    is_better_high: a high value makes it easier for the lock, and not harder.
    """

    name: str
    usual: int
    least: int
    most: int
    parse: Callable[[str], int]
    is_share: bool
    label: str
    amount: str
    within: str
    freely: str
    nothing: str = ""
    is_better_high: bool = False

    def exact(self, value: int) -> str:
        """The value as a scenario writes it, without loss."""
        if self.is_share:
            return f"{value}ppm" if self.name == "rate" else f"{value / PPM_PER_PERCENT:.4f}%"
        whole = next(unit for unit in ("s", "ms", "us", "ns") if value % NS_PER_UNIT[unit] == 0)
        return f"{value // NS_PER_UNIT[whole]}{whole}"

    def in_words(self, value: int) -> str:
        """The value in a sentence: `a pause of 9.75 s`, `clocks that agree`."""
        return self.nothing if self.nothing and not value else self.amount.format(self.told(value))

    def told(self, value: int) -> str:
        """The value as people read it: `9.75 s`, `500 ms`, `2 %`."""
        if self.is_share:
            return f"{value / PPM_PER_PERCENT:.3g} %"
        if value == 0:
            return "0 s"
        return f"{value / _S:.4g} s" if value >= _S else f"{value / _MS:.4g} ms"


def _ppm(text: str) -> int:
    """`2%`, `500ppm` or `0` to parts per million. Raises ValueError for any other text."""
    number, unit = split_quantity(text, "a share such as 2% or 500ppm")
    if unit not in ("ppm", "%") and not (number == 0 and not unit):
        raise ValueError(f"is {quote(text)}; expected a share such as 2% or 500ppm")
    exact = number * (PPM_PER_PERCENT if unit == "%" else 1)
    if exact != int(exact):
        raise ValueError(f"is {quote(text)}; expected a whole number of ppm")
    return int(exact)


DISTURBANCES: Final = {
    each.name: each
    for each in (
        Disturbance(
            name="pause", usual=0, least=0, most=600 * _S, parse=duration_ns, is_share=False,
            label="pause of the holder's process", amount="a pause of {}", nothing="no pause",
            within="no pause is longer than {}", freely="your writers may pause as long as they like",
        ),
        Disturbance(
            name="offset", usual=0, least=0, most=600 * _S, parse=duration_ns, is_share=False,
            label="difference of two wall clocks", amount="clocks {} apart", nothing="clocks that agree",
            within="clocks agree within {}", freely="clocks may be as far apart as they like",
        ),
        Disturbance(
            name="rate", usual=0, least=0, most=20 * PPM_PER_PERCENT, parse=_ppm, is_share=True,
            label="the holder's clocks run slow by", amount="clocks that run {} slow", nothing="clocks that run alike",
            within="clocks run at most {} slow", freely="clocks may run as slow as they like",
        ),
        Disturbance(
            name="latency", usual=5 * _MS, least=_MS, most=10 * _S, parse=duration_ns, is_share=False,
            label="latency of a message, one way", amount="messages that take up to {}",
            within="messages take at most {}", freely="messages may take as long as they like",
        ),
        Disturbance(
            name="loss", usual=0, least=0, most=90 * PPM_PER_PERCENT, parse=_ppm, is_share=True,
            label="messages that are lost", amount="{} of the messages lost", nothing="no message lost",
            within="at most {} of the messages are lost", freely="any share of the messages may be lost",
        ),
        Disturbance(
            name="validity", usual=10 * _S, least=_S, most=600 * _S, parse=duration_ns, is_share=False,
            label="validity of the lease", amount="a validity of {}",
            within="the validity is at least {}", freely="any validity will do", is_better_high=True,
        ),
    )
}  # fmt: skip
"""By name. `pause`: of the process that holds the lock. `offset`: by how much a waiter's clock is ahead of the
holder's. `rate`: by how much the holder's clocks run slow. `validity` is no disturbance, but changes what one does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: a disturbance and its values, rising. resolution: how finely the boundary on it is searched.

    An axis with one value fixes that value for all cells.
    """

    of: Disturbance
    values: Sequence[int]
    resolution: int

    @property
    def is_fixed(self) -> bool:
        return len(self.values) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRange:
    """An axis as a user wrote it. step: None where the line names none."""

    of: Disturbance
    low: int
    high: int
    step: int | None

    def axis(self, steps: int) -> Axis:
        """The axis. steps: where the line names no step."""
        if self.low == self.high:
            return Axis(of=self.of, values=(self.low,), resolution=0)
        step = self.step or max(1, -(-(self.high - self.low) // steps))
        values = [*range(self.low, self.high, step), self.high]
        return Axis(of=self.of, values=tuple(values), resolution=max(1, step // STEPS_PER_RESOLUTION))


def parse_axis(text: str) -> AxisRange:
    """`pause=0s..20s`, `offset=0s..2s/100ms` with a step, `latency=50ms` for one value.

    Raises ValueError that says what was expected.
    """
    name, is_there, said = text.partition("=")
    known = DISTURBANCES.get(name.strip())
    if known is None:
        raise ValueError(
            f"is {quote(text)}; expected one of {', '.join(DISTURBANCES)} with its values, such as pause=0s..20s."
            f"{did_you_mean(name.strip(), DISTURBANCES)}"
        )
    if not is_there:
        raise ValueError(f"is {quote(text)}; expected values, such as {name}=LOW..HIGH or {name}=LOW..HIGH/STEP")
    values, has_step, step = said.partition("/")
    low, has_high, high = values.partition("..")
    first = _value(known, low)
    last = _value(known, high) if has_high else first
    if has_high and last <= first:
        raise ValueError(f"is {quote(text)}; the second value is not above the first")
    if has_step and not has_high:
        raise ValueError(f"is {quote(text)}; one value has no step")
    each = known.parse(step.strip()) if has_step else None
    if each is not None and not (last - first) / VALUES_MAX < each <= last - first:
        raise ValueError(f"is {quote(text)}; expected a step that makes 2 to {VALUES_MAX} values")
    return AxisRange(of=known, low=first, high=last, step=each)


def _value(known: Disturbance, text: str) -> int:
    value = known.parse(text.strip())
    if not known.least <= value <= known.most:
        raise ValueError(
            f"is {quote(text)}; {known.name} is expected from {known.told(known.least)} to {known.told(known.most)}"
        )
    return value


def axes_of(ranges: Sequence[AxisRange]) -> tuple[Axis, ...]:
    """The axes of one envelope: one or two with several values, in the order of the line, then those of one value.

    Raises ValueError for a disturbance that is named twice, and where none or more than two have several values.
    """
    names = [each.of.name for each in ranges]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"names {name} twice")
    free = [each for each in ranges if each.low != each.high]
    if not 1 <= len(free) <= 2:
        raise ValueError(f"names {len(free)} axes with several values; expected one or two. NAME=VALUE fixes any other")
    fixed = [each for each in ranges if each.low == each.high]
    made = [each.axis(steps) for each, steps in zip(free, (FIRST_STEPS, SECOND_STEPS), strict=False)]
    return (*made, *(each.axis(1) for each in fixed))
