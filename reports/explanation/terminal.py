"""An explanation as text: the paragraph, the table of events, the line that shows the failure again."""

from __future__ import annotations

import textwrap

from reports.explanation.explanation import Explanation
from reports.formats.text import readable, seconds, short

WIDTH = 100
_NODE_MAX = 24
_WHAT_MAX = 110


def explanation_text(explanation: Explanation) -> str:
    """All of it, without a line end at its end."""
    lines = [heading(explanation), f"  {short(explanation.sentence, 200)}", ""]
    lines += textwrap.wrap(short(explanation.paragraph, 2000), WIDTH)
    lines.append("")
    lines += event_lines(explanation)
    if explanation.faults:
        lines.append("")
        lines += [f"  fault     {short(readable(text), 200)}" for text in explanation.faults]
    lines += [f"  note      {short(text, 200)}" for text in (*explanation.notices, *explanation.diagram.notices)]
    if explanation.replay:
        lines.append(f"  replay    {short(explanation.replay, 160)}")
    return "\n".join(lines)


def heading(explanation: Explanation) -> str:
    """The failure in one line: clause, id, seed, scenario, lock."""
    seed = [] if explanation.seed is None else [f"seed {explanation.seed}"]
    parts = [explanation.id, *seed, explanation.scenario, explanation.provider]
    return "   ".join([f"✗ {explanation.clause}", *(short(part, 60) for part in parts if part)])


def event_lines(explanation: Explanation) -> list[str]:
    """The table of events: time, node, what. The event that breaks the clause is marked."""
    rows = explanation.events
    if not rows:
        return []
    wide = max(4, *(len(short(row.node, _NODE_MAX)) for row in rows))
    times = max(len("time"), *(len(seconds(row.at_ns)) for row in rows))
    lines = [f"  {'time':>{times}}  {'node':<{wide}}  what"]
    for row in rows:
        mark = "  ← breaks " + explanation.clause if row.is_guilty else ""
        what = short(f"fault: {row.what}" if row.is_fault else row.what, _WHAT_MAX)
        lines.append(f"  {seconds(row.at_ns):>{times}}  {short(row.node, _NODE_MAX):<{wide}}  {what}{mark}")
    return lines
