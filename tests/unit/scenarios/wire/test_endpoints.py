"""A plan at work on programs: whom it strikes and when, what server and client got, and what is on record."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockref.clouds.uri import parse_store_uri
from lockref.errors import ConfigError
from lockref.history import Recorder, to_table
from lockref.runtime import NS_PER_MS, ThreadRuntime
from lockref.words import Outcome
from scenarios.injection.certificates import throwaway_authority
from scenarios.injection.http_messages import Answer, Head
from scenarios.injection.lane import upstream_of
from scenarios.wire.decoders import load_decoder
from scenarios.wire.endpoints import Endpoints, _Sending
from scenarios.wire.processes.struck_program import StruckProgram
from scenarios.wire.reading.dialect import dialect_of
from scenarios.wire.recorder import WireRecorder
from scenarios.wire.strikes import Strikes, idle_faults
from scenarios.wire.tap import Tap
from sim.faults.answers import Error, GhostWrite, HiddenRetry
from sim.faults.fault import Fault, Trigger
from sim.faults.network import Delay, Drip, Duplicate, LoseReply, LoseRequest, Partition
from sim.faults.plan import FaultPlan, parse_fault
from sim.faults.process import Crash, Pause
from tests.conditional_server import Bucket, serving

LOCK, STATE = "/bucket/locks/x", "/bucket/state/x"
LONG_NS = 10_000 * NS_PER_MS


def record(owner: str) -> bytes:
    return b'{"expired":false,"validUntil":9999999999999,"owner":"%s"}' % owner.encode()


class Process:
    """A program that notes what is done to it."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self.resumed = threading.Event()
        self.is_stopped = threading.Event()
        self.started = threading.Event()
        self.is_running = True

    def start(self) -> None:
        self.started.set()

    def signal(self, number: int) -> bool:
        self.signals.append(number)
        (self.resumed if number == signal.SIGCONT else self.is_stopped).set()
        return self.is_running

    def kill(self) -> None:
        self.is_running = False

    def wait(self, timeout_ns: int) -> bool:
        return True


class Bench:
    """Two clients' endpoints before a conditional server."""

    def __init__(self, address: str, bucket: Bucket, plan: FaultPlan, tls: Path | None) -> None:
        self.bucket = bucket
        self.recorder = Recorder()
        runtime = ThreadRuntime()
        wire = WireRecorder(
            self.recorder, dialect_of("s3", "b"), load_decoder("auto"), protects=("state/*",), runtime=runtime,
            clock_offsets_ns={},
        )  # fmt: skip
        self.programs = {"n1": Process(), "n2": Process()}
        self.authority = None if tls is None else throwaway_authority(tls, now_s=int(time.time()))
        upstream = upstream_of(parse_store_uri(address).endpoint)
        self.endpoints = Endpoints(
            plan, seed=1, clients=("n1", "n2"), upstream=upstream, scheme="s3", wire=wire,
            recorder=self.recorder, runtime=runtime, store=None, tls=self.authority,
        )  # fmt: skip
        self.endpoints.handles(
            {
                name: StruckProgram(program, follows=lambda name=name: wire.began(name), runtime=runtime)  # type: ignore[misc]
                for name, program in self.programs.items()
            }
        )
        self.wire = wire

    def asks(self, method: str, path: str, body: bytes = b"", *, client: str = "n1", **more: Any) -> tuple[int, bytes]:
        """One request on a connection of its own: what was heard."""
        timeout_s = more.pop("timeout_s", 20)
        host, _, port = self.endpoints.address(client).rpartition("/")[2].partition(":")
        way = http.client.HTTPConnection(host, int(port), timeout=timeout_s)
        if self.authority is not None:
            trusting = ssl.create_default_context(cafile=self.authority.certificate)
            # The default from Python 3.13 on, so that programs check as strictly.
            trusting.verify_flags |= ssl.VERIFY_X509_STRICT
            way = http.client.HTTPSConnection(host, int(port), timeout=timeout_s, context=trusting)
        with contextlib.closing(way):
            way.request(method, path, body, {name.replace("_", "-"): value for name, value in more.items()})
            answer = way.getresponse()
            return answer.status, answer.read()

    def acquires(self, client: str = "n1", **more: Any) -> int:
        return self.asks("PUT", LOCK, record(client), client=client, If_None_Match="*", **more)[0]

    def heard(self, client: str = "n1") -> int | str:
        """As `acquires`; `reset` or `silence` where there is no status."""
        try:
            return self.acquires(client, timeout_s=0.5)
        except TimeoutError:
            return "silence"
        except (ConnectionError, http.client.RemoteDisconnected):
            return "reset"

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in to_table([self.recorder], [0]).to_pylist() if row["kind"] == kind]

    def counts(self) -> dict[str, int]:
        return {name: fired for name, (_, fired, _) in self.endpoints.work.counts().items()}

    def told(self) -> list[str]:
        work = self.endpoints.work
        return list(self.endpoints.strikes.told(work.plan, work.counts()))

    def landed(self) -> int:
        """How many writes of the lock the server has applied or refused by itself."""
        return sum(1 for method, key, _ in self.bucket.requests if (method, key) == ("PUT", LOCK))


