"""Hypothesis drives locks: on a store in memory, on a real S3 server, and in virtual time under drawn fault plans.

The first two are one state machine, three clients on three machines whose
clocks move only when told; only the store differs. The third draws whole fault
plans, not steps: a plan is what replays and shrinks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lockref.clouds.uri import open_store
from lockref.delta.options import LeaseOptions
from lockref.dynamodb import item
from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.memory import MemoryTable
from lockref.dynamodb.table import TableClient, to_bytes
from lockref.errors import LockLost, LockNotHeld, OutcomeUnknown
from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage import lockfile
from lockref.storage.lock import StorageLock
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ObjectStore
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.definition.load import parse_scenario
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.judged_run import broken_clauses
from scenarios.worlds.simulated import run_simulated
from sim.faults.answers import Error
from sim.faults.clocks import Offset
from sim.faults.fault import Fault
from sim.faults.network import Delay, LoseReply, LoseRequest, Partition
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause
from tests.backends.conftest import THROUGH_OBSTORE, address, fake_gcs_server, localstack, ministack, on
from tests.hardened_rig import CONFIG, ManualRuntime
from tests.thoroughness import examples

__all__ = ["address", "fake_gcs_server", "localstack", "ministack"]

CLIENTS = ("a", "b", "c")
OFFSET_MAX_MS = 249
"""Any two clocks then differ by less than the drift bound of 500 ms."""


class LockMachine(RuleBasedStateMachine):
    """Three locks on one object or row. No heartbeat runs: a lease that is not given back lapses."""

    def make_store(self) -> Any:
        raise AssertionError("a machine names its store")

    def make_lock(self, runtime: ManualRuntime) -> Any:
        return StorageLock(self.store, config=CONFIG, key=self.key, runtime=runtime)

    def holder(self) -> tuple[str | None, bool] | None:
        """Owner in the record, and whether it was given back; None where there is no record."""
        body = self.store.read(self.key).body
        if body is None:
            return None
        record = lockfile.parse(body)
        return record.owner, record.expired

    key = "machine/table_lock.json"

    @initialize(offsets=st.tuples(*[st.integers(-OFFSET_MAX_MS, OFFSET_MAX_MS)] * len(CLIENTS)))
    def begin(self, offsets: tuple[int, ...]) -> None:
        self.store = self.make_store()
        self.machines = {name: ManualRuntime(seed) for seed, name in enumerate(CLIENTS)}
        for name, offset_ms in zip(CLIENTS, offsets, strict=True):
            self.machines[name].wall += offset_ms * NS_PER_MS
        self.locks = {name: self.make_lock(self.machines[name]) for name in CLIENTS}
        # How often each client has locked without unlocking (H9).
        self.depth = dict.fromkeys(CLIENTS, 0)
        self.tokens: list[int] = []

    @rule(name=st.sampled_from(CLIENTS))
    def try_lock(self, name: str) -> None:
        lock = self.locks[name]
        before = self.holder()
        if self.depth[name] and not lock.holds():
            # H9: the loss of a grant is told once; then the lock starts afresh.
            with pytest.raises(LockLost):
                lock.try_lock()
            self.depth[name] = 0
        elif lock.try_lock():
            if not self.depth[name]:
                assert lock.fencing_token is not None
                assert not self.tokens or lock.fencing_token > self.tokens[-1], "S2: a token did not rise"
                self.tokens.append(lock.fencing_token)
            self.depth[name] += 1
            assert lock.holds(), "H3: granted without a lease in force"
        else:
            assert before is not None, "S7: denied although there is no record"
            assert not before[1], "S7: denied although the lock was released"

    @rule(name=st.sampled_from(CLIENTS))
    def unlock(self, name: str) -> None:
        lock = self.locks[name]
        if not self.depth[name]:
            with pytest.raises(LockNotHeld):
                lock.unlock()
            return
        was_held = lock.holds()
        self.depth[name] -= 1
        try:
            lock.unlock()
        except LockLost:
            assert not was_held, "a lease in force was called lost"
        assert lock.holds() == (was_held and self.depth[name] > 0), "U4, U6: only the last unlock ends the belief"

    @rule(ms=st.sampled_from([1, 400, 1_000, 9_400, 9_501, 10_600, 30_000]))
    def time_passes(self, ms: int) -> None:
        for machine in self.machines.values():
            machine.advance(ms * NS_PER_MS)

    @precondition(lambda self: hasattr(self, "locks"))
    @invariant()
    def at_most_one_believes(self) -> None:
        """S3, within the drift bound."""
        believers = [name for name in CLIENTS if self.locks[name].holds()]
        assert len(believers) <= 1, f"S3: {believers} believe at one instant"

    @precondition(lambda self: hasattr(self, "locks"))
    @invariant()
    def a_believer_is_named_by_the_store(self) -> None:
        """S1: who believes is the owner in the record, unreleased."""
        for name in CLIENTS:
            if self.locks[name].holds():
                assert self.holder() == (self.locks[name].owner, False)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


class LockInMemory(LockMachine):
    """On the store in memory."""

    def make_store(self) -> ObjectStore:
        return MemoryStore()


class LeaseInMemory(LockMachine):
    """Delta's lease on a table in memory."""

    def make_store(self) -> TableClient:
        return TableClient(MemoryTable(), NS_PER_S)

    def make_lock(self, runtime: ManualRuntime) -> DynamoLock:
        options = LeaseOptions.from_settings(LockSettings(key=self.key))
        return DynamoLock(self.store, self.key, options, runtime=runtime)

    def holder(self) -> tuple[str | None, bool] | None:
        row = self.store.get(self.key).item()
        if row is None:
            return None
        record = item.parse(to_bytes(row))
        return record.owner, record.is_released


