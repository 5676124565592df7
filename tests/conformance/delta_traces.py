"""Our models of the shipped locks in the situations in which the originals were recorded, in virtual time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from lockref.delta.record import OWNER
from lockref.dynamodb.memory import MemoryTable
from lockref.dynamodb.shipped.crate import Crate
from lockref.dynamodb.shipped.java_client import JavaClient
from lockref.dynamodb.shipped.python_client import PythonClient
from lockref.dynamodb.shipped.row_lock import AnotherAttempt, RowLock
from lockref.dynamodb.table import GET, KEY, PUT, TABLE, Condition, Item, TableClient, text
from lockref.errors import CorruptRecord, LockError, LockNotAcquirable, OutcomeUnknown
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.words import Outcome
from tests.evidence.delta.situations import (
    KEY_VALUE,
    LOST,
    LOST_BEFORE,
    OWNER_NAME,
    THROTTLED,
    UNAVAILABLE,
    Situation,
)
from tests.evidence.delta.traces import Script, Trace, clauses_in
from tests.hardened_rig import ManualRuntime

_LONG_NS: Final = 24 * 3600 * NS_PER_S
_REFUSED: Final = {
    Outcome.PRECONDITION_FAILED: "ConditionalCheckFailedException",
    Outcome.THROTTLED: "ProvisionedThroughputExceededException",
}
_TOO_MANY: Final = Reply(Outcome.THROTTLED, status=400, reason=_REFUSED[Outcome.THROTTLED])
_NOT_NOW: Final = Reply(Outcome.AMBIGUOUS, status=503, reason="ServiceUnavailable")


class ScriptedTable:
    """The table of one situation: the script acts at each request and writes it down."""

    capabilities = None
    client, service = "", "table"

    def __init__(self, situation: Situation, runtime: ManualRuntime) -> None:
        self._runtime = runtime
        self._table = MemoryTable(runtime=runtime)
        self._hand = TableClient(self._table, NS_PER_S)
        self.script = Script(situation, self._plant, runtime.wall_ns() // NS_PER_S)

    def _plant(self, row: Item | None) -> None:
        if row is None:
            self._hand.delete(KEY_VALUE)
        else:
            self._hand.put(KEY_VALUE, row)

    def send(self, request: Request, timeout_ns: int) -> Reply:
        now_ns, wall_s = self._runtime.monotonic_ns(), self._runtime.wall_ns() / NS_PER_S
        fate = self.script.arrives(_told(request), now_ns=now_ns, wall_s=wall_s)
        if fate == THROTTLED:
            reply = _TOO_MANY
        elif fate == UNAVAILABLE:
            reply = _NOT_NOW
        elif fate == LOST_BEFORE:
            reply = TIMED_OUT
        else:
            reply = self._table.send(request, timeout_ns)
        if fate == LOST:
            reply = TIMED_OUT
        self.script.answered(_heard(request, reply))
        return reply

    def close(self) -> None:
        """Nothing to give back."""


def _told(request: Request) -> Trace:
    told: Trace = {"op": request.verb}
    if request.verb == GET:
        told["is_consistent"] = True
    if request.verb == PUT:
        told["item"] = json.loads(request.body)
    if isinstance(request.condition, Condition):
        told["condition"] = clauses_in(request.condition)
    return told


def _heard(request: Request, reply: Reply) -> Trace:
    if reply is TIMED_OUT:
        return {"lost": True}
    if reply is _NOT_NOW:
        return {"refused": reply.reason}
    if reply.outcome is not Outcome.APPLIED:
        return {"refused": _REFUSED[reply.outcome]}
    if request.verb == GET:
        return {"item": None if reply.body is None else json.loads(reply.body)}
    return {"done": True}


def play(build: type[RowLock], situation: Situation) -> Trace:
    """What our model of an original does and says in this situation, in the original's words."""
    runtime = ManualRuntime()
    table = ScriptedTable(situation, runtime)
    settings = LockSettings(
        key=KEY_VALUE,
        validity_ns=situation.lease_s * NS_PER_S,
        poll_interval_ns=situation.refresh_ms * NS_PER_MS,
        options={"owner_name": OWNER_NAME},
    )

    def no_store(_timeout_ns: int) -> Any:
        raise AssertionError("these locks stand on a table")

    context = LockContext(
        runtime=runtime,
        open_store=no_store,
        settings=settings,
        open_port=lambda _kind, timeout_ns, _service: TABLE.over(table, timeout_ns),
    )
    lock = build.from_context(context)
    if isinstance(lock, Crate):
        lock.additional_ns = situation.additional_ms * NS_PER_MS
        calls: Mapping[str, Callable[[Any, Mapping[str, Any]], Trace]] = _CALLS
    elif isinstance(lock, JavaClient):
        lock.additional_ns = situation.additional_ms * NS_PER_MS
        calls = _JAVA_CALLS
    else:
        calls = _PORT_CALLS
    for call in situation.calls:
        table.script.called(call, calls[call["do"]](lock, call))
    return table.script.trace()


