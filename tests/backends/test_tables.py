"""One suite for every table: in memory, modelled, and on real servers. Same calls, same answers."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lockref import host_processes, open_lock
from lockref.clouds.dynamodb.client import DynamoChannel, HashKey
from lockref.clouds.dynamodb.facts import CODES, refusal
from lockref.clouds.uri import parse_store_uri
from lockref.delta.options import LeaseOptions
from lockref.dynamodb.item import decode_state
from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.memory import MemoryTable
from lockref.dynamodb.table import (
    ITEM_BYTES_MAX,
    KEY,
    TABLE,
    VERSION,
    ItemReply,
    TableClient,
    absent,
    equals,
    exists,
    flag,
    number,
    text,
)  # fmt: skip
from lockref.errors import BackendUnavailable, ConfigError
from lockref.runtime import NS_PER_S
from lockref.words import Outcome
from scenarios.backends import RunningBackend
from scenarios.backends.pins import LOOPBACK
from sim.services.table import TableService
from tests.backends.conftest import on
from tests.sim.scripted import Scene

TIMEOUT_NS = 10 * NS_PER_S
_numbers = itertools.count(1)
Call = Callable[[TableClient], ItemReply]


def at(version: str):
    return equals(VERSION, text(version))


NESTED = {
    "one": {"B": "AAEC/w=="},
    "some": {"BS": ["AAH/"]},
    "list": {"L": [{"B": "AA=="}, {"S": "AA=="}, {"N": "1"}]},
    "map": {"M": {"deep": {"L": [{"B": "/w=="}]}, "is": {"BOOL": True}}},
    "nothing": {"NULL": True},
}
"""Values of every kind: binary ones are text here, and bytes in boto3."""

FLAT = {name: value for name, value in NESTED.items() if name not in ("list", "map")}

CALLS: tuple[Call, ...] = (
    lambda table: table.get("a"),
    lambda table: table.put("a", {VERSION: text("1"), "n": number(7)}, absent(KEY)),
    lambda table: table.put("a", {VERSION: text("2")}, absent(KEY)),
    lambda table: table.put("a", {VERSION: text("2")}, at("9")),
    lambda table: table.put("a", {VERSION: text("2"), "n": text("7"), "yes": flag(True)}, at("1"), exists("n")),
    lambda table: table.put("a", {VERSION: text("3")}, equals("n", number(7))),
    lambda table: table.get("a"),
    lambda table: table.update("a", at("2"), put={VERSION: text("3")}, remove=["yes"], add={"count": number(2)}),
    lambda table: table.update("a", at("2"), put={VERSION: text("4")}),
    lambda table: table.update("new", add={"count": number(1)}),
    lambda table: table.merge("a", {VERSION: text("4"), "n": text("8")}, (VERSION, "n", "gone"), at("2")),
    lambda table: table.merge(
        "new", {VERSION: text("1"), "n": text("8"), "beside": text("x")}, (VERSION, "n", "count")
    ),
    lambda table: table.delete("a", at("2")),
    lambda table: table.delete("a", at("3"), exists(KEY)),
    lambda table: table.delete("a", at("3"), exists(KEY)),
    lambda table: table.delete("a"),
    lambda table: table.put("a", {VERSION: text("5")}, at("3")),
    lambda table: table.put("binary", {VERSION: text("1"), **NESTED}),
    lambda table: table.get("binary"),
    lambda table: table.put("binary", {VERSION: text("2"), **NESTED}, *(equals(*each) for each in FLAT.items())),
    lambda table: table.update("binary", at("2"), put={VERSION: text("3"), "more": {"B": "AAH/"}}),
    lambda table: table.get("a"),
    lambda table: table.put("a", {VERSION: text("6"), "data": text("x" * ITEM_BYTES_MAX)}),
    lambda table: table.get("new"),
)


def told(reply: ItemReply) -> tuple[Any, ...]:
    """What an answer says to a lock; words and versions of errors are the servers' own."""
    return reply.outcome, reply.version, reply.item(), reply.missing


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Iterator[DynamoChannel]:
    """An empty table on the server that the test names."""
    running = request.getfixturevalue(request.param)
    address = parse_store_uri(running.uri)
    channel = DynamoChannel(
        f"locks-{next(_numbers)}", endpoint=address.endpoint, region="us-east-1", request_timeout_ns=TIMEOUT_NS
    )
    channel.create_table()
    channel.require_table()
    yield channel
    channel.close()


def in_memory() -> list[ItemReply]:
    client = TableClient(MemoryTable(), TIMEOUT_NS)
    return [call(client) for call in CALLS]


