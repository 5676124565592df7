"""Contention on stores that need no server: the same workloads on threads, processes and the wall clock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.lab.loading import load_provider, provider_from
from lockref.ports import Reply, Request
from lockref.provider import Grant, LockContext
from lockref.stores.client import OBJECT_STORE, StoreChannel
from lockref.stores.memory import MemoryStore
from reports.checks import decide, judge
from reports.checks.spec import Verdict
from reports.checks.summary import Summary
from scenarios import interrupts
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.definition.schema import Scenario
from scenarios.run import RealOutcome, run_real
from scenarios.worlds import threads
from scenarios.worlds.latency import ONE_WAY_NS, LatentChannel
from scenarios.worlds.processes import waker
from sim.kernel.streams import stream
from sim.world import World

CONTENTION = load_scenario("contention")
HARDENED = load_provider("hardened")
SECOND_NS = 1_000_000_000


class NoLock:
    """Grants to everybody at once: what the laboratory must be able to see."""

    grant = Grant(owner="everybody")

    def __init__(self, context: LockContext) -> None:
        self.context = context

    def try_lock(self) -> bool:
        return True

    def lock(self, timeout_s: float) -> bool:
        return True

    def unlock(self) -> None: ...

    def holds(self) -> bool:
        return True

    def close(self) -> None: ...


class Broken(NoLock):
    def lock(self, timeout_s: float) -> bool:
        raise ZeroDivisionError("a lock's own bug")


class BrokenHeart(NoLock):
    def lock(self, timeout_s: float) -> bool:
        def beat() -> None:
            raise ZeroDivisionError("a lock's own bug")

        return self.context.runtime.spawn(beat, name="beat").join()


class Prints(NoLock):
    def lock(self, timeout_s: float) -> bool:
        print("hello")  # noqa: T201 - what is tested
        return True


class TwoTimeouts(NoLock):
    """Writes through one connection and reads through another, with another timeout."""

    def lock(self, timeout_s: float) -> bool:
        key = self.context.settings.key
        self.context.open_store(1_000_000_000).put(key, b"x")
        return self.context.open_store(2_000_000_000).read(key).body == b"x"


class Stuck(NoLock):
    def lock(self, timeout_s: float) -> bool:
        return self.context.runtime.event().wait()


def verdicts_on(outcome: RealOutcome) -> Mapping[str, Verdict]:
    """Each clause over the run."""
    return decide(Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs)).clauses


def test_threads_share_one_list_under_a_lock() -> None:
    """RFC-91's contention test: under the lock the list grows one by one, and the judge finds nothing."""
    outcome = run_real(CONTENTION, HARDENED, "memory:", clients=12, duration_ns=SECOND_NS)
    effects = [row for row in outcome.events.to_pylist() if row["kind"] == "effect"]
    assert [row["if_version"] for row in effects] == [str(number) for number in range(len(effects))]
    assert effects
    assert "violated" not in verdicts_on(outcome).values()
    assert outcome.unfinished == ()
    (row,) = outcome.runs.to_pylist()
    assert (row["world"], row["clients"], row["is_cut_off"]) == ("real", 12, False)
    instants = outcome.events["at_ns"].to_pylist()
    assert row["faults_end_ns"] <= instants[0] <= instants[-1] <= row["end_ns"]


def test_without_a_lock_the_list_loses_updates() -> None:
    """The canary: a lock that grants to everybody at once breaks S3 and S4 on real threads."""
    outcome = run_real(CONTENTION, provider_from(NoLock, name="none"), "memory:", clients=12, duration_ns=SECOND_NS)
    verdicts = verdicts_on(outcome)
    assert (verdicts["S3"], verdicts["S4"]) == ("violated", "violated")


def test_a_store_in_memory_shows_the_race_of_a_lock_that_checks_and_then_writes() -> None:
    """M17: requests overlap there as on a network, so two clients find the object absent and both write it."""
    check_then_put = load_provider("tests.quality.planted.strangers:CheckThenPut")
    outcome = run_real(CONTENTION, check_then_put, "memory:", clients=12, duration_ns=SECOND_NS)
    verdicts = verdicts_on(outcome)
    assert "violated" in (verdicts["S3"], verdicts["S5"])