def _acquire(lock: Crate, call: Mapping[str, Any]) -> Trace:
    lock.intent = call["data"]
    try:
        is_acquired = lock.acquire(may_wait=True, until_ns=lock.runtime.monotonic_ns() + _LONG_NS)
    except AnotherAttempt:
        return {"acquired": False}
    except LockNotAcquirable:
        return {"error": "NonAcquirableLock"}
    except CorruptRecord:
        return {"error": "InvalidItemSchema"}
    except OutcomeUnknown:
        return {"error": "no answer"}
    assert is_acquired, "an attempt of the crate ends by itself"
    return {"acquired": True, "took_over": lock.took_over, "data": lock.data}


def _update(lock: Crate, call: Mapping[str, Any]) -> Trace:
    try:
        lock.update_data(call["data"])
    except LockError:
        return {"error": "ConditionalCheckFailed"}
    return {"updated": True}


def _release(lock: Crate, _call: Mapping[str, Any]) -> Trace:
    try:
        lock.unlock()
    except OutcomeUnknown:
        return {"error": "no answer"}
    except LockError:
        return {"released": False}
    return {"released": True}


_CALLS: Final[dict[str, Callable[[Crate, Mapping[str, Any]], Trace]]] = {
    "acquire": _acquire,
    "update": _update,
    "release": _release,
}


def _acquire_port(lock: PythonClient, call: Mapping[str, Any]) -> Trace:
    until_ns = lock.runtime.monotonic_ns() + call["timeout_s"] * NS_PER_S
    try:
        return {"acquired": True} if lock.acquire(may_wait=True, until_ns=until_ns) else {"error": "ACQUIRE_TIMEOUT"}
    except OutcomeUnknown:
        return {"error": "UNKNOWN"}


def _release_port(lock: PythonClient, _call: Mapping[str, Any]) -> Trace:
    try:
        lock.unlock()
    except OutcomeUnknown:
        return {"error": "UNKNOWN"}
    except LockError:
        return {"error": "LOCK_STOLEN"}
    return {"released": "RELEASED"}


_PORT_CALLS: Final[dict[str, Callable[[PythonClient, Mapping[str, Any]], Trace]]] = {
    "acquire": _acquire_port,
    "release": _release_port,
}


def _acquire_java(lock: JavaClient, _call: Mapping[str, Any]) -> Trace:
    try:
        is_acquired = lock.acquire(may_wait=True, until_ns=lock.runtime.monotonic_ns() + _LONG_NS)
    except AnotherAttempt:
        return {"error": "LockNotGrantedException"}
    except CorruptRecord:
        return {"error": "unreadable"}
    except OutcomeUnknown:
        return {"error": "no answer"}
    assert is_acquired, "an attempt of the client ends by itself"
    return {"acquired": True}


def _heartbeat_java(lock: JavaClient, _call: Mapping[str, Any]) -> Trace:
    try:
        lock.send_heartbeat()
    except OutcomeUnknown:
        return {"error": "no answer"}
    except LockError:
        return {"error": "LockNotGrantedException"}
    return {"renewed": True}


def _wait_java(lock: JavaClient, call: Mapping[str, Any]) -> Trace:
    lock.runtime.sleep(int(call["ms"]) * NS_PER_MS)
    return {"waited": True}


_JAVA_CALLS: Final[dict[str, Callable[[Any, Mapping[str, Any]], Trace]]] = {
    "acquire": _acquire_java,
    "heartbeat": _heartbeat_java,
    "wait": _wait_java,
    "expired": lambda lock, _call: {"expired": lock.is_expired()},
    "release": _release,
}


def with_heartbeats_as_puts(trace: Trace) -> Trace:
    """A trace of the Java client, whose heartbeat sets two attributes, as our puts of the whole row.

    The row that comes of it is the one that it had, whose owner its condition names, with these two.
    """
    told: Trace = json.loads(json.dumps(trace))
    for call in told["calls"]:
        for request in call["requests"]:
            if request["op"] == "update":
                [owner] = [clause[2] for clause in request["condition"] if clause[0] == OWNER]
                request["op"] = PUT
                request["item"] = {KEY: text(KEY_VALUE), OWNER: owner, **request.pop("set")}
    return told


def with_leases_as_text(trace: Trace) -> Trace:
    """A trace of python_dynamodb_lock, whose leases are numbers, as our rows have them."""
    told: Trace = json.loads(_LEASE_AS_NUMBER.sub(r'"leaseDuration": {"S":', json.dumps(trace)))
    return told


_LEASE_AS_NUMBER: Final = re.compile(r'"leaseDuration": \{"N":')

_ONE_NAME: Final = {
    **dict.fromkeys(("GetItemError", "PutItemError", "DeleteItemError"), "no answer"),
    **dict.fromkeys(("SdkClientException", "ProvisionedThroughputExceededException", "DynamoDbException"), "no answer"),
    **dict.fromkeys(("NumberFormatException", "NullPointerException"), "unreadable"),
}
"""What the crate, then the Java client call a failure of a request that they do not know, and Java a malformed row."""


def in_our_words(trace: Trace) -> Trace:
    """A recorded trace in which failures that are one to us have one name."""
    calls = []
    for call in trace["calls"]:
        error = call["answer"].get("error")
        calls.append({**call, "answer": {"error": _ONE_NAME[error]}} if error in _ONE_NAME else call)
    return {**trace, "calls": calls}
