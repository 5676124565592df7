"""The failure block: one distinct failure in at most 25 lines of plain text.

The last thing that a terminal shows and the first that a reader of the page
sees: what broke, who held what, how to see it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reports.checks.spec import CLAUSES
from reports.formats.text import duration, readable, seconds, short

if TYPE_CHECKING:
    from reports.formats.results import Failure

LINES_MAX = 25
_INTERVALS_MAX = 6


def failure_block(failure: Failure) -> str:
    """The text of one failure, without a line end at its end."""
    head = [f"✗ {failure.clause}", short(failure.id, 40)]
    if failure.seed is not None:
        head.append(f"seed {failure.seed}")
    head += [short(part, 60) for part in (failure.scenario, failure.provider, failure.backend) if part]
    if failure.at_ns is not None:
        head.append(f"t {seconds(failure.at_ns - failure.begin_ns)}")
    lines = ["   ".join(head), f"  {short(readable(failure.message), 160)}"]
    if failure.clause in CLAUSES and CLAUSES[failure.clause] != failure.message:
        # The reader may meet this clause for the first time, so its sentence is shown.
        lines.append(f"  {'demanded':<10} {CLAUSES[failure.clause]}")
    lines += [f"  {line}" for line in _witness_lines(failure.witness, failure.begin_ns)]
    if failure.similar:
        lines.append(f"  {'similar':<10} {failure.similar:,} more run{'' if failure.similar == 1 else 's'}")
    lines += [f"  {short(label, 10):<10} {short(text, 160)}" for label, text in failure.notes]
    if failure.replay:
        label = "replay" if failure.replay.startswith("lockref replay ") else "again"
        lines.append(f"  {label:<10} {short(failure.replay, 160)}")
    if len(lines) > LINES_MAX:
        lines = [*lines[: LINES_MAX - 1], "  …"]
    return "\n".join(lines)


def _witness_lines(witness: dict[str, Any], origin_ns: int) -> list[str]:
    def told(at_ns: int) -> str:
        return seconds(at_ns - origin_ns)

    lines = []
    for entry in _entries(witness.get("intervals")):
        begin, end = entry.get("interval_ns") or (None, None)
        span = f"{told(begin)} to {told(end)}" if isinstance(begin, int) and isinstance(end, int) else ""
        lines.append(f"{'believed':<10} {_who(entry)}  {span}".rstrip())
    stands = witness.get("stands")
    if isinstance(stands, dict):
        lines.append(f"{'in the way':<10} {_standing(stands, told)}")
    if witness.get("because"):
        lines.append(f"{'because':<10} {short(readable(str(witness['because'])), 200)}")
    lines += _store_lines(witness, told)
    for name in ("effects", "grants") if witness.get("blame") == "store" else ("writes", "effects", "grants"):
        for entry in _entries(witness.get(name)):
            at = entry.get("at_ns")
            when = f"at {told(at)}" if isinstance(at, int) else ""
            state = str(entry.get("state") or entry.get("outcome") or "")
            lines.append(f"{name[:-1]:<10} {_who(entry)}  {short(state, 40)} {when}".rstrip())
    lines += [f"{'store':<10} {_store_write(entry, told)}" for entry in _entries(witness.get("store"))]
    overlap = witness.get("overlap_ns")
    if isinstance(overlap, list) and len(overlap) == 2 and all(isinstance(edge, int) for edge in overlap):
        length = duration(overlap[1] - overlap[0])
        lines.append(f"{'overlap':<10} {told(overlap[0])} to {told(overlap[1])} ({length})")
    return lines


def _standing(stands: dict[str, Any], told: Callable[[int], str]) -> str:
    """The record that kept others from the lock: whose it is, since when, and what its holder did."""
    said = [f"the record of {_who(stands)}"]
    for key, words in (
        ("granted_ns", "granted at"),
        ("at_ns", "last written at"),
        ("crashed_ns", "its process ended at"),
        ("given_up_ns", "given up at"),
    ):
        if isinstance(stands.get(key), int):
            said.append(f"{words} {told(stands[key])}")
    return ", ".join(said)


def _store_lines(witness: dict[str, Any], told: Callable[[int], str]) -> list[str]:
    """What the store accepted against a condition, or that it had done so before."""
    lines = []
    if witness.get("blame") == "store":
        lines.append(f"{'blame':<10} the store, not the lock: no lock is safe where this happens")
        for entry in _entries(witness.get("requests")):
            condition = str(entry.get("if_version") or "none")
            made = f", made {short(str(entry['made']), 40)}" if entry.get("made") else ""
            lines.append(
                f"{'accepted':<10} {_who(entry)}  request {entry.get('request')}, {entry.get('op')} "
                f"on {short(condition, 40)}{made}"
            )
            sent, done = entry.get("sent_ns"), entry.get("in_effect_ns")
            if isinstance(sent, int) and isinstance(done, int):
                lines.append(f"{'':<10}   sent at {told(sent)}, in effect by {told(done)}")
        if witness.get("advice"):
            lines.append(f"{'advice':<10} {witness['advice']}")
    fault = witness.get("after_store_fault")
    if isinstance(fault, dict):
        at = fault.get("at_ns")
        when = f" at {told(at)}" if isinstance(at, int) else ""
        lines.append(f"{'after':<10} {short(str(fault.get('text')), 110)}{when}: see {fault.get('clause')}")
    return lines


def _store_write(entry: dict[str, Any], told: Callable[[int], str]) -> str:
    """One write at the store: when, who, what, on which condition, and what came of it."""
    condition = f"if {short(str(entry['if_version']), 12)}" if entry.get("if_version") else "unconditional"
    if entry.get("if_version") == "absent":
        condition = "if absent"
    made = f" as {short(str(entry['version']), 12)}" if entry.get("version") else ""
    outcome = str(entry.get("outcome") or "unknown").replace("_", " ")
    return f"{told(int(entry['at_ns']))}  {_place(entry)} {entry.get('op', '')} {condition}: {outcome}{made}"


def _place(entry: dict[str, Any]) -> str:
    node, task = short(str(entry.get("node") or "?"), 40), str(entry.get("task") or "")
    return node if task in ("", "main") else f"{node}/{short(task, 24)}"


def _entries(value: Any) -> list[dict[str, Any]]:
    found = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
    return found[:_INTERVALS_MAX]


def _who(entry: dict[str, Any]) -> str:
    who = _place(entry)
    if entry.get("token") is not None:
        return f"{who}  token {entry['token']}"
    return who if entry.get("node") or not entry.get("owner") else f"{who}  owner {short(str(entry['owner']), 40)}"
