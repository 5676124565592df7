"""Values of options that several commands take."""

from __future__ import annotations

from typing import Any

import click

from scenarios.definition import units

DURATION_NS_MAX = 24 * units.NS_PER_UNIT["h"]
SEEDS_MAX = 10_000_000
CLIENTS_MAX = 1_024


def exit_codes(text: str) -> list[int]:
    """`--allow-exit 3,4`. Refuses 1: no gate may take a broken lock for success."""
    from reports.formats.exit_codes import VIOLATED

    try:
        codes = [int(code) for code in text.split(",") if code.strip()]
    except ValueError:
        raise click.BadParameter(f"{text!r}; expected codes such as 3,4", param_hint="--allow-exit") from None
    if VIOLATED in codes:
        raise click.BadParameter(
            f"{text!r}: 1 says that a lock broke, and that cannot be allowed", param_hint="--allow-exit"
        )
    return codes


def duration_ns(text: str, option: str) -> int:
    """`20s`, `500ms`, `2m` in nanoseconds, at most a day."""
    try:
        value = units.duration_ns(text)
    except ValueError:
        value = 0
    if not 0 < value <= DURATION_NS_MAX:
        raise click.BadParameter(f"{text!r}; expected a duration such as 20s or 500ms, at most 24h", param_hint=option)
    return value


def whole_numbers(text: str, option: str) -> list[int]:
    """`1,8,64`: numbers of clients, at most 1,024 each."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(1 <= number <= CLIENTS_MAX for number in numbers):
        raise click.BadParameter(
            f"{text!r}; expected numbers from 1 to {CLIENTS_MAX:,} such as 1,8,64", param_hint=option
        )
    return list(dict.fromkeys(numbers))


class NumberRange(click.ParamType[Any]):
    """`A..B`, both included, or one number. noun: what is counted, in the plural."""

    name = "A..B"

    def __init__(self, noun: str, *, least: int, most: int, count_max: int) -> None:
        self._noun = noun
        self._least = least
        self._most = most
        self._count_max = count_max

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        first, separator, last = str(value).partition("..")
        try:
            start = units.parse_seed(first)
            stop = units.parse_seed(last) if separator else start
        except ValueError:
            self.fail(f"{value!r} is no range of {self._noun}; expected such as 1..500, 7 or 0x1f", param, ctx)
        if stop < start:
            self.fail(f"{value!r} is empty: {start} is larger than {stop}", param, ctx)
        if not self._least <= start <= stop <= self._most:
            self.fail(f"{value!r}: {self._noun} are from {self._least:,} to {self._most:,}", param, ctx)
        if stop - start >= self._count_max:
            self.fail(f"{value!r} names {stop - start + 1:,} {self._noun}; at most {self._count_max:,}", param, ctx)
        return range(start, stop + 1)


SEED_RANGE = NumberRange("seeds", least=0, most=2**63 - 1, count_max=SEEDS_MAX)
WRITER_RANGE = NumberRange("writers", least=1, most=10_000, count_max=1_000)
