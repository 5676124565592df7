"""A plan at work before a server of a few lines: what it counts, tells, and does not take upon itself."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lockref.clouds.uri import parse_store_uri
from lockref.errors import CapabilityMissing, ConfigError
from lockref.history import Recorder, to_table
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime
from lockref.stores.port import ReadReply
from lockref.words import Op, Outcome
from scenarios.definition.load import load_scenario
from scenarios.injection.announcing import Announcements, AnnouncingChannel
from scenarios.injection.feasible import (
    announced_clients,
    needs_wire,
    possible,
    require_possible,
    require_reachable,
    restarted_clients,
)
from scenarios.injection.lane import Upstream
from scenarios.injection.real_time import RealStore
from scenarios.injection.session import Injection
from sim.faults.answers import Error, Throttle
from sim.faults.clocks import Offset, Step
from sim.faults.fault import Fault, Trigger
from sim.faults.network import Delay, LoseReply, LoseRequest, Partition
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause
from sim.faults.servers import CrashService, FreezeService
from sim.faults.stores import DeleteObject, StaleRead
from tests.unit.scenarios.injection.test_lane import ANSWER, GET, PUT, Server, read

ADDRESS = parse_store_uri("s3://bucket?endpoint=http://127.0.0.1:9")


@contextlib.contextmanager
def at_work(*faults: Fault, server: Server | None = None, recorder: Recorder | None = None) -> Iterator[Injection]:
    upstream = None if server is None else Upstream(host="127.0.0.1", port=server.port)
    with Injection(
        FaultPlan.of(*faults),
        seed=1,
        clients=("n1", "n2"),
        address=ADDRESS,
        upstream=upstream,
        store=None,
        recorder=Recorder() if recorder is None else recorder,
        runtime=ThreadRuntime(),
    ) as injection:
        injection.work.begin()
        yield injection


def connect(injection: Injection, op: str, client: str = "n1") -> socket.socket:
    port = injection.routes(client).endpoints[op].rpartition(":")[2]
    return socket.create_connection(("127.0.0.1", int(port)), 10)


class Hasty(Server):
    """Hangs up on each request that it has read."""

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.recv(65536)


def test_a_server_that_hangs_up_is_the_servers_doing() -> None:
    """Its client is reset, as by that server itself; the run goes on."""
    server = Hasty()
    with at_work(Delay(id="d", by_ns=1), server=server) as injection:
        with connect(injection, "read") as client:
            client.sendall(GET)
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        injection.work.raise_failure()
    server.close()


def test_what_struck_is_in_the_record_and_in_the_counts() -> None:
    """FAULT rows by the host's clocks, as all rows of a real run; a fault that met nothing stays at 0."""
    server, recorder = Server(), Recorder()
    faults = Error(id="e", op="write", status=503, nth=1), LoseReply(id="l", client="n2")
    with at_work(*faults, server=server, recorder=recorder) as injection, connect(injection, "write") as client:
        client.sendall(PUT)
        assert read(client, 12) == b"HTTP/1.1 503"
        assert injection.work.counts() == {"e": (1, 1, 1), "l": (0, 0, 0)}
        assert injection.work.end_ns() is None  # A lost reply without an end may strike for ever.
    server.close()
    rows = [row for row in to_table([recorder], [0]).to_pylist() if row["kind"] == "fault"]
    assert [json.loads(row["detail"]) for row in rows] == [{"id": "e", "kind": "error", "phase": "fired"}]
    assert rows[0]["at_ns"] == rows[0]["mono_ns"]


def test_requests_that_no_fault_concerns_pass() -> None:
    """Of another client, or of another operation: byte for byte, on one connection."""
    server = Server()
    with at_work(LoseRequest(id="l", client="n2", op="write"), server=server) as injection:
        for client, op in (("n1", "write"), ("n2", "read")):
            with connect(injection, op, client) as way:
                for _ in range(2):
                    way.sendall(GET)
                    assert read(way, len(ANSWER)) == ANSWER
        assert injection.work.counts() == {"l": (0, 0, 0)}
    assert server.received == [GET] * 4
    server.close()


