"""What became of the table's data files, by the record of requests: changes that are in files which nobody reads.

A table has file groups: a base file, and log files with later changes. A rewrite makes a new base file: compaction,
clustering (which replaces whole groups), or a writer that adds rows to a small group. Two things can go wrong with an
acknowledged change. Its log file is in a group that had been replaced before: the writer had listed the files earlier.
Or a rewrite comes after it and does not read its log file. Hudi counts a log file to the newest base file whose instant
is not later than the log's completion. It leaves unfinished base files out, with the log files that count to them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lockref.runtime import NS_PER_S
from tests.evidence.tables.timeline import Instant, Timeline

_LOG: Final = re.compile(r"\.(?P<group>[0-9a-f-]{36}-[0-9]+)_(?P<instant>[0-9]{17})\.log\.")
_BASE: Final = re.compile(r"(?P<group>[0-9a-f-]{36}-[0-9]+)_[0-9-]+_(?P<instant>[0-9]{17})\.parquet")
_STEP: Final = re.compile(r"(?P<instant>[0-9]{17})(?P<completed>_[0-9]{17})?\.[a-z]+(?P<state>\.requested|\.inflight)?")
_SOME_BEFORE_NS: Final = 3 * NS_PER_S
"""A rewrite may have read a file so long before its instant was requested."""


@dataclass(slots=True)
class DataFile:
    """One file. Times in nanoseconds of the machine's monotonic clock; deleted_ns None for one that stays.

    reads: who has got its content, and when.
    """

    group: str
    instant: str
    is_log: bool
    written_ns: int
    deleted_ns: int | None = None
    reads: list[tuple[str, int]] = field(default_factory=list)

    def is_there(self, begin_ns: int, until_ns: int) -> bool:
        """True if the file was there at some time of that span."""
        return self.written_ns <= until_ns and (self.deleted_ns is None or self.deleted_ns >= begin_ns)


@dataclass(slots=True)
class Record:
    """files: by name. requested, ended: by instant, the client that wrote that file of the timeline, and when.

    They may be two clients: a pending compaction or clustering is carried out by another one where the first has died.
    """

    files: dict[str, DataFile] = field(default_factory=dict)
    requested: dict[str, tuple[str, int]] = field(default_factory=dict)
    ended: dict[str, tuple[str, int]] = field(default_factory=dict)

    def in_group(self, group: str, *, is_log: bool) -> Iterator[DataFile]:
        """Its files of one kind."""
        return (each for each in self.files.values() if each.group == group and each.is_log == is_log)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A rewrite of a file group. instant, ended_at: when it was requested and completed. replaces: the group goes.

    client: who completed it.
    """

    instant: str
    ended_at: str
    replaces: bool
    client: str
    begin_ns: int
    end_ns: int
    what: str


def read_record(events: pa.Table) -> Record:
    """What the requests of all clients say of the table's files."""
    record = Record()
    sent = events.filter(pc.equal(events["kind"], "sent")).select(["at_ns", "node", "op", "lock", "detail"])
    for row in sent.sort_by("at_ns").to_pylist():
        folder, _, name = (row["lock"] or "").rpartition("/")
        if folder.endswith("/timeline"):
            _note_step(record, row, name)
        elif "/.hoodie" not in folder and (found := _LOG.match(name) or _BASE.fullmatch(name)):
            _note_file(record, row, name, found)
    return record


def _note_step(record: Record, row: Mapping[str, Any], name: str) -> None:
    step = _STEP.fullmatch(name)
    if step is None or row["op"] != "write":
        return
    if step["state"] == ".requested":
        record.requested.setdefault(step["instant"], (row["node"], row["at_ns"]))
    elif step["completed"]:
        record.ended.setdefault(step["instant"], (row["node"], row["at_ns"]))


def _note_file(record: Record, row: Mapping[str, Any], name: str, found: re.Match[str]) -> None:
    file = record.files.get(name)
    if file is None:
        if row["op"] == "write":
            is_log = found.re is _LOG
            record.files[name] = DataFile(found["group"], found["instant"], is_log, row["at_ns"])
    elif row["op"] == "delete":
        file.deleted_ns = row["at_ns"]
    elif row["op"] == "read" and json.loads(row["detail"] or "{}").get("verb") == "GET object":
        file.reads.append((row["node"], row["at_ns"]))


def lost_files(events: pa.Table, timeline: Timeline) -> list[str]:
    """A sentence for each log file of a finished batch that is in a replaced group, or that a rewrite did not read."""
    record = read_record(events)
    found = []
    for file in sorted(record.files.values(), key=lambda each: each.written_ns):
        instant = timeline.instants.get(file.instant)
        if not file.is_log or instant is None or not instant.is_completed or not instant.batches:
            continue
        rewrites = sorted(_rewrites(record, timeline, file.group), key=lambda each: each.instant)
        told = f"the log file of {', '.join(instant.batches)} ({file.instant}, file group {file.group[:8]})"
        before = next((each for each in rewrites if each.ended_at < file.instant and each.replaces), None)
        if before is not None:
            found.append(f"{told} was written into a group that {before.what} {before.instant} had replaced")
            continue
        completed = instant.completions[0]
        after = next((each for each in rewrites if each.instant > completed), None)
        if after is None or any(
            client == after.client and after.begin_ns - _SOME_BEFORE_NS <= at_ns <= after.end_ns
            for client, at_ns in file.reads
        ):
            continue
        hiding = _unfinished(record, timeline, file.group, after, until=completed)
        found.append(
            f"{told}, completed {completed}, was not read by {after.what} {after.instant} of {after.client}; base "
            f"files from before that completion which were unfinished in the group then: {', '.join(hiding) or 'none'}"
        )
    return found


def _rewrites(record: Record, timeline: Timeline, group: str) -> Iterator[Rewrite]:
    """The finished rewrites of a group, those that replaced it included."""
    bases = {each.instant for each in record.in_group(group, is_log=False)}
    for instant in timeline.instants.values():
        if not instant.is_completed or instant.requested not in record.requested:
            continue
        replaces = group in _replaced(record, instant)
        if instant.requested in bases or replaces:
            begun = record.requested[instant.requested]
            # Who has completed it has read the files for it.
            client, end_ns = record.ended.get(instant.requested, begun)
            yield Rewrite(
                instant=instant.requested,
                ended_at=instant.completions[0],
                replaces=replaces,
                client=client,
                begin_ns=begun[1],
                end_ns=end_ns,
                what=", ".join(instant.batches) or "/".join(sorted(instant.kinds)) or instant.action,
            )


def _replaced(record: Record, instant: Instant) -> set[str]:
    """The groups that an instant has replaced: all that its metadata names, without those that it made."""
    if instant.action != "replacecommit":
        return set()
    return instant.groups - {each.group for each in record.files.values() if each.instant == instant.requested}


def _unfinished(record: Record, timeline: Timeline, group: str, rewrite: Rewrite, *, until: str) -> Iterable[str]:
    """The instants of base files in the group that nobody had finished when it was rewritten, up to an instant."""
    return sorted(
        each.instant
        for each in record.in_group(group, is_log=False)
        if each.instant <= until
        and each.is_there(rewrite.begin_ns, rewrite.end_ns)
        and not ((found := timeline.instants.get(each.instant)) is not None and found.is_completed)
    )
