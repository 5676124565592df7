"""A made-up service: keys with values, and one revision that every write raises. A write may name the key's revision.

Its state machine is `answer`. The simulator, the server of a real run and no other code apply requests with it.
"""

from __future__ import annotations

import json
import socket
import socketserver
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any, Final
from urllib.parse import SplitResult

from lockref.clouds.admission import Admission
from lockref.clouds.cloud import Cloud
from lockref.clouds.statuses import NO_STATUSES
from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.ports import Channel, PortKind, Reply, Request
from lockref.services import ServiceKind
from lockref.stores.address import StoreAddress
from lockref.stores.port import ObjectStore, ReadReply, Version, WriteReply
from lockref.words import IF_ABSENT, Op, Outcome
from scenarios.backends.hosts import Host, Servers
from scenarios.backends.readiness import RunningBackend
from scenarios.backends.status import StatusRow
from sim.journey import Refusal
from sim.services.kinds import Simulated, require_options
from sim.services.service import Service, ServiceContext, refused, unknown_act

RANGE, TXN = "range", "txn"
TRUNCATE: Final = "truncate"
"""The act of an operator who removes a key."""


# The port.


class RevisionsClient:
    """Reads and conditional writes over a channel."""

    def __init__(self, channel: Channel, timeout_ns: int) -> None:
        self._channel = channel
        self._timeout_ns = timeout_ns

    def _send(self, verb: str, key: str, condition: str, body: bytes | None) -> Reply:
        channel = self._channel
        op = Op.READ if verb == RANGE else Op.WRITE
        return channel.send(Request(channel.client, channel.service, verb, key, condition, body, op), self._timeout_ns)

    def read(self, key: str) -> ReadReply:
        outcome, version, body, _, status, reason = self._send(RANGE, key, "", None)
        return ReadReply(outcome=outcome, body=body, version=_version(version), status=status, reason=reason)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._write(key, IF_ABSENT, body)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._write(key, version, body)

    def _write(self, key: str, condition: str, body: bytes) -> WriteReply:
        outcome, version, _, missing, status, reason = self._send(TXN, key, condition, body)
        return WriteReply(outcome=outcome, version=_version(version), missing=missing, status=status, reason=reason)

    def close(self) -> None:
        self._channel.close()


def _version(text: str | None) -> Version | None:
    return None if text is None else Version(text)


REVISIONS: Final[PortKind[RevisionsClient]] = PortKind("revisions", RevisionsClient)


# The state machine.


@dataclass(slots=True)
class Keys:
    """The state: each key with its revision and value."""

    revision: int = 0
    found: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def answer(self, verb: str, key: str, condition: str, body: bytes | None) -> Reply:
        """Apply one request."""
        revision, value = self.found.get(key, (0, None))
        if verb == RANGE:
            return Reply(Outcome.APPLIED, str(revision) if revision else None, value)
        if condition and condition != (str(revision) if revision else IF_ABSENT):
            return Reply(Outcome.PRECONDITION_FAILED, missing=not revision)
        assert body is not None, "a write has a value"
        self.revision += 1
        self.found[key] = self.revision, body
        return Reply(Outcome.APPLIED, str(self.revision))


class RevisionsService:
    """The service in a simulation."""

    capabilities = None

    def __init__(self) -> None:
        self._keys = Keys()
        # By key, newest last: what was there since when.
        self._past: dict[str, list[tuple[int, Reply]]] = {}

    def start(self, context: ServiceContext) -> None:
        self._context = context

    def apply(self, request: Request, at_ns: int) -> Reply:
        reply = self._keys.answer(request.verb, request.key, request.condition, request.body)
        if request.verb == TXN:
            self._remember(request.key, at_ns)
        return reply

    def _remember(self, key: str, at_ns: int) -> None:
        self._past.setdefault(key, []).append((at_ns, self._keys.answer(RANGE, key, "", None)))

    def refuse(self, request: Request, refusal: Refusal) -> Reply:
        return refused(request, refusal)

    def present_keys(self) -> list[str]:
        return sorted(self._keys.found)

    def past(self, key: str, lag_ns: int) -> Reply:
        as_of_ns = self._context.now_ns - lag_ns
        states = reversed(self._past.get(key, ()))
        return next((reply for since_ns, reply in states if since_ns <= as_of_ns), Reply(Outcome.APPLIED))

    def tamper(self, act: str, key: str, **how: Any) -> int:
        if act != TRUNCATE:
            raise unknown_act(act, (TRUNCATE,))
        if self._keys.found.pop(key, None) is None:
            return 0
        self._remember(key, self._context.now_ns)
        self._context.changed(Op.DELETE, key)
        return 1


