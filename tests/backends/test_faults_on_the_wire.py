"""The simulator's fault plans on real servers: each kind does to a real request what it does to a simulated one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import pytest

from lockref.clouds.statuses import outcome_of
from lockref.clouds.uri import open_store, parse_store_uri
from lockref.errors import CapabilityMissing, ConfigError
from lockref.history import Recorder, runs_table, to_table
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime
from lockref.words import Outcome
from reports.checks import judge
from reports.checks.summary import Summary
from reports.checks.verdicts import decide
from scenarios.backends import start_backend
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.retry import retry_failure
from scenarios.injection.certificates import throwaway_authority
from scenarios.injection.feasible import require_reachable
from scenarios.injection.lane import Lane, upstream_of
from scenarios.injection.real_time import RealStore
from scenarios.injection.routes import through
from scenarios.injection.session import Injection
from scenarios.run import run_real, run_simulated
from scenarios.worlds.judged_result import tell_nobody
from sim.explore.replay import Failure, ProviderUsed
from sim.faults.answers import AMBIGUOUS_STATUSES, Error, GhostWrite, HiddenRetry, Throttle
from sim.faults.clocks import Step
from sim.faults.network import Delay, Drip, Duplicate, LoseReply, LoseRequest, Partition, ReorderReplies
from sim.faults.plan import FaultPlan
from sim.faults.servers import CrashService, FreezeService
from sim.faults.stores import CorruptObject, DeleteObject
from tests.backends.conftest import TABLES, on

SHORT_NS = 500 * NS_PER_MS
LONG_NS = 20 * NS_PER_S
CLOUDS = (on("ministack"), on("fake-gcs-server"), on("azurite"))
clouds = pytest.mark.parametrize("address", CLOUDS, indirect=True)
everywhere = pytest.mark.parametrize("address", [*CLOUDS, on(TABLES)], indirect=True)


class Struck:
    """A plan before a real store. `store(op)` is the way of one client's requests of one operation."""

    def __init__(self, address: str, *faults, store, seed: int = 1, trusted=None, server=None) -> None:
        self.recorder = Recorder()
        self.injection = Injection(
            FaultPlan.of(*faults),
            seed=seed,
            clients=("n1", "n2"),
            address=parse_store_uri(address),
            upstream=upstream_of(parse_store_uri(address).endpoint, trusted=trusted),
            store=RealStore("store", store, ["k"], server=server),
            recorder=self.recorder,
            runtime=ThreadRuntime(),
        )
        self._address = address
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Struck:
        self._stack.enter_context(self.injection)
        self.injection.work.begin()
        return self

    def __exit__(self, *error) -> None:
        self._stack.close()
        self.injection.work.raise_failure()

    def way(self, op: str, *, client: str = "n1", timeout_ns: int = LONG_NS):
        uri = through(self._address, self.injection.routes(client).endpoints[op])
        return self._stack.enter_context(contextlib.closing(open_store(uri, request_timeout_ns=timeout_ns)))

    def fired(self) -> list[int]:
        return [fired for _, fired, _ in self.injection.work.counts().values()]


def in_time(is_so: Callable[[], bool]) -> bool:
    """True once it is so, which on a busy machine takes its time."""
    pause = threading.Event()
    for _ in range(1000):
        if is_so():
            return True
        pause.wait(0.01)
    return False


def landed(store, body: bytes) -> bool:
    """True once `k` holds this body."""
    return in_time(lambda: store.read("k").body == body)


@everywhere
def test_a_lost_reply_and_a_lost_request_look_alike(address, store):
    """E11, E15, A1: both are AMBIGUOUS to the client; only one of the writes is there."""
    faults = LoseReply(id="a", op="acquire"), LoseRequest(id="b", op="renew")
    with Struck(address, *faults, store=store) as struck:
        assert struck.way("renew", timeout_ns=SHORT_NS).put_if_absent("k", b"lost").outcome is Outcome.AMBIGUOUS
        assert store.read("k").is_absent
        assert struck.way("acquire", timeout_ns=SHORT_NS).put_if_absent("k", b"kept").outcome is Outcome.AMBIGUOUS
        assert landed(store, b"kept")
        assert struck.way("read").read("k").body == b"kept"
        assert struck.fired() == [1, 1]


