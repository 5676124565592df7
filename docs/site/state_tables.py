"""State diagrams as tables.

A code host draws a Mermaid diagram by a script that it fetches. The site fetches nothing and runs no script for it: it
shows the same transitions as rows, which a narrow screen can hold, too.
"""

from __future__ import annotations

import re

DIAGRAM = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
TRANSITION = re.compile(r"\s*(\S+) --> (\S+?)(?:: (.+))?")


def tabled(text: str) -> str:
    """The Markdown with each state diagram as a table; a line that is no transition raises ValueError."""
    return DIAGRAM.sub(lambda found: _table(found[1]), text)


def _table(diagram: str) -> str:
    rows = ["| in state | when | goes to |", "|---|---|---|"]
    for line in diagram.splitlines():
        found = TRANSITION.fullmatch(line)
        if not found:
            raise ValueError(f"a line of a state diagram is no transition: {line.strip()!r}")
        source, target, event = found.groups()
        rows.append(f"| {_state(source)} | {event or ''} | {_state(target)} |")
    return "\n".join(rows) + "\n"


def _state(name: str) -> str:
    return "*begin*" if name == "[*]" else f"`{name}`"
