"""From exchanges to a history: what is written about locks, by what the store answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from lockref.clouds.traffic import Exchange, ObjectRequest
from lockref.errors import ConfigError
from lockref.history import Recorder, runs_table, to_table
from lockref.lab.recording import StateDecoder
from lockref.runtime import NS_PER_S, ThreadRuntime
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.injection.observer import Direction
from scenarios.wire.decoders import load_decoder
from scenarios.wire.protection import Protection
from scenarios.wire.reading.dialect import Dialect, dialect_of
from scenarios.wire.reading.versions import SeenVersions
from scenarios.wire.recorder import OpenRequest, WireRecorder
from scenarios.wire.tap import Tap

OBJECT = "/storage/v1/b/b/o/lock"


class Watched:
    """A recorder of one store's conversations, an exchange a second."""

    def __init__(
        self,
        dialect: Dialect,
        decoder: str | StateDecoder,
        *,
        protects: tuple[str, ...] = (),
        offsets_ns: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.recorder = Recorder()
        self.wire = WireRecorder(
            self.recorder,
            dialect,
            load_decoder(decoder) if isinstance(decoder, str) else decoder,
            protects=protects,
            runtime=ThreadRuntime(),
            clock_offsets_ns=offsets_ns,
        )
        self.now_ns = NS_PER_S

    def asks(self, client: str, method: str, target: str, body: bytes = b"", **headers: str) -> OpenRequest:
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

    def hears(self, asked: OpenRequest, status: int, body: bytes = b"", **headers: str) -> None:
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
        super().__init__(dialect_of("gs", "b"), "gcslock")

    def creates(self, client: str, generation: int, on: str) -> None:
        parts = (b"", json.dumps({"name": "lock", **self._metadata(client)}).encode() + b"\r\n", b"x\r\n", b"--\r\n")
        asked = self.asks(
            client, "POST", f"/upload/storage/v1/b/b/o?uploadType=multipart&ifGenerationMatch={on}",
            b"--s\r\n\r\n".join(parts[:3]) + b"--s" + parts[3],
            content_type="multipart/related; boundary=s",
        )  # fmt: skip
        self.hears(asked, 200, self.resource(client, generation, 1))

    def takes(self, client: str) -> OpenRequest:
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
    watched = Watched(dialect_of("s3", "b"), "json:until_s=$.until")
    record = b'{"until":1700000000}'
    for client, status, told in (("n1", 200, {"etag": '"v1"'}), ("n2", 412, {})):
        watched.wire.began(client)
        watched.hears(watched.asks(client, "PUT", "/b/lock", record, if_none_match="*"), status, **told)
    watched.hears(watched.asks("n3", "GET", "/b/lock"), 200, record, etag='"v1"')
    assert watched.rows()[-1]["owner"] == "n1.1"


def test_an_object_that_was_not_deleted_with_others_is_still_there():
    """The answer is 200, and names the objects that stay."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o")
    body = b"<Delete><Object><Key>lock</Key></Object><Object><Key>x</Key></Object></Delete>"
    refused = b"<DeleteResult><Error><Key>lock</Key><Code>AccessDenied</Code></Error></DeleteResult>"
    watched.hears(watched.asks("n1", "POST", "/b?delete", body), 200, refused)
    assert {row["lock"]: row["outcome"] for row in watched.rows() if row["op"] == "delete"} == {
        "b/lock": "rejected",
        "b/x": "applied",
    }


DELETES = b"<Delete><Object><Key>lock</Key></Object></Delete>"


@pytest.mark.parametrize("told", ["500", "unfinished", "nothing", "unreached"])
def test_a_deletion_of_several_objects_may_have_happened_though_nobody_says_so(told):
    """S1: nothing told that the lock may be gone, so the next create was the store's second one."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o")
    watched.hears(watched.asks("n1", "PUT", "/b/lock", b'{"o":"n1"}', if_none_match="*"), 200, etag='"e1"')
    deletion = watched.asks("n1", "POST", "/b?delete", DELETES)
    deletion.exchange.is_unfinished = told == "unfinished"
    if told in ("500", "unfinished"):
        watched.hears(deletion, 500 if told == "500" else 200)
    elif told == "unreached":
        watched.wire.unreached(deletion, watched.now_ns, "kept")
    watched.hears(watched.asks("n2", "PUT", "/b/lock", b'{"o":"n2"}', if_none_match="*"), 200, etag='"e2"')
    assert watched.broken() == (["S1"] if told == "unreached" else [])


def _guarding(*protects: str) -> Watched:
    """n1 has the lock a, and n2 the lock b beside it; each writes what its own lock guards."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o", protects=protects)
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
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o")
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
        Recorder(), dialect_of("s3", "b"), load_decoder("auto"), protects=(), runtime=runtime,
        clock_offsets_ns={"n1": 10 * NS_PER_S},
    )  # fmt: skip
    now_s = runtime.wall_ns() // NS_PER_S
    for ahead_s, off_s in ((0, 10), (10, 0)):
        date = datetime.fromtimestamp(now_s + ahead_s, UTC).strftime(form)
        exchange = Exchange(method="GET", path="/b/k", parameters={}, headers={header: date}, asked_ns=0)
        wire.sent(wire.asked("n1", exchange), runtime.monotonic_ns())
        assert abs(wire.clocks_off_ns["n1"] - off_s * NS_PER_S) <= 2 * NS_PER_S


def test_a_change_of_metadata_without_an_answer_may_still_land():
    """After 500 nobody knows which metageneration the next request meets; after a refusal everybody does."""
    for status, met in ((500, None), (412, "7.1")):
        watched = Gcs()
        watched.creates("n1", 7, on="0")
        watched.hears(watched.takes("n2"), status)
        watched.hears(watched.asks("n1", "DELETE", f"{OBJECT}?ifGenerationMatch=7"), 204)
        assert watched.rows()[-1]["if_version"] == met


def test_the_tenth_metageneration_comes_after_the_ninth():
    """Answers may come in another order than versions were made, and versions are numbers in text."""
    seen = SeenVersions()
    for version in ("7.9", "7.10", "7.2"):
        seen.saw("k", version)
    assert seen.replaced(ObjectRequest(verb="DELETE", key="k", condition="7.*")) == "7.10"


@pytest.mark.parametrize(("status", "is_doubtful"), [(204, True), (500, True), (403, False)])
def test_a_version_that_is_removed_by_its_id_leaves_a_hole(status, is_doubtful):
    """S3: what the object holds then is in no answer, also where the answer is missing. A refusal changed nothing."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o")
    watched.hears(watched.asks("n1", "DELETE", "/b/lock?versionId=v1"), status)
    assert list(watched.wire.unfollowed) == (["b/lock"] if is_doubtful else [])


