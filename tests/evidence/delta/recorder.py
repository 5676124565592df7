"""Records what an original asks a real table and what it is told, one situation after another.

Between the original and the server stands a small HTTP server: it lets the script of the situation do its part (a row
that changes, an answer that is lost), forwards the request, and writes both down in the form of `traces`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from lockref.clouds.aws import aws_client
from lockref.clouds.dynamodb.client import DynamoChannel
from lockref.delta.record import DURATION, OWNER
from lockref.dynamodb.table import KEY, TABLE, VERSION, Item
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S
from scenarios.backends.asked_process import AskedProcess
from tests.evidence.delta.crates import crate_driver
from tests.evidence.delta.lake import REGION, Lake
from tests.evidence.delta.originals import in_its_python
from tests.evidence.delta.situations import (
    CRATE,
    JAVA,
    KEY_VALUE,
    LOST,
    LOST_BEFORE,
    OWNER_NAME,
    PORT,
    THROTTLED,
    UNAVAILABLE,
    Situation,
)
from tests.evidence.delta.traces import Script, Trace, attributes_set, clauses_of
from tests.evidence.experiments import ROOT
from tests.evidence.peers.java_program import JavaProgram

JAVA_CLIENT: Final = JavaProgram(
    original="dynamodb-lock-client",
    source=Path(__file__).with_name("java"),
    main="Driver",
    jar="dynamodb-lock-client-1.2.0.jar",
    sha256="d0732cf6f8cd6ebb050a69e63effcf5a365bb69ba194bcb5c32cc343b6f831ce",
)

_CALL_S: Final = 120
_REQUEST_S: Final = 20
_TARGET: Final = "X-Amz-Target"
_TOO_MANY: Final = b'{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}'
_NOT_NOW: Final = b'{"__type":"com.amazonaws.dynamodb.v20120810#ServiceUnavailable"}'
_REFUSALS: Final = {THROTTLED: (400, _TOO_MANY), UNAVAILABLE: (503, _NOT_NOW)}
_AT_ONCE: Final = 5
_TRIES_MAX: Final = 6


def request_in(operation: str, body: dict[str, Any]) -> Trace:
    """A request in the form of a trace. operation: `GetItem` and its like."""
    names, values = body.get("ExpressionAttributeNames", {}), body.get("ExpressionAttributeValues", {})
    told: Trace = {"op": operation.removesuffix("Item").lower()}
    if operation == "GetItem":
        told["is_consistent"] = bool(body.get("ConsistentRead"))
    if "Item" in body:
        told["item"] = body["Item"]
    if "UpdateExpression" in body:
        told["set"] = attributes_set(body["UpdateExpression"], names, values)
    if body.get("ConditionExpression"):
        told["condition"] = clauses_of(body["ConditionExpression"], names, values)
    return told


def answer_in(operation: str, status: int, body: dict[str, Any]) -> Trace:
    """An answer in the form of a trace."""
    if status != http.HTTPStatus.OK:
        return {"refused": str(body.get("__type", status)).rpartition("#")[2]}
    return {"item": body.get("Item")} if operation == "GetItem" else {"done": True}


class _Handler(BaseHTTPRequestHandler):
    """One connection of the original."""

    protocol_version = "HTTP/1.1"
    script: Script
    upstream: tuple[str, int]
    turn: threading.Lock
    renamed: Callable[[dict[str, Any]], dict[str, Any]]

    def do_POST(self) -> None:
        """Let the script act, forward, write down, answer."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.headers[_TARGET].rpartition(".")[2]
        with self.turn:
            request = request_in(operation, self.renamed(json.loads(body)))
            fate = self.script.arrives(request, now_ns=time.monotonic_ns(), wall_s=time.time())
            status, answer = _REFUSALS.get(fate or "", (0, b""))
            if fate != LOST_BEFORE and fate not in _REFUSALS:
                status, answer = self._forward(body)
            is_lost = fate in (LOST, LOST_BEFORE)
            self.script.answered(
                {"lost": True} if is_lost else answer_in(operation, status, self.renamed(json.loads(answer)))
            )
        if is_lost:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _forward(self, body: bytes) -> tuple[int, bytes]:
        with contextlib.closing(http.client.HTTPConnection(*self.upstream, timeout=_REQUEST_S)) as server:
            kept = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            server.request("POST", self.path, body, kept)
            reply = server.getresponse()
            return reply.status, reply.read()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Requests are in the trace."""


@contextlib.contextmanager
def recording(
    script: Script, upstream: str, renamed: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> Iterator[str]:
    """The endpoint of a recorder in front of `upstream`. renamed: a request or answer with our names of attributes."""
    host, _, port = upstream.removeprefix("http://").partition(":")
    handler = type(
        "Handler",
        (_Handler,),
        {"script": script, "upstream": (host, int(port)), "turn": threading.Lock(), "renamed": staticmethod(renamed)},
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="recorder", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def _own_table(lake: Lake, table: str, situation: Situation) -> Iterator[Script]:
    """A new table of that name with the key that the crate and the Java client have, and the situation's script."""
    timeout_ns = _REQUEST_S * NS_PER_S
    channel = DynamoChannel(table, endpoint=lake.endpoint, region=REGION, request_timeout_ns=timeout_ns)
    with contextlib.closing(channel):
        channel.create_table()
        client = TABLE.over(channel, timeout_ns)

        def plant(row: Item | None) -> None:
            reply = client.delete(KEY_VALUE) if row is None else client.put(KEY_VALUE, row)
            assert reply.status == http.HTTPStatus.OK, "the server refused a row of the script"

        yield Script(situation, plant, int(time.time()))


