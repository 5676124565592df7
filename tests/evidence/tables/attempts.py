"""What the writers say of their own attempts: the log of each role, read and paired."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lockref.errors import HistoryUnreadable

ACKNOWLEDGED: Final = "acknowledged"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a role to write a batch.

    rows: by key what it does: `delete`, `count` by so many, or the columns that the row gets. outcome: `unknown` also
    where its process died in it. Times in nanoseconds of the machine's monotonic clock; ended_ns is None where it died.
    """

    client: str
    role: str
    batch: str
    op: str
    rows: Mapping[str, Mapping[str, Any]]
    began_ns: int
    ended_ns: int | None
    outcome: str
    error: str = ""

    @property
    def took_ns(self) -> int | None:
        return None if self.ended_ns is None else self.ended_ns - self.began_ns


def read_attempts(folder: Path) -> list[Attempt]:
    """The attempts of all roles, in the order of their beginning. Errors: HistoryUnreadable with file and line."""
    found: list[Attempt] = []
    for path in sorted(folder.glob("*.jsonl")):
        found += paired(_lines(path))
    return sorted(found, key=lambda attempt: attempt.began_ns)


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            # The process was killed while it wrote: the line before says what it was about to do.
            return
        try:
            yield json.loads(line)
        except ValueError as error:
            raise HistoryUnreadable(f"{path}:{number}: {error}") from error


def paired(lines: Iterable[Mapping[str, Any]]) -> list[Attempt]:
    """The attempts in the log of one role. One that has no end is unknown."""
    begun: dict[str, Mapping[str, Any]] = {}
    found = []
    for line in lines:
        if line["event"] == "begun":
            begun[line["batch"]] = line
        elif line["event"] == "ended":
            found.append(_attempt(begun.pop(line["batch"]), line))
    return found + [_attempt(line, None) for line in begun.values()]


def _attempt(begun: Mapping[str, Any], ended: Mapping[str, Any] | None) -> Attempt:
    return Attempt(
        client=begun["client"],
        role=begun["role"],
        batch=begun["batch"],
        op=begun["op"],
        rows=begun["rows"],
        began_ns=begun["at_ns"],
        ended_ns=None if ended is None else ended["at_ns"],
        outcome=UNKNOWN if ended is None else ended["outcome"],
        error="its process ended in it" if ended is None else ended["error"],
    )