class Echo:
    """A resource that applies everything, and counts."""

    client, service, capabilities = "", "resource", None

    def __init__(self) -> None:
        self.applied = 0

    def send(self, request: Request, _timeout_ns: int) -> Reply:
        self.applied += 1
        return Reply(Outcome.APPLIED, version=request.client)

    def close(self) -> None:
        """Nothing."""


WRITE = Request("", "resource", "write", "", op=Op.WRITE)


@pytest.mark.parametrize(
    ("fault", "outcome", "applied"),
    [
        (LoseReply(id="f", service="resource"), TIMED_OUT.outcome, 1),
        (LoseRequest(id="f", service="resource"), TIMED_OUT.outcome, 0),
        (Error(id="f", op="write", status=409), Outcome.CONFLICT, 0),
        (Error(id="f", op="write", status=503, cut="c2"), Outcome.AMBIGUOUS, 1),
        (Partition(id="f", at_ns=0, groups=(("n1",), ("resource",)), for_ns=10**12), TIMED_OUT.outcome, 0),
        (LoseReply(id="f", client="n2"), Outcome.APPLIED, 1),
    ],
)
def test_the_resource_is_struck_like_any_service(fault: Fault, outcome: Outcome, applied: int) -> None:
    """A write that is lost, refused or unheard: what the simulated resource's channel answers."""
    resource = Echo()
    with at_work(fault) as injection:
        assert injection.before(resource, "n1").send(WRITE, 100 * NS_PER_MS).outcome is outcome
    assert resource.applied == applied


class Killed:
    """The processes of a client that can be stopped and killed."""

    is_running = True

    def hold(self, _for_ns: int) -> Callable[[bool], None]:
        return lambda _is_last: None

    def kill(self, *, succeeded: bool) -> None:
        """It is dead at once."""


C0 = Trigger(client="n1", service="resource", cut="c0")


def test_a_process_that_stands_still_before_its_write_has_not_written() -> None:
    """Paused at c0: the resource has the write when the process goes on, and not before."""
    resource = Echo()
    with at_work(Pause(id="p", client="n1", for_ns=200 * NS_PER_MS, when=C0)) as injection:
        injection.nodes["n1"].handle = Killed()  # type: ignore[assignment]
        begun_ns = ThreadRuntime().monotonic_ns()
        applied_ns: list[int] = []

        def send(request: Request, _timeout_ns: int) -> Reply:
            applied_ns.append(ThreadRuntime().monotonic_ns())
            return Reply(Outcome.APPLIED, version=request.client)

        resource.send = send  # type: ignore[method-assign]
        assert injection.before(resource, "n1").send(WRITE, 100 * NS_PER_MS).outcome is Outcome.APPLIED
    assert applied_ns[0] - begun_ns >= 200 * NS_PER_MS


def test_a_process_that_was_killed_before_its_write_never_writes() -> None:
    """Killed at c0: nothing of the request has left."""
    resource = Echo()
    with at_work(Crash(id="c", client="n1", when=C0)) as injection:
        injection.nodes["n1"].handle = Killed()  # type: ignore[assignment]
        assert injection.before(resource, "n1").send(WRITE, 100 * NS_PER_MS).outcome is TIMED_OUT.outcome
    assert resource.applied == 0


def test_announced_requests_are_counted_where_they_are_made() -> None:
    """c0 and c4 are in the client's process: it says so, on a line of its own."""
    trigger = Trigger(client="n1", op="write", nth=2, cut="c4")
    partition = Partition(id="p", when=trigger, groups=(("n1",), ("resource",)), for_ns=10**12)
    resource = Echo()
    with at_work(partition) as injection:
        port = injection.routes("n1").announce_port
        assert port
        assert injection.routes("n2").announce_port == 0
        channel = AnnouncingChannel(resource, Announcements(port, ThreadRuntime().mutex()), "n1")
        for fired in (0, 1, 1):
            channel.send(WRITE._replace(service="store"), 0)
            assert injection.work.counts()["p"][1] == fired


