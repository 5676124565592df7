"""Running scenarios in the simulated world: determinism, replay, observers, budgets, strangers' errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.errors import ConfigError, DeterminismError, LockError
from lockref.history import Recorder, to_table
from lockref.lab.loading import load_provider, provider_from
from lockref.provider import Grant, LockContext
from lockref.storage.lock import StorageLock
from reports.checks import judge
from reports.checks.verdicts import decide
from scenarios.batch import simulate_in_chunks
from scenarios.campaign import run_campaign
from scenarios.definition.draw import draw_scenario
from scenarios.definition.fault_plan import draw_plan, is_same_for_all_seeds
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.run import run_simulated, simulate_many
from scenarios.worlds import simulated
from sim.faults.clocks import Offset, Step
from sim.faults.plan import FaultPlan
from sim.kernel.schedules import Fifo, Replay

SWARM = load_scenario("swarm")
HARDENED = load_provider("hardened")


def test_a_batch_does_not_depend_on_the_number_of_processes() -> None:
    """The digest of a batch and the order of its runs are those of its seeds, with one process or two."""
    seeds = range(1, 61)
    alone, shared = simulate_many(SWARM, HARDENED, seeds), simulate_many(SWARM, HARDENED, seeds, jobs=2)
    assert alone.digest == shared.digest
    assert [outcome.seed for outcome in shared.outcomes] == list(seeds)
    assert shared.events.equals(alone.events)


def test_a_batch_does_not_depend_on_the_hash_seed() -> None:
    """Two processes with different PYTHONHASHSEED give one digest."""
    program = (
        "from scenarios.run import simulate_many; from scenarios.definition.load import load_scenario;"
        "from lockref.lab.loading import load_provider;"
        "print(simulate_many(load_scenario('swarm'), load_provider('hudi'), range(1, 9)).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "4242")
    }
    assert len(digests) == 1


def test_runs_do_not_influence_each_other() -> None:
    """A, B, A: the second A equals the first."""
    first = run_simulated(SWARM, HARDENED, 3).digest
    run_simulated(SWARM, load_provider("hudi"), 4)
    assert run_simulated(SWARM, HARDENED, 3).digest == first


def test_plan_and_deviations_are_the_run() -> None:
    """A stored plan and schedule replay to the same digest; the plan survives JSON."""
    for seed in range(1, 11):
        outcome = run_simulated(SWARM, HARDENED, seed)
        again = run_simulated(
            SWARM,
            HARDENED,
            seed,
            plan=FaultPlan.from_json(outcome.plan.to_json()),
            schedule=Replay(list(outcome.deviations)),
        )
        assert again.digest == outcome.digest


def test_both_substrates_record_the_same_run() -> None:
    """Greenlets and gated threads give one trace for one seed."""
    for seed in (1, 2, 3):
        greenlet = run_simulated(SWARM, HARDENED, seed)
        assert run_simulated(SWARM, HARDENED, seed, substrate="thread").digest == greenlet.digest


def test_a_recorder_of_the_callers_own_is_used() -> None:
    """Events go to the recorder that was given; the schedule may be plain first-in, first-out."""
    recorder = Recorder()
    outcome = run_simulated(SWARM, HARDENED, 1, recorder=recorder, schedule=Fifo())
    assert outcome.recorder is recorder
    assert len(recorder) > 50
    assert outcome.deviations == ()


def test_a_paused_believer_is_asked_when_somebody_else_gains_the_lock() -> None:
    """S3: the observer's BELIEVED row dates the overlap at the successor's grant, not at the sleeper's waking."""
    outcome = run_simulated(load_scenario("e08"), load_provider("hudi"), 1)
    rows = to_table([outcome.recorder]).to_pylist()
    observed = [row for row in rows if row["kind"] == "believed" and row["op"] == "none"]
    gained = [row["at_ns"] for row in rows if row["kind"] == "believed" and row["op"] == "acquire"]
    assert observed
    assert {row["node"] for row in observed} == {"n1"}
    assert all(row["at_ns"] in gained for row in observed)