def _simulated(_dialect: str, options: Any) -> Service:
    require_options(REVISIONS.name, options, known=())
    return RevisionsService()


# A real server, which speaks lines of JSON, and the channel to it.


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        for line in self.rfile:
            verb, key, condition, text = json.loads(line)
            with self.server.mutex:
                reply = self.server.keys.answer(verb, key, condition, None if text is None else b64decode(text))
            body = None if reply.body is None else b64encode(reply.body).decode()
            told = [reply.outcome.name, reply.version, body, reply.missing]
            self.wfile.write(json.dumps(told).encode() + b"\n")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keys = Keys()
        self.mutex = Lock()


@contextmanager
def served() -> Iterator[str]:
    """The address of a server, which ends on the way out."""
    with _Server() as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"revisions://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class RevisionsChannel:
    """One connection of one client."""

    capabilities = None
    service = "store"

    def __init__(self, address: StoreAddress, client: str) -> None:
        self.client = client
        host, _, port = address.container.partition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=5)
        except OSError as error:
            raise BackendUnavailable(f"{address} does not answer: {error}") from error
        self._lines = self._socket.makefile("rwb")
        self._mutex = Lock()

    def send(self, request: Request, timeout_ns: int) -> Reply:
        text = None if request.body is None else b64encode(request.body).decode()
        with self._mutex:
            self._socket.settimeout(timeout_ns / 1e9)
            self._lines.write(json.dumps([request.verb, request.key, request.condition, text]).encode() + b"\n")
            self._lines.flush()
            outcome, version, body, missing = json.loads(self._lines.readline())
        return Reply(Outcome[outcome], version, None if body is None else b64decode(body), missing)

    def close(self) -> None:
        self._socket.close()


def _channel(address: StoreAddress, client: str, _request_timeout_ns: int, _pool_size: int) -> Channel:
    if address.scheme != REVISIONS.name:
        raise CapabilityMissing(f"{address} has no revisions, on which this lock stands; take {_FORM}")
    return RevisionsChannel(address, client)


def _require(address: StoreAddress, key: str, timeout_ns: int) -> None:
    channel = _channel(address, "probe", timeout_ns, 1)
    REVISIONS.over(channel, timeout_ns).read(key)
    channel.close()


# The entries.

_FORM: Final = "revisions://HOST:PORT"
SERVER: Final = "revision-server"
"""The name under which a server is started."""


def _parse(uri: str, parts: SplitResult) -> StoreAddress:
    if not parts.hostname or not parts.port:
        raise ConfigError(f"the store {uri!r} is not of the form {_FORM}")
    return StoreAddress(scheme=parts.scheme, container=parts.netloc)


@contextmanager
def _started(name: str, _via: str) -> Iterator[RunningBackend]:
    with served() as address:
        yield RunningBackend(name=name, uri=address, version="1")


def _statuses() -> list[StatusRow]:
    row = StatusRow(name=SERVER, via="native", available=True, version="1", reason="in this file", about="made up")
    return [row]


@contextmanager
def _prepared(name_or_uri: str, via: str, _admission: Admission) -> Iterator[RunningBackend]:
    if ":" in name_or_uri:
        yield RunningBackend(name=name_or_uri, uri=name_or_uri)
        return
    with _started(name_or_uri, via) as running:
        yield running


def _no_objects(address: StoreAddress, _timeout_ns: int, _pool_size: int) -> ObjectStore:
    raise CapabilityMissing(f"{address} holds no objects")


ADDRESS: Final = Cloud(
    name="revisions",
    forms={"revisions": _FORM},
    parse=_parse,
    open_store=_no_objects,
    statuses=NO_STATUSES,
    service=REVISIONS.name,
    holds_objects=False,
)
KIND: Final = ServiceKind(
    port=REVISIONS, title="a service with revisions", channel=_channel, require=_require, has_sessions=True
)
HOST: Final = Host(servers=Servers(names=(SERVER,), started=_started, statuses=_statuses), prepared=_prepared)
SIMULATION: Final = Simulated(make=_simulated)