def test_a_change_that_is_not_followed_counts_without_an_answer_too():
    """Its connection was cut: it may have taken effect. One that never reached the server has not."""
    watched = Watched(dialect_of("az", "b"), "json:owner=$.o")
    asked = watched.asks("n1", "PUT", "/acct/c/lock?comp=appendblock")
    assert list(watched.wire.unfollowed) == ["c/lock"]
    watched.wire.unreached(asked, watched.now_ns, "kept")
    assert not watched.wire.unfollowed


# What the lock protects.


class Guarded(Watched):
    """S3; the lock protects what lies in `state/`."""

    def __init__(self) -> None:
        super().__init__(dialect_of("s3", "b"), "json:owner=$.o", protects=("state/*",))

    def puts(self, client: str, key: str, body: bytes = b"{}", status: int = 200) -> None:
        self.hears(self.asks(client, "PUT", f"/b/{key}", body), status, etag=f'"{self.now_ns}"')

    def effects(self) -> list[tuple[str, str | None, str]]:
        """Client, lock and object of each."""
        self.wire.settle()
        found = self.rows("effect")
        return [(row["node"], row["lock"], json.loads(row["detail"])["object"]) for row in found]


def test_what_was_accepted_of_the_protected_is_an_effect():
    """A write and a deletion, at the instant of their sending; not what was refused, and not the lock itself."""
    watched = Guarded()
    watched.puts("n1", "locks/a", b'{"o":"n1"}')
    sent_ns = watched.now_ns
    watched.puts("n1", "state/x")
    watched.puts("n2", "state/x", status=412)
    watched.puts("n2", "elsewhere/x")
    watched.hears(watched.asks("n2", "DELETE", "/b/state/x"), 204)
    watched.hears(
        watched.asks("n1", "POST", "/b?delete", b"<Delete><Object><Key>state/y</Key></Object></Delete>"),
        200,
        b"<DeleteResult/>",
    )
    assert watched.effects() == [
        ("n1", "b/locks/a", "b/state/x"),
        ("n2", "b/locks/a", "b/state/x"),
        ("n1", "b/locks/a", "b/state/y"),
    ]
    assert watched.rows("effect")[0]["at_ns"] == sent_ns
    assert watched.wire.effects == 3


