"""From exchanges to a history: what is written about locks, by what the store answered."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lockref.history import Recorder, runs_table, to_table
from lockref.runtime import NS_PER_S, ThreadRuntime
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.injection.observer import Direction
from scenarios.wire.conversation import Exchange
from scenarios.wire.decoders import load_decoder
from scenarios.wire.gcs import GcsDialect
from scenarios.wire.objects import Dialect
from scenarios.wire.recorder import Asked, WireRecorder
from scenarios.wire.s3 import S3Dialect
from scenarios.wire.tap import Tap

OBJECT = "/storage/v1/b/b/o/lock"


class Watched:
    """A recorder of one store's conversations, an exchange a second."""

    def __init__(self, dialect: Dialect, decoder: str, protects: tuple[str, ...] = ()) -> None:
        self.recorder = Recorder()
        self.wire = WireRecorder(
            self.recorder, dialect, load_decoder(decoder),
            protects=protects, runtime=ThreadRuntime(), clock_offsets_ns={},
        )  # fmt: skip
        self.now_ns = NS_PER_S

    def asks(self, client: str, method: str, target: str, body: bytes = b"", **headers: str) -> Asked:
        path, _, query = target.partition("?")
        parameters = dict(part.partition("=")[::2] for part in query.split("&")) if query else {}
        exchange = Exchange(
            method=method,
            path=path,
            parameters=parameters,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            asked_ns=self.now_ns,
        )
        exchange.body.add(body)
        exchange.is_complete = True
        asked = self.wire.asked(client, exchange)
        self.wire.sent(asked, self.now_ns)
        return asked

    def hears(self, asked: Asked, status: int, body: bytes = b"", **headers: str) -> None:
        asked.exchange.status, asked.exchange.answer_headers = status, headers
        asked.exchange.answer.add(body)
        self.wire.answered(asked, self.now_ns + NS_PER_S // 2)
        self.now_ns += NS_PER_S

    def rows(self, kind: str = "replied") -> list[dict[str, Any]]:
        return [row for row in to_table([self.recorder]).to_pylist() if row["kind"] == kind]

    def broken(self) -> list[str]:
        """The clauses that a judge finds broken."""
        events, runs = self._history()
        return [finding.clause for finding in Summary.of(judge(events, runs), events, runs).findings]

    def contradictions(self) -> list[int]:
        """How often a judge finds that the store contradicted itself."""
        return [row["contradicted"] for row in judge(*self._history()).answers.to_pylist() if row["contradicted"]]

    def _history(self) -> tuple[pa.Table, pa.Table]:
        events = to_table([self.recorder])
        runs = runs_table(
            [
                {
                    "run": 0, "seed": 0, "scenario": "wire", "provider": "p", "world": "real", "backend": "gs",
                    "clients": 2, "validity_ns": 2 * NS_PER_S, "poll_interval_ns": 30 * NS_PER_S,
                    "request_timeout_ns": 0, "drift_bound_ns": NS_PER_S // 2, "is_cut_off": False,
                    "must_happen": ["grant"], "lock_protocols": {"b/lock": "wire"}, "end_ns": self.now_ns,
                    "faults_end_ns": 0,
                }
            ]
        )  # fmt: skip
        return events, runs


class Gcs(Watched):
    """gcslock's lock: custom metadata of an object."""

    def __init__(self) -> None:
        super().__init__(GcsDialect(), "gcslock")

    def creates(self, client: str, generation: int, on: str) -> None:
        parts = (b"", json.dumps({"name": "lock", **self._metadata(client)}).encode() + b"\r\n", b"x\r\n", b"--\r\n")
        asked = self.asks(
            client, "POST", f"/upload/storage/v1/b/b/o?uploadType=multipart&ifGenerationMatch={on}",
            b"--s\r\n\r\n".join(parts[:3]) + b"--s" + parts[3],
            content_type="multipart/related; boundary=s",
        )  # fmt: skip
        self.hears(asked, 200, self.resource(client, generation, 1))

    def takes(self, client: str) -> Asked:
        """A takeover, by a change of metadata."""
        return self.asks(
            client, "PATCH", f"{OBJECT}?ifMetagenerationMatch=1", json.dumps(self._metadata(client)).encode()
        )

    def resource(self, client: str, generation: int, metageneration: int) -> bytes:
        stamps = {"generation": str(generation), "metageneration": str(metageneration)}
        return json.dumps({**stamps, "updated": "2026-01-01T00:00:01Z", **self._metadata(client)}).encode()

    @staticmethod
    def _metadata(client: str) -> dict[str, Any]:
        return {"metadata": {"lock_owner": client, "expires_sec": "2"}}


@pytest.mark.parametrize("deleter", ["n1", "n2"])
def test_a_condition_on_a_generation_holds_for_every_metageneration(deleter):
    """The object was changed to 7.2, and GCS rightly lets `ifGenerationMatch=7` delete it, whoever asks."""
    watched = Gcs()
    watched.creates("n1", 7, on="0")
    watched.now_ns += 5 * NS_PER_S
    watched.hears(watched.takes("n2"), 200, watched.resource("n2", 7, 2))
    watched.now_ns += 5 * NS_PER_S
    watched.hears(watched.asks(deleter, "DELETE", f"{OBJECT}?ifGenerationMatch=7"), 204)
    assert watched.rows()[-1]["if_version"] == "7.2"
    assert watched.broken() == []


def test_a_reading_of_a_version_that_is_gone_is_no_reading_of_the_lock():
    """n2 knows generation 7 and asks for it again, after n1 gave it back and took the lock anew: the store is right."""
    watched = Gcs()
    watched.creates("n1", 7, on="0")
    watched.hears(watched.asks("n1", "DELETE", f"{OBJECT}?generation=7"), 204)
    watched.creates("n1", 8, on="0")
    watched.hears(watched.asks("n2", "GET", f"{OBJECT}?generation=7"), 404)
    watched.hears(watched.asks("n2", "DELETE", f"{OBJECT}?generation=7"), 404)
    last = watched.rows()[-2:]
    assert [(row["lock"], row["op"], row["outcome"]) for row in last] == [
        (None, "none", "applied"),
        ("b/lock", "delete", "precondition_failed"),
    ]
    assert watched.broken() == []
    assert watched.contradictions() == []


def test_a_fork_of_a_generation_is_still_a_fork():
    """Two uploads on one generation, and the store accepted both."""
    watched = Gcs()
    watched.creates("n1", 7, on="0")
    watched.now_ns += 5 * NS_PER_S
    watched.creates("n2", 8, on="7")
    watched.now_ns += 5 * NS_PER_S
    watched.creates("n1", 9, on="7")
    assert "S1" in watched.broken()


def test_a_metageneration_that_nobody_can_tell_is_left_open():
    """A change of metadata was under way, and its answer may come after it has been met."""
    watched = Gcs()
    watched.creates("n1", 7, on="0")
    watched.now_ns += 5 * NS_PER_S
    takeover = watched.takes("n2")
    watched.now_ns += 1
    watched.hears(watched.asks("n1", "DELETE", f"{OBJECT}?ifGenerationMatch=7"), 204)
    assert watched.rows()[-1]["if_version"] is None
    watched.hears(takeover, 200, watched.resource("n2", 7, 2))
    assert "S1" not in watched.broken()


def test_a_refused_writer_is_no_owner():
    """Two clients write the same record without a name; it is that of the one whose write was accepted."""
    watched = Watched(S3Dialect("b"), "json:until_s=$.until")
    record = b'{"until":1700000000}'
    for client, status, told in (("n1", 200, {"etag": '"v1"'}), ("n2", 412, {})):
        watched.wire.began(client)
        watched.hears(watched.asks(client, "PUT", "/b/lock", record, if_none_match="*"), status, **told)
    watched.hears(watched.asks("n3", "GET", "/b/lock"), 200, record, etag='"v1"')
    assert watched.rows()[-1]["owner"] == "n1.1"


def test_an_object_that_was_not_deleted_with_others_is_still_there():
    """The answer is 200, and names the objects that stay."""
    watched = Watched(S3Dialect("b"), "json:owner=$.o")
    body = b"<Delete><Object><Key>lock</Key></Object><Object><Key>x</Key></Object></Delete>"
    refused = b"<DeleteResult><Error><Key>lock</Key><Code>AccessDenied</Code></Error></DeleteResult>"
    watched.hears(watched.asks("n1", "POST", "/b?delete", body), 200, refused)
    assert {row["lock"]: row["outcome"] for row in watched.rows() if row["op"] == "delete"} == {
        "b/lock": "rejected",
        "b/x": "applied",
    }


def _guarding(*protects: str) -> Watched:
    """n1 has the lock a, and n2 the lock b beside it; each writes what its own lock guards."""
    watched = Watched(S3Dialect("b"), "json:owner=$.o", protects=protects)
    for client, lock in (("n1", "a"), ("n2", "b")):
        record = b'{"o":"%s"}' % client.encode()
        watched.hears(watched.asks(client, "PUT", f"/b/locks/{lock}", record, if_none_match="*"), 200, etag=f'"{lock}"')
    for client, lock in (("n1", "a"), ("n2", "b")):
        watched.hears(watched.asks(client, "PUT", f"/b/state/{lock}", b"x"), 200, etag='"s"')
    watched.wire.settle()
    return watched


def test_nobody_is_accused_under_a_lock_that_may_guard_something_else():
    """Two locks are equally near, so that which of them guards an object cannot be told: S4 is not asked."""
    watched = _guarding("state/*")
    assert watched.rows("effect") == []
    assert watched.wire.unguarded == dict.fromkeys(("b/state/a", "b/state/b"), ("b/locks/a", "b/locks/b"))


def test_the_lock_that_guards_an_object_may_be_named():
    """`KEYS by LOCK` tells two locks of one folder apart; without it S4 would have accused n2."""
    watched = _guarding("state/a by locks/a", "state/b by locks/b")
    assert [(row["node"], row["lock"]) for row in watched.rows("effect")] == [("n1", "b/locks/a"), ("n2", "b/locks/b")]
    assert watched.wire.unguarded == {}


def test_an_object_whose_lock_was_never_seen_is_told():
    """The named lock is none of those that were read, so nobody knows who might have written."""
    watched = _guarding("state/a by locks/other")
    assert watched.rows("effect") == []
    assert watched.wire.unguarded == {"b/state/a": ()}


def test_requests_that_are_sent_without_waiting_are_all_on_record():
    """HTTP pipelining: three at once, and their answers in one piece. None of them may be missing."""
    watched = Watched(S3Dialect("b"), "json:owner=$.o")
    tap = Tap("n1", watched.wire)
    tap.opened(1, 1)
    put = b'PUT /b/lock HTTP/1.1\r\nIf-None-Match: *\r\nContent-Length: 10\r\n\r\n{"o":"n1"}'
    tap.forwarded(1, Direction.REQUEST, put + b"GET /b/lock HTTP/1.1\r\n\r\nDELETE /b/lock HTTP/1.1\r\n\r\n", 5)
    answer = b'HTTP/1.1 200 OK\r\nETag: "v"\r\nContent-Length: %d\r\n\r\n%s'
    gone = b"HTTP/1.1 204 No Content\r\n\r\n"
    tap.forwarded(1, Direction.REPLY, answer % (0, b"") + answer % (10, b'{"o":"n1"}') + gone, 9)
    tap.closed(1, 10)
    ops = ["acquire", "read", "delete"]
    assert [(row["op"], row["at_ns"]) for row in watched.rows("sent")] == [(op, 5) for op in ops]
    assert [(row["op"], row["outcome"]) for row in watched.rows()] == [(op, "applied") for op in ops]


@pytest.mark.parametrize(
    ("header", "form"), [("x-amz-date", "%Y%m%dT%H%M%SZ"), ("x-ms-date", "%a, %d %b %Y %H:%M:%S GMT")]
)
def test_a_date_shows_whether_a_clock_was_set_apart(header, form):
    """The plan sets n1 ten seconds ahead; a program that asks another clock dates its requests as if it were not."""
    runtime = ThreadRuntime()
    wire = WireRecorder(
        Recorder(), S3Dialect("b"), load_decoder("auto"), protects=(), runtime=runtime,
        clock_offsets_ns={"n1": 10 * NS_PER_S},
    )  # fmt: skip
    now_s = runtime.wall_ns() // NS_PER_S
    for ahead_s, off_s in ((0, 10), (10, 0)):
        date = datetime.fromtimestamp(now_s + ahead_s, UTC).strftime(form)
        exchange = Exchange(method="GET", path="/b/k", parameters={}, headers={header: date}, asked_ns=0)
        wire.sent(wire.asked("n1", exchange), runtime.monotonic_ns())
        assert abs(wire.clocks_off_ns["n1"] - off_s * NS_PER_S) <= 2 * NS_PER_S
