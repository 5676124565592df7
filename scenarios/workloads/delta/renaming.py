"""delta-rs' commit under dynamodb_lock: a rename, guarded by the lock, and finished by others where its writer died.

The entry is written under a temporary name first. The lock's row tells source and destination of the rename. Under the
lock the writer looks whether the destination is taken, copies, and deletes the source. A writer that takes the lock
over from a dead holder finishes the dead holder's rename first.

There are two forms. As shipped: a source that is not there is an error. A release that finds the row taken is an error,
although the entry landed (B11). The caller of a commit that failed commits the same actions again (B10). A writer that
takes over a row without `data`, or with data that nobody can read, goes away and keeps the lock (B12). Corrected: the
entry tells whose it is, and a writer that is not sure reads the entry before it does or says anything else. How the
release ended changes nothing.

Source: delta-rs f87afceb6^ crates/deltalake-core/src/storage/s3.rs (`rename_with_lock`).
"""

from __future__ import annotations

from dataclasses import dataclass

from lockref.delta.renaming import PendingRename
from lockref.errors import CorruptRecord, LockError
from lockref.provider import CarriesData
from lockref.words import Outcome
from scenarios.workloads.delta.log_files import Commit, Log, entry_key, parse_commit
from scenarios.workloads.delta.writer import CommitAnswer, Writer


@dataclass(frozen=True, slots=True)
class Rename:
    """The protocol. compares: the corrected form."""

    compares: bool

    def prepare(self, writer: Writer, commit: Commit, lock: CarriesData | None) -> None:
        """Before the lock is asked: load where that was not done, upload the entry, and say what is to be done.

        lock: None for one whose record carries no data. Raises OutcomeUnknown if the store does not answer.
        """
        version = writer.known + 1 if writer.known >= 0 else writer.load()
        if self.compares and writer.prepared is not None and self._is_ours(writer, commit, writer.prepared):
            return  # An earlier attempt, or whoever finished it, has landed: the next step finds it.
        if writer.prepared is not None and _is_taken(writer.log, writer.prepared):
            version = writer.load()
        log = writer.log
        source = f"{log.table}/_delta_log/.tmp/{commit.identity}-{version}"
        writer.prepared = PendingRename(source, entry_key(log.table, version))
        log.store.put(source, commit.to_bytes())
        if lock is not None:
            lock.intent = writer.prepared.to_data()

    def __call__(self, writer: Writer, commit: Commit) -> CommitAnswer:
        """Under the lock. PRECONDITION_FAILED: nothing landed, and the writer tries again with a new lock."""
        lock, renaming = writer.lock, writer.prepared
        assert renaming is not None, "a rename is prepared before the lock is asked"
        writer.attempts += 1
        if lock is not None and lock.took_over and not self._repair(writer, lock, renaming):
            return writer.told(Outcome.REJECTED, is_lock_kept=True)
        if _is_taken(writer.log, renaming):
            if self.compares and self._is_ours(writer, commit, renaming):
                return writer.told(Outcome.APPLIED, _version_of(renaming))
            return writer.told(Outcome.PRECONDITION_FAILED)
        content = writer.log.read(renaming.source)
        if content is None:
            # Somebody has finished this rename since the look, or the entry would have been there. Or the upload of
            # `prepare` never arrived.
            return writer.told(Outcome.PRECONDITION_FAILED if self.compares else Outcome.REJECTED)
        if not writer.may_write():
            return writer.told(Outcome.PRECONDITION_FAILED if self.compares else Outcome.REJECTED)
        copied = writer.log.store.put(renaming.destination, content).outcome
        if copied is not Outcome.APPLIED and not (self.compares and self._is_ours(writer, commit, renaming)):
            return writer.told(copied)
        writer.log.store.delete(renaming.source)
        return writer.told(Outcome.APPLIED, _version_of(renaming))

    def _repair(self, writer: Writer, lock: CarriesData, own: PendingRename) -> bool:
        """Finish a dead holder's rename, and tell ours in its place. False: a shipped writer keeps the lock (B12)."""
        left = _left_in(lock.data)
        if left is None:
            return self.compares  # Nothing that anybody could finish.
        content = writer.log.read(left.source)
        if content is not None and not _is_taken(writer.log, left):
            copied = writer.log.store.put(left.destination, content).outcome if writer.may_write() else Outcome.REJECTED
            if copied is not Outcome.APPLIED:
                return self.compares
        writer.log.store.delete(left.source)
        try:
            lock.update_data(own.to_data())
        except LockError:
            return self.compares
        return True

    @staticmethod
    def _is_ours(writer: Writer, commit: Commit, renaming: PendingRename) -> bool:
        """Does the entry at the destination tell that it is this commit?"""
        found = writer.log.read(renaming.destination)
        present = None if found is None else parse_commit(found)
        return present is not None and present.identity == commit.identity


def _left_in(data: str | None) -> PendingRename | None:
    """The rename that a dead holder's row names. None: no data, or data that is no rename (B12)."""
    if data is None:
        return None
    try:
        return PendingRename.from_data(data)
    except CorruptRecord:
        return None


def _is_taken(log: Log, renaming: PendingRename) -> bool:
    """Is there an entry at the destination already?"""
    return log.read(renaming.destination) is not None


def _version_of(renaming: PendingRename) -> int:
    return int(renaming.destination.rpartition("/")[2].removesuffix(".json"))
