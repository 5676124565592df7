"""Quantities with units, constant or drawn: how the text of a scenario becomes numbers.

A bare number is refused, because nobody can tell whether 300 is seconds or
milliseconds; a lock was once released with 300 ms leases for that reason
(apache/hudi#13277). A quantity is a constant (`10s`), a range (`2s..8s`) or a
list of choices (`[1s, 5s]`); the last two are drawn per seed, each from a
stream named after its place in the file, so that adding one moves no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from lockref.errors import quote
from lockref.grammar import decimal
from lockref.quantities import duration_ns, split_quantity

RATE_PPM_MAX = 900_000
COUNT_MAX = 1_000_000

CHOICES_MAX = 64


class Chooser(Protocol):
    """The part of `random.Random` that draws need."""

    def randint(self, a: int, b: int) -> int: ...


@dataclass(frozen=True, slots=True)
class DrawnNumber:
    """A whole number that a seed draws: one of `choices`, or between `low` and `high` where there are none."""

    text: str
    choices: tuple[int, ...] = ()
    low: int = 0
    high: int = 0

    @property
    def is_constant(self) -> bool:
        return len(self.choices) == 1

    @property
    def least(self) -> int:
        return min(self.choices) if self.choices else self.low

    @property
    def most(self) -> int:
        return max(self.choices) if self.choices else self.high

    def draw(self, stream: Chooser) -> int:
        if self.choices:
            return self.choices[0] if len(self.choices) == 1 else self.choices[stream.randint(0, len(self.choices) - 1)]
        return stream.randint(self.low, self.high)


def constant(value: int, text: str = "") -> DrawnNumber:
    return DrawnNumber(text or str(value), (value,))


def rate_ppm(text: object) -> int:
    """`200ppm`, `-5%` to parts per million."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        raise ValueError(f"is {text}, without a unit; write {text}ppm or {text}%")
    number, unit = split_quantity(text, "a rate such as 200ppm or 5%")
    if unit not in ("ppm", "%"):
        raise ValueError(f"is {quote(text)}; expected a rate such as 200ppm or 5%")
    exact = number * (10_000 if unit == "%" else 1)
    if abs(exact) > RATE_PPM_MAX or exact != int(exact):
        raise ValueError(f"is {quote(text)}; expected a whole number of ppm up to {RATE_PPM_MAX}")
    return int(exact)


def count(text: object) -> int:
    """A whole number; YAML has read it already, a range has not."""
    if isinstance(text, str) and (number := decimal(text.strip())) is not None:
        text = number
    if isinstance(text, bool) or not isinstance(text, int):
        raise ValueError(f"is {quote(text)}; expected a whole number")
    if abs(text) > COUNT_MAX:
        raise ValueError(f"is {quote(text)}; at most {COUNT_MAX}")
    return text


def probability(text: object) -> float:
    """`5%` or 0.05, between 0 and 1."""
    if isinstance(text, str):
        number, unit = split_quantity(text, "a probability such as 5% or 0.05")
        if unit not in ("%", ""):
            raise ValueError(f"is {quote(text)}; expected a probability such as 5% or 0.05")
        value = float(number) / (100 if unit == "%" else 1)
    elif isinstance(text, (int, float)) and not isinstance(text, bool):
        value = float(text)
    else:
        raise ValueError(f"is {quote(text)}; expected a probability such as 5% or 0.05")
    if not 0 <= value <= 1:
        raise ValueError(f"is {quote(text)}; expected between 0 and 1 (0% and 100%)")
    return value


def _drawn(one: Callable[[object], int], least: int | None) -> Callable[[object], DrawnNumber]:
    def parse(value: object) -> DrawnNumber:
        if isinstance(value, DrawnNumber):
            return value
        if isinstance(value, list):
            if not 1 <= len(value) <= CHOICES_MAX:
                raise ValueError(f"has {len(value)} choices; expected 1 to {CHOICES_MAX}")
            drawn = DrawnNumber(f"[{', '.join(str(item) for item in value)}]", tuple(one(item) for item in value))
        elif isinstance(value, str) and ".." in value:
            low, _, high = value.partition("..")
            drawn = DrawnNumber(value, (), one(low), one(high))
            if drawn.low > drawn.high:
                raise ValueError(f"is {quote(value)}; a range goes from the smaller to the larger")
        else:
            drawn = constant(one(value), str(value))
        if least is not None and drawn.least < least:
            raise ValueError(f"is {quote(drawn.text)}; expected at least {least}")
        return drawn

    return parse


def _schema(example: str, pattern: str) -> WithJsonSchema:
    one = {"type": "string", "pattern": pattern, "examples": [example, f"{example}..{example}"]}
    return WithJsonSchema({"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": CHOICES_MAX}]})


def _as_written(drawn: DrawnNumber) -> str | list[str]:
    return drawn.text[1:-1].split(", ") if drawn.text.startswith("[") else drawn.text


_AS_TEXT = PlainSerializer(_as_written, return_type=str | list[str])
_NUMBER = r"[+-]?[0-9.]+\s*"

Duration = Annotated[
    DrawnNumber,
    BeforeValidator(_drawn(duration_ns, 0)),
    _AS_TEXT,
    _schema("10s", rf"^{_NUMBER}(ns|us|µs|ms|s|m|h)(\.\.{_NUMBER}(ns|us|µs|ms|s|m|h))?$|^0$"),
]
"""Nanoseconds, not negative."""

Shift = Annotated[
    DrawnNumber,
    BeforeValidator(_drawn(duration_ns, None)),
    _AS_TEXT,
    _schema("-1.5s", rf"^{_NUMBER}(ns|us|µs|ms|s|m|h)(\.\.{_NUMBER}(ns|us|µs|ms|s|m|h))?$|^0$"),
]
"""Nanoseconds of either sign: an offset or a step of a clock."""

Rate = Annotated[
    DrawnNumber, BeforeValidator(_drawn(rate_ppm, None)), _AS_TEXT, _schema("200ppm", rf"^{_NUMBER}(ppm|%)(\.\..*)?$")
]
"""Parts per million of either sign."""

Count = Annotated[
    DrawnNumber,
    BeforeValidator(_drawn(count, 0)),
    _AS_TEXT,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^\d+\.\.\d+$"},
                {"type": "array", "items": {"type": "integer"}},
            ]
        }
    ),
]
"""A whole number, not negative."""

Probability = Annotated[
    float,
    BeforeValidator(probability),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": "%$"}]}),
]