def test_a_request_in_memory_waits_before_it_is_applied_and_before_its_answer() -> None:
    """The spans are those of the seed, each within its bounds, and the store is asked in between."""
    done: list[object] = []

    class Asked(StoreChannel):
        def send(self, request: Request, timeout_ns: int) -> Reply:
            done.append("applied")
            return super().send(request, timeout_ns)

    for _ in range(2):
        store = LatentChannel(Asked(MemoryStore()), stream(7, "latency"), done.append)
        assert OBJECT_STORE.over(store, SECOND_NS).read("key").is_absent
    there, applied, back, *again = done
    assert applied == "applied"
    assert again == [there, applied, back]
    least, most = ONE_WAY_NS
    assert all(isinstance(span, int) and least <= span <= most for span in (there, back))
    assert there != back


def test_processes_share_one_list_through_a_pipe(tmp_path: Path) -> None:
    """Two processes on one folder: one history in true-time order, unique request numbers, one list."""
    outcome = run_real(CONTENTION, HARDENED, tmp_path.as_uri(), clients=6, duration_ns=SECOND_NS, processes=2)
    rows = outcome.events.to_pylist()
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    assert [row["at_ns"] for row in rows] == sorted(row["at_ns"] for row in rows)
    assert {row["node"] for row in rows} == {f"n{number}" for number in range(1, 7)}
    calls = [row["request"] for row in rows if row["kind"] == "call"]
    assert len(calls) == len(set(calls))
    effects = [row for row in rows if row["kind"] == "effect"]
    assert [row["if_version"] for row in effects] == [str(number) for number in range(len(effects))]
    assert "violated" not in verdicts_on(outcome).values()


def test_an_interrupted_run_of_several_processes_keeps_its_history(tmp_path: Path) -> None:
    """Ctrl-C after the first write of the lock, of a run that would last an hour: what happened is handed over."""

    def interrupt() -> None:
        while not ended.wait(0.02):
            if list(tmp_path.rglob("*table_lock.json*")):
                os.kill(os.getpid(), signal.SIGINT)
                return

    ended = threading.Event()
    watch = threading.Thread(target=interrupt, daemon=True)
    watch.start()
    try:
        with interrupts.remembered():
            outcome = run_real(
                CONTENTION,
                HARDENED,
                tmp_path.as_uri(),
                clients=4,
                duration_ns=3600 * SECOND_NS,
                processes=2,
                raise_if_interrupted=interrupts.raise_if_heard,
            )
    finally:
        ended.set()
    (row,) = outcome.runs.to_pylist()
    assert (outcome.is_interrupted, row["is_cut_off"]) == (True, True)
    # Requests are written down by the workers alone.
    assert "sent" in outcome.events["kind"].to_pylist()
    assert "violated" not in verdicts_on(outcome).values()


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_ctrl_c_that_python_dropped_ends_a_run(processes: int, tmp_path: Path) -> None:
    """A KeyboardInterrupt that is raised in a finaliser is lost; a run that would last an hour ends all the same."""

    def raise_what_was_dropped() -> None:
        if list(tmp_path.rglob("*table_lock.json*")):
            raise KeyboardInterrupt

    outcome = run_real(
        CONTENTION,
        HARDENED,
        tmp_path.as_uri(),
        clients=4,
        duration_ns=3600 * SECOND_NS,
        processes=processes,
        raise_if_interrupted=raise_what_was_dropped,
    )
    assert outcome.is_interrupted
    assert "sent" in outcome.events["kind"].to_pylist()


def test_a_scenario_with_faults_needs_the_simulated_world() -> None:
    """A machine that sleeps: ConfigError (exit 2), not a run without it."""
    with pytest.raises(ConfigError, match=r"clocks of a machine.*lockref sim"):
        run_real(load_scenario("u02"), HARDENED, "memory:")


PAUSED = """\
version: 1
name: paused
clients: 2
duration: 60s
lock: {{validity: 1s, renew_every: 100ms, poll_every: 50ms}}
workload: {{cycles: 1, hold: 500ms, writes: 3, wait: 40s}}
faults:
  - {{kind: pause, client: n1, for: 1500ms, {when}}}
"""


def paused(when: str) -> Scenario:
    return parse_scenario(PAUSED.format(when=when))


