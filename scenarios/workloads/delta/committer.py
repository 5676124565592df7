"""One client's way to the log: each protected write is a commit, and what the client is told of it is on record."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from lockref.errors import OutcomeUnknown
from lockref.history import Recorder, Stamp
from lockref.provider import CarriesData
from lockref.words import ABSENT, Kind, Op, Outcome
from scenarios.workloads.delta.log_files import Commit, is_checkpoint
from scenarios.workloads.delta.protocols import CommitProtocol, commit_by
from scenarios.workloads.delta.renaming import Rename
from scenarios.workloads.delta.writer import CommitAnswer, Writer
from scenarios.workloads.resource import Write


class Committer:
    """Commits by one protocol. A CALL and a RETURN of the operation `commit` enclose each; `content` is its identity.

    The RETURN's outcome is what the writer is told; its `version` the log version; `detail` counts attempts and GETs.
    """

    def __init__(
        self,
        writer: Writer,
        protocol: CommitProtocol,
        *,
        recorder: Recorder,
        stamp: Callable[[], Stamp],
        next_number: Callable[[], int],
        checkpoint_delay_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._writer, self._protocol = writer, protocol
        self._record, self._stamp, self._next_number = recorder.event, stamp, next_number
        self._checkpoint_delay_ns = checkpoint_delay_ns
        # The rename under way: its commit, the number of its call, whether it is uploaded, and how it ended.
        self._pending: Commit | None = None
        self._called: int | None = None
        self._is_ready = False
        self._told: CommitAnswer | None = None

    # ---- before, under and after the lock: a rename has all three steps, other protocols only the second ----

    def prepare(self, node: str, task: str, lock: object) -> None:
        """Before the lock is asked. What failed for its caller is committed again, as the same actions (B10)."""
        self._is_ready, self._told = False, None
        if not isinstance(self._protocol, Rename):
            return
        commit = self._pending = self._pending or self._commit(node, task)
        writer = self._writer
        writer.lock = lock if isinstance(lock, CarriesData) else None
        with suppress(OutcomeUnknown):
            self._protocol.prepare(writer, commit, writer.lock)
            self._is_ready = True

    def write(self, write: Write, may_write: Callable[[], bool]) -> CommitAnswer | None:
        """Commit once. may_write: whether the lock still allows it; without a lock, always.

        None: a rename that is not ready, or is done already: there is one for each grant.
        """
        self._writer.may_write = may_write
        if isinstance(self._protocol, Rename):
            if self._pending is not None and self._is_ready and self._told is None:
                self._rename(self._pending)
            return self._told
        number = self._next_number()
        commit = self._commit(write.node, write.task, write)
        self._event(Kind.CALL, commit, number)
        told = commit_by(self._protocol, self._writer, commit)
        self._answered(commit, number, told)
        return told

    def _rename(self, commit: Commit) -> None:
        if self._called is None:
            self._called = self._next_number()
            self._event(Kind.CALL, commit, self._called)
        self._told = commit_by(self._protocol, self._writer, commit)

    @property
    def keeps_lock(self) -> bool:
        """The writer went away without giving its lock back (B12)."""
        return self._told is not None and self._told.is_lock_kept

    def conclude(self, *, is_released: bool) -> None:
        """After the unlock, or after it was left out. is_released: the lock said nothing else.

        Only now does the caller of a rename hear how it ended: shipped, a release that failed makes an error of a
        commit that landed (B11).
        """
        told, commit, number = self._told, self._pending, self._called
        if told is None or commit is None or number is None or told.outcome is Outcome.PRECONDITION_FAILED:
            return  # Not begun, or to be tried again.
        assert isinstance(self._protocol, Rename), "no other protocol has a commit that is pending"
        if not is_released and not self._protocol.compares:
            told = replace(told, outcome=Outcome.REJECTED, version=None)
        self._called = self._told = None
        if told.outcome is not Outcome.REJECTED:
            self._pending = self._writer.prepared = None
        self._answered(commit, number, told)

    def _commit(self, node: str, task: str, write: Write | None = None) -> Commit:
        """A new commit. write: under which grant it is made; None for one that is made before there is a grant."""
        identity = self._writer.runtime.token_bytes(8).hex()
        if write is None:
            return Commit(identity=identity, node=node, task=task)
        return Commit(
            identity=identity, node=node, task=task,
            tenure=write.tenure, attempt=write.attempt, token=write.token, owner=write.owner,
        )  # fmt: skip

    def _answered(self, commit: Commit, number: int, told: CommitAnswer) -> None:
        self._event(Kind.RETURN, commit, number, told)
        if told.version is not None and is_checkpoint(told.version):
            self._writer.runtime.sleep(self._checkpoint_delay_ns())
            self._writer.log.write_checkpoint(told.version)

    def _event(self, kind: Kind, commit: Commit, number: int, told: CommitAnswer | None = None) -> None:
        true_ns, wall_ns, mono_ns, _ = self._stamp()
        self._record(
            kind, (true_ns, wall_ns, mono_ns, commit.task), commit.node, self._writer.log.table, Op.COMMIT,
            0 if told is None else told.outcome, request=number,
            attempt=ABSENT if told is None else told.attempts,
            version="" if told is None or told.version is None else str(told.version), content=commit.identity,
            token=ABSENT if commit.token is None else commit.token, owner=commit.owner,
            detail="" if told is None else json.dumps({"gets": told.gets}),
        )  # fmt: skip