@contextlib.contextmanager
def at_work(*faults: Fault, tls: Path | None = None, begins: bool = True) -> Iterator[Bench]:
    bucket = Bucket()
    with serving(bucket) as address:
        bench = Bench(address, bucket, FaultPlan.of(*faults), tls)
        with bench.endpoints:
            if begins:
                bench.endpoints.begin()
            yield bench
        bench.endpoints.work.raise_failure()


def until(happened: Any) -> None:
    """Wait for what another thread does."""
    pause = threading.Event()
    for _ in range(1000):
        if happened():
            return
        pause.wait(0.01)
    pytest.fail("it did not happen")


def acquired(cut: str, **more: Any) -> Trigger:
    return Trigger.model_validate({"client": "n1", "op": "acquire", "cut": cut, **more})


@pytest.mark.parametrize(
    ("fault", "heard", "landed", "outcome"),
    [
        (Error(id="f", op="acquire", status=409), 409, 0, "rejected"),
        (Error(id="f", op="acquire", status=412), 412, 0, "rejected"),
        (Error(id="f", op="acquire", status=429), 429, 0, "rejected"),
        (Error(id="f", op="acquire", status=503), 503, 0, "rejected"),
        (Error(id="f", op="acquire", status="reset"), "reset", 0, "rejected"),
        (Error(id="f", op="acquire", status=500, cut="c2"), 500, 1, "applied"),
        (Error(id="f", op="acquire", status="reset", cut="c2"), "reset", 1, "applied"),
        (LoseRequest(id="f", op="acquire"), "silence", 0, "rejected"),
        (LoseReply(id="f", op="acquire"), "silence", 1, "applied"),
        (Delay(id="f", op="acquire", by_ns=1), 200, 1, "applied"),
        (Drip(id="f", op="acquire", over_ns=NS_PER_MS), 200, 1, "applied"),
        (HiddenRetry(id="f", op="acquire"), 412, 2, "applied"),
        (GhostWrite(id="f", op="acquire", by_ns=NS_PER_MS), "silence", 1, "applied"),
        (Partition(id="f", at_ns=0, for_ns=LONG_NS, groups=(("n1",), ("store",))), "silence", 0, "rejected"),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else None,
)
def test_each_kind_does_to_a_program_what_it_does_in_a_simulation(fault, heard, landed, outcome) -> None:
    """What the client hears, what the server got, and that the record has the truth of the first sending."""
    with at_work(fault) as bench:
        assert bench.heard() == heard
        until(lambda: bench.landed() == landed and len(bench.rows("replied")) == max(1, landed))
        assert bench.rows("replied")[0]["outcome"] == outcome
        assert [row["op"] for row in bench.rows("sent")] == ["acquire"] * max(1, landed)
        assert bench.counts() == {"f": 1}
        assert bench.told()[0].startswith(f"f ({fault.kind}) struck 1×")


def test_a_copy_of_a_request_is_a_request_of_its_own() -> None:
    """The network delivers it twice: the server got two, and so has the record. Their answers come in any order."""
    with at_work(Duplicate(id="d", op="acquire", gap_ns=NS_PER_MS)) as bench:
        # On a loaded machine the copy may reach the server first.
        assert bench.acquires() in (200, 412)
        until(lambda: len(bench.rows("replied")) == 2)
        assert sorted(row["outcome"] for row in bench.rows("replied")) == ["applied", "precondition_failed"]


def test_a_filter_strikes_what_it_names() -> None:
    """Client, operation and service; the second that passes and the one after it."""
    with at_work(Error(id="f", client="n1", op="acquire", service="store", status=429, nth=2, times=2)) as bench:
        heard = [bench.acquires(client) for client in ("n1", "n2", "n1", "n1", "n1")]
        assert heard == [200, 412, 429, 429, 412]
        assert bench.counts() == {"f": 2}


def test_what_the_lock_protects_is_another_service() -> None:
    """`service: resource` means writes to protected objects, and to delete a lock is to release it."""
    faults = Error(id="f", service="resource", status=409), Error(id="r", op="release", status="reset")
    with at_work(*faults) as bench:
        assert bench.acquires() == 200
        assert bench.asks("PUT", STATE, b"x")[0] == 409
        assert bench.asks("DELETE", "/bucket/other")[0] == 204
        with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
            bench.asks("DELETE", LOCK)
        assert bench.counts() == {"f": 1, "r": 1}


@pytest.mark.parametrize("cut", ["c0", "c1", "c2", "c3", "c4"])
def test_a_pause_strikes_at_its_cut(cut: str) -> None:
    """Stopped where the plan says and let go on; at c0 the request waits as long, later it lands all the same."""
    with at_work(Pause(id="p", client="n1", for_ns=300 * NS_PER_MS, when=acquired(cut))) as bench:
        began_s = time.monotonic()
        assert bench.acquires() == 200
        held = time.monotonic() - began_s >= 0.3
        assert held == (cut == "c0")
        program = bench.programs["n1"]
        assert program.resumed.wait(10)
        assert program.signals == [signal.SIGSTOP, signal.SIGCONT]
        assert bench.acquires() == 412, "a trigger names one request"
        assert program.signals == [signal.SIGSTOP, signal.SIGCONT]


def test_nothing_is_struck_before_the_run_begins() -> None:
    """A program that is quick asks while others are still started: its pause ends all the same, `for` later."""
    pause = Pause(id="p", client="n1", for_ns=300 * NS_PER_MS, when=acquired("c4"))
    with at_work(pause, begins=False) as bench:
        early = threading.Thread(target=bench.acquires)
        early.start()
        # As long as it may wait, it does: no other thread is waited for here.
        early.join(0.5)
        assert (bench.landed(), bench.programs["n1"].signals) == (0, [])
        bench.endpoints.begin()
        early.join()
        assert bench.programs["n1"].resumed.wait(10)
        assert bench.programs["n1"].signals == [signal.SIGSTOP, signal.SIGCONT]


def test_a_pause_can_wait_for_the_grant() -> None:
    """applied: an attempt that was refused is not counted, so that it is the holder who is stopped."""
    pause = Pause(id="p", client="n1", for_ns=NS_PER_MS, when=acquired("c4", applied=True))
    with at_work(pause) as bench:
        assert (bench.acquires("n2"), bench.acquires("n1")) == (200, 412)
        until(lambda: "no request of" not in bench.told()[0])
        assert bench.told() == [
            "p (pause) never struck: 1 request matched it, and none was the one that was applied "
            "(client n1, op acquire, nth 1)"
        ]
        assert bench.asks("DELETE", LOCK, client="n2")[0] == 204
        assert bench.acquires("n1") == 200
        assert bench.programs["n1"].resumed.wait(10)
        until(lambda: "PUT" in bench.told()[0])
        assert bench.told() == [
            "p (pause) struck 1×: n1 acquire PUT object bucket/locks/x: the server answered 200 (applied); "
            "the client hears 200"
        ]


@pytest.mark.parametrize("cut", ["c0", "c1"])
def test_applied_is_not_known_before(cut: str) -> None:
    """One line, when the plan is read."""
    entry = {
        "kind": "pause",
        "id": "p",
        "client": "n1",
        "for_ns": 1,
        "when": {"client": "n1", "cut": cut, "applied": True},
    }
    with pytest.raises(ConfigError, match="nobody knows at c"):
        parse_fault(entry)


def test_a_crash_before_the_request_leaves_keeps_it_from_the_server() -> None:
    """At c0 the process is killed and its request goes nowhere; at c1 the request still lands."""
    for cut, landed in (("c0", 0), ("c1", 1)):
        with at_work(Crash(id="k", client="n1", when=acquired(cut))) as bench:
            bench.heard()
            until(lambda bench=bench: len(bench.rows("replied")) == 1)  # type: ignore[misc]
            assert not bench.programs["n1"].is_running
            assert bench.landed() == landed


def test_a_killed_program_has_a_successor_and_one_that_ended_has_none() -> None:
    """`restart_after`: another process, who is somebody else; nobody follows a program that was done."""
    crash = Crash(id="k", client="n1", at_ns=200 * NS_PER_MS, restart_after_ns=1)
    with at_work(crash) as bench:
        assert bench.programs["n1"].started.wait(10)
    with at_work(crash) as bench:
        bench.programs["n1"].is_running = False
        until(lambda: len(bench.rows("fault")) == 2)
        assert not bench.programs["n1"].started.is_set()


def test_of_overlapping_pauses_the_last_one_lets_go() -> None:
    """The end of a pause that another one outlasts is no SIGCONT."""
    program = Process()
    go_on = StruckProgram(program, follows=lambda: None, runtime=ThreadRuntime()).hold(1)
    assert go_on is not None
    go_on(False)
    assert program.signals == [signal.SIGSTOP]
    go_on(True)
    assert program.signals == [signal.SIGSTOP, signal.SIGCONT]


def test_a_successor_is_announced_before_it_starts() -> None:
    """Its records are those of somebody else: who writes them must be known by then."""
    program, told = Process(), []
    struck = StruckProgram(
        program, follows=lambda: told.append(program.started.is_set()), runtime=ThreadRuntime()
    )  # fmt: skip
    struck.kill(succeeded=True)
    program.is_running = False
    struck.succeed()
    until(lambda: not struck.starting)
    assert (told, program.started.is_set()) == ([False], True)


def test_a_fault_that_changed_nothing_says_so() -> None:
    """How often it struck and not how often it might have; what it struck without effect is told."""
    plan = FaultPlan(faults=(LoseReply(id="lose-1"), Delay(id="late", by_ns=1)))
    told = list(Strikes().told(plan, {"lose-1": (5, 2, 0), "late": (4, 3, 1)}))
    assert told == [
        "lose-1 (lose_reply) struck 2×, which changed nothing",
        "late (delay) struck 3×, 2 of them without changing anything",
    ]


def test_nobody_is_started_after_the_run() -> None:
    """A successor that is due when the run ends: the process is killed, and nobody follows it."""
    program, runtime = Process(), ThreadRuntime()
    struck = StruckProgram(program, follows=lambda: None, runtime=runtime)
    struck.kill(succeeded=True)
    struck.end()
    struck.succeed()
    until(lambda: not struck.starting)
    assert not program.started.is_set()


def test_a_request_to_a_server_that_is_gone_never_takes_effect() -> None:
    """Nobody listens at its address: on record it was refused, so it is not one that may still land."""
    recorder, runtime = Recorder(), ThreadRuntime()
    wire = WireRecorder(
        recorder, dialect_of("s3", "bucket"), load_decoder("auto"), protects=(), runtime=runtime, clock_offsets_ns={}
    )  # fmt: skip

    async def nobody() -> None:
        raise ConnectionRefusedError

    head = Head(b"PUT /bucket/locks/x HTTP/1.1\r\nContent-Length: 2\r\n\r\n", 2, False)
    exchange: Any = SimpleNamespace(head=head, body=b"{}", apply=nobody)
    sending = _Sending(wire, Tap("n1", wire), runtime, "n1", exchange)
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(sending.apply())
    rows = to_table([recorder]).to_pylist()
    assert [(row["kind"], row["outcome"]) for row in rows] == [("sent", "none"), ("replied", "rejected")]
    assert "nobody listened" in rows[1]["detail"]


@pytest.mark.parametrize(
    ("line", "body", "outcome"),
    [
        (b"POST /b/lock?uploadId=u", b"<Error><Code>PreconditionFailed</Code></Error>", Outcome.PRECONDITION_FAILED),
        (b"PUT /b/lock", b"", Outcome.AMBIGUOUS),
        (b"DELETE /b/lock", b"<html>", Outcome.AMBIGUOUS),
        (b"GET /b?list-type=2", b"<ListBucketResult/>", Outcome.APPLIED),
        (b"get what this is", b"", Outcome.AMBIGUOUS),
    ],
)
def test_a_status_of_success_alone_is_none_for_faults(line: bytes, body: bytes, outcome: Outcome) -> None:
    """A fault on a completion that failed inside its 200 counted as one that changed something."""
    runtime, recorder = ThreadRuntime(), Recorder()
    wire = WireRecorder(
        recorder, dialect_of("s3", "b"), load_decoder("auto"), protects=(), runtime=runtime, clock_offsets_ns={}
    )
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    async def answers() -> Answer:
        return Answer(raw, 200, keeps_connection=True)

    exchange: Any = SimpleNamespace(
        head=Head(b"%b HTTP/1.1\r\n\r\n" % line, 0, expects_continue=False), body=b"", apply=answers
    )
    heard = asyncio.run(_Sending(wire, Tap("n1", wire), runtime, "n1", exchange).apply())
    assert (heard.answer.raw, heard.reply.outcome) == (raw, outcome)


def test_a_fault_that_met_nothing_is_told() -> None:
    """In the report, with why."""
    with at_work(LoseReply(id="l", op="renew")) as bench:
        assert bench.acquires() == 200
        assert bench.told() == ["l (lose_reply) never struck: no request of this run matched it (op renew)"]


def test_a_fault_on_a_request_that_never_came_says_which() -> None:
    """There were requests of its kind, but not so many."""
    with at_work(LoseReply(id="l", op="acquire", nth=3)) as bench:
        assert [bench.acquires("n1"), bench.acquires("n2")] == [200, 412]
        assert bench.told() == [
            "l (lose_reply) never struck: fewer than 3 requests of this run matched it (op acquire, nth 3)"
        ]


def test_one_fault_of_a_kind_does_not_stand_for_another() -> None:
    """One answer is lost. The fiftieth request never came, so its fault proves nothing. A rare fault may stay away."""
    faults = (
        LoseReply(id="first", op="acquire", nth=1),
        LoseReply(id="late", op="acquire", nth=50),
        LoseReply(id="rare", op="acquire", nth=60, probability=0.5),
        Delay(id="alone", op="acquire", nth=50, by_ns=1),
    )
    with at_work(*faults) as bench:
        assert [bench.heard("n1"), bench.heard("n2")] == ["silence", 412]
        assert idle_faults(faults, bench.endpoints.work.counts()) == ["late"]


@pytest.mark.parametrize("faults", [(), (Delay(id="d", by_ns=1),)], ids=["passing", "read whole"])
def test_an_endpoint_speaks_tls(tmp_path: Path, faults: tuple[Fault, ...]) -> None:
    """A program that trusts the certificate it is told of is served and recorded; another one gets nowhere."""
    with at_work(*faults, tls=tmp_path / "tls") as bench:
        assert bench.acquires() == 200
        until(lambda: len(bench.rows("replied")) == 1)
        host, _, port = bench.endpoints.address("n1").removeprefix("https://").partition(":")
        with socket.create_connection((host, int(port)), 10) as way, pytest.raises(ssl.SSLCertVerificationError):
            ssl.create_default_context().wrap_socket(way, server_hostname=host)