@everywhere
@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (409, Outcome.CONFLICT),
        (412, Outcome.PRECONDITION_FAILED),
        (429, Outcome.THROTTLED),
        (403, Outcome.REJECTED),
        (500, Outcome.AMBIGUOUS),
        (503, Outcome.AMBIGUOUS),
        ("reset", Outcome.AMBIGUOUS),
    ],
)
def test_a_refusal_before_applying_is_the_clouds_own(address, store, status, outcome):
    """E6, E16, E29: in the words of each cloud, and its client hears what a simulated one hears; nothing is written."""
    with Struck(address, Error(id="e", op="acquire", status=status, nth=1), store=store) as struck:
        reply = struck.way("acquire").put_if_absent("k", b"mine")
        assert reply.outcome is outcome
        assert outcome_of(status if isinstance(status, int) else None) is outcome
        assert store.read("k").is_absent
        assert struck.way("acquire").put_if_absent("k", b"mine").outcome is Outcome.APPLIED
        assert struck.fired() == [1]


@everywhere
@pytest.mark.parametrize("status", [status for status in AMBIGUOUS_STATUSES if status != "timeout"])
def test_an_error_after_applying_hides_a_write(address, store, status):
    """c2: the write is there, and its author cannot know. Each status that a swarm may draw there."""
    with Struck(address, Error(id="e", op="acquire", status=status, cut="c2"), store=store) as struck:
        assert struck.way("acquire").put_if_absent("k", b"mine").outcome is Outcome.AMBIGUOUS
        assert landed(store, b"mine")


@clouds
def test_a_hidden_retry_meets_its_own_write(address, store):
    """A2, E17: what the SDK's own retry hears is a refusal of a write that landed."""
    with Struck(address, HiddenRetry(id="h", op="acquire"), store=store) as struck:
        assert struck.way("acquire").put_if_absent("k", b"mine").outcome is Outcome.PRECONDITION_FAILED
        assert landed(store, b"mine")
        assert struck.injection.work.counts() == {"h": (1, 1, 1)}


@clouds
def test_a_copy_of_a_request_arrives_later(address, store):
    """A copy of a write on its condition changes nothing; of one without a condition it undoes what came between."""
    fault = Duplicate(id="d", op="write", gap_ns=200 * NS_PER_MS, nth=1)
    with Struck(address, fault, store=store) as struck:
        writing = struck.way("write")
        writing.put("k", b"first")
        writing.put("k", b"second")
        assert landed(store, b"first")
        # Nobody waits for the answer to a copy. It is counted when it comes, and the copy can be seen before.
        assert in_time(lambda: struck.injection.work.counts() == {"d": (1, 1, 1)})


@clouds
def test_a_ghost_write_lands_after_its_author_gave_up(address, store):
    """E30, A7: held back whole until after the next request, so that the two are reordered."""
    fault = GhostWrite(id="g", op="write", by_ns=1500 * NS_PER_MS, nth=1)
    with Struck(address, fault, store=store) as struck:
        hasty = struck.way("write", timeout_ns=SHORT_NS)
        assert hasty.put("k", b"ghost").outcome is Outcome.AMBIGUOUS
        assert store.put("k", b"second").outcome is Outcome.APPLIED
        assert landed(store, b"ghost")


@clouds
@pytest.mark.parametrize("direction", ["request", "reply"])
def test_a_delay_is_only_time(address, store, direction):
    """Both ways, and nothing else changes."""
    with Struck(address, Delay(id="d", by_ns=SHORT_NS, direction=direction), store=store) as struck:
        began_ns = time.monotonic_ns()
        assert struck.way("acquire").put_if_absent("k", b"mine").outcome is Outcome.APPLIED
        assert time.monotonic_ns() - began_ns >= SHORT_NS


