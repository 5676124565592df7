"""A store inside the test's own process, right or with one lie, for the questions of a probe.

A lie is a function: it gets the store and the call, and returns the answer in the place of the store's own, or None. It
may carry the call out, or change what the store holds, so each sentence of the probe has its liar. It needs no server.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from lockref.clouds.calls import (
    ANYTHING,
    COPY,
    DELETE,
    LIST,
    PUT,
    READ,
    Answer,
    Call,
    Inexpressible,
    WriteMode,
)
from lockref.clouds.s3.cloud import S3
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.probe.clauses import CLAUSES
from lockref.words import Outcome
from scenarios.probe.findings import Finding
from scenarios.probe.session import Session

NOT_THERE: Final = Answer(outcome=Outcome.APPLIED, status=404, is_missing=True)
MISSING: Final = Answer(outcome=Outcome.PRECONDITION_FAILED, status=404, is_missing=True)
STALE: Final = Answer(outcome=Outcome.PRECONDITION_FAILED, status=412)
UNKNOWN: Final = Answer(outcome=Outcome.REJECTED, status=501)
SILENT: Final = Answer(outcome=Outcome.AMBIGUOUS, reason="no answer")
BUSY: Final = Answer(outcome=Outcome.THROTTLED, status=503)

Lie = Callable[["ScriptedStore", Call], Answer | None]


class S3Like:
    """What a probe knows of S3, without its requests."""

    origin = "http://127.0.0.1:9"
    statuses = S3.statuses
    amplifiers: tuple[tuple[tuple[str, str], ...], ...] = ()

    def __init__(self, name: str = "s3", modes: tuple[WriteMode, ...] = ()) -> None:
        self.name = name
        self.modes = modes


class ScriptedStore:
    """Objects by key, each with its body and its version. calls: every call that came."""

    is_wire = False
    is_encrypted = False

    def __init__(self, lie: Lie = lambda _store, _call: None, *, dialect: S3Like | None = None) -> None:
        self.dialect: Any = dialect or S3Like()
        self.lie = lie
        self.objects: dict[str, tuple[bytes, str]] = {}
        self.calls: list[Call] = []
        self.is_closed = False
        self._versions = itertools.count(1)

    def send(self, call: Call) -> Answer:
        self.calls.append(call)
        told = self.lie(self, call)
        return self.answer(call) if told is None else told

    def close(self) -> None:
        self.is_closed = True

    def hold(self, key: str, body: bytes) -> str:
        """Put this body there; its version."""
        version = f'"{next(self._versions)}"'
        self.objects[key] = body, version
        return version

    def answer(self, call: Call) -> Answer:
        """The right answer."""
        body, version = self.objects.get(call.key, (None, ""))
        if call.verb == LIST:
            found = tuple((key, each[1]) for key, each in self.objects.items() if key.startswith(call.key))
            return Answer(outcome=Outcome.APPLIED, status=200, entries=found)
        if call.verb == READ:
            return NOT_THERE if body is None else self._done(version, body=body)
        if call.verb not in (PUT, DELETE, COPY):
            raise Inexpressible(call.verb)
        if call.none_match is not None and (
            version == call.none_match or (body is not None and call.none_match == "*")
        ):
            return STALE
        if call.match is not None and body is None:
            return MISSING
        if call.match not in (None, ANYTHING, version):
            return STALE
        if call.verb == DELETE:
            self.objects.pop(call.key, None)
            return self._done("")
        if call.verb == COPY:
            source, source_version = self.objects[call.source]
            if call.source_match not in (None, source_version):
                return STALE
            return self._done(self.hold(call.key, source))
        return self._done(self.hold(call.key, call.body))

    @staticmethod
    def _done(version: str, *, body: bytes | None = None) -> Answer:
        return Answer(outcome=Outcome.APPLIED, status=200, version=version, body=body)


def session_of(*stores: ScriptedStore, rounds_max: int = 4) -> Session:
    """A probe under way, with time enough."""
    end_ns = ThreadRuntime().monotonic_ns() + 600 * NS_PER_S
    return Session(list(stores), address="s3://bucket", end_ns=end_ns, rounds_max=rounds_max)  # type: ignore[arg-type]


def finding_of(clause: str) -> Finding:
    return Finding(CLAUSES[clause])
