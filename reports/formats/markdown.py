"""The parts of a Markdown page for a pull request or a job summary: foreign text, and a page that is never too long.

GitHub drops a step summary above 1 MiB whole, so a page is bounded well below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reports.formats.text import markdown_text, printable

BYTES_MAX = 900_000
BLOCK_MAX = 4000


def fenced(text: str) -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    text = printable(text, BLOCK_MAX)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"\n{ticks}text\n{text}\n{ticks}\n"


def folded(title: str, body: str) -> str:
    """A part that a reader opens. body: Markdown."""
    return f"\n<details><summary>{markdown_text(title)}</summary>\n\n{body}\n</details>\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of foreign text."""
    lines = ["| " + " | ".join(markdown_text(cell) for cell in head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def bounded(parts: Iterable[str], *, bytes_max: int, notice: str) -> str:
    """The first parts that fit, each whole. notice: a sentence in the place of the rest."""
    text = ""
    size = 0
    end = f"\n*{notice}*\n"
    for part in parts:
        length = len(part.encode())
        if size + length + len(end.encode()) > bytes_max:
            return text + end
        text += part
        size += length
    return text