@pytest.mark.parametrize(
    "when",
    [
        pytest.param("at: 0s", marks=pytest.mark.long),
        "when: {client: n1, op: acquire, cut: c4}",
        pytest.param("when: {client: n1, nth: 2, cut: c0}", marks=pytest.mark.long),
    ],
)
def test_a_real_process_is_stopped_where_the_plan_says(when: str, tmp_path: Path) -> None:
    """U2: it does nothing for as long as the plan says, and the hardened lock survives it."""
    outcome = run_real(paused(when), HARDENED, tmp_path.as_uri(), processes=2)
    events = outcome.events.to_pylist()
    begin, end = [row for row in events if row["kind"] == "fault"]
    assert [json.loads(row["detail"])["phase"] for row in (begin, end)] == ["begin", "end"]
    assert (begin["node"], end["node"]) == ("n1", "n1")
    assert end["at_ns"] - begin["at_ns"] >= 1_500_000_000
    # Its other threads, such as the heartbeat, are stopped with it; one may have been about to write.
    edge_ns = 300_000_000
    within = [row["node"] for row in events if begin["at_ns"] + edge_ns < row["at_ns"] < end["at_ns"] - edge_ns]
    assert "n1" not in within
    assert outcome.runs["faults_end_ns"].to_pylist() == [end["at_ns"]]
    assert "violated" not in verdicts_on(outcome).values()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PAUSED.format(when="at: 0s, task: heartbeat"), "pause: nobody can stop single threads"),
        ("version: 1\nname: x\nclock: {drift: {n1: 100ppm}}\n", "drift: the clocks of a machine"),
        ("version: 1\nname: x\nnetwork: {loss: 0.1}\n", "only a simulated one"),
        ("version: 1\nname: x\nfaults: [{kind: stale_read, lag: 1s}]\n", "does not lie on demand"),
        ("version: 1\nname: x\nswarm: {kinds: [step]}\n", "step: the clocks of a machine"),
    ],
)
def test_what_cannot_be_done_to_a_real_process_is_refused(text: str, words: str, tmp_path: Path) -> None:
    """ConfigError, with what it is, why, and what to do instead; nothing is run without it."""
    with pytest.raises(ConfigError, match=words):
        run_real(parse_scenario(text), HARDENED, tmp_path.as_uri(), processes=3, seed=2)


def test_faults_on_requests_need_a_store_behind_http(tmp_path: Path) -> None:
    """A folder has no wire: CapabilityMissing before any process is started."""
    with pytest.raises(CapabilityMissing, match="not reached by HTTP"):
        run_real(load_scenario("e11"), HARDENED, tmp_path.as_uri(), processes=2)


def test_a_crashed_process_is_followed_by_another(tmp_path: Path) -> None:
    """E3: it ends where the plan says, its successor has another identity, and the death is the plan's, not a loss."""
    text = PAUSED.replace("kind: pause", "kind: crash").replace("for: 1500ms", "restart_after: 1s")
    outcome = run_real(
        parse_scenario(text.format(when="when: {client: n1, op: acquire, cut: c4}")),
        HARDENED,
        tmp_path.as_uri(),
        processes=2,
    )
    events = outcome.events.to_pylist()
    assert [json.loads(row["detail"])["phase"] for row in events if row["kind"] == "fault"] == ["begin", "end"]
    assert outcome.fault_counts["crash-1"][1:] == (1, 1)
    assert outcome.lost == ()
    owners = {
        row["owner"] for row in events if row["kind"] == "sent" and row["op"] == "acquire" and row["node"] == "n1"
    }
    assert len(owners) == 2
    assert "violated" not in verdicts_on(outcome).values()


def test_a_client_draws_the_same_in_both_worlds() -> None:
    """A plan that was found in a simulation meets, on a real server, clients that want the lock when they did there."""
    world = World(seed=7)
    for name in ("n1", "n2", "n3"):
        node = world.node(name)
        for incarnation in (1, 2):
            here = threads.process_stream(7, "workload/main", name, incarnation)
            assert here.random() == node.process.stream("workload/main").random()
            node.restart(lambda: None)


