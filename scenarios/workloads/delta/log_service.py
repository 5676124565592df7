"""The object store that keeps the log in a simulation: it says what takes effect, at the instant of application."""

from __future__ import annotations

from typing import Any

from lockref.history import ABSENT, Kind, Op, Recorder
from lockref.ports import Reply, Request
from lockref.stores.client import PUT
from lockref.stores.port import Outcome
from scenarios.workloads.delta.log_files import parse_commit, parse_entry_key
from sim.services.dialects import dialect_of
from sim.services.objectstore import ObjectStoreService


class DeltaLogService(ObjectStoreService):
    """Writes an EFFECT row for every log entry that is put in its place, over another one or not.

    `version` is the entry's number, `content` the commit's identity, `request` the tenure behind it if there is one.
    Source of the columns: docs/history.md.
    """

    def __init__(self, recorder: Recorder, *, dialect: str = "s3") -> None:
        super().__init__(dialect_of(dialect))
        self._record = recorder.event

    def apply(self, request: Request, at_ns: int) -> Reply:
        reply = super().apply(request, at_ns)
        entry = parse_entry_key(request.key) if request.verb == PUT and reply.outcome is Outcome.APPLIED else None
        if entry is not None:
            self._took_effect(*entry, request, at_ns)
        return reply

    def _took_effect(self, table: str, version: int, request: Request, at_ns: int) -> None:
        commit = parse_commit(request.body)
        assert commit is not None, "every entry of this workload is one of its commits"
        self._record(
            Kind.EFFECT, (at_ns, ABSENT, ABSENT, commit.task), commit.node, table, Op.COMMIT, Outcome.APPLIED,
            request=ABSENT if commit.tenure is None else commit.tenure, attempt=commit.attempt, version=str(version),
            content=commit.identity, token=ABSENT if commit.token is None else commit.token, owner=commit.owner,
            detail=request.client,
        )  # fmt: skip

    def tamper(self, act: str, key: str, **how: Any) -> int:
        """An operator's hands on the log are not modelled: nobody could say then whose commit an entry was."""
        raise AssertionError(f"{act} of {key} in a Delta log")