def test_a_plan_says_what_it_needs() -> None:
    """Lanes, announcements, successors: each only where some fault strikes there."""
    at_c0 = Pause(id="a", client="n1", for_ns=1, when=Trigger(client="n2", cut="c0"))
    at_c2 = Pause(id="b", client="n1", for_ns=1, when=Trigger(client="n2", cut="c2"))
    again = Crash(id="c", client="n1", at_ns=1, restart_after_ns=1)
    assert announced_clients(FaultPlan.of(at_c0, at_c2, again)) == {"n2"}
    assert restarted_clients(FaultPlan.of(at_c0, again)) == {"n1"}
    assert [needs_wire(each) for each in (at_c0, at_c2, again)] == [False, True, False]
    assert needs_wire(LoseReply(id="l"))
    assert not needs_wire(LoseReply(id="l", service="resource"))


def test_what_no_real_run_has_is_left_out_with_its_reason() -> None:
    """A clock that is wrong by nothing is no fault at all."""
    none, step = Offset(id="o", client="n1", at_ns=0, by_ns=0), Step(id="s", client="n1", at_ns=0, by_ns=5)
    kept, left_out = possible(FaultPlan.of(none, step, LoseReply(id="l"), StaleRead(id="r", lag_ns=1)))
    assert [fault.id for fault in kept.faults] == ["l"]
    assert {fault.id: why.split()[0] for fault, why in left_out} == {"s": "the", "r": "a"}


def test_a_swarm_of_clocks_is_refused_whatever_it_draws() -> None:
    """`swarm` draws clock faults; what single seeds draw does not decide whether a scenario can be run."""
    with pytest.raises(ConfigError, match="the clocks of a machine"):
        require_possible(load_scenario("swarm"), FaultPlan(), drawn=())
    assert require_possible(load_scenario("swarm-on-the-wire"), FaultPlan(), drawn=()) == FaultPlan()


@pytest.mark.parametrize(
    ("fault", "uri", "words"),
    [
        (LoseReply(id="f"), "s3://bucket", "add .endpoint="),
        (LoseReply(id="f"), "file:///x", "not reached by HTTP"),
        (DeleteObject(id="f", at_ns=0), "dynamodb://table", "holds none"),
        (FreezeService(id="f", at_ns=0, for_ns=1), "s3://bucket?endpoint=http://127.0.0.1:9", "was not started here"),
        (
            CrashService(id="f", at_ns=0, restart_after_ns=1),
            "s3://bucket?endpoint=http://127.0.0.1:9",
            "was not started",
        ),
    ],
)
def test_a_store_that_a_plan_cannot_strike_is_refused(fault: Fault, uri: str, words: str) -> None:
    """A cloud without an address to stand before, a folder, a table of rows."""
    with pytest.raises(CapabilityMissing, match=words):
        require_reachable(FaultPlan.of(fault), parse_store_uri(uri))


def test_throttling_by_key_is_refused() -> None:
    """The wire does not show keys."""
    assert possible(FaultPlan.of(Throttle(id="t", writes=1, key="k")))[1][0][0].id == "t"


class Told:
    """Hears of the first error that ends the run."""

    def __init__(self, injection: Injection) -> None:
        self.event = threading.Event()
        self._fail = injection.work.fail
        injection.work.fail = self  # type: ignore[assignment,method-assign]

    def __call__(self, error: BaseException) -> None:
        self._fail(error)
        self.event.set()


def injection(fault: Fault, *, store: RealStore | None = None) -> Injection:
    return Injection(
        FaultPlan.of(fault), seed=1, clients=("n1",), address=parse_store_uri("memory:x"), upstream=None, store=store,
        recorder=Recorder(), runtime=ThreadRuntime(),
    )  # fmt: skip


