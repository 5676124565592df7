"""Text of strangers that is dangerous where it leaves the program, and what nothing that leaves it may hold."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

WORD: Final = (
    # A terminal's title, colours (in 7 and 8 bits), a bell; directions of writing; line ends that few know.
    "\x1b]0;t\x07\x1b[31mred\x9b1m\x7f\u202e\u2066\u2028\x85\ufeff\U000e0041\n"
    # Commands to GitHub's, Azure's and TeamCity's CI, at the start of a line and within one.
    "::set-env name=PATH::/tmp\n  ::error::x%0A::warning::y\n##[set-env name=X]y\r"
    "##vso[task.setvariable variable=a]b\r\n##teamcity[buildProblem]"
    # HTML, XML, Markdown, and the mathematics of plots.
    "<script>alert(1)</script><img src=x onerror=alert(1)>]]>&amp;<!--|[a](javascript:b)`$x^2$$\\frac{x}$\"'"
)
COMMAND: Final = re.compile(r"^\s*::|##\w*\[")
"""What a CI system obeys: its own form at a line's start, the older one and other systems' anywhere."""


def unshown(text: str) -> list[str]:
    """The lines with a character that is invisible, moves the cursor or turns the direction."""
    return [line for line in text.split("\n") if not line.isprintable()]


def obeyed(text: str) -> list[str]:
    """The lines that a CI system would take for a command."""
    return [line for line in text.split("\n") if COMMAND.search(line)]


class _Page(HTMLParser):
    """The elements of a page that a stranger may have made."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.foreign: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        is_data = tag == "script" and told.get("type") == "application/json"
        if tag == "img" or (tag == "script" and not is_data) or any(name.startswith("on") for name in told):
            self.foreign.append(tag)
        if (told.get("href") or "").startswith("javascript:"):
            self.foreign.append(tag)


def wrong_in(path: Path) -> list[str]:
    """What is wrong with a text file that a command wrote, in words."""
    text = path.read_text(encoding="utf-8")
    wrong = [f"{path.name}: unshown {line[:200]!r}" for line in unshown(text)]
    if path.suffix in (".json", ".jsonl"):
        wrong += [f"{path.name}: obeyed {line[:200]!r}" for line in obeyed(text)]
    if path.suffix == ".html":
        wrong += [f"{path.name}: element {tag} of a stranger" for tag in _Page(text).foreign]
    if path.suffix in (".xml", ".svg"):
        ET.fromstring(text)
    if path.suffix == ".md":
        outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
        wrong += [f"{path.name}: markup {found!r}" for found in re.findall(r"(?<!\\)(?:<script|\[a\]|\$x)", outside)]
    return wrong


def wrong_files(paths: Iterable[Path]) -> list[str]:
    """The same of all text files among them. A history holds what it recorded, and is no text."""
    suffixes = {".json", ".html", ".xml", ".svg", ".md", ".txt", ".yaml"}
    return [word for path in sorted(paths) if path.is_file() and path.suffix in suffixes for word in wrong_in(path)]