@clouds
def test_answers_that_leave_within_a_span_wait_for_its_end(address, store):
    """The one that left last arrives first."""
    with Struck(address, ReorderReplies(id="r", within_ns=SHORT_NS), store=store) as struck:
        began_ns = time.monotonic_ns()
        assert struck.way("acquire").put_if_absent("k", b"mine").outcome is Outcome.APPLIED
        assert time.monotonic_ns() - began_ns >= SHORT_NS


@clouds
def test_a_throttled_store_serves_so_many_a_second(address, store):
    """T13, E16: what is above is refused unapplied, and reads have an allowance of their own."""
    with Struck(address, Throttle(id="t", writes=1), store=store) as struck:
        writing, reading = struck.way("write"), struck.way("read")
        outcomes = [writing.put("k", b"x").outcome for _ in range(3)]
        assert outcomes[0] is Outcome.APPLIED
        assert Outcome.THROTTLED in outcomes
        assert reading.read("k").body == b"x"


@clouds
def test_a_partition_cuts_one_client_off_for_its_time(address, store):
    """U1: silence for the one, service for the other, and an end. A busy machine needs a second to make a client."""
    fault = Partition(id="p", at_ns=0, groups=(("n1",), ("store",)), for_ns=5 * NS_PER_S)
    with Struck(address, fault, store=store) as struck:
        assert struck.way("read", timeout_ns=SHORT_NS).read("k").outcome is Outcome.AMBIGUOUS
        assert struck.way("read", client="n2").read("k").is_absent
        pause = threading.Event()
        for _ in range(100):
            if struck.way("read", timeout_ns=SHORT_NS).read("k").outcome is Outcome.APPLIED:
                break
            pause.wait(0.05)
        else:
            pytest.fail("the partition did not end")
        events = to_table([struck.recorder], [0])
        assert [row["detail"].count('"end"') for row in events.to_pylist() if row["kind"] == "fault"] == [0, 1]


@clouds
def test_a_filter_strikes_whom_it_names(address, store):
    """client, op, nth and times mean what they mean in a simulation."""
    fault = Error(id="e", status=429, client="n2", op="write", nth=2, times=2)
    with Struck(address, fault, store=store) as struck:
        for client, expected in (("n1", "....."), ("n2", ".xx..")):
            way = struck.way("write", client=client)
            outcomes = [way.put("k", b"x").outcome for _ in range(5)]
            assert ["." if outcome is Outcome.APPLIED else "x" for outcome in outcomes] == list(expected)
        assert struck.injection.work.counts()["e"][1] == 2


@clouds
def test_an_operator_reaches_into_the_store(address, store):
    """U9, D6: by his own way, which no fault of the wire touches."""
    store.put("k", b"mine")
    faults = (
        CorruptObject(id="c", at_ns=0, body=b"{"),
        LoseRequest(id="l"),
        DeleteObject(id="d", at_ns=NS_PER_S),
    )
    with Struck(address, *faults, store=store) as struck:
        assert landed(store, b"{")
        assert landed(store, None)
        assert struck.fired() == [1, 0, 1]


@clouds
def test_a_store_behind_tls_is_struck_like_any_other(address, store, tmp_path):
    """Plain HTTP to the client and TLS to the server: a signature covers the host and not the scheme."""
    authority = throwaway_authority(tmp_path / "tls", now_s=int(time.time()))
    with tls_before(address, authority) as secure:
        faults = LoseReply(id="l", op="acquire"), Error(id="e", op="renew", status=412, cut="c1")
        with Struck(secure, *faults, store=store, trusted=authority.trusting()) as struck:
            assert struck.way("acquire", timeout_ns=SHORT_NS).put_if_absent("k", b"mine").outcome is Outcome.AMBIGUOUS
            assert landed(store, b"mine")
            assert struck.way("renew").put_if_absent("other", b"x").outcome is Outcome.PRECONDITION_FAILED
            assert struck.way("write").put("k", b"new").outcome is Outcome.APPLIED
            assert struck.way("read").read("k").body == b"new"


