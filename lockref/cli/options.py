"""Values of options that several commands take."""

from __future__ import annotations

import click

from lockref.runtime import NS_PER_S

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def exit_codes(text: str) -> list[int]:
    """`--allow-exit 3,4`."""
    try:
        return [int(code) for code in text.split(",") if code.strip()]
    except ValueError:
        raise click.BadParameter(f"{text!r}; expected codes such as 3,4", param_hint="--allow-exit") from None


def duration_ns(text: str, option: str) -> int:
    """`20s`, `500ms`, `2m` in nanoseconds, at most a day."""
    for unit in ("ms", "s", "m", "h"):
        number = text.removesuffix(unit)
        if number != text:
            try:
                value_s = float(number) * _UNITS_S[unit]
            except ValueError:
                break
            if 0 < value_s <= 86_400:
                return int(value_s * NS_PER_S)
            break
    raise click.BadParameter(f"{text!r}; expected a duration such as 20s or 500ms, at most 24h", param_hint=option)