@pytest.mark.parametrize(
    ("lock", "broken"), [("MayBeUsedDuringUnlock", {"S3"}), ("SaysYesDuringUnlock", set())], ids=lambda each: str(each)
)
def test_belief_lasts_through_unlock_where_the_lock_says_so(lock: str, broken: set[str]) -> None:
    """S3, M27: while `unlock` runs, the holder of a lock that declares it is asked; that of any other lock is not."""
    batch = simulate_many(load_scenario("e01"), load_provider(f"tests.quality.planted.release:{lock}"), [1])
    verdicts = judge(batch.events, batch.runs).verdicts.to_pylist()
    assert {row["clause"] for row in verdicts if row["verdict"] == "violated"} == broken


def test_a_lock_without_tokens_is_never_green_where_clients_trust_the_token() -> None:
    """`asks: token`: without a token nobody writes, and the reason is said in plain words."""
    verdicts = decide(run_campaign(load_scenario("token-alone"), load_provider("hudi"), [1], keep_runs=0).summary)
    assert verdicts.safety == "inconclusive"
    assert verdicts.reasons[0] == "the lock gave no fencing token, and the scenario needs one"


def test_the_observer_leaves_the_dead_and_the_frozen_alone() -> None:
    """A crashed client believes nothing; one whose clocks stand still has no reading of now."""
    for name in ("e03", "u02"):
        outcome = run_simulated(load_scenario(name), load_provider("hudi"), 1)
        rows = to_table([outcome.recorder]).to_pylist()
        assert not [row for row in rows if row["kind"] == "believed" and row["op"] == "none"]


def test_constant_plans_are_drawn_once_and_mean_the_same() -> None:
    """A scenario without ranges has one plan for all seeds; one with ranges has not."""
    constant, drawn = load_scenario("e14"), load_scenario("e08")
    assert is_same_for_all_seeds(constant)
    assert not is_same_for_all_seeds(drawn)
    assert draw_plan(constant, draw_scenario(constant, 1), 1) == draw_plan(constant, draw_scenario(constant, 2), 2)
    assert draw_plan(drawn, draw_scenario(drawn, 1), 1) != draw_plan(drawn, draw_scenario(drawn, 2), 2)
    assert not is_same_for_all_seeds(SWARM)


def test_scenario_words_become_plan_numbers() -> None:
    """Units, ids, clocks and times arrive in the simulator's own form."""
    scenario = parse_scenario(
        "version: 1\nname: x\nclock: {drift: {n2: 200ppm}, offset: {n1: -1.5s}}\nfaults:\n"
        "  - {at: 2s, kind: pause, client: n1, for: 250ms, task: heartbeat}\n"
        "  - {id: gone, kind: error, status: 503, client: n2, op: renew, nth: 2, times: 3}\n"
        "  - {kind: partition, at: 1s, groups: [[n1], [store, resource]], for: 1s, one_way: true}\n"
        "  - {kind: corrupt_object, at: 3s, body: x}\n"
    )
    plan = json.loads(draw_plan(scenario, draw_scenario(scenario, 1), 1).to_json())
    drift, offset, pause, error, partition, corrupt = plan["faults"]
    assert (drift["id"], drift["rate_ppm"], drift["at_ns"]) == ("drift-n2", 200, 0)
    assert (offset["id"], offset["by_ns"]) == ("offset-n1", -1_500_000_000)
    assert (pause["id"], pause["at_ns"], pause["for_ns"], pause["task"]) == (
        "pause-1",
        2_000_000_000,
        250_000_000,
        "heartbeat",
    )
    assert (error["id"], error["nth"], error["times"], error["status"]) == ("gone", 2, 3, 503)
    assert (partition["groups"], partition["one_way"]) == ([["n1"], ["store", "resource"]], True)
    assert corrupt["id"] == "corrupt_object-4"