def test_a_paused_process_has_one_client(tmp_path: Path) -> None:
    """To stop a process stops all its clients, and the plan names one."""
    with pytest.raises(ConfigError, match="2 clients need 2 processes, not 1"):
        run_real(paused("at: 0s"), HARDENED, tmp_path.as_uri())


def test_who_is_killed_while_it_is_stopped_leaves_no_waker() -> None:
    """The process that would wake it ends when nobody is there to be woken."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with subprocess.Popen(
        [sys.executable, "-S", str(waker.__file__), str(sleeper.pid), "600"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as waking:
        assert waking.stdout is not None
        assert waking.stdout.read(1) == b"."
        assert waking.poll() is None
        sleeper.kill()
        sleeper.wait()
        assert waking.stdin is not None
        waking.stdin.close()  # As the system does for a process that has died.
        assert waking.wait(60) == 0


@pytest.mark.parametrize(("clients", "processes"), [(0, 1), (5000, 1), (2, 3), (2, 0)])
def test_impossible_numbers_are_refused(clients: int, processes: int, tmp_path: Path) -> None:
    """Nobody, too many, and more processes than clients are usage errors."""
    with pytest.raises(ConfigError, match="expected 1 to"):
        run_real(CONTENTION, HARDENED, tmp_path.as_uri(), clients=clients, processes=processes)


def test_a_store_in_memory_belongs_to_one_process() -> None:
    """Two processes would each lock a store of their own and prove nothing."""
    with pytest.raises(CapabilityMissing, match="one process"):
        run_real(CONTENTION, HARDENED, "memory:", clients=4, processes=2)


def test_every_connection_of_a_run_reaches_one_store() -> None:
    """`memory:` without a name is one store for the whole run, whatever timeouts a lock asks for."""
    outcome = run_real(CONTENTION, provider_from(TwoTimeouts, name="two"), "memory:", clients=1, duration_ns=SECOND_NS)
    granted = [row["outcome"] for row in outcome.events.to_pylist() if row["kind"] == "return"]
    assert set(granted) == {"applied"}


def test_a_store_that_does_not_answer_is_one_error() -> None:
    """Nothing listens: BackendUnavailable before any client starts."""
    with pytest.raises(BackendUnavailable, match="does not serve reads"):
        run_real(CONTENTION, HARDENED, "s3://bucket/x?endpoint=http://127.0.0.1:9&region=us-east-1", clients=2)


def test_a_lock_that_raises_in_its_thread_is_heard() -> None:
    """A client's or a heartbeat's exception is one line, as in a simulation, although nobody joins its thread."""
    for lock in (Broken, BrokenHeart):
        with pytest.raises(ConfigError, match=r"raised ZeroDivisionError at .*: a lock's own bug"):
            run_real(CONTENTION, provider_from(lock, name="broken"), "memory:", clients=2, duration_ns=SECOND_NS)


def test_what_a_lock_prints_is_not_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output belongs to the command: with `--json` it is one document."""
    run_real(CONTENTION, provider_from(Prints, name="prints"), "memory:", clients=1, duration_ns=SECOND_NS // 10)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err


def test_a_call_that_never_returns_cuts_the_run_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hung lock ends as a cut-off run that names its clients, not as a hung laboratory."""
    monkeypatch.setattr(threads, "GRACE_S", 0)
    outcome = run_real(
        CONTENTION, provider_from(Stuck, name="stuck"), "memory:", clients=2, duration_ns=SECOND_NS // 10
    )
    assert outcome.unfinished == ("n1", "n2")
    assert outcome.runs["is_cut_off"].to_pylist() == [True]


@pytest.mark.parametrize("life", ["two_threads", "owner_ends", "relock"])
def test_every_life_runs_on_real_threads(life: str) -> None:
    """One definition for both worlds: the lives of the catalogue run on threads, too."""
    scenario = parse_scenario(
        f"version: 1\nname: x\nclients: 2\nduration: 2s\n"
        f"workload: {{kind: counter, life: {life}, cycles: 2, think: 0s, hold: 10ms, writes: 2, wait: 1s}}\n"
    )
    outcome = run_real(scenario, HARDENED, "memory:")
    assert "violated" not in verdicts_on(outcome).values()
    assert outcome.unfinished == ()
    assert [row for row in outcome.events.to_pylist() if row["kind"] == "effect"]
