"""The causes of broken logs (DL1 to DL5): which commit landed where, over what, and what its writer was told."""

from __future__ import annotations

from typing import Final

from reports.explanation.telling import Cause, Teller, entries, plain
from reports.formats.text import short

_DEMANDS: Final = {
    "DL1": "a correct writer reads its commit back before it says that the commit is in the log",
    "DL2": "a correct writer looks for its own commit in the log before it tries the next version",
    "DL3": "a correct writer puts a version only after it has seen the one before",
    "DL4": "a correct log takes an entry only where there is none",
    "DL5": "a correct writer that has no answer looks at the log before it reports an error",
}


def log(tell: Teller) -> Cause:
    """DL1 to DL5: the log and what writers were told differ, or the log itself is wrong."""
    facts, witness = tell.facts, tell.facts.witness
    clause = facts.finding.clause
    moment_ns = facts.moment_ns
    landed = [
        f"{tell.who(entry)} put commit {short(str(entry.get('identity')), 12)} into version {entry.get('version')} "
        f"at {tell.at(int(entry['at_ns']))}"
        for entry in entries(witness, "entries")[:3]
    ]
    told_ns = witness.get("told_ns")
    node = str(witness.get("node") or next((str(entry.get("node")) for entry in entries(witness, "entries")), ""))
    text = plain(str(witness.get("text")))
    if facts.finding.clause == "DL5":
        text = text.replace("a writer was told", f"{node} was told")
    answered = f"{node} had its answer at {tell.at(told_ns)}" if isinstance(told_ns, int) else ""
    both = [
        f"{tenure.node} and {other.node} both held the lock then"
        for tenure in facts.tenures.values()
        for other in facts.tenures.values()
        if tenure.number < other.number
        and tenure.node != other.node
        and max(tenure.first_ns, other.first_ns) < min(tenure.last_ns, other.last_ns)
        and max(tenure.first_ns, other.first_ns) <= moment_ns
    ]
    return Cause(
        parts=((1, tell.brief_fault(moment_ns, [node])), (0, text), (2, answered)),
        sentences=(
            "; ".join(landed),
            tell.faults(moment_ns, [node]),
            "; ".join(part for part in (text, answered) if part),
            both[-1] if both else "",
            _DEMANDS.get(clause, ""),
        ),
    )
