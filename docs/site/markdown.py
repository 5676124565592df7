"""Text of the code as Markdown: docstrings, help texts and tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

CODE = re.compile(r"(`+)(.+?)\1(?!`)", re.DOTALL)
SPECIAL = re.compile(r"([*<>\[\]]|(?<!\w)_|_(?!\w))")
BAR = re.compile(r"(?<!\\)\|")


def escaped(text: str) -> str:
    """Text whose only markup is `code`: what Markdown would take for more is escaped outside of it."""
    parts, end = [], 0
    for found in CODE.finditer(text):
        parts += [SPECIAL.sub(r"\\\1", text[end : found.start()]), found[0]]
        end = found.end()
    return "".join([*parts, SPECIAL.sub(r"\\\1", text[end:])])


def prose(text: str) -> str:
    """Paragraphs of a docstring as Markdown; lists stay lists, indented paragraphs become blocks of code."""
    return "\n\n".join(_paragraph(part) for part in re.split(r"\n\s*\n", text.strip("\n")) if part.strip())


def _paragraph(text: str) -> str:
    if all(line.startswith("    ") for line in text.splitlines()):
        return f"```text\n{inspect.cleandoc(text)}\n```"
    return escaped(text)


def one_line(text: str) -> str:
    """Text for a cell of a table or an entry of a list: one line, markup but `code` escaped."""
    return escaped(" ".join(text.split()))


def code(text: str) -> str:
    """A text as code, also where it has backticks."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    blank = " " if "`" in text else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are Markdown already. A bar in a cell is escaped, also within code, as tables need it."""
    lines = [header, ["---"] * len(header), *([BAR.sub(r"\\|", cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
