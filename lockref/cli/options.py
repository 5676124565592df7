"""Values of options that several commands take."""

from __future__ import annotations

import click

from lockref.cli.exit_codes import VIOLATED
from scenarios.definition import units

DURATION_NS_MAX = 24 * units.NS_PER_UNIT["h"]


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