def test_an_effect_waits_until_a_lock_is_known():
    """Its guard may be seen only later; without any it stands there without one."""
    watched = Guarded()
    watched.puts("n1", "state/x")
    assert watched.rows("effect") == []
    watched.puts("n1", "locks/a", b'{"o":"n1"}')
    assert watched.effects() == [("n1", "b/locks/a", "b/state/x")]
    assert watched.effects() == [("n1", "b/locks/a", "b/state/x")], "written once"


def test_the_guard_is_the_lock_of_that_name_or_the_nearest():
    """`KEY.lock` guards KEY; else the lock with which it shares the most folders."""
    locks = ["b/far/lock", "b/state/one/lock.d/lock", "b/state/two.lock"]
    protection = Protection(("state/*", "far/*"))
    assert protection.guards("b/state/two", locks) == ["b/state/two.lock"]
    assert protection.guards("b/state/one/x", locks) == ["b/state/one/lock.d/lock"]
    assert protection.guards("b/far/x", locks) == ["b/far/lock"]


def test_what_is_named_as_a_lock_is_none_of_the_protected_and_the_protected_is_no_lock():
    """In one folder: `x.tflock` is a lock although the pattern fits, and `x` is none although it reads like one."""
    watched = Guarded()
    watched.puts("n1", "state/x.tflock", b'{"o":"n1"}')
    watched.puts("n1", "state/x", b'{"o":"n1"}')
    assert list(watched.wire.locks) == ["b/state/x.tflock"]
    assert watched.effects() == [("n1", "b/state/x.tflock", "b/state/x")]


# What a write does to a lock.


def test_to_renew_is_to_write_the_same_grant_again():
    """Another token, a release or a deletion between two records: the second one takes the lock anew."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o,token=$.t,released=$.free")
    record, version = '{{"o":"n1","t":{}}}', 0

    def puts(body: str) -> None:
        nonlocal version
        version += 1
        watched.hears(watched.asks("n1", "PUT", "/b/lock", body.encode()), 200, etag=f'"v{version}"')

    for token in (1, 1, 2, 2):
        puts(record.format(token))
    watched.hears(watched.asks("n1", "DELETE", "/b/lock"), 204)
    puts(record.format(2))
    puts('{"o":"n1","t":2,"free":true}')
    puts(record.format(2))
    ops = [row["op"] for row in watched.rows("sent")]
    assert ops == ["acquire", "renew", "acquire", "renew", "delete", "acquire", "release", "acquire"]


def test_a_record_that_gives_back_promises_nothing():
    """The longest promise keeps others out for as long: an end that is written with a release is none."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o,until_s=$.u,released=$.free")
    watched.hears(watched.asks("n1", "PUT", "/b/lock", b'{"o":"n1","u":4000000000,"free":true}'), 200, etag='"v1"')
    assert watched.wire.promised_ns == 0
    watched.hears(watched.asks("n1", "PUT", "/b/lock", b'{"o":"n1","u":4000000000}'), 200, etag='"v2"')
    assert watched.wire.promised_ns > 0


def test_the_stamps_of_a_client_are_by_its_own_clock():
    """n1's clock was set ten seconds ahead; both ask at one instant."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o", offsets_ns={"n1": 10 * NS_PER_S})
    for client in ("n1", "n2"):
        watched.asks(client, "GET", "/b/lock")
    one, other = watched.rows("sent")
    assert one["at_ns"] == other["at_ns"]
    assert abs(one["wall_ns"] - other["wall_ns"] - 10 * NS_PER_S) < NS_PER_S


def test_a_reading_without_a_body_shows_what_its_version_is_known_to_hold():
    """HEAD: of a version that was seen before it is a reading; of another one nobody knows what it holds."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o")
    watched.hears(watched.asks("n1", "PUT", "/b/lock", b'{"o":"n1"}'), 200, etag='"v1"')
    watched.hears(watched.asks("n2", "HEAD", "/b/lock"), 200, etag='"v1"')
    watched.hears(watched.asks("n2", "HEAD", "/b/lock"), 200, etag='"v2"')
    known, unknown = watched.rows()[-2:]
    assert (known["lock"], known["op"], known["owner"]) == ("b/lock", "read", "n1")
    assert (unknown["lock"], unknown["op"], unknown["owner"]) == (None, "none", None)