def record_crate(lake: Lake, build: str, situation: Situation) -> Trace:
    """The crate dynamodb_lock in one situation, on a table of its own. build: see `crates`."""
    table = f"{build}-{situation.name}-{lake.new_key()}"
    with _own_table(lake, table, situation) as script:
        options = {
            "DYNAMO_LOCK_TABLE_NAME": table,
            "DYNAMO_LOCK_PARTITION_KEY_VALUE": KEY_VALUE,
            "DYNAMO_LOCK_OWNER_NAME": OWNER_NAME,
            "DYNAMO_LOCK_LEASE_DURATION": str(situation.lease_s),
            "DYNAMO_LOCK_REFRESH_PERIOD_MILLIS": str(situation.refresh_ms),
            "DYNAMO_LOCK_ADDITIONAL_TIME_TO_WAIT_MILLIS": str(situation.additional_ms),
        }
        env = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": REGION}
        with recording(script, lake.endpoint) as endpoint:
            told = {"build": build, "endpoint": endpoint, "options": options}
            with AskedProcess(
                f"dynamodb_lock {build}", [str(crate_driver())], told, env=env, log_folder=lake.log_folder, name=table
            ) as peer:
                _play(peer, script)
    return script.trace()


def record_java(lake: Lake, situation: Situation) -> Trace:
    """dynamodb-lock-client in one situation, on a table of its own, without its background thread."""
    table = f"java-{situation.name}-{lake.new_key()}"
    periods = {"refresh_ms": str(situation.refresh_ms), "additional_ms": str(situation.additional_ms)}
    with _own_table(lake, table, situation) as script, recording(script, lake.endpoint) as endpoint:
        told = {
            "endpoint": endpoint, "warm_endpoint": lake.endpoint, "region": REGION, "table": table,
            "owner": OWNER_NAME, "lease_ms": str(situation.lease_s * 1000),
        }  # fmt: skip
        with AskedProcess(
            "dynamodb-lock-client", JAVA_CLIENT.command(), told, env={}, log_folder=lake.log_folder, name=table
        ) as peer:
            _play(peer, script, **periods)
    return script.trace()


_OUR_NAMES: Final = {
    "lock_key": KEY,
    "owner_name": OWNER,
    "record_version_number": VERSION,
    "lease_duration": DURATION,
}
_THEIRS_ALONE: Final = ("sort_key", "expiry_time")


def _port_renamed(body: dict[str, Any]) -> dict[str, Any]:
    """A request or answer of python_dynamodb_lock with our names, without the sort key and the date for garbage."""
    told = dict(body)
    for part in ("Item", "Key"):
        if part in told:
            kept = {name: value for name, value in told[part].items() if name not in _THEIRS_ALONE}
            told[part] = {_OUR_NAMES[name]: value for name, value in kept.items()}
    if "ExpressionAttributeNames" in told:
        names = told["ExpressionAttributeNames"]
        told["ExpressionAttributeNames"] = {short: _OUR_NAMES.get(name, name) for short, name in names.items()}
        told["ConditionExpression"] = told["ConditionExpression"].replace(" AND attribute_exists(#sk)", "")
    return told


