"""Names and numbers for people: bounded, on one line, without control characters.

A history is foreign input. An owner may be ten kilobytes long, contain line
ends, terminal escapes or characters that turn the writing direction; none of
that may reach a terminal, a table cell or an annotation.
"""

from __future__ import annotations

import re

NAME_MAX = 60


def short(text: str, limit: int = NAME_MAX) -> str:
    """`text` in one printable line of at most `limit` characters; its end gives way to an ellipsis."""
    # Only what can be shown is looked at: an owner may be very long.
    shown = "".join(_visible(character) for character in text[: limit + 1])
    if len(text) <= limit and len(shown) <= limit:
        return shown
    return shown[: limit - 1] + "…"


def printable(text: str, limit: int) -> str:
    """`text` with its line ends kept and everything else that cannot be shown made visible; cut at `limit`."""
    lines = text[:limit].split("\n")
    shown = "\n".join("".join(_visible(character) for character in line) for line in lines)
    return shown if len(text) <= limit else shown + "…"


_COMMAND = re.compile(r"^(\s*)(?=::)|(?<=#)(?=#\w*\[)")
"""Where a CI system would see a command of the program whose output it reads.

`::` begins one at the start of a line. `##[`, `##vso[` and `##teamcity[` begin one anywhere.
"""


def outgoing(text: str) -> str:
    """Lines fit to leave the program: nothing invisible, no escape, no command that a CI system would obey.

    Whoever prints may be trusted, a name within the text may not: this is the last filter of everything that is said.
    """
    lines = ("".join(_visible(character) for character in line) for line in text.split("\n"))
    return "\n".join(_COMMAND.sub(_broken, line) for line in lines)


def _broken(command: re.Match[str]) -> str:
    return f"{command[1] or ''}\\"


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#|!~&@$])")


def markdown_text(text: str, limit: int = 300) -> str:
    """Foreign text as Markdown that means nothing but itself, on one line."""
    return _MARKDOWN.sub(r"\\\1", short(text, limit))


def _visible(character: str) -> str:
    # What is invisible (direction marks, joiners, tags) is not printable either.
    if character.isprintable():
        return character
    return " " if character.isspace() else f"\\x{ord(character):02x}"


_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


def duration(nanoseconds: int | float | None) -> str:
    """A duration with its unit, three significant digits: `1.23 ms`; an en dash for none."""
    if nanoseconds is None:
        return "–"
    size = abs(nanoseconds)
    if size >= 120_000_000_000:
        return f"{nanoseconds / 60_000_000_000:,.1f} min"
    for unit_ns, unit in _UNITS:
        # The next unit from 999.5 on, so that no figure reads 1000.
        if size >= 0.9995 * unit_ns:
            return f"{_three_digits(nanoseconds / unit_ns)} {unit}"
    return f"{nanoseconds:.0f} ns"


_LONG_NS = re.compile(r"\b(\d{4,19}) ns\b")


def readable(text: str) -> str:
    """A sentence of the checks with its nanoseconds in units that people read."""
    return _LONG_NS.sub(lambda match: duration(int(match.group(1))), text)


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def seconds(nanoseconds: int) -> str:
    """An instant of a run: `17.150 s`."""
    return f"{nanoseconds / 1e9:,.3f} s"