@pytest.mark.parametrize("machine", [LockInMemory, LeaseInMemory])
def test_a_reference_keeps_its_promises_in_memory(machine: type[LockMachine]) -> None:
    """S1, S2, S3, S7 over drawn sequences of locking, unlocking and waiting, with clocks apart within the bound."""
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
    )


@pytest.mark.parametrize(
    "address",
    [
        on("ministack"),
        on("fake-gcs-server"),
        on(f"ministack{THROUGH_OBSTORE}", pytest.mark.long),
        on("localstack", pytest.mark.long),
    ],
    indirect=True,
)
def test_hardened_lock_keeps_its_promises_on_a_real_server(address: str) -> None:
    """The same machine on real servers of S3 and GCS, few examples: each step is a real request."""
    examples = iter(range(1_000_000))

    class LockOnServer(LockMachine):
        def make_store(self) -> ObjectStore:
            self.key = f"machine-{next(examples)}/table_lock.json"
            return open_store(address, request_timeout_ns=20 * NS_PER_S)

    run_state_machine_as_test(
        LockOnServer,
        settings=settings(
            max_examples=8, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )


SCENARIO = parse_scenario(
    """\
version: 1
name: drawn
clients: 3
duration: 30s
workload: {kind: register, cycles: 2, think: 0s..500ms, hold: 1s..3s, writes: 3, wait: 30s}
"""
)
NODES = st.sampled_from(["n1", "n2", "n3"])
INSTANT = st.integers(0, 25_000).map(lambda ms: ms * NS_PER_MS)
LENGTH = st.sampled_from([1, 50, 900, 5_000, 9_400, 10_001, 10_600, 15_000]).map(lambda ms: ms * NS_PER_MS)
OP = st.sampled_from(["acquire", "renew", "release", "read", None])
REQUEST = {"client": NODES, "op": OP, "at_ns": INSTANT, "for_ns": LENGTH, "probability": st.sampled_from([0.3, 1.0])}


@st.composite
def plans(draw: st.DrawFn) -> FaultPlan:
    """A fault plan inside the envelope: the store lies about nothing, clocks differ by less than the bound."""
    kinds: list[st.SearchStrategy[Fault]] = [
        st.builds(Pause, id=st.just("x"), client=NODES, at_ns=INSTANT, for_ns=LENGTH),
        st.builds(Crash, id=st.just("x"), client=NODES, at_ns=INSTANT, restart_after_ns=st.none() | LENGTH),
        st.builds(
            Partition,
            id=st.just("x"),
            at_ns=INSTANT,
            for_ns=LENGTH,
            groups=NODES.map(lambda node: ((node,), ("store",))),
            one_way=st.booleans(),
        ),
        st.builds(LoseRequest, id=st.just("x"), **REQUEST),
        st.builds(LoseReply, id=st.just("x"), **REQUEST),
        st.builds(Delay, id=st.just("x"), by_ns=LENGTH, **REQUEST),
        st.builds(Error, id=st.just("x"), status=st.sampled_from([409, 429, 500, 503]), cut=st.just("c1"), **REQUEST),
        st.builds(Error, id=st.just("x"), status=st.sampled_from([500, 503]), cut=st.just("c2"), **REQUEST),
    ]
    drawn = draw(st.lists(st.one_of(*kinds), min_size=1, max_size=5))
    for node in draw(st.sets(NODES).map(sorted)):
        by_ns = draw(st.integers(-OFFSET_MAX_MS, OFFSET_MAX_MS)) * NS_PER_MS
        drawn.append(Offset(id="x", client=node, at_ns=0, by_ns=by_ns))
    return FaultPlan.of(*(fault.model_copy(update={"id": f"f{number}"}) for number, fault in enumerate(drawn)))


@pytest.mark.parametrize("build", ["hardened", "dynamodb"])
@given(plan=plans(), seed=st.integers(0, 2**32))
@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_a_reference_keeps_its_promises_under_drawn_plans(build: str, plan: FaultPlan, seed: int) -> None:
    """S1 to S7 under any plan inside the envelope; a failing plan is stored and the replay line printed."""
    spec = load_provider(build)
    outcome = run_simulated(SCENARIO, spec, seed, plan=plan)
    broken = sorted(clause for clause in broken_clauses(outcome) if clause.startswith("S"))
    if broken:
        events, runs = to_table([outcome.recorder], [outcome.seed]), runs_table([outcome.run_row])
        finding = Summary.of(judge(events, runs), events, runs).findings[0]
        stored = FailureStore(SCENARIO, spec, folder=Path(".lockref/failures")).keep(finding, outcome)
        pytest.fail(f"{', '.join(broken)} broken; {stored.replay}\n{plan.to_json()}")


@given(plan=plans())
@settings(max_examples=examples(100), deadline=None)
def test_plans_survive_their_own_writing(plan: FaultPlan) -> None:
    """A fault plan is data: JSON there and back is the same plan."""
    assert FaultPlan.from_json(plan.to_json()) == plan


def test_a_failing_plan_prints_its_replay_line(tmp_path: Path) -> None:
    """The alarm works: a plan that breaks Hudi's build is kept, and replays from its file."""
    spec = load_provider("hudi")
    plan = FaultPlan.of(
        Pause(id="f0", client="n1", at_ns=1 * NS_PER_S, for_ns=13 * NS_PER_S),
        Pause(id="f1", client="n2", at_ns=1 * NS_PER_S, for_ns=13 * NS_PER_S),
        Pause(id="f2", client="n3", at_ns=1 * NS_PER_S, for_ns=13 * NS_PER_S),
        Partition(id="f3", at_ns=1 * NS_PER_S, for_ns=20 * NS_PER_S, groups=(("n1",), ("store",))),
    )
    found = None
    for seed in range(40):
        outcome = run_simulated(SCENARIO, spec, seed, plan=plan)
        if broken_clauses(outcome):
            found = outcome
            break
    assert found is not None, "forty seeds of a brutal plan left Hudi's build unharmed"
    events, runs = to_table([found.recorder], [found.seed]), runs_table([found.run_row])
    finding = Summary.of(judge(events, runs), events, runs).findings[0]
    stored = FailureStore(SCENARIO, spec, folder=tmp_path).keep(finding, found)
    assert stored.replay == f"lockref replay {stored.id}"
    assert (tmp_path / f"{stored.id}.json").exists()


def test_unknown_outcomes_are_called_unknown() -> None:
    """S7, L5: with the store out of reach an attempt raises OutcomeUnknown instead of denying."""
    scenario = parse_scenario(
        "version: 1\nname: cut-off\nclients: 1\nduration: 20s\nworkload: {cycles: 1, wait: 5s}\n"
        "faults:\n  - {kind: partition, at: 0s, for: 20s, groups: [[n1], [store]]}\n"
    )
    outcome = run_simulated(scenario, load_provider("hardened"), 1)
    rows = to_table([outcome.recorder]).to_pylist()
    returned = [row["outcome"] for row in rows if row["kind"] == "return" and row["op"] == "acquire"]
    assert returned == ["ambiguous"], OutcomeUnknown.__name__
