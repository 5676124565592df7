"""The commit protocols of Delta tables, each as its source does it.

`put`            load the state, then write the next entry unconditionally. Alone, it lets Alpha and Bravo both write
                 version 2 (W16). Under a lock it is what the post describes: load and write in the critical section.
`rename`         delta-rs with dynamodb_lock: the entry lies ready under a temporary name, and the lock guards only its
                 copy into its place (D2); see `renaming.py`.
`rename_identity`  the same, corrected.
`create`         conditional create of the next entry, as object_store and delta-rs do it today: a request without an
                 answer is sent again, and a refusal means that a rival was first (B19).
`create_identity`  the same, but a refusal or silence is looked up: the entry tells whose it is.
`helping`        S3DynamoDBLogStore: a row in a table decides; whoever comes next finishes what it stands for.

Each takes a `Writer` and returns what it is told. None of them raises: silence at the end is AMBIGUOUS.

Source: Buoyant Data's post; delta-rs f87afceb6^ `s3.rs`; arrow-rs-object-store `aws/client.rs`, retry; delta
`BaseExternalLogStore.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from lockref.dynamodb.table import KEY, VERSION, absent, equals, flag, text
from lockref.errors import OutcomeUnknown
from lockref.words import Outcome
from scenarios.workloads.delta.log_files import Commit, entry_key, parse_commit
from scenarios.workloads.delta.renaming import Rename
from scenarios.workloads.delta.writer import CommitAnswer, Writer

ATTEMPTS_MAX: Final = 15
"""A writer gives up after so many versions that were taken, as deltalake 0.13.0 and 0.14.0 do. Newer ones try 16."""

RESENDS_MAX: Final = 3
"""How often one request is sent again where no answer came."""


class CommitProtocol(Protocol):
    """One way to commit."""

    def __call__(self, writer: Writer, commit: Commit) -> CommitAnswer: ...


def put(writer: Writer, commit: Commit) -> CommitAnswer:
    """Load, then write the next version without a condition."""
    version = writer.load()
    writer.attempts += 1
    if not writer.may_write():
        return writer.told(Outcome.REJECTED)
    written = writer.log.store.put(entry_key(writer.log.table, version), commit.to_bytes())
    return writer.told(written.outcome, version if written.outcome is Outcome.APPLIED else None)


def create(writer: Writer, commit: Commit) -> CommitAnswer:
    """Conditional create without identity: every refusal is a rival's doing, also after a lost answer (B19, B20)."""
    while writer.attempts < ATTEMPTS_MAX:
        version = writer.load()
        writer.attempts += 1
        outcome = _create(writer, version, commit)
        if outcome is Outcome.APPLIED:
            return writer.told(outcome, version)
        if outcome not in (Outcome.PRECONDITION_FAILED, Outcome.CONFLICT):
            return writer.told(outcome)
    return writer.told(Outcome.PRECONDITION_FAILED)


def create_with_identity(writer: Writer, commit: Commit) -> CommitAnswer:
    """As `create`, but whatever is no plain success is looked up before anything else is tried."""
    version = None
    while writer.attempts < ATTEMPTS_MAX:
        if version is None:
            version = writer.load()
        writer.attempts += 1
        outcome = _create(writer, version, commit)
        if outcome is Outcome.APPLIED:
            return writer.told(outcome, version)
        if outcome is Outcome.REJECTED:
            return writer.told(outcome)
        found = writer.log.read(entry_key(writer.log.table, version))
        if found is not None:
            present = parse_commit(found)
            if present is not None and present.identity == commit.identity:
                return writer.told(Outcome.APPLIED, version)
            version = None
        elif outcome is Outcome.AMBIGUOUS:
            # No entry is there yet, but a request of ours may still be under way, so the fate of the commit is open.
            return writer.told(outcome)
        writer.pause()
    return writer.told(Outcome.PRECONDITION_FAILED)


