"""Hudi's lock audit: who held the lock when, written beside it and validated afterwards.

Same folder, file names and records as Hudi 1.2.0, so that either tool reads
the other's files. Two things differ in the writing (H25): a task of its own
writes, so that a slow audit never delays a renewal (D17), and each lock cycle
gets a file of its own, so that two cycles never merge into one window.

There are two validators. `validate_as_hudi` gives Hudi's results and messages;
it trusts wall clocks and ends a victim's window at its lease's end, so it can
never see a lease taken by expiry. `validate` allows for clock differences,
uses the renewals, and says which windows were taken over how.

Source: RFC-91 audit (apache/hudi#13836, #13868, #13886); reference §8, weaknesses (a) to (f).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from lockref.errors import ConfigError
from lockref.grammar import decimal
from lockref.locks.notices import AuditState
from lockref.runtime import NS_PER_MS, Runtime, WallNs
from lockref.stores.port import ObjectStore
from lockref.strict_json import NotJson, read_object, whole_number
from lockref.words import Outcome

SWITCH_NAME: Final = "audit_enabled.json"
SWITCH_FIELD: Final = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"
FOLDER_NAME: Final = "audit"
FILE_SUFFIX: Final = ".jsonl"
QUEUE_MAX: Final = 256
"""Records waiting to be written; beyond this the oldest file is given up, never the lock."""

_STAMP_MAX: Final = 2**63 - 1

_FIELDS: Final = ("transactionStartTime", "lockHeld", "state", "lockExpiration", "ownerId", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One line. Times are epoch milliseconds of the writer's wall clock, taken before its request left."""

    began_ms: int
    is_held: bool
    state: AuditState
    expires_ms: int
    owner: str
    at_ms: int

    def to_line(self) -> str:
        values = (self.began_ms, self.is_held, str(self.state), self.expires_ms, self.owner, self.at_ms)
        return json.dumps(dict(zip(_FIELDS, values, strict=True)), separators=(",", ":"), ensure_ascii=False) + "\n"


def is_enabled(store: ObjectStore, locks_key: str) -> bool:
    """Is the audit switched on? Missing, malformed or unreadable means no, as in Hudi."""
    reply = store.read(f"{locks_key}/{SWITCH_NAME}")
    if reply.outcome is not Outcome.APPLIED or reply.body is None:
        return False
    try:
        return read_object(reply.body).get(SWITCH_FIELD) is True
    except NotJson:
        return False


def set_enabled(store: ObjectStore, locks_key: str, *, to: bool) -> Outcome:
    """Switch the audit on or off; how the store answered."""
    body = json.dumps({SWITCH_FIELD: to}, separators=(",", ":")).encode()
    return store.put(f"{locks_key}/{SWITCH_NAME}", body).outcome


