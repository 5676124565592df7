"""Values of options that several commands take.

Seeds are given as `7`, `0x1f`, `1..500` or a 40-digit commit hash. The hash is
after TigerBeetle's fuzzers: a build that takes its own commit as the seed
explores something new each time and can still be repeated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from reports.formats.exit_codes import VIOLATED
from scenarios.definition import units

if TYPE_CHECKING:
    from scenarios.definition.schema import Scenario

DURATION_NS_MAX = 24 * units.NS_PER_UNIT["h"]
SEEDS_MAX = 10_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}")


def exit_codes(text: str) -> list[int]:
    """`--allow-exit 3,4`. Refuses 1: no gate may take a broken lock for success."""
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


def parse_seed(text: str) -> int:
    """One seed, 0 to 2⁶³-1. Raises ValueError."""
    if _COMMIT.fullmatch(text):
        return int(text, 16) % 2**63
    seed = int(text, 0)
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed {text} is out of range; expected 0 to 2^63-1")
    return seed


class SeedRange(click.ParamType[Any]):
    """`A..B`, both included, or one seed."""

    name = "A..B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        first, separator, last = str(value).partition("..")
        try:
            start = parse_seed(first)
            stop = parse_seed(last) if separator else start
        except ValueError:
            self.fail(f"{value!r} is no range of seeds; expected such as 1..500, 7 or 0x1f", param, ctx)
        if stop < start:
            self.fail(f"{value!r} is empty: {start} is larger than {stop}", param, ctx)
        if stop - start >= SEEDS_MAX:
            self.fail(f"{value!r} names {stop - start + 1:,} seeds; at most {SEEDS_MAX:,}", param, ctx)
        return range(start, stop + 1)


SEED_RANGE = SeedRange()


def seeds_for(scenario: Scenario, asked: range | None, otherwise: range) -> range:
    """The seeds to run: those asked for, else the one that the scenario pins, else `otherwise`."""
    if asked is not None:
        return asked
    return otherwise if scenario.seed is None else range(scenario.seed, scenario.seed + 1)
