"""Queues that workers own: coalescing, redelivery, exactly once, and what readers gain. Times in seconds."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from lockref.cli.main import run
from scenarios.delta.loading import gets
from scenarios.delta.orders import fair
from scenarios.delta.queueing import STARVED_ROUNDS, Fleet, Grants, simulate
from scenarios.delta.readers import cold_gets, refresh_gets
from scenarios.delta.table_queues import QueueFleet, QueueOutcome, simulate_queues

S = 1_000_000_000


def ran(order: str | list[str], *, is_closed_loop: bool = False, **settings: Any) -> QueueOutcome:
    """One worker with commits of a second, unless settings say otherwise."""
    fleet = QueueFleet(**{"workers": 1, "commit_ns": (S,), **settings})
    return simulate_queues(fleet, order, is_closed_loop=is_closed_loop)


def latencies_s(outcome: QueueOutcome) -> list[float]:
    return [(item.landed_ns - item.arrived_ns) / S for item in outcome.items if item.landed_ns is not None]


def test_w13_a_thousand_adds_in_ten_versions() -> None:
    """One worker, batches of a hundred: ten versions in ten seconds, as ten writers with a hundred adds each."""
    outcome = ran("n" * 1000)
    assert (outcome.versions, outcome.makespan_ns / S) == (10, 10)
    assert Counter(latencies_s(outcome)) == {float(second): 100 for second in range(1, 11)}
    assert outcome.gets == gets(0)


def test_a_table_is_committed_to_by_one_worker_at_a_time() -> None:
    """Batches of one item: three tables need 100 s with three workers or thirty, and 300 s with one."""
    spans = [ran(fair(3, 100), workers=workers, batch=1).makespan_ns / S for workers in (1, 2, 3, 30)]
    assert spans == [300, 200, 100, 100]


def test_a_worker_serves_the_table_whose_oldest_item_has_waited_longest() -> None:
    """Two items of one table, then two of another one, a quarter of a second apart, committed one by one."""
    outcome = ran("aabb", every_ns=S // 4, batch=1)
    assert {name: [at_ns / S for at_ns in landed] for name, landed in outcome.landings.items()} == {
        "a": [1, 2], "b": [3, 4],
    }  # fmt: skip


def test_an_item_waits_for_others_until_it_has_lingered_or_the_batch_is_full() -> None:
    """An item each second: a batch of three goes when it is full, and what comes last goes after five seconds."""
    outcome = ran("nnnn", every_ns=S, batch=3, linger_ns=5 * S)
    assert [at_ns / S for at_ns in outcome.landings["n"]] == [3, 9]
    assert latencies_s(outcome) == [3, 2, 1, 6]


def test_a_commit_that_outlasts_its_visibility_is_redelivered_and_in_one_version() -> None:
    """Two batches, each deleted too late: each comes again, is known from the log, and makes no version."""
    outcome = ran("nn", batch=1, visibility_ns=S // 2, get_ns=S // 100)
    assert (outcome.versions, outcome.overdue, outcome.redelivered, outcome.repeats) == (2, 2, 1, 1)
    assert ran("nn", batch=1, visibility_ns=2 * S, get_ns=S // 100).overdue == 0
    assert [ran("nn", batch=1, visibility_ns=each).overdue for each in (S, S + 1)] == [2, 0], "as in `ItemQueue`"


def test_a_worker_that_crashes_costs_its_visibility_and_its_lease() -> None:
    """Every item lands in one version, whatever crashes; a crash before the landing delays its items by the timeout."""
    fleet = {"workers": 3, "batch": 10, "crash_share": 0.3, "visibility_ns": 30 * S, "get_ns": S // 100}
    outcome = ran(fair(3, 200), **fleet, lease_ns=20 * S)
    assert outcome.crashes > 0
    assert len(latencies_s(outcome)) == 600
    assert 0 < outcome.repeats < outcome.redelivered
    assert outcome.versions == 60
    # One look into the log after each crash, and the load of a table of up to twenty versions by its next owner.
    assert outcome.gets > 3 * gets(0) + 2 * outcome.crashes
    late = [each for each in latencies_s(outcome) if each > 30]
    assert late
    short = ran(fair(3, 200), **fleet, lease_ns=60 * S)
    assert short.makespan_ns > outcome.makespan_ns, "nobody owns the queues until the lease is over"
    leases = {**fleet, "lease_ns": S}
    waits = [ran(fair(3, 200), **leases | {"visibility_ns": each * S}).makespan_ns / S for each in (2, 30)]
    assert waits[1] - waits[0] > 28 * 3, "what a worker took when it crashed is invisible until its timeout"


def test_a_closed_loop_serves_every_writer() -> None:
    """Ten writers, each with one item under way: ten items a second in one version, and nobody is left out."""
    outcome = ran("n" * 100, is_closed_loop=True, writers=10)
    assert (outcome.versions, outcome.makespan_ns / S) == (10, 10)


def test_readers_read_what_is_new_or_from_the_checkpoint() -> None:
    """By hand: versions at 1, 2 and 3 s, queries each 2 s; and a reader that comes after twenty of them."""
    landings = {"n": [S, 2 * S, 3 * S]}
    assert refresh_gets(landings, first_version=0, until_ns=4 * S, every_ns=2 * S) == (2 + 1) / 2
    assert cold_gets(landings, first_version=0, until_ns=4 * S) == (gets(0) + gets(1) + gets(2) + gets(3)) / 4
    many = {"n": [S * number for number in range(1, 21)]}
    assert refresh_gets(many, first_version=0, until_ns=20 * S, every_ns=20 * S) == gets(20) == 2
    # A query each nanosecond sees each version alone; only those that see one take time.
    assert refresh_gets(landings, first_version=0, until_ns=4 * S, every_ns=1) == 3 / (4 * S)
    assert (cold_gets({}, first_version=0, until_ns=S), cold_gets(landings, first_version=0, until_ns=0)) == (0, 0)


def test_whoever_others_overtake_for_ten_rounds_is_starved() -> None:
    """Of two writers that poll one asks again before the other looks; its drought ends with the queue."""
    polling: dict[str, Any] = {"grants": Grants.POLLING, "poll_ns": S}
    for rounds, starved in ((STARVED_ROUNDS, 0), (STARVED_ROUNDS + 2, 1)):
        outcome = simulate(Fleet(writers=2, commit_ns=(S,), **polling), "n" * (2 * rounds))
        assert (outcome.never_served, outcome.starved) == (0, starved)
    fair_loop = simulate(Fleet(writers=40, commit_ns=(S,)), "n" * 400, is_closed_loop=True)
    assert fair_loop.starved == 0


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert run(["plan", *options, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_plan_puts_queues_beside_locks(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten writers that poll, one table: nine starve under the lock. The queue serves all in fewer versions."""
    options = ["--tables", "1", "--writers", "1,10", "--order", "closed-loop", "--poll", "1s", "--workers", "1..2"]
    plan = planned(capsys, *options)
    assert (plan["best_writers"], plan["rows"][-1]["starved"]) == (1, 9)
    assert plan["queues"]["best_workers"] == 1
    busy = plan["queues"]["rows"][0]
    assert (busy["items"], busy["missed_deadline"]) == (100, 0)
    assert busy["versions"] < plan["rows"][-1]["versions"] / 4
    assert busy["refresh_gets"] < plan["rows"][-1]["refresh_gets"]
    assert run(["delta", "plan", *options]) == 0
    assert "workers beyond the number of tables (1) stand by" in capsys.readouterr().out
    assert "queues" not in planned(capsys, *options[:-2])