def _create(writer: Writer, version: int, commit: Commit) -> Outcome:
    """One conditional create, sent again while there is no answer."""
    for resend in range(1 + RESENDS_MAX):
        if resend:
            writer.pause()
        reply = writer.log.store.put_if_absent(entry_key(writer.log.table, version), commit.to_bytes())
        if reply.outcome not in (Outcome.AMBIGUOUS, Outcome.THROTTLED):
            return reply.outcome
    return Outcome.AMBIGUOUS


def help_each_other(writer: Writer, commit: Commit) -> CommitAnswer:
    """The helping log store: a row decides whose commit a version is, and any writer copies the entry to its place.

    The row names a temporary object with the entry. No owner, lease or clock is asked. The steps: finish version N − 1,
    upload, put the row of version N (which decides), copy, complete the row.
    """
    assert writer.rows is not None, "a helping log store has a table"
    log = writer.log
    while writer.attempts < ATTEMPTS_MAX:
        version = writer.load()
        writer.attempts += 1
        if version and not _finish(writer, version - 1):
            continue
        temporary = f"{log.table}/_delta_log/.tmp/{version:020}.{commit.identity}"
        if log.store.put(temporary, commit.to_bytes()).outcome is not Outcome.APPLIED:
            return writer.told(Outcome.REJECTED)  # Nobody knows of the temporary object: nothing has landed.
        row = {
            VERSION: text(commit.identity), "fileName": text(f"{version:020}.json"), "tempPath": text(temporary),
            "complete": flag(False),
        }  # fmt: skip
        prepared = writer.rows.put(entry_key(log.table, version), row, absent(KEY))
        if prepared.outcome in (Outcome.AMBIGUOUS, Outcome.PRECONDITION_FAILED, Outcome.CONFLICT):
            present = writer.rows.get(entry_key(log.table, version))
            stands = present.item()
            is_open = stands is None and prepared.outcome is Outcome.AMBIGUOUS
            if present.outcome is not Outcome.APPLIED or is_open:
                return writer.told(Outcome.AMBIGUOUS)
            if stands is None or stands["tempPath"] != row["tempPath"]:
                # Somebody else's: finish it, and take the next version.
                _finish(writer, version)
                writer.pause()
                continue
        elif prepared.outcome is not Outcome.APPLIED:
            return writer.told(Outcome.REJECTED)
        _finish(writer, version)
        return writer.told(Outcome.APPLIED, version)
    return writer.told(Outcome.PRECONDITION_FAILED)


def _finish(writer: Writer, version: int) -> bool:
    """Copy the entry that the row of this version names to its place, and complete the row, unless that is done.

    True if the entry is in its place now. False if it is not, or nobody answered: whoever comes next tries again.
    """
    assert writer.rows is not None, "a helping log store has a table"
    key = entry_key(writer.log.table, version)
    found = writer.rows.get(key)
    if found.outcome is not Outcome.APPLIED:
        return False
    row = found.item()
    if row is None or row["complete"] == flag(True):
        return writer.log.read(key) is not None
    content = writer.log.read(row["tempPath"]["S"])
    if content is None or writer.log.store.put(key, content).outcome is not Outcome.APPLIED:
        return False
    done = {**{name: value for name, value in row.items() if name != KEY}, "complete": flag(True)}
    writer.rows.put(key, done, equals(VERSION, row[VERSION]))
    return True


PROTOCOLS: Final[Mapping[str, CommitProtocol]] = {
    "put": put,
    "rename": Rename(compares=False),
    "rename_identity": Rename(compares=True),
    "create": create,
    "create_identity": create_with_identity,
    "helping": help_each_other,
}
"""By the name that a scenario gives as `workload.protocol`."""


def commit_by(protocol: CommitProtocol, writer: Writer, commit: Commit) -> CommitAnswer:
    """Commit. Where the store falls silent while it is read, nobody knows what became of earlier writes."""
    writer.gets = writer.attempts = 0
    try:
        return protocol(writer, commit)
    except OutcomeUnknown:
        return writer.told(Outcome.AMBIGUOUS)