def test_what_a_decoder_raises_is_kept_and_ends_the_reading():
    """The run is told of the first error; nothing is decoded after it."""
    asked = []

    def decode(key: str, _body: bytes) -> tuple[()]:
        asked.append(key)
        raise ConfigError("not a record of mine")

    watched = Watched(dialect_of("s3", "b"), decode)
    for _ in range(2):
        watched.hears(watched.asks("n1", "PUT", "/b/lock", b"{}"), 200, etag='"v1"')
    assert isinstance(watched.wire.failure, ConfigError)
    assert asked == ["b/lock"]


# The tap.


def test_an_answer_that_ends_with_its_connection_is_recorded_and_what_is_no_http_is_told():
    """The last bytes come with the end; of a connection that speaks something else the run says so."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o")
    tap = Tap("n1", watched.wire)
    tap.opened(1, 1)
    tap.forwarded(1, Direction.REQUEST, b"GET /b/lock HTTP/1.1\r\nHost: h\r\n\r\n", 2)
    tap.forwarded(1, Direction.REPLY, b'HTTP/1.1 200 OK\r\nETag: "v1"\r\n\r\n{"o":"n1"}', 3)
    assert watched.rows() == []
    tap.ended(1, 4)
    tap.closed(1, 5)
    assert [(row["owner"], row["at_ns"]) for row in watched.rows()] == [("n1", 4)]
    tap.opened(2, 5)
    tap.forwarded(2, Direction.REQUEST, b"\x16\x03\x01\x02", 6)
    tap.closed(2, 7)
    assert "no HTTP" in tap.unreadable


@pytest.mark.parametrize("told", ["Content-Length: 900000", "Transfer-Encoding: chunked", "Connection: close"])
def test_a_success_that_never_ends_is_in_doubt_and_nobody_is_accused(told):
    """S1: two creates got a status of success and bytes for ever. The store was blamed for accepting both."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o")
    tap = Tap("n1", watched.wire)
    for connection, second in ((1, 1), (2, 3)):
        at_ns, body = second * NS_PER_S, b'{"o":"n%d"}' % connection
        tap.opened(connection, at_ns)
        request = b"PUT /b/lock HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\nContent-Length: %d\r\n\r\n" % len(body)
        tap.forwarded(connection, Direction.REQUEST, request + body, at_ns)
        head = f'HTTP/1.1 200 OK\r\nETag: "e{connection}"\r\n{told}\r\n\r\n'.encode()
        tap.forwarded(connection, Direction.REPLY, head + b"1000\r\n" + b"y" * 4096, at_ns)
        tap.closed(connection, at_ns + NS_PER_S)
    watched.now_ns = 5 * NS_PER_S
    assert [(row["outcome"], row["version"]) for row in watched.rows()] == [("ambiguous", None)] * 2
    assert {row["detail"] for row in watched.rows()} == {
        "200: a success that did not come to its end; the request may have taken effect"
    }
    assert watched.broken() == []
    assert watched.wire.unfinished == {"n1": 2}


def test_an_answer_to_a_head_alone_is_an_answer_to_what_was_asked():
    """A server may refuse before the body has come: the request counts from its first byte, and is answered once."""
    watched = Watched(dialect_of("s3", "b"), "json:owner=$.o")
    tap = Tap("n1", watched.wire)
    tap.opened(1, 1)
    tap.forwarded(1, Direction.REQUEST, b"PUT /b/lock HTTP/1.1\r\nContent-Length: 9\r\n\r\n", 2)
    tap.forwarded(1, Direction.REPLY, b"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n", 3)
    tap.closed(1, 4)
    assert [(row["at_ns"], row["op"]) for row in watched.rows("sent")] == [(2, "write")]
    assert [(row["at_ns"], row["outcome"]) for row in watched.rows()] == [(3, "rejected")]