def record_port(lake: Lake, situation: Situation) -> Trace:
    """python_dynamodb_lock in one situation, on a table of its own. Its first heartbeat is due a minute later."""
    table = f"port-{situation.name}-{lake.new_key()}"
    made = aws_client(
        "dynamodb", endpoint=lake.endpoint, region=REGION, request_timeout_ns=_REQUEST_S * NS_PER_S, pool_size=1
    )

    def plant(row: Item | None) -> None:
        key = {"lock_key": {"S": KEY_VALUE}, "sort_key": {"S": "-"}}
        if row is None:
            made.delete_item(TableName=table, Key=key)
            return
        item = {theirs: row[ours] for theirs, ours in _OUR_NAMES.items() if ours != KEY}
        lease = {"N": row[DURATION]["S"]}
        made.put_item(TableName=table, Item={**key, **item, "lease_duration": lease, "expiry_time": {"N": "1"}})

    with contextlib.closing(made):
        told = {
            "table": table, "owner": OWNER_NAME, "heartbeat_s": 60.0, "safe_s": 50.0,
            "lease_s": float(situation.lease_s), "retry_s": situation.refresh_ms / 1000,
        }  # fmt: skip
        env = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_DEFAULT_REGION": REGION}
        command = in_its_python("python_dynamodb_lock", Path(__file__).with_name("holder.py"))
        made.create_table(
            TableName=table,
            KeySchema=[
                {"AttributeName": "lock_key", "KeyType": "HASH"},
                {"AttributeName": "sort_key", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "lock_key", "AttributeType": "S"},
                {"AttributeName": "sort_key", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        script = Script(situation, plant, int(time.time()))
        with (
            recording(script, lake.endpoint, _port_renamed) as endpoint,
            AskedProcess(
                "python_dynamodb_lock", command, {**told, "endpoint": endpoint}, env=env,
                log_folder=lake.log_folder, name=table,
            ) as peer,
        ):  # fmt: skip
            _play(peer, script)
    return script.trace()


def _play(peer: AskedProcess, script: Script, **periods: str) -> None:
    """Let the original make the calls. periods: what it is told with each, and the trace does not repeat."""
    for call in script.situation.calls:
        peer.ask(**call, **periods)
        script.called(call, peer.answer(_CALL_S))


def settled(record: Callable[[Situation], Trace], situation: Situation) -> Trace:
    """A trace that came out the same twice running: a machine that stalls for half a second changes what a waiter sees.

    Errors: BackendUnavailable if no two of several were the same.
    """
    before = None
    for _ in range(_TRIES_MAX):
        trace = record(situation)
        if trace == before:
            return trace
        before = trace
    raise BackendUnavailable(f"{situation.name}: {_TRIES_MAX} recordings, none like the one before; busy machine?")


def record_all(situations: Sequence[Situation], record: Callable[[Situation], Trace]) -> list[Trace]:
    """The settled traces of all, in order. They mostly sleep, so several are recorded at the same time."""
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(functools.partial(settled, record), situations))


RECORDED: Final[dict[str, tuple[tuple[Situation, ...], Callable[[Lake, Situation], Trace]]]] = {
    "dynamodb_lock-0.4.3": (CRATE, lambda lake, situation: record_crate(lake, "0.4.3", situation)),
    "dynamodb_lock-0.6.1": (CRATE, lambda lake, situation: record_crate(lake, "0.6.1", situation)),
    "dynamodb_lock-0.6.1-pr6": (CRATE, lambda lake, situation: record_crate(lake, "0.6.1-pr6", situation)),
    "python_dynamodb_lock-0.9.1": (PORT, record_port),
    "dynamodb-lock-client-1.2.0": (JAVA, record_java),
}
"""What can be recorded: situations, and who plays one. The name is that of the file."""


def traces_file(original: str) -> Path:
    """Where the traces of an original are kept."""
    return ROOT / "tests/data/delta_traces" / f"{original}.jsonl"