def test_the_figures_of_a_row_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred items at once, a version of a second for each: one lands each second, and a second worker stands by."""
    options = ["--tables", "1", "--writers", "1", "--commit", "1s", "--batch", "1", "--workers", "1..2"]
    rows = planned(capsys, *options, "--deadline", "90s")["queues"]["rows"]
    assert [(row["latency_p50_s"], row["latency_p99_s"], row["latency_max_s"]) for row in rows] == [(50, 99, 100)] * 2
    assert [row["idle_share"] for row in rows] == [0, 0.5]
    assert [row["missed_deadline"] for row in rows] == [10, 10]


def test_an_item_that_has_not_landed_by_the_end_misses_its_deadline(capsys: pytest.CaptureFixture[str]) -> None:
    """Fifty writers of a closed loop, of whom ten are served in ten seconds: the last of these and forty are late."""
    options = ["--tables", "1", "--writers", "50", "--versions", "10", "--order", "closed-loop", "--commit", "1s"]
    plan = planned(capsys, *options, "--batch", "1", "--workers", "1", "--deadline", "9s")
    [row] = plan["queues"]["rows"]
    assert (row["items"], row["missed_deadline"]) == (10, 41)


def test_who_starves_until_the_queue_is_empty_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """With a generous deadline no version is late; a number that starves a writer is not recommended all the same."""
    plan = planned(capsys, "--tables", "1", "--writers", "2", "--poll", "1s", "--deadline", "1h")
    assert (plan["best_writers"], plan["rows"][0]["never_served"], plan["rows"][0]["starved"]) == (None, 0, 1)
    assert plan["rows"][0]["advice"] == "1 writer is starved: others overtake."


def test_a_run_that_is_too_short_to_serve_all_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Five versions cannot serve twenty writers, however fair the lock is."""
    plan = planned(capsys, "--tables", "1", "--versions", "5", "--writers", "20", "--order", "closed-loop")
    assert (plan["best_writers"], plan["rows"][0]["never_served"]) == (None, 15)
    assert "cannot serve 20 writers" in plan["advice"][1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--order", "closed-loop", "--every", "1s"], "leave --every out"),
        (["--visibility", "50ms", "--get", "50ms", "--workers", "1"], "--visibility must be longer"),
        (["--workers", "0"], "workers are from 1"),
        (["--crash-share", "1"], "--crash-share"),
    ],
)
def test_bad_input_of_queues(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *options]) == 2
    assert said in capsys.readouterr().err
