"""The object store that keeps the log in a simulation: it says what takes effect, at the instant of application."""

from __future__ import annotations

from lockref.clouds.s3.cloud import S3
from lockref.clouds.uri import server_statuses
from lockref.history import Recorder
from lockref.ports import Reply, Request
from scenarios.workloads.delta.landings import record_landing
from sim.services.objectstore import ObjectStoreService


class DeltaLogService(ObjectStoreService):
    """Writes an EFFECT row for every log entry that is put in its place, over another one or not."""

    def __init__(self, recorder: Recorder, *, dialect: str = S3.name) -> None:
        super().__init__(server_statuses(dialect))
        self._recorder = recorder

    def apply(self, request: Request, at_ns: int) -> Reply:
        reply = super().apply(request, at_ns)
        record_landing(self._recorder, request, reply, at_ns)
        return reply

    def tamper(self, act: str, key: str, *, body: bytes | None = None, attribute: str = "") -> int:
        """An operator's hands on the log are not modelled: nobody could say then whose commit an entry was."""
        raise AssertionError(f"{act} of {key} in a Delta log")
