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

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockref.errors import LockError
from lockref.words import Outcome
from scenarios.workloads.delta.log_files import Commit, Log, entry_key, parse_commit

if TYPE_CHECKING:
    from lockref.provider import CarriesData
    from scenarios.workloads.delta.protocols import Told, Writer


@dataclass(frozen=True, slots=True)
class Renaming:
    """One rename: the key of the temporary object, and of the entry that it becomes."""

    source: str
    destination: str

    def to_data(self) -> str:
        """As the lock's row tells it."""
        return json.dumps({"source": self.source, "destination": self.destination})

    @classmethod
    def from_data(cls, data: str | None) -> Renaming | None:
        """Read what a row tells; None where that is no rename."""
        try:
            told = json.loads(data or "")
            return cls(str(told["source"]), str(told["destination"]))
        except (ValueError, KeyError, TypeError):
            return None

    def is_taken(self, log: Log) -> bool:
        """Is there an entry already?"""
        return log.read(self.destination) is not None


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
        if writer.prepared is not None and writer.prepared.is_taken(writer.log):
            version = writer.load()
        log = writer.log
        source = f"{log.table}/_delta_log/.tmp/{commit.identity}-{version}"
        writer.prepared = Renaming(source, entry_key(log.table, version))
        log.store.put(source, commit.to_bytes())
        if lock is not None:
            lock.intent = writer.prepared.to_data()

    def __call__(self, writer: Writer, commit: Commit) -> Told:
        """Under the lock. PRECONDITION_FAILED: nothing landed, and the writer tries again with a new lock."""
        lock, renaming = writer.lock, writer.prepared
        assert renaming is not None, "a rename is prepared before the lock is asked"
        writer.attempts += 1
        if lock is not None and lock.took_over and not self._repair(writer, lock, renaming):
            return writer.told(Outcome.REJECTED, is_lock_kept=True)
        if renaming.is_taken(writer.log):
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

    def _repair(self, writer: Writer, lock: CarriesData, own: Renaming) -> bool:
        """Finish a dead holder's rename, and tell ours in its place. False: a shipped writer keeps the lock (B12)."""
        left = Renaming.from_data(lock.data)
        if left is None:
            return self.compares  # Nothing that anybody could finish.
        content = writer.log.read(left.source)
        if content is not None and not left.is_taken(writer.log):
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
    def _is_ours(writer: Writer, commit: Commit, renaming: Renaming) -> bool:
        """Does the entry at the destination tell that it is this commit?"""
        found = writer.log.read(renaming.destination)
        present = None if found is None else parse_commit(found)
        return present is not None and present.identity == commit.identity


def _version_of(renaming: Renaming) -> int:
    return int(renaming.destination.rpartition("/")[2].removesuffix(".json"))