def modelled() -> list[ItemReply]:
    scene, answers = Scene(), []
    scene.world.add("leases", TableService(), decode=decode_state)

    def script(node, _store):
        client = scene.world.connect(node, "leases", TABLE, timeout_ns=TIMEOUT_NS)
        answers.extend(call(client) for call in CALLS)

    scene.client("n1", script)
    scene.run()
    return answers


def test_the_modelled_table_answers_as_the_one_in_memory() -> None:
    """The yardstick: both have their conditions from one place, and differ in time only."""
    assert list(map(told, modelled())) == list(map(told, in_memory()))


@pytest.mark.parametrize("table", [on("ministack"), on("moto"), on("dynalite")], indirect=True)
def test_a_real_table_answers_as_the_one_in_memory(table: DynamoChannel) -> None:
    """Outcome, version, item and "there is none", call by call (A1, A5)."""
    client = TableClient(table, TIMEOUT_NS)
    real = [told(call(client)) for call in CALLS]
    for number_, (found, expected) in enumerate(zip(real, map(told, in_memory()), strict=True)):
        assert found == expected, f"call {number_}"


@pytest.mark.parametrize("table", [on("ministack"), on("moto"), on("dynalite")], indirect=True)
def test_lists_and_maps_are_compared_by_what_they_hold(table: DynamoChannel, request: pytest.FixtureRequest) -> None:
    """dynalite compares their identity, so that none equals another. No lock compares one."""
    client = TableClient(table, TIMEOUT_NS)
    client.put("binary", {VERSION: text("1"), **NESTED})
    is_dynalite = request.node.callspec.params["table"] == "dynalite"
    expected = Outcome.PRECONDITION_FAILED if is_dynalite else Outcome.APPLIED
    for name in ("list", "map"):
        assert client.update("binary", equals(name, NESTED[name]), put={"n": number(1)}).outcome is expected


@pytest.mark.parametrize("table", [on("ministack"), on("dynalite")], indirect=True)
def test_a_condition_that_failed_tells_whether_there_is_an_item(table: DynamoChannel) -> None:
    """A server that never returns the item makes no lock believe that its row is gone (A2)."""
    client = TableClient(table, TIMEOUT_NS)
    assert client.put("a", {VERSION: text("1")}, at("0")).missing is True
    client.put("a", {VERSION: text("1")})
    assert client.put("a", {VERSION: text("2")}, at("0")).missing is False
    assert client.put("a", {VERSION: text("2")}, absent(KEY)).missing is False
    assert client.delete("a", at("0")).missing is False


@pytest.mark.parametrize("table", [on("ministack"), on("dynalite")], indirect=True)
def test_the_lease_on_a_real_table(table: DynamoChannel) -> None:
    """T9, B9: grant, exclusion, release and the next generation, on a server."""
    options = LeaseOptions.from_properties({"DYNAMO_LOCK_LEASE_DURATION": "20"})
    client = TableClient(table, TIMEOUT_NS)
    first, second = (DynamoLock(client, "s3://bucket/t", options) for _ in range(2))
    assert first.try_lock()
    assert not second.try_lock()
    token = first.fencing_token
    first.unlock()
    assert second.try_lock()
    assert (token, second.fencing_token) == (1, 2)
    second.close()
    first.close()


@pytest.mark.parametrize("table", [on("ministack"), on("dynalite")], indirect=True)
def test_a_grant_costs_what_the_document_says_by_the_servers_own_count(table: DynamoChannel) -> None:
    """docs/delta.md: a row is one unit, so two writes a cycle, and one read and one mark before the first."""
    units: Counter[str] = Counter()
    events = table._made.meta.events
    for operation in ("GetItem", "PutItem", "UpdateItem"):
        events.register(
            f"provide-client-params.dynamodb.{operation}",
            lambda params, **_: {**params, "ReturnConsumedCapacity": "TOTAL"},
        )
        events.register(
            f"after-call.dynamodb.{operation}",
            lambda parsed, model, **_: units.update({model.name: parsed["ConsumedCapacity"]["CapacityUnits"]}),
        )
    lock = DynamoLock(TableClient(table, TIMEOUT_NS), "s3://bucket/t", LeaseOptions.from_properties({}))
    for _ in range(4):
        assert lock.try_lock()
        lock.unlock()
    lock.close()
    assert units == {"GetItem": 1, "PutItem": 1 + 1, "UpdateItem": 2 * 4 - 1}