@contextlib.contextmanager
def tls_before(address: str, authority):
    """The same store behind TLS: its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    front = Lane(upstream_of(parse_store_uri(address).endpoint), tls=authority.server)
    asyncio.run_coroutine_threadsafe(front.open(), loop).result(10)
    try:
        yield through(address, front.endpoint)
    finally:
        asyncio.run_coroutine_threadsafe(front.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_server_of_ours_stands_still_and_goes_on(ministack):
    """S7: stopped with all its processes; what was sent meanwhile is done afterwards."""
    address = f"{ministack.uri.partition('?')[0]}/frozen?{ministack.uri.partition('?')[2]}"
    with contextlib.closing(open_store(address, request_timeout_ns=LONG_NS)) as store:
        fault = FreezeService(id="f", at_ns=0, for_ns=1500 * NS_PER_MS)
        with Struck(address, fault, store=store, server=ministack.server) as struck:
            hasty = struck.way("acquire", timeout_ns=SHORT_NS)
            assert hasty.put_if_absent("k", b"late").outcome is Outcome.AMBIGUOUS
            assert landed(store, b"late")
            assert struck.injection.work.counts() == {"f": (1, 1, 1)}


@pytest.mark.realbackend
def test_a_server_of_ours_is_killed_and_comes_back_with_what_it_had():
    """SIGKILL: its clients are reset at once, and a new process has the object and its condition."""
    with (
        start_backend("ministack") as running,
        contextlib.closing(open_store(running.uri, request_timeout_ns=LONG_NS)) as store,
    ):
        store.put("k", b"kept")
        fault = CrashService(id="f", at_ns=0, restart_after_ns=1000 * NS_PER_MS)
        with Struck(running.uri, fault, store=store, server=running.server) as struck:
            killed = running.server.process
            assert struck.way("acquire").put_if_absent("other", b"lost").outcome is Outcome.AMBIGUOUS
            assert landed(store, b"kept")
            assert running.server.process is not killed
            assert store.put_if_absent("k", b"mine").outcome is Outcome.PRECONDITION_FAILED
            assert store.read("other").is_absent
            assert struck.injection.work.counts() == {"f": (1, 1, 1)}


@pytest.mark.realbackend
def test_a_server_that_forgets_is_not_killed():
    """Its new process would be another store: refused before anything is struck."""
    plan = FaultPlan.of(CrashService(id="f", at_ns=0, restart_after_ns=1))
    with start_backend("moto") as running, pytest.raises(CapabilityMissing, match="in memory"):
        require_reachable(plan, parse_store_uri(running.uri), server=running.server)


@clouds
def test_an_answer_that_drips_is_whole_in_the_end(address, store):
    """Never silent, and late: a client that waits hears all of it, one that bounds the whole request gives up."""
    fault = Drip(id="d", op="read", over_ns=SHORT_NS)
    store.put("k", b"x" * 1000)
    with Struck(address, fault, store=store) as struck:
        began_ns = time.monotonic_ns()
        assert struck.way("read").read("k").body == b"x" * 1000
        assert time.monotonic_ns() - began_ns >= SHORT_NS
        assert struck.way("read", timeout_ns=SHORT_NS // 2).read("k").outcome is Outcome.AMBIGUOUS


SCENARIO = """\
version: 1
name: wire
clients: 2
duration: 40s
lock: {validity: 4s, renew_every: 400ms, poll_every: 200ms}
workload: {cycles: 1, start: 500ms, hold: 1500ms, writes: 3, wait: 30s, clients: {n1: {start: 0s, think: 0s}}}
faults:
  - {kind: lose_reply, client: n1, op: acquire, nth: 1}
  - {kind: error, status: 503, client: n1, op: release, nth: 1}
  - {kind: pause, client: n2, for: 500ms, when: {client: n2, op: acquire, cut: c2}}
