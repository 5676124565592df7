"""The parts of a watched folder: what each shows by now of a campaign of seeds, of a recording, of a finished account.

A part is only read. What is half written is waited for: a chunk appears whole, a row of a recording counts once its
checksum agrees, and an account is written beside and renamed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from lockref.errors import HistoryUnreadable
from lockref.lab.spool import SPOOL, is_spool, spooled_span
from reports.account import judged_history, summarised_results
from reports.checks.summary import Summary
from reports.formats.results import Results, load_results
from reports.history_files import CHUNKS, EVENTS, HISTORIES, has_history, read_runs, runs_beside
from scenarios.campaigns.account import NotAnAccount, read_account
from scenarios.campaigns.chunks import account_name, committed_chunks
from scenarios.campaigns.identity import FILE as CAMPAIGN
from scenarios.campaigns.identity import read_identity
from scenarios.campaigns.places import FolderPlace

RESULTS: Final = "results.json"

JUDGING_SHARE: Final = 10
"""A recording is judged again after so many times what judging it took: following costs a tenth of a core at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The state of a part at one moment.

    part: its name; "" for the folder itself. unit: `seeds`, `events` or `runs`. done, of: how many are there, and how
    many will be there; None where nobody knows. span_ns: true time between the first event of a recording and its last.
    results: what the judge says so far; None before there was anything to judge. is_over: its account is written.
    """

    part: str
    title: str
    unit: str
    done: int
    of: int | None = None
    span_ns: int = 0
    results: Results | None = None
    is_over: bool = False


class Part(Protocol):
    """One part of a watched folder."""

    def look(self) -> Sight | None:
        """The state now; None before there is one, and while the part is being replaced by what comes after it."""
        ...


@dataclass(slots=True)
class Committed:
    """A campaign whose executors commit their chunks to the folder, in any order (`scenarios.campaigns`).

    folder: the place of its chunks.
    """

    folder: Path
    name: str
    arguments: Mapping[str, Any]
    summary: Summary = field(default_factory=Summary)
    _read: set[int] = field(default_factory=set)

    def look(self) -> Sight | None:
        """As `Part.look`. A file of a chunk that is torn counts as one that is not there. Errors: ConfigError."""
        place = FolderPlace(self.folder)
        known = read_identity(place)
        if known is None:
            return None
        for number in committed_chunks(place):
            if number not in self._read:
                content = place.read(account_name(number))
                with suppress(NotAnAccount):
                    account = read_account(content or b"", campaign=known.digest, chunk=number)
                    self.summary.add(account.summary(frozenset()))
                    self._read.add(number)
        results = _told(self.summary, known.scenario, known.provider, self.arguments) if self._read else None
        return Sight(
            part=self.name,
            title=f"{known.scenario} under {known.provider}",
            unit="seeds",
            done=self.summary.runs,
            of=known.seeds[1] - known.seeds[0],
            results=results,
        )


def _told(summary: Summary, scenario: str, provider: str, arguments: Mapping[str, Any]) -> Results:
    """The account so far, each failure with the line that runs its seed again.

    The failures themselves are stored, and shrunk, when the campaign is over.
    """
    results = summarised_results(summary, title=scenario, scenario=scenario, provider=provider, provenance={})
    named = [str(name) for name in arguments.get("scenarios", ())]
    # Where there are several scenarios, each has a part of its own, named as the scenario names itself.
    which = named[0] if len(named) == 1 else scenario
    lock = str(arguments.get("provider", provider))
    for failure in results.failures:
        failure.replay = f"lockref {shlex.join(['sim', which, '--provider', lock, '--seeds', str(failure.run)])}"
    return results


@dataclass(slots=True)
class Recording:
    """A real run whose events are being recorded (`lockref.lab.spool`)."""

    folder: Path
    name: str
    now_ns: Callable[[], int]
    _results: Results | None = None
    _judged: int = 0
    _again_ns: int = 0
    _title: str | None = None

    def look(self) -> Sight | None:
        """As `Part.look`."""
        count, span_ns = spooled_span(self.folder / SPOOL)
        if self._title is None:
            self._title = self._named()
        begun_ns = self.now_ns()
        if count > self._judged and begun_ns >= self._again_ns:
            try:
                self._results = judged_history(self.folder)
            except (HistoryUnreadable, FileNotFoundError):
                # It holds no whole event yet, or it is being replaced by the finished history. `check` says at the end
                # whether it is damaged.
                return None
            self._judged = count
            self._again_ns = self.now_ns() + JUDGING_SHARE * (self.now_ns() - begun_ns)
        results = self._results
        return Sight(
            part=self.name, title=self._title or "", unit="events", done=count, span_ns=span_ns, results=results
        )

    def _named(self) -> str | None:
        """The scenario and the lock, as the run itself describes them; None before it has."""
        described = runs_beside(self.folder / f"{EVENTS}.parquet")
        if described is None:
            return None
        rows = read_runs(described).select(["scenario", "provider"]).to_pylist()
        return ", ".join(" under ".join(filter(None, row.values())) for row in rows)


@dataclass(slots=True)
class Finished:
    """A part whose account is written."""

    folder: Path
    name: str
    _results: Results | None = None

    def look(self) -> Sight:
        """As `Part.look`. Errors: ConfigError for an account that cannot be read."""
        if self._results is None:
            self._results = load_results(self.folder / RESULTS)
        told = self._results
        return Sight(
            part=self.name, title=told.title, unit="runs", done=told.runs, of=told.runs, results=told, is_over=True
        )


def part_of(folder: Path, name: str, *, arguments: Mapping[str, Any], now_ns: Callable[[], int]) -> Part | None:
    """The part that a folder is at this moment; None for a folder that shows nothing yet."""
    if (folder / RESULTS).exists() and any((folder / each).exists() for each in HISTORIES):
        return Finished(folder, name)
    for place in (folder, folder / CHUNKS):
        if (place / CAMPAIGN).exists():
            return Committed(place, name, arguments)
    if is_spool(folder / SPOOL):
        return Recording(folder, name, now_ns)
    return None


def part_folders(folder: Path) -> list[Path]:
    """Folders that may be parts: the run folder itself, what is in it, and of an evaluation the parts of each store."""
    inner = [path for pattern in ("*/", "*/*/") for path in sorted(folder.glob(pattern))]
    return [
        path
        for path in (folder, *inner)
        if path.name != CHUNKS and ((path / CHUNKS).is_dir() or is_spool(path / SPOOL) or has_history(path))
    ]