class AuditTrail:
    """Writes a client's tenures down, in the background.

    locks_key: key of the folder that holds the lock object.
    validity_ns: L; a record's expiration is its time plus L.
    The switch is read once, by the writing task, when there is something to write.
    """

    def __init__(self, store: ObjectStore, *, locks_key: str, validity_ns: int, runtime: Runtime) -> None:
        self._store = store
        self._locks_key = locks_key
        self._validity_ns = validity_ns
        self._runtime = runtime
        self._mutex = runtime.mutex()
        # Lines by file, in order of the first line; a file leaves when it is complete and written.
        self._lines: dict[str, list[str]] = {}
        self._unwritten: list[str] = []
        # By owner: the milliseconds that name the file of its present cycle.
        self._starts: dict[str, int] = {}
        self._is_writing = False
        self._drained = runtime.event()
        self._drained.set()
        self._is_on: bool | None = None
        self.dropped = 0

    def note(self, state: AuditState, *, owner: str, began_ns: WallNs, at_ns: WallNs) -> None:
        """Take down one record and return at once; a task writes it (H25, D17)."""
        if self._is_on is False:
            return
        record = AuditRecord(
            began_ms=self._start_ms(state, owner, began_ns),
            # True on END, too: Hudi records it before it lets go.
            is_held=True,
            state=state,
            expires_ms=(at_ns + self._validity_ns) // NS_PER_MS,
            owner=owner,
            at_ms=at_ns // NS_PER_MS,
        )
        name = f"{record.began_ms}_{owner}{FILE_SUFFIX}"
        with self._mutex:
            self._lines.setdefault(name, []).append(record.to_line())
            if name not in self._unwritten:
                self._unwritten.append(name)
            self._make_room()
            starts = not self._is_writing
            self._is_writing = True
            self._drained.clear()
        if starts:
            self._start_writing()

    def _start_writing(self) -> None:
        is_started = False
        try:
            self._runtime.spawn(self._write_all, name="lockref-audit")
            is_started = True
        except RuntimeError:
            # No thread to be had: the next record tries again. The audit is best effort, the lock is not.
            pass
        finally:
            if not is_started:
                with self._mutex:
                    self._is_writing = False

    def _start_ms(self, state: AuditState, owner: str, began_ns: WallNs) -> int:
        """The start of this cycle, which names its file: at least one millisecond after the name of the last one."""
        with self._mutex:
            last_ms = self._starts.get(owner, -1)
            if state is AuditState.START:
                self._starts[owner] = last_ms = max(began_ns // NS_PER_MS, last_ms + 1)
            return last_ms

    def flush(self, timeout_ns: int) -> bool:
        """Wait until everything is written; False if the time ran out first."""
        return self._drained.wait(timeout_ns)

    def _make_room(self) -> None:
        """The queue is bounded; the audit is best effort, the lock is not. The mutex is held."""
        while len(self._unwritten) > QUEUE_MAX:
            self._lines.pop(self._unwritten.pop(0), None)
            self.dropped += 1

    def _write_all(self) -> None:
        try:
            self._write_until_empty()
        finally:
            # If the store raised, the next record starts another task.
            with self._mutex:
                self._is_writing = False

    def _write_until_empty(self) -> None:
        while True:
            with self._mutex:
                if not self._unwritten:
                    self._is_writing = False
                    self._drained.set()
                    return
                name = self._unwritten.pop(0)
                lines = list(self._lines[name])
                if AuditState.END in lines[-1]:
                    # One window per cycle: nothing follows an END.
                    del self._lines[name]
            if self._is_on is None:
                self._is_on = is_enabled(self._store, self._locks_key)
            if self._is_on:
                # Nobody else writes this file, so no condition is needed.
                self._store.put(f"{self._locks_key}/{FOLDER_NAME}/{name}", "".join(lines).encode())


# ---- reading ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One file: from when to when a client held the lock, as it wrote it down. Epoch milliseconds.

    ended_ms: None if the file has no END. covered_ms: the expiration of the
    last record. leased_until_ms: the latest without END, whose expiration was never
    written to the lock object.
    """

    name: str
    owner: str
    started_ms: int
    ended_ms: int | None
    covered_ms: int
    leased_until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The findings of a validation. result: PASSED, WARNING, FAILED or ERROR, as in Hudi.

    unreadable: the names of files that are no audit files, of a validation by `validate`.
    """

    result: str
    transactions: int
    issues: int
    lines: tuple[str, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def details(self) -> str:
        return "\n".join(self.lines)


def parse_file(name: str, body: bytes) -> Window:
    """The window of one file. Raises ConfigError for what is no audit file."""
    try:
        # Not `splitlines`, which also ends a line at characters that may stand inside a JSON string.
        records = [read_object(line) for line in body.split(b"\n") if line.strip()]
        if not records:
            raise ValueError("no record")
        starts = [record for record in records if record["state"] == AuditState.START]
        ends = [record for record in records if record["state"] == AuditState.END]
        return Window(
            name=name,
            owner=str(records[0]["ownerId"]),
            started_ms=_stamp_ms(starts[0]["timestamp"] if starts else records[0]["transactionStartTime"]),
            ended_ms=_stamp_ms(ends[-1]["timestamp"]) if ends else None,
            covered_ms=_stamp_ms(records[-1]["lockExpiration"]),
            leased_until_ms=max(
                (_stamp_ms(record["lockExpiration"]) for record in records if record["state"] != AuditState.END),
                default=0,
            ),
        )
    except (ValueError, KeyError) as error:
        raise ConfigError(f"reading audit file {name}: {error!r}; expected Hudi's audit lines") from error


def _stamp_ms(value: object) -> int:
    """A time of an audit record, as Jackson's `asLong` takes it: a number, or a number written as text."""
    if isinstance(value, float):
        value = int(value)
    if isinstance(value, str):
        value = decimal(value)
    return whole_number(value, least=-_STAMP_MAX, most=_STAMP_MAX)


def windows_of(files: Mapping[str, bytes]) -> list[Window]:
    """The windows of audit files by name, in the order in which they began; what is no audit file is left out."""
    return _parse_all(files)[0]


def _parse_all(files: Mapping[str, bytes]) -> tuple[list[Window], list[str]]:
    windows: list[Window] = []
    unreadable: list[str] = []
    for name in sorted(files):
        try:
            windows.append(parse_file(name, files[name]))
        except ConfigError:
            unreadable.append(name)
    return sorted(windows, key=lambda window: (window.started_ms, window.name)), unreadable


def _report(windows: Sequence[Window], errors: Sequence[str], warnings: Sequence[str]) -> AuditReport:
    result = "FAILED" if errors else "WARNING" if warnings else "PASSED"
    lines = (*errors, *warnings)
    return AuditReport(result=result, transactions=len(windows), issues=len(lines), lines=lines)


_NOT_GRACEFUL: Final = "transaction did not end gracefully. This could be due to driver OOM or non-graceful shutdown."


def validate_as_hudi(files: Mapping[str, bytes] | None) -> AuditReport:
    """Hudi's verdict and words on audit files by name; None means that there is no folder."""
    if not files:
        missing = "No audit folder found" if files is None else "No audit files found"
        return AuditReport(result="PASSED", transactions=0, issues=0, lines=(f"{missing} - nothing to validate",))
    windows, unreadable = _parse_all(files)
    errors = [f"[ERROR] Failed to parse audit file: {name}" for name in unreadable]
    warnings = [f"[WARNING] {window.name} => {_NOT_GRACEFUL}" for window in windows if window.ended_ms is None]
    for index, earlier in enumerate(windows):
        end_ms = earlier.covered_ms if earlier.ended_ms is None else earlier.ended_ms
        errors += [
            f"[ERROR] {earlier.name} => overlaps with {later.name}"
            for later in windows[index + 1 :]
            if later.started_ms < end_ms
        ]
    return _report(windows, errors, warnings)


def validate(files: Mapping[str, bytes], *, drift_ms: int = 500, margin_ms: int = 500) -> AuditReport:
    """Were two clients in possession at once, allowing for their clocks?

    drift_ms: β, how far two wall clocks may differ. margin_ms: M, by how much
    a hardened holder stops before its lease ends; 0 for Hudi's holders.

    An ERROR is an overlap that no clock difference within drift_ms explains, or
    a holder that was still active after a successor began. The result is then FAILED; it is ERROR where files are no
    audit files and nothing else is wrong. A WARNING is a
    takeover by expiry (the victim wrote no END), which Hudi's validator
    cannot see, or a difference of clocks that must be larger than it looks.
    """
    windows, unreadable = _parse_all(files)
    errors: list[str] = []
    warnings: list[str] = []
    for earlier, later in pairwise(windows):
        pair = f"{earlier.name} => {later.name}"
        if earlier.ended_ms is None:
            early_ms = earlier.covered_ms - margin_ms - later.started_ms
            if early_ms > drift_ms:
                errors.append(f"[ERROR] {pair} took the lock {early_ms} ms before its holder had to stop")
            else:
                warnings.append(f"[WARNING] {pair} took the lock by expiry, its holder wrote no END")
            continue
        early_ms = earlier.ended_ms - later.started_ms
        if early_ms > drift_ms:
            errors.append(f"[ERROR] {pair} began {early_ms} ms before the end, more than clocks explain")
        elif early_ms > 0:
            warnings.append(f"[WARNING] {pair} began {early_ms} ms before the end, within the difference of clocks")
    errors += [
        f"[ERROR] {window.name} => was active after its last lease had ended"
        for window in windows
        if window.ended_ms is not None and window.ended_ms > window.leased_until_ms
    ]
    if windows and windows[-1].ended_ms is None:
        warnings.append(f"[WARNING] {windows[-1].name} => {_NOT_GRACEFUL}")
    judged = _report(windows, errors, warnings)
    if not unreadable:
        return judged
    no_audit_files = tuple(f"[ERROR] {name} => is no audit file" for name in unreadable)
    return replace(
        judged,
        result=judged.result if errors else "ERROR",
        issues=judged.issues + len(unreadable),
        lines=(*no_audit_files, *judged.lines),
        unreadable=tuple(unreadable),
    )