def test_a_seed_chooses_one_of_several_bodies() -> None:
    """Every body of the list comes up, each as the bytes of its charset; one body alone is no choice (E25)."""
    head = "version: 1\nname: x\nfaults:\n  - {kind: corrupt_object, at: 3s, "
    several = parse_scenario(head + 'charset: latin-1, body: ["", "{}", "\\xFF{"]}\n')
    bodies = {draw_plan(several, draw_scenario(several, seed), seed).faults[0].body for seed in range(40)}  # type: ignore[attr-defined]
    assert bodies == {b"", b"{}", b"\xff{"}
    assert not is_same_for_all_seeds(several)
    one = parse_scenario(head + 'body: [""]}\n')
    assert is_same_for_all_seeds(one)
    with pytest.raises(ConfigError, match="not in latin-1"):
        parse_scenario(head + 'charset: latin-1, body: "€"}\n')


def test_a_swarm_stays_within_its_envelope_unless_told_otherwise() -> None:
    """No clock fault exceeds the declared offset; beyond the envelope some do. Both plans heal as written."""
    largest: dict[str, int] = {}
    for name in ("swarm", "swarm-overload"):
        scenario = load_scenario(name)
        for seed in range(1, 101):
            drawn = draw_scenario(scenario, seed)
            plan = draw_plan(scenario, drawn, seed)
            assert plan.heal_ns == drawn.heal_at_ns == 30 * 10**9
            shifts = [abs(fault.by_ns) for fault in plan.faults if isinstance(fault, (Offset, Step))]
            largest[name] = max([largest.get(name, 0), *shifts])
    assert largest["swarm"] <= 500_000_000 < largest["swarm-overload"]


def test_single_clients_may_run_another_lock() -> None:
    """`providers: {n1: hudi}`: n1 writes records without a token, n2 under the lock under test with one."""
    outcome = run_simulated(load_scenario("p02"), HARDENED, 1)
    rows = to_table([outcome.recorder]).to_pylist()
    granted = {
        row["node"]: row["token"]
        for row in rows
        if row["kind"] == "return" and row["outcome"] == "applied" and row["op"] == "acquire"
    }
    assert granted["n1"] is None
    assert granted["n2"] is not None


class Base:
    """A lock that does nothing, to be bent."""

    grant: Grant | None = None

    def __init__(self, context: LockContext) -> None:
        self.context = context

    def try_lock(self) -> bool:
        return False

    def lock(self, timeout_s: float) -> bool:
        return False

    def unlock(self) -> None: ...

    def holds(self) -> bool:
        return False

    def close(self) -> None: ...


class Raises(Base):
    def lock(self, timeout_s: float) -> bool:
        return bool({}["no such key"])


class Spins(Base):
    def lock(self, timeout_s: float) -> bool:
        while True:
            self.context.runtime.sleep(0)


class ComplainsAtTheEnd(Base):
    def close(self) -> None:
        raise LockError("never was any good")


class ReadsAnAliasedClock(StorageLock):
    """`datetime.now` cannot be replaced from outside; only the strict auditor sees it called."""

    def lock(self, timeout_s: float) -> bool:
        datetime.now(UTC)
        return super().lock(timeout_s)


def leaks_after(made_max: int) -> type[StorageLock]:
    """A lock that reads the real clock once so many of it have been made."""
    made: list[object] = []

    class Leaks(StorageLock):
        @classmethod
        def from_context(cls, context: LockContext) -> StorageLock:
            made.append(context)
            return (StorageLock if len(made) <= made_max else ReadsAnAliasedClock).from_context(context)

    return Leaks


class ReadsTheClock(Base):
    def lock(self, timeout_s: float) -> bool:
        import time

        return time.time() < 0


def test_a_lock_that_raises_what_is_no_lock_error_is_its_authors_fault() -> None:
    """A stranger's KeyError is one line that names seed and task, exit 2; it is no defect of the laboratory."""
    with pytest.raises(ConfigError, match=r"raised KeyError.*seed 7.*n\d/main") as caught:
        run_simulated(SWARM, provider_from(Raises, name="raises"), 7)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_lock_that_complains_on_closing_ends_no_run() -> None:
    """A LockError from `close` is no news: the client's work is done."""
    assert run_simulated(SWARM, provider_from(ComplainsAtTheEnd, name="sour"), 7).run_row["end_ns"] > 0


