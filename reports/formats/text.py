"""Names and numbers for people: bounded, on one line, without control characters.

A history is foreign input. An owner may be ten kilobytes long, contain line
ends, terminal escapes or characters that turn the writing direction; none of
that may reach a terminal, a table cell or an annotation.
"""

from __future__ import annotations

import re

from lockref.durations import duration

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


_LONG_NS = re.compile(r"\b(\d{4,19}) ns\b")


def readable(text: str) -> str:
    """A sentence of the checks with its nanoseconds in units that people read."""
    return _LONG_NS.sub(lambda match: duration(int(match.group(1))), text)


def seconds(nanoseconds: int) -> str:
    """An instant of a run: `17.150 s`."""
    return f"{nanoseconds / 1e9:,.3f} s"
