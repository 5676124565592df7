"""What a request is called in the record: there triggered faults strike, and by that renewals are measured."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from lockref.history import Recorder, Stamp, to_table
from lockref.lab.contract import OneRecord
from lockref.lab.recording import Journal, RecordingChannel, content_id, host_stamp, looking, recorded_store
from lockref.ports import Reply, Request
from lockref.provider import LockView, RecordView
from lockref.runtime import MonoNs, ThreadRuntime, WallNs
from lockref.stores.memory import MemoryStore
from lockref.stores.port import Version, WriteReply
from lockref.words import Kind, Op, Outcome


class LosesAnswers(MemoryStore):
    """Applies every write; tells nothing while `is_deaf`."""

    is_deaf = False

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        reply = super().put_if_version(key, body, version)
        return replace(reply, outcome=Outcome.AMBIGUOUS, version=None) if self.is_deaf else reply


def record(owner: str, token: int | None, until: int = 0, *, released: bool = False) -> bytes:
    return json.dumps({"owner": owner, "token": token, "until": until, "released": released}).encode()


def decode(body: bytes) -> RecordView:
    said = json.loads(body)
    return RecordView(
        owner=said["owner"], token=said["token"], valid_until_ns=WallNs(said["until"]), is_released=said["released"]
    )


class Desk:
    """One process's recording store, and the names of the writes that it sent."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.store = LosesAnswers()
        journal = Journal(self.recorder, node="n1", stamp=lambda: (0, 0, 0, "main"), numbers=itertools.count(1))
        self.through = recorded_store(self.store, journal=journal, decode=OneRecord(decode))

    def write(self, body: bytes) -> None:
        version = self.store.read("lock").version
        if version is None:
            self.through.put_if_absent("lock", body)
        else:
            self.through.put_if_version("lock", body, version)

    def sent(self) -> list[str]:
        rows = [row for row in to_table([self.recorder]).to_pylist() if row["kind"] == Kind.SENT.name.lower()]
        return [row["op"] for row in rows if row["op"] != Op.READ.name.lower()]


def test_the_same_grant_written_again_is_a_renewal() -> None:
    """Renewal: a live record by the owner and token of the live record before it (glossary)."""
    desk = Desk()
    for until in (10, 20, 30):
        desk.write(record("a", 1, until))
    desk.write(record("a", 1, released=True))
    assert desk.sent() == ["acquire", "renew", "renew", "release"]


def test_the_same_owner_under_another_token_asks_anew() -> None:
    """A process that was overtaken keeps its name: its next grant is no renewal of the lost one."""
    desk = Desk()
    desk.write(record("a", 1))
    desk.store.put("lock", record("b", 2))
    desk.write(record("a", 3))
    desk.write(record("a", 3, until=20))
    assert desk.sent() == ["acquire", "acquire", "renew"]


def test_a_grant_found_by_reading_is_renewed() -> None:
    """The answer to the acquiring write was lost and its bytes were read: what follows renews it."""
    desk = Desk()
    desk.write(record("b", 1, released=True))
    desk.store.is_deaf = True
    desk.write(record("a", 2))
    desk.store.is_deaf = False
    desk.through.read("lock")
    desk.write(record("a", 2, until=20))
    assert desk.sent() == ["release", "acquire", "renew"]


def test_a_lock_without_tokens_renews_under_its_owner() -> None:
    """Hudi's records carry no token; the owner alone names the grant, until it is released."""
    desk = Desk()
    for body in (record("a", None, 10), record("a", None, 20), record("a", None, released=True), record("a", None, 30)):
        desk.write(body)
    assert desk.sent() == ["acquire", "renew", "release", "acquire"]


class _Clocks(ThreadRuntime):
    """A runtime whose clocks differ."""

    def monotonic_ns(self) -> MonoNs:
        return MonoNs(7)

    def wall_ns(self) -> WallNs:
        return WallNs(1_000)


def test_true_time_of_a_real_process_is_its_monotonic_clock() -> None:
    """A stamp: true time, wall clock, monotonic clock, task; every process of a host shares the first."""
    runtime = _Clocks()
    assert host_stamp(runtime)() == (7, 1_000, 7, runtime.current_task().name)


class Script:
    """A channel that answers each request with the next of its replies, and keeps what it was sent."""

    client, service, capabilities = "n1", "leases", None

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.recorder = Recorder()
        journal = Journal(self.recorder, node="n1", stamp=self._stamp, numbers=itertools.count(5))
        self.recorded = RecordingChannel(self, journal=journal, look=looking(by_lock))
        self.now_ns = 0

    def _stamp(self) -> Stamp:
        self.now_ns += 1
        return self.now_ns, 0, 0, "main"

    def send(self, request: Request, _timeout_ns: int) -> Reply:
        self.requests.append(request)
        self.now_ns += 100
        return self.replies.pop(0)

    def close(self) -> None: ...

    def ask(self, op: Op, body: bytes | None = None, condition: str = "") -> None:
        self.recorded.send(Request("n1", "leases", "verb", "key", condition, body, op), 1)

    def rows(self, *columns: str) -> list[tuple[object, ...]]:
        table = to_table([self.recorder]).to_pylist()
        return [tuple(row[column] for column in columns) for row in table]


def by_lock(_key: str, body: bytes) -> tuple[LockView, ...]:
    return tuple(
        LockView(owner=owner, token=token, lock=lock, valid_until_ns=WallNs(3))
        for lock, (owner, token) in json.loads(body).items()
    )


def locks(**owners: str) -> bytes:
    return json.dumps({lock: (owner, 1) for lock, owner in owners.items()}).encode()