HOLDS_UNTIL_KILLED = """
import sys
from lockref import open_lock
lock = open_lock({"DYNAMO_LOCK_TABLE_NAME": sys.argv[1], "DYNAMO_LOCK_PARTITION_KEY_VALUE": "s3://b/t",
    "DYNAMO_LOCK_OWNER_NAME": "ingest", "DYNAMO_LOCK_LEASE_DURATION": "600"}, endpoint=sys.argv[2], region="us-east-1")
print(lock.try_lock(), flush=True)
input()
"""


@pytest.mark.skipif(not host_processes.own_mark(), reason="this platform does not name its processes")
@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_killed_holder_s_next_process_takes_its_lease_back(ministack: RunningBackend) -> None:
    """T9: at once, while a writer of another name would wait for ten minutes; a living one is never robbed."""
    address, name = parse_store_uri(ministack.uri), f"locks-{next(_numbers)}"
    with closing(
        DynamoChannel(name, endpoint=address.endpoint, region="us-east-1", request_timeout_ns=TIMEOUT_NS)
    ) as made:
        made.create_table()
    how = {"DYNAMO_LOCK_TABLE_NAME": name, "DYNAMO_LOCK_PARTITION_KEY_VALUE": "s3://b/t"}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_UNTIL_KILLED, name, address.endpoint],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        ours, other = (
            open_lock({**how, "DYNAMO_LOCK_OWNER_NAME": owner}, endpoint=address.endpoint, region="us-east-1")
            for owner in ("ingest", "compaction")
        )
        with closing(ours), closing(other):
            assert not ours.try_lock(), "the holder lives, and has the same name"
            holder.kill()
            holder.wait()
            assert not other.try_lock()
            assert ours.try_lock()
            assert ours.fencing_token == 2


@pytest.mark.parametrize("table", [on("ministack")], indirect=True)
def test_a_missing_table_is_an_error_before_anything_is_written(table: DynamoChannel) -> None:
    """Bad input: the table is named, and what to do."""
    address = table._made.meta.endpoint_url
    missing = DynamoChannel("nowhere", endpoint=address, region="us-east-1", request_timeout_ns=TIMEOUT_NS)
    with pytest.raises(BackendUnavailable, match="'nowhere' cannot be used: 400 ResourceNotFoundException"):
        missing.require_table()
    assert TableClient(missing, TIMEOUT_NS).get("a").outcome is Outcome.REJECTED


@pytest.mark.parametrize("table", [on("ministack")], indirect=True)
def test_a_table_with_another_key_is_refused(table: DynamoChannel) -> None:
    """Bad input: what its key is, and what is expected."""
    address = table._made.meta.endpoint_url
    other = DynamoChannel(
        f"other-{next(_numbers)}", naming=HashKey("lock_key"), endpoint=address, region="us-east-1",
        request_timeout_ns=TIMEOUT_NS,
    )  # fmt: skip
    other.create_table()
    other.require_table()
    named = TableClient(other, TIMEOUT_NS)
    assert named.put("a", {VERSION: text("1")}, absent(KEY)).outcome is Outcome.APPLIED
    assert named.get("a").item() == {KEY: text("a"), VERSION: text("1")}
    wrong = DynamoChannel(other._table, endpoint=address, region="us-east-1", request_timeout_ns=TIMEOUT_NS)
    with pytest.raises(ConfigError, match=r"has the key lock_key \(HASH, S\); expected key \(HASH, S\)"):
        wrong.require_table()


