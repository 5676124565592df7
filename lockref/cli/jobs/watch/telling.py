"""The lines that tell a watched run, for people or as JSON objects, one a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lockref.cli.jobs.shown.console import printable, rest_in_words
from lockref.cli.jobs.watch.parts import Sight
from lockref.runtime import NS_PER_S
from lockref.words import counted
from reports.checks.spec import VIOLATED
from reports.formats.document import document_of, joint_digest

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from reports.formats.results import Failure, Results

STATUSES: Final[Mapping[str, str]] = {
    "finished": "the run is over",
    "failed": "the run ended with an error",
    "interrupted": "the run was interrupted",
    "killed": "the run is dead: its process ended without a word",
    "": "nobody names the writer of this folder, and nothing was written to it any more",
}
"""The words for a run that goes on no longer, by its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The speed of a part. rate: units per second of real time; 0 before it is known. left_ns: None where unknown."""

    rate: float
    left_ns: int | None


@dataclass(slots=True)
class Telling:
    """Tells one watched run. findings: those that were told, each once."""

    console: Console
    _findings: set[tuple[str, str, int]] = field(default_factory=set)
    _said: tuple[object, ...] = ()
    _step: str = ""

    def begun(self, folder: Path, about: Mapping[str, Any], status: str) -> None:
        """Say what is watched."""
        command = str(about.get("command", ""))
        if self.console.as_json:
            self.console.line({"told": "begun", "folder": str(folder), "command": command, "status": status})
            return
        self.console.say(f"watching  {folder}", style="head")
        for label, value in (("command", command), ("started", about.get("started_utc"))):
            if value:
                self.console.say(f"{label:<9} {printable(str(value), limit=400)}")

    def step(self, text: str) -> None:
        """Say which step of the run goes on, once for each."""
        if not text or text == self._step:
            return
        self._step = text
        if self.console.as_json:
            self.console.line({"told": "step", "text": text})
        else:
            self.console.say(f"step      {printable(text)}", style="dim")

    def progress(self, sight: Sight, pace: Pace) -> None:
        """Say how far a part is, and its verdict so far. Nothing is said twice."""
        results = sight.results
        state = (sight.part, sight.title, sight.done, sight.of, results and results.failures)
        if state == self._said:
            return
        self._said = state
        if self.console.as_json:
            self.console.line(
                {
                    "told": "progress",
                    "part": sight.part,
                    "title": sight.title,
                    "unit": sight.unit,
                    "done": sight.done,
                    "of": sight.of,
                    "rate_per_s": round(pace.rate, 1),
                    "left_ns": pace.left_ns,
                    "clauses": _clauses(results),
                }
            )
            return
        of = "" if sight.of is None else f" of {sight.of:,}"
        rate = f", {pace.rate:,.0f}/s" if pace.rate else ""
        left = f", {rest_in_words(pace.left_ns)}" if pace.left_ns is not None else ""
        title = printable(": ".join(filter(None, (sight.part, sight.title))))
        self.console.progress(
            f"{f'{title}: ' if title else ''}{sight.done:,}{of} {sight.unit}{rate}{left}; {_so_far(results)}"
        )

    def findings(self, sight: Sight) -> None:
        """Tell each distinct failure once, when it is first seen."""
        for failure in sight.results.failures if sight.results else ():
            key = (sight.part, failure.clause, failure.run)
            if key not in self._findings:
                self._findings.add(key)
                self._finding(sight.part, failure)

    def _finding(self, part: str, failure: Failure) -> None:
        if self.console.as_json:
            seen = failure.model_dump(include={"id", "clause", "message", "run", "seed", "at_ns", "replay"})
            self.console.line({"told": "finding", "part": part, **seen})
            return
        where = f" in {printable(part)}" if part else ""
        self.console.say(f"✗ {failure.clause}{where}: {printable(failure.message)}   {failure.replay}", style="bad")

    def ended(self, status: str) -> None:
        """Say why the watching ends. `verdict` follows."""
        if not self.console.as_json:
            style = "bad" if status in ("killed", "failed", "interrupted") else "head"
            self.console.say(STATUSES.get(status, status), style=style)

    def verdict(self, status: str, results: Sequence[Results], code: int) -> None:
        """The last JSON object: how the run ended, and the document of `lockref check --json`. Prose is said before."""
        if self.console.as_json:
            document = document_of(results, digest=joint_digest(results), folder=None)
            self.console.line({"told": "ended", "status": status or "unknown", "exit_code": code, **document})


def _clauses(results: Results | None) -> dict[str, dict[str, object]]:
    """The clauses that were asked so far: the verdict of each, and in how many runs it was broken or undecided."""
    asked = {} if results is None else results.clauses
    return {
        name: clause.model_dump(include={"verdict", "runs", "violated", "inconclusive"})
        for name, clause in asked.items()
        if clause.runs or clause.inconclusive
    }


def _so_far(results: Results | None) -> str:
    if results is None:
        return "nothing was judged so far"
    broken = [
        f"{name} in {counted(clause.violated, 'run')}"
        for name, clause in results.clauses.items()
        if clause.verdict == VIOLATED
    ]
    asked = sum(bool(clause.runs) for clause in results.clauses.values())
    return f"broken so far: {', '.join(broken)}" if broken else f"{counted(asked, 'clause')} held so far"


def left_ns(sight: Sight, rate: float, *, lasting_ns: int) -> int | None:
    """The real time that the rest of a part takes; None where nobody knows.

    lasting_ns: how long a recording is planned to last; 0 where that is unknown.
    """
    if sight.is_over:
        return None
    if sight.unit == "events":
        return max(lasting_ns - sight.span_ns, 0) if lasting_ns else None
    return round((sight.of - sight.done) / rate * NS_PER_S) if sight.of is not None and rate > 0 else None
