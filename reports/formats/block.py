"""The failure block: one distinct failure in at most 25 lines of plain text.

The last thing that a terminal shows and the first that a reader of the page
sees: what broke, who held what, how to see it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lockref.durations import duration
from reports.checks.spec import CLAUSES
from reports.formats.text import readable, seconds, short

if TYPE_CHECKING:
    from reports.formats.results import Failure

LINES_MAX = 25
MESSAGE_MAX = 240
"""Characters of the sentence that says what broke; its end tells how badly."""
_INTERVALS_MAX = 6


def failure_block(failure: Failure) -> str:
    """The text of one failure, without a line end at its end."""
    head = [f"✗ {failure.clause}", short(failure.id, 40)]
    if failure.seed is not None:
        head.append(f"seed {failure.seed}")
    head += [short(part, 60) for part in (failure.scenario, failure.provider, failure.backend) if part]
    if failure.at_ns is not None:
        head.append(f"t {seconds(failure.at_ns)}")
    lines = ["   ".join(head), f"  {short(readable(failure.message), MESSAGE_MAX)}"]
    if failure.clause in CLAUSES and CLAUSES[failure.clause] != failure.message:
        # The reader may meet this clause for the first time, so its sentence is shown.
        lines.append(f"  {'demanded':<10} {CLAUSES[failure.clause]}")
    if failure.because:
        lines.append(f"  {'because':<10} {failure.because}")
    tail = []
    if failure.similar:
        tail.append(f"  {'similar':<10} {failure.similar:,} more run{'' if failure.similar == 1 else 's'}")
    tail += [f"  {short(label, 10):<10} {short(text, 160)}" for label, text in failure.notes]
    if failure.replay:
        label = "replay" if failure.replay.startswith("lockref replay ") else "again"
        tail.append(f"  {label:<10} {short(failure.replay, 160)}")
    told = [f"  {line}" for line in _witness_lines(failure.witness, has_cause=bool(failure.because))]
    # How to see it again is never cut off.
    room = LINES_MAX - len(lines) - len(tail)
    if len(told) > room:
        told = [*told[: max(room - 1, 0)], "  …"]
    return "\n".join([*lines, *told, *tail][:LINES_MAX])


def _witness_lines(witness: dict[str, Any], *, has_cause: bool) -> list[str]:
    """has_cause: the cause of the failure is told, and with it what the witness says of it."""
    told = seconds
    key = str(witness.get("lock") or witness.get("table") or "")
    lines = [f"{'key':<10} {short(key, 120)}"] if key else []
    believed = [f"{_who(entry)}  {_span(entry, told)}{_request(entry)}" for entry in _entries(witness.get("intervals"))]
    lines += [f"{'believed':<10} {line}" for line in believed]
    overlap = witness.get("overlap_ns")
    if isinstance(overlap, list) and len(overlap) == 2 and all(isinstance(edge, int) for edge in overlap):
        length = duration(overlap[1] - overlap[0])
        lines.append(f"{'overlap':<10} {told(overlap[0])} to {told(overlap[1])} ({length})")
    lines += [f"{'call':<10} {_call(entry, told)}" for entry in _entries(witness.get("calls"))]
    stands = witness.get("stands")
    if isinstance(stands, dict):
        lines.append(f"{'in the way':<10} {_standing(stands, told)}")
    if witness.get("because") and not has_cause:
        lines.append(f"{'because':<10} {short(readable(str(witness['because'])), 200)}")
    for entry in _entries(witness.get("beyond_promise")):
        since = f", from {told(entry['at_ns'])} on" if isinstance(entry.get("at_ns"), int) else ""
        lines.append(f"{'unpromised':<10} {short(str(entry.get('text')), 180)}{since}")
    lines += _store_lines(witness, told)
    for name in (
        ("effects", "grants") if witness.get("blame") == "store" else ("writes", "effects", "grants", "entries")
    ):
        label = "entry" if name == "entries" else name[:-1]
        for entry in _entries(witness.get(name)):
            lines.append(f"{label:<10} {_change(entry, key, told)}")
    shown = {entry["seq"] for entry in _entries(witness.get("writes")) if "seq" in entry}
    around = [entry for entry in _entries(witness.get("store")) if entry.get("seq", -1) not in shown]
    return lines + [f"{'store':<10} {_store_write(entry, told)}" for entry in around]


def _span(entry: dict[str, Any], told: Callable[[int], str]) -> str:
    begin, end = entry.get("interval_ns") or (None, None)
    if not isinstance(begin, int):
        return ""
    return f"{told(begin)} to {told(end)}" if isinstance(end, int) else f"from {told(begin)} on"


def _request(entry: dict[str, Any]) -> str:
    """Which request it was, or why there is none."""
    if entry.get("request") is not None:
        return f"  request {entry['request']}"
    return f"  ({entry['no_request']})" if entry.get("no_request") else ""


def _call(entry: dict[str, Any], told: Callable[[int], str]) -> str:
    """One call: who asked for what, from when to when, and what was answered."""
    span = _span(entry, told) or f"at {told(entry['at_ns'])}"
    outcome = str(entry.get("outcome") or "").replace("_", " ")
    return f"{_who(entry)}  {entry.get('op', '')} {span}: {outcome}{_request(entry)}"


def _change(entry: dict[str, Any], key: str, told: Callable[[int], str]) -> str:
    """One write of a record, of a protected object or of a log: who, what, when, on which condition."""
    at = entry.get("at_ns")
    state = str(entry.get("state") or entry.get("outcome") or "")
    parts = [_who(entry), *([state] if state else [])]
    if entry.get("identity"):
        parts.append(f"commit {short(str(entry['identity']), 24)} in version {entry.get('version')}")
    if entry.get("key") and entry["key"] != key:
        parts.append(f"on {short(str(entry['key']), 60)}")
    if isinstance(at, int):
        parts.append(f"at {told(at)}")
    line = "  ".join((parts[0], " ".join(parts[1:])))
    guilty = "  ← wrong" if entry.get("is_guilty") else ""
    return f"{line}{_condition(entry)}{_request(entry)}{guilty}"


def _condition(entry: dict[str, Any]) -> str:
    if "is_conditional" not in entry:
        return ""
    if not entry["is_conditional"]:
        return ", without a condition"
    version = str(entry.get("if_version") or "")
    return f", if {'absent' if version == 'absent' else short(version, 12)}"


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
    """The write that the store accepted against a condition, or that it had accepted one before."""
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
    condition = f"if {short(str(entry['if_version']), 12)}" if entry.get("if_version") else "without a condition"
    if entry.get("if_version") == "absent":
        condition = "if absent"
    made = f" as {short(str(entry['version']), 12)}" if entry.get("version") else ""
    outcome = str(entry.get("outcome") or "unknown").replace("_", " ")
    said = f"{told(int(entry['at_ns']))}  {_place(entry)} {entry.get('op', '')} {condition}: {outcome}{made}"
    return f"{said}{_request(entry)}"


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
