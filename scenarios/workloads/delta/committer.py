"""One client's way to the log: each protected write is a commit, and what the client is told of it is on record."""

from __future__ import annotations

import json
from collections.abc import Callable

from lockref.history import ABSENT, Kind, Op, Recorder, Stamp
from scenarios.workloads.delta.log_files import Commit, is_checkpoint
from scenarios.workloads.delta.protocols import CommitProtocol, Told, Writer, commit_by
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

    def write(self, write: Write, may_write: Callable[[], bool]) -> Told:
        """Commit once. may_write: whether the lock still allows it; without a lock, always."""
        number = self._next_number()
        commit = Commit(
            identity=self._writer.runtime.token_bytes(8).hex(),
            node=write.node,
            task=write.task,
            tenure=write.tenure,
            attempt=write.attempt,
            token=write.token,
            owner=write.owner,
        )
        self._writer.may_write = may_write
        self._event(Kind.CALL, commit, number)
        told = commit_by(self._protocol, self._writer, commit)
        self._event(Kind.RETURN, commit, number, told)
        if told.version is not None and is_checkpoint(told.version):
            self._writer.runtime.sleep(self._checkpoint_delay_ns())
            self._writer.log.write_checkpoint(told.version)
        return told

    def _event(self, kind: Kind, commit: Commit, number: int, told: Told | None = None) -> None:
        true_ns, wall_ns, mono_ns, _ = self._stamp()
        self._record(
            kind, (true_ns, wall_ns, mono_ns, commit.task), commit.node, self._writer.log.table, Op.COMMIT,
            0 if told is None else told.outcome, request=number,
            attempt=ABSENT if told is None else told.attempts,
            version="" if told is None or told.version is None else str(told.version), content=commit.identity,
            token=ABSENT if commit.token is None else commit.token, owner=commit.owner,
            detail="" if told is None else json.dumps({"gets": told.gets}),
        )  # fmt: skip