must_happen: [grant, lost_reply_acquire, "fault:error", "fault:pause"]
"""


@pytest.mark.long
@pytest.mark.parametrize("address", [on("ministack")], indirect=True)
def test_a_plan_is_carried_out_on_clients_in_processes(address):
    """H5, H7: the hardened lock meets on a real server what it meets in a simulation, and holds."""
    outcome = run_real(parse_scenario(SCENARIO), load_provider("hardened"), address, processes=2)
    assert {name: fired for name, (_, fired, _) in outcome.fault_counts.items()} == {
        "lose_reply-1": 1, "error-2": 1, "pause-3": 1,
    }  # fmt: skip
    verdicts = decide(Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs))
    assert (verdicts.safety, verdicts.reasons) == ("held", ())


@pytest.mark.long
@pytest.mark.parametrize("address", [on("ministack")], indirect=True)
def test_a_plan_that_never_struck_proves_nothing(address):
    """Inconclusive, with the reason, as in a simulation."""
    text = SCENARIO[: SCENARIO.index("faults:")] + "faults: [{kind: lose_reply, client: n1, op: renew, nth: 99}]\n"
    outcome = run_real(parse_scenario(text), load_provider("hardened"), address, processes=2)
    verdicts = decide(Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs))
    assert verdicts.safety == "inconclusive"
    assert verdicts.reasons == ("never happened: fault",)


OWN_WRITE = """\
version: 1
name: own-write
clients: 2
duration: 30s
lock: {validity: 4s, renew_every: 400ms, poll_every: 200ms}
workload: {cycles: 1, start: 1500ms, hold: 500ms, wait: 20s, clients: {n1: {start: 0s, think: 0s, cycles: 2, wait: 2s}}}
faults:
  - {kind: lose_reply, client: n1, op: acquire, nth: 2}
"""


@pytest.mark.parametrize("address", [on("ministack")], indirect=True)
def test_a_simulated_failure_is_found_again_on_a_real_server(address, tmp_path):
    """E12, S7: Hudi denies itself its own lock there, too, from the stored plan alone."""
    scenario, spec = parse_scenario(OWN_WRITE), load_provider("hudi")
    outcome = run_simulated(scenario, spec, 1)
    events, runs = to_table([outcome.recorder], [1]), runs_table([outcome.run_row])
    finding = next(each for each in Summary.of(judge(events, runs), events, runs).findings if each.clause == "S7")
    stored = FailureStore(scenario, spec, folder=tmp_path).keep(finding, outcome)
    tried = retry_failure(tmp_path / f"{stored.id}.json", address, folder=tmp_path / "run", progress=tell_nobody)
    assert (tried.is_reproduced, tried.is_complete, tried.reasons) == (True, True, ())
    assert tried.broken == ("S7",)


def test_a_failure_of_which_nothing_can_be_carried_out_is_refused(tmp_path):
    """A clock of one process: ConfigError before any server is asked."""
    scenario, spec = load_scenario("e08"), load_provider("hudi")
    outcome = run_simulated(scenario, spec, 1, plan=FaultPlan.of(Step(id="s", client="n1", by_ns=NS_PER_S, at_ns=0)))
    path = tmp_path / "LK-CLOCKS.json"
    Failure(
        id="LK-CLOCKS",
        clause="S3",
        scenario=scenario.model_dump(mode="json", by_alias=True),
        provider=ProviderUsed(name="hudi"),
        seed=1,
        plan=outcome.plan,
        digest=outcome.digest,
    ).save(path)
    with pytest.raises(ConfigError, match=r"nothing of its plan.*clocks of a machine"):
        retry_failure(path, "s3://b?endpoint=http://127.0.0.1:9", folder=tmp_path, progress=tell_nobody)


@pytest.mark.long
@pytest.mark.parametrize("address", [on("ministack"), on("azurite")], indirect=True)
def test_a_release_without_an_answer_breaks_hudis_build_and_not_the_hardened_one(address):
    """E14: the provider that failed to release believes in its old lock again; the same on S3 and on Azure."""
    broken = {}
    for build in ("hudi", "hardened"):
        outcome = run_real(load_scenario("e14-release-reply-lost"), load_provider(build), address, processes=2)
        counted = Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs)
        broken[build] = {finding.clause for finding in counted.findings if finding.is_safety}
    assert "S3" in broken["hudi"]
    assert broken["hardened"] == set()