class Answering(BaseHTTPRequestHandler):
    """Gives every request the answer that its server was told: a status and an error code, or none at all."""

    protocol_version = "HTTP/1.1"
    server: AnsweringServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.operations.append(self.headers["X-Amz-Target"].rpartition(".")[2])
        if self.server.status == SILENT:
            self.server.is_over.wait(60)
            return
        if self.server.status == BROKEN:
            self.close_connection = True
            return
        error = {"__type": f"com.amazonaws.dynamodb.v20120810#{self.server.code}", "message": "told so"}
        body = b"{}" if self.server.status < 300 else json.dumps(error).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Nothing is logged."""


BROKEN, SILENT = 0, -1


class AnsweringServer(ThreadingHTTPServer):
    """A server on a free port of this machine, with one answer for everybody."""

    def __init__(self) -> None:
        super().__init__((LOOPBACK, 0), Answering)
        self.status, self.code = 200, ""
        self.operations: list[str] = []
        self.is_over = threading.Event()


@pytest.fixture
def answering() -> Iterator[AnsweringServer]:
    with AnsweringServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.is_over.set()
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def asked(server: AnsweringServer, *, timeout_ns: int = TIMEOUT_NS) -> Iterator[TableClient]:
    """A client of that server."""
    endpoint = f"http://{LOOPBACK}:{server.server_port}"
    channel = DynamoChannel("locks", endpoint=endpoint, region="us-east-1", request_timeout_ns=timeout_ns)
    client = TableClient(channel, timeout_ns)
    yield client
    client.close()


EXPECTED = {
    "ConditionalCheckFailedException": (400, Outcome.PRECONDITION_FAILED),
    "TransactionConflictException": (400, Outcome.CONFLICT),
    "ReplicatedWriteConflictException": (400, Outcome.CONFLICT),
    "ProvisionedThroughputExceededException": (400, Outcome.THROTTLED),
    "ThrottlingException": (400, Outcome.THROTTLED),
    "RequestLimitExceeded": (400, Outcome.THROTTLED),
    "RequestTimeout": (400, Outcome.AMBIGUOUS),
    "RequestTimeoutException": (400, Outcome.AMBIGUOUS),
    "InternalServerError": (500, Outcome.AMBIGUOUS),
    "ServiceUnavailable": (503, Outcome.AMBIGUOUS),
    "ItemCollectionSizeLimitExceededException": (400, Outcome.REJECTED),
    "ValidationException": (400, Outcome.REJECTED),
    "SerializationException": (400, Outcome.REJECTED),
    "ResourceNotFoundException": (400, Outcome.REJECTED),
    "ExpiredTokenException": (400, Outcome.REJECTED),
    "AccessDeniedException": (400, Outcome.REJECTED),
    "UnrecognizedClientException": (400, Outcome.REJECTED),
    "InvalidSignatureException": (400, Outcome.REJECTED),
    "IncompleteSignatureException": (400, Outcome.REJECTED),
    "MissingAuthenticationTokenException": (400, Outcome.REJECTED),
}
"""Written down a second time on purpose: whoever changes a row must say it here as well."""


def test_no_code_is_without_its_expectation() -> None:
    """The table of the channel and the one of this test name the same codes."""
    assert {code: (refusal(code).status, refusal(code).outcome) for code in CODES} == EXPECTED


def test_every_error_code_has_its_outcome_and_is_asked_once(answering: AnsweringServer) -> None:
    """A1, A2, A5: by a real client of Amazon's against a server that answers it; the reason names status and code."""
    with asked(answering) as client:
        for code, (status, outcome) in EXPECTED.items():
            answering.status, answering.code = status, code
            answering.operations.clear()
            reply = client.put("a", {VERSION: text("1")}, absent(KEY))
            assert (code, reply.outcome, reply.status, reply.missing) == (code, outcome, status, False)
            assert reply.reason.startswith(f"{status} {code}: ")
            assert answering.operations == ["PutItem"], f"{code} was sent again"
            read = client.get("a")
            # A read has no condition that could fail.
            is_absurd = outcome is Outcome.PRECONDITION_FAILED
            assert (read.outcome, read.item()) == (Outcome.AMBIGUOUS if is_absurd else outcome, None)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.APPLIED),
        (403, Outcome.REJECTED),
        (404, Outcome.REJECTED),
        (408, Outcome.AMBIGUOUS),
        (413, Outcome.REJECTED),
        (429, Outcome.THROTTLED),
        (500, Outcome.AMBIGUOUS),
        (502, Outcome.AMBIGUOUS),
        (504, Outcome.AMBIGUOUS),
        (301, Outcome.AMBIGUOUS),
    ],
)
def test_a_status_without_a_known_code_has_its_outcome(answering: AnsweringServer, status: int, outcome: Outcome):
    """A1: gateways between answer without DynamoDB's codes, and what nobody foresaw is ambiguous."""
    answering.status, answering.code = status, "SomethingElse"
    with asked(answering) as client:
        reply = client.put("a", {VERSION: text("1")}, absent(KEY))
    assert reply.outcome is outcome
    assert answering.operations == ["PutItem"]


@pytest.mark.parametrize(("how", "words"), [(BROKEN, "may have taken effect"), (SILENT, "no answer in time")])
def test_no_answer_is_ambiguous(answering: AnsweringServer, how: int, words: str) -> None:
    """A1, T8: the connection breaks after the request was read, or nothing comes until the time is up."""
    answering.status = how
    with asked(answering, timeout_ns=TIMEOUT_NS if how == BROKEN else NS_PER_S // 4) as client:
        reply = client.put("a", {VERSION: text("1")}, absent(KEY))
    assert (reply.outcome, reply.status) == (Outcome.AMBIGUOUS, None)
    assert words in reply.reason
    assert answering.operations == ["PutItem"]