def test_a_lock_that_spins_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A livelock ends at the budget, and the run says that it is incomplete."""
    monkeypatch.setattr(simulated, "EVENTS_MAX", 5_000)
    assert run_simulated(SWARM, provider_from(Spins, name="spins"), 1).run_row["is_cut_off"]


def test_a_lock_that_reads_the_real_clock_is_caught() -> None:
    """A batch forbids real time, entropy and threads: DeterminismError, exit 6."""
    with pytest.raises(DeterminismError):
        simulate_many(SWARM, provider_from(ReadsTheClock, name="clock"), [1])


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_first_seed_is_watched_closely(jobs: int) -> None:
    """A clock that was imported by name passes the plain auditor; the first seed of a batch is under the strict one."""
    lock = load_provider(f"{__name__}:ReadsAnAliasedClock")
    with pytest.raises(DeterminismError, match=r"test_scenario_runs\.py:\d+: .*datetime\.now"):
        list(simulate_in_chunks(SWARM, lock, range(1, 4), jobs=jobs, chunk=2))


def test_checking_determinism_watches_the_second_run() -> None:
    """`check_determinism_every` runs a seed again under the strict auditor: here the third run is the first to leak."""
    scenario = load_scenario("e08")
    runs_before = 2
    lock = provider_from(leaks_after(runs_before * scenario.clients), name="later")
    with pytest.raises(DeterminismError, match=r"datetime\.now"):
        run_campaign(scenario, lock, [1, 2], check_determinism_every=2)


def test_the_run_row_tells_the_checks_what_they_need() -> None:
    """Timing, world, faults' end and demands reach the runs table."""
    scenario = load_scenario("e08")
    row = run_simulated(scenario, HARDENED, 5).run_row
    assert (row["run"], row["seed"], row["world"], row["backend"]) == (5, 5, "simulated", "s3")
    assert (row["validity_ns"], row["poll_interval_ns"], row["wait_timeout_ns"]) == (10**10, 10**9, 40 * 10**9)
    assert row["must_happen"] == scenario.must_happen
    assert row["faults_end_ns"] > 10**10
    assert 0 < row["request_timeout_ns"] < 10**9
    assert replace(draw_scenario(scenario, 5), duration_ns=1).lasting(2).duration_ns == 2


def test_a_campaign_keeps_its_first_runs_and_one_of_each_failure() -> None:
    """Memory does not grow with the seeds: `keep_runs` counts over all batches, and failures are kept besides."""
    scenario, spec = load_scenario("e08"), load_provider("hudi")
    campaign = run_campaign(scenario, spec, range(1, 61), keep_runs=3)
    speakers = {finding.run for finding in campaign.summary.findings}
    assert campaign.summary.runs == 60
    assert set(campaign.history[1]["run"].to_pylist()) == {1, 2, 3} | speakers
    bare = run_campaign(scenario, spec, range(1, 61), keep_runs=0)
    assert set(bare.history[1]["run"].to_pylist()) == speakers != set()


def test_a_campaign_that_is_over_begins_no_further_batch() -> None:
    """`--max-time`: asked between batches, and what was finished counts."""
    campaign = run_campaign(load_scenario("e08"), load_provider("hardened"), range(1, 200), is_over=lambda: True)
    assert 0 < campaign.summary.runs < 199
    assert not campaign.is_interrupted
    assert campaign.notices == [f"cut short: the time was over after {campaign.summary.runs} of 199 seeds"]


def test_a_time_that_is_over_begins_no_later_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each scenario of `--all` ran its first batch all the same, so a limit on the time had no effect there."""
    monkeypatch.chdir(tmp_path)
    assert run(["sim", "e08", "e30", "--seeds", "1..2", "--jobs", "1", "--max-time", "0", "--json"]) == 3
    first, second = json.loads(capsys.readouterr().out)["scenarios"]
    assert (first["runs"], first["verdict"], second["runs"], second["verdict"]) == (2, "held", 0, "inconclusive")
    account = json.loads((tmp_path / ".lockref/runs/latest/e30-ghost-acquire/results.json").read_text())
    assert "cut short: the time was over after 0 of 2 seeds" in account["notices"]