class FullDisk:
    """A store that an operator cannot read."""

    def read(self, _key: str) -> ReadReply:
        raise OSError(28, "No space left on device")


def test_an_operator_s_act_that_fails_ends_the_run() -> None:
    """A fault that could not be carried out must not count as fired: the run would look well."""
    struck = injection(DeleteObject(id="d", at_ns=1), store=RealStore("store", FullDisk(), ["k"]))  # type: ignore[arg-type]
    told = Told(struck)
    with struck:
        struck.work.begin()
        assert told.event.wait(60)
    with pytest.raises(OSError, match="No space left"):
        struck.work.raise_failure()


class NoProcess:
    """A handle whose process cannot be asked for."""

    def hold(self, _for_ns: int) -> None:
        raise LookupError("no such process")


def test_an_announcement_that_fails_ends_the_run_and_its_connection() -> None:
    """The client's process hears the end of the connection, and does not wait for ever."""
    struck = injection(Pause(id="p", client="n1", for_ns=10**8, when=Trigger(client="n1", op="acquire", cut="c0")))
    told = Told(struck)
    with struck:
        struck.nodes["n1"].handle = NoProcess()  # type: ignore[assignment]
        struck.work.begin()
        with socket.create_connection(("127.0.0.1", struck._announce_port)) as process:
            process.sendall(b'{"made": "n1", "op": "acquire", "verb": "PUT", "key": "k"}\n')
            assert process.recv(10) == b""
        assert told.event.wait(60)
    with pytest.raises(LookupError):
        struck.work.raise_failure()


class Answering:
    """A resource that answers with what `answer` gives, on the thread that asks."""

    capabilities = None
    client, service = "", "resource"

    def __init__(self, answer: Callable[[], Reply]) -> None:
        self._answer = answer

    def send(self, _request: Request, _timeout_ns: int) -> Reply:
        return self._answer()

    def close(self) -> None:
        pass


def test_no_client_waits_for_the_thread_of_another() -> None:
    """A log's requests may take seconds each. One more client than the threads of a usual pool hears no time-out."""
    names = tuple(f"n{number}" for number in range(33))
    all_at_once = threading.Barrier(len(names), timeout=10)

    def answer() -> Reply:
        all_at_once.wait()
        return Reply(Outcome.APPLIED)

    with Injection(
        FaultPlan.of(Delay(id="d", by_ns=1)), seed=1, clients=names, address=parse_store_uri("memory:x"), upstream=None,
        store=None, recorder=Recorder(), runtime=ThreadRuntime(),
    ) as injected, ThreadPoolExecutor(len(names)) as clients:  # fmt: skip
        injected.work.begin()
        ways = [injected.before(Answering(answer), name) for name in names]
        asked = [clients.submit(way.send, WRITE, 10 * NS_PER_S) for way in ways]
        assert {each.result().outcome for each in asked} == {Outcome.APPLIED}


def test_what_is_on_its_way_to_the_resource_lands_before_the_injection_has_ended() -> None:
    """Its client has given up. Afterwards the log is read, and the row of a late entry would be missing."""
    begun, may_land = threading.Event(), threading.Event()
    senders: list[threading.Thread] = []

    def answer() -> Reply:
        senders.append(threading.current_thread())
        begun.set()
        assert may_land.wait(60)
        return Reply(Outcome.APPLIED)

    struck = injection(Delay(id="d", by_ns=1))
    stop = struck.work.stop

    def stopped() -> None:
        stop()
        may_land.set()

    struck.work.stop = stopped  # type: ignore[method-assign]
    with struck:
        struck.work.begin()
        assert struck.before(Answering(answer), "n1").send(WRITE, 10**6).outcome is TIMED_OUT.outcome
        assert begun.wait(60)
    assert [each.is_alive() for each in senders] == [False]