APPLIED, FAILED = Reply(Outcome.APPLIED, "v1"), Reply(Outcome.PRECONDITION_FAILED, missing=True, reason="why")


def test_a_request_is_on_record_before_it_leaves_and_after_it_is_answered() -> None:
    """SENT, then the request, then REPLIED; each request has a number of its own, which the service is told."""
    said = Script(APPLIED, FAILED, Reply(Outcome.APPLIED, "v1", locks(a="x"), reason="found"))
    said.ask(Op.WRITE, locks(a="x"))
    said.ask(Op.WRITE, locks(a="y"), "v0")
    said.ask(Op.READ)
    content = content_id(locks(a="x"))
    columns = "kind", "at_ns", "request", "op", "if_version", "version", "owner", "token", "valid_until_ns", "detail"
    assert said.rows(*columns) == [
        ("sent", 1, 5, "acquire", None, None, "x", 1, 3, None),
        ("replied", 102, 5, "acquire", None, "v1", "x", 1, 3, None),
        ("sent", 103, 6, "acquire", "v0", None, "y", 1, 3, None),
        ("replied", 204, 6, "acquire", "v0", None, "y", 1, 3, "missing why"),
        ("sent", 205, 7, "read", None, None, None, None, None, None),
        ("replied", 306, 7, "read", None, "v1", "x", 1, 3, "found"),
    ]
    assert [row[0] for row in said.rows("content")] == [content] * 2 + [content_id(locks(a="y"))] * 2 + [None, content]
    assert [(request.number, request.op) for request in said.requests] == [
        (5, Op.ACQUIRE), (6, Op.ACQUIRE), (7, Op.READ),
    ]  # fmt: skip


def test_a_deletion_stays_one_whatever_it_carries() -> None:
    """A DELETE with a body (a table's condition, say) asks for no lock; its answer's reason is not written down."""
    said = Script(FAILED)
    said.ask(Op.DELETE, locks(a="x"))
    assert said.rows("kind", "lock", "op", "detail") == [
        ("sent", "a", "delete", None),
        ("replied", "a", "delete", None),
    ]


def test_the_service_is_told_what_a_write_does_to_each_lock() -> None:
    """One body, two locks: the one that is carried along is a plain write for the service, too."""
    said = Script(APPLIED, APPLIED)
    said.ask(Op.WRITE, locks(a="x", b="y"))
    said.ask(Op.WRITE, locks(a="x", b="z"))
    assert [request.ops for request in said.requests] == [(Op.ACQUIRE, Op.ACQUIRE), (Op.WRITE, Op.ACQUIRE)]


def test_what_a_refused_write_said_does_not_stand_in_the_object() -> None:
    """Only an applied write, and only an answered read, tells this process what the object's locks are."""
    refused = Script(APPLIED, FAILED, APPLIED)
    for owner in ("y", "z", "z"):
        refused.ask(Op.WRITE, locks(a="x", b=owner))
    assert [request.ops[1] for request in refused.requests] == [Op.ACQUIRE] * 3
    unanswered = Script(APPLIED, Reply(Outcome.AMBIGUOUS), APPLIED)
    unanswered.ask(Op.WRITE, locks(a="x", b="y"))
    unanswered.ask(Op.READ)
    unanswered.ask(Op.WRITE, locks(a="x", b="y"))
    assert unanswered.requests[2].ops == (Op.WRITE, Op.WRITE)


def test_what_was_read_stands_in_the_object() -> None:
    """A process that has read several locks knows which of them its write carries along."""
    said = Script(Reply(Outcome.APPLIED, "v1", locks(a="x", b="y")), APPLIED)
    said.ask(Op.READ)
    said.ask(Op.WRITE, locks(a="me", b="y"))
    assert said.requests[1].ops == (Op.ACQUIRE, Op.WRITE)


def test_the_bytes_of_somebody_else_are_no_grant() -> None:
    """A process that asked and then reads other bytes has learned of no grant: its next write asks anew."""
    said = Script(Reply(Outcome.AMBIGUOUS), Reply(Outcome.APPLIED, "v1", locks(a="other")), APPLIED)
    said.ask(Op.WRITE, locks(a="me"))
    said.ask(Op.READ)
    said.ask(Op.WRITE, locks(a="me"))
    assert [request.op for request in said.requests] == [Op.ACQUIRE, Op.READ, Op.ACQUIRE]


@pytest.mark.parametrize("op", [Op.WRITE, Op.DELETE])
def test_a_grant_is_over_when_its_end_was_confirmed(op: Op) -> None:
    """A release or a deletion that was not applied leaves the grant: the same record again is a renewal."""
    end = json.dumps({"a": ("me", 1)}).encode()
    for reply, following in ((Reply(Outcome.AMBIGUOUS), Op.RENEW), (APPLIED, Op.ACQUIRE)):
        said = Script(APPLIED, reply, APPLIED)
        said.recorded = RecordingChannel(
            said,
            journal=Journal(said.recorder, node="n1", stamp=said._stamp, numbers=itertools.count()),
            look=lambda _key, body: (content_id(body), (LockView(owner="me", token=1, is_released=body == b"end"),)),
        )
        said.ask(Op.WRITE, end)
        said.ask(op, b"end" if op is Op.WRITE else None)
        said.ask(Op.WRITE, end)
        assert said.requests[2].op is following


def test_a_lock_with_a_name_of_its_own_is_renewed_under_it() -> None:
    """One lock in the body, named otherwise than its object."""
    said = Script(APPLIED, APPLIED)
    said.ask(Op.WRITE, locks(a="x"))
    said.ask(Op.WRITE, locks(a="x"))
    assert [request.op for request in said.requests] == [Op.ACQUIRE, Op.RENEW]
