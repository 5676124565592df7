"""The workloads W1 to W14 of Delta's commits: every figure comes from a run of the model. Times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

import pytest

from scenarios.delta.loading import gets
from scenarios.delta.orders import coalesced, fair, unfair
from scenarios.delta.queueing import Fleet, Grants, Outcome, Protocol, simulate

S = 1_000_000_000
POLLING: dict[str, Any] = {"grants": Grants.POLLING, "poll_ns": S}


def ran(writers: int, order: Sequence[str], *, is_closed_loop: bool = False, **settings: Any) -> Outcome:
    """Writers with commits of a second, unless settings say otherwise."""
    fleet = Fleet(**{"writers": writers, "commit_ns": (S,), **settings})
    return simulate(fleet, order, is_closed_loop=is_closed_loop)


def in_time(outcome: Outcome, deadline_s: float = 10) -> int:
    """Versions that landed within the deadline."""
    return sum(commit.age_ns <= deadline_s * S for commit in outcome.commits)


def time_and_waiting(outcome: Outcome) -> tuple[float, float]:
    """Until the last version, and summed over the writers."""
    return outcome.makespan_ns / S, outcome.waiting_ns / S


@pytest.mark.parametrize("writers", [1, 7, 10, 11, 40])
def test_w1_ten_writers_fit_into_ten_seconds(writers: int) -> None:
    """One version each, all at once: ten commit in time, and the eleventh ends a second late."""
    outcome = ran(writers, "n" * writers)
    assert in_time(outcome) == min(writers, 10)
    assert outcome.commits[-1].ended_ns == writers * S


@pytest.mark.parametrize(("deadline_s", "commit_ns"), [(10, S), (7, S), (10, 3 * S // 2)])
@pytest.mark.parametrize("gap_ns", [0, 1, S // 8, S // 8 + 1, S // 3, S])
def test_w2_a_gap_at_each_hand_off_costs_writers(gap_ns: int, deadline_s: int, commit_ns: int) -> None:
    """floor((D + h) / (c + h)) commit in time: nine for any gap up to an eighth of a second, five for a second."""
    outcome = ran(20, "n" * 20, gap_ns=gap_ns, commit_ns=(commit_ns,))
    assert in_time(outcome, deadline_s) == (deadline_s * S + gap_ns) // (commit_ns + gap_ns)


def test_w2_in_the_notes_numbers() -> None:
    """The round figures themselves."""
    assert [in_time(ran(20, "n" * 20, gap_ns=gap)) for gap in (1, S // 8, S // 8 + 1, S)] == [9, 9, 8, 5]


def test_w3_polling_halves_what_fits() -> None:
    """Polls that just miss each release: five. Polls of ten seconds: one in one phase, 4.7 in random ones."""
    assert in_time(ran(10, "n" * 10, **POLLING, gap_ns=1)) == 5
    slow: dict[str, Any] = {**POLLING, "poll_ns": 10 * S}
    assert in_time(ran(10, "n" * 10, **slow)) == 1
    served = [in_time(ran(10, "n" * 10, **slow, are_phases_random=True, seed=seed)) for seed in range(1, 201)]
    assert mean(served) == pytest.approx(4.7, abs=0.15)
    assert (min(served), max(served)) == (3, 7)


def test_w4_a_random_winner_leaves_a_third_with_nothing() -> None:
    """Ten writers that ask again at once, ten grants: 6.5 distinct writers are served, 10 × (1 − 0.9^10)."""
    served = [
        len(
            {
                commit.writer
                for commit in ran(10, "n" * 10, is_closed_loop=True, grants=Grants.RANDOM, seed=seed).commits
            }
        )
        for seed in range(1000)
    ]
    assert mean(served) == pytest.approx(10 * (1 - 0.9**10), abs=0.1)


@pytest.mark.parametrize(("writers", "poll_s", "per_s"), [(10, 1, 0.76), (10, 10, 0.47), (20, 1, 0.95), (20, 10, 0.59)])
def test_w5_polling_leaves_the_lock_idle(writers: int, poll_s: int, per_s: float) -> None:
    """Commits per second in a closed loop, with think times drawn from the exponential distribution, mean 10 s.

    The note's 0.59 for twenty writers at 10 s is 0.60 to 0.62 here, over seeds; a constant think time gives 0.65."""
    outcome = ran(
        writers,
        "n" * 4000,
        is_closed_loop=True,
        **{**POLLING, "poll_ns": poll_s * S},
        think_ns=10 * S,
        is_think_random=True,
    )
    assert len(outcome.commits) * S / outcome.makespan_ns == pytest.approx(per_s, abs=0.025)


def test_w5_without_think_time_one_writer_takes_all() -> None:
    """Who released asks again before anybody polls: the others starve."""
    outcome = ran(10, "n" * 100, is_closed_loop=True, **POLLING)
    assert {commit.writer for commit in outcome.commits} == {0}
    assert outcome.waiting_ns == 9 * 100 * S
    assert (outcome.never_served, outcome.drought_ns) == (9, 100 * S)
    assert [(work.writer, work.age_ns) for work in outcome.unfinished] == [(writer, 100 * S) for writer in range(1, 10)]


def test_a_writer_that_gives_up_and_tries_again_is_never_served() -> None:
    """Attempts given up do not end a drought, and a queue that ends leaves nobody with a version in hand."""
    outcome = ran(2, "n" * 100, is_closed_loop=True, protocol=Protocol.OPTIMISTIC, attempts=16)
    assert (outcome.failed, outcome.never_served, outcome.drought_ns) == (6, 1, 100 * S)
    outcome = ran(1000, "n" * 1000, protocol=Protocol.OPTIMISTIC, attempts=16)
    assert (outcome.failed, outcome.never_served, outcome.unfinished) == (984, 984, [])
    outcome = ran(10, "n" * 10)
    assert (outcome.never_served, outcome.drought_ns, outcome.unfinished) == (0, 9 * S, [])


@pytest.mark.parametrize(
    ("writers", "expected"),
    [(1, (300, 0)), (2, (150, 0)), (3, (100, 0)), (4, (100, 99)), (6, (100, 297)), (10, (100, 688))],
)
def test_w6_three_tables_feed_three_writers(writers: int, expected: tuple[int, int]) -> None:
    """The fair queue: a writer more than there are tables waits, and nothing becomes faster."""
    assert time_and_waiting(ran(writers, fair(3, 100))) == expected


@pytest.mark.parametrize("writers", [*range(1, 52), 200, 201])
def test_w7_an_unfair_queue_is_a_queue_for_one_lock(writers: int) -> None:
    """300 − 2(K − 1) seconds up to 51 writers; the fair queue's time only from 201."""
    makespan_s, waiting_s = time_and_waiting(ran(writers, unfair(3, 100)))
    expected = {200: 101, 201: 100}.get(writers, 300 - 2 * (writers - 1))
    assert makespan_s == expected
    assert waiting_s == {3: 585, 10: 2475}.get(writers, waiting_s)


def test_w8_the_drawing_of_eleven_versions() -> None:
    """The post's unfair drawing with three writers, and the same versions in a better order."""
    assert time_and_waiting(ran(3, "nnnnnnaaacc")) == (8, 11)
    assert time_and_waiting(ran(3, "nacnacnannn")) == (6, 4)


@pytest.mark.parametrize("writers", [1, 3, 10, 201])
@pytest.mark.parametrize("order", [fair(3, 100), unfair(3, 100)], ids=["fair", "unfair"])
def test_w9_one_key_for_all_tables_serves_one_writer(order: list[str], writers: int) -> None:
    """With the default key `delta-rs` three tables are one lock: 300 s for any order and number."""
    assert ran(writers, order, protocol=Protocol.SHARED_KEY).makespan_ns == 300 * S


def test_w10_objects_to_load_a_version() -> None:
    """G(v), around the first two checkpoints, and the mean of a decade."""
    assert [gets(version) for version in [*range(11), 11, 19, 20]] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2, 3, 11, 2]
    assert mean(gets(version) for version in range(10)) == 5.5
    assert mean(gets(version) for version in range(10, 1000)) == 6.5
    assert gets(10, checkpoint=0) == 11


@pytest.mark.parametrize(("version", "count", "last_s"), [(0, 11, 10.0), (6, 10, 9.55), (10, 10, 9.75)])
def test_w11_time_under_the_lock_depends_on_the_version(version: int, count: int, last_s: float) -> None:
    """0.65 s and 0.05 s for each GET, one writer after the other: how many end in ten seconds, and the last."""
    outcome = ran(1, "n" * 30, commit_ns=(650_000_000,), get_ns=50_000_000, first_version=version)
    ends_ns = [commit.ended_ns for commit in outcome.commits if commit.ended_ns <= 10 * S]
    assert (len(ends_ns), ends_ns[-1] / S) == (count, last_s)


def test_w11_a_checkpoint_that_is_not_visible_yet() -> None:
    """A load of version 10 right after its commit reads eleven entries; the checkpoint saves the next one."""
    quick, late = (ran(1, "n" * 12, checkpoint_ns=delay) for delay in (0, S // 2))
    assert late.gets - quick.gets == 9


def figures(outcome: Outcome) -> tuple[float, ...]:
    """What W12 and W13 compare: versions, checkpoints, mean wait, last, in time, GETs, failed polls."""
    return (
        len(outcome.commits), outcome.checkpoints, mean(commit.waited_ns / S for commit in outcome.commits),
        outcome.makespan_ns / S, in_time(outcome), outcome.gets, outcome.failed_polls,
    )  # fmt: skip


def test_w12_a_thousand_writers_of_one_add() -> None:
    """A thousand versions; ten writers are in time; half a million polls fail."""
    assert figures(ran(1000, "n" * 1000, **POLLING)) == (1000, 100, 499.5, 1000, 10, 6490, 499_500)


def test_w13_ten_writers_of_a_hundred_adds() -> None:
    """The same thousand adds in ten versions."""
    order = coalesced("n" * 1000, 100)
    assert figures(ran(10, order, **POLLING)) == (10, 1, 4.5, 10, 10, 55, 45)


@pytest.mark.parametrize(("writers", "attempts"), [(10, 55), (37, 703), (1000, 500_500)])
def test_w14_optimistic_commits_in_lockstep(writers: int, attempts: int) -> None:
    """One of all that try lands, the others try again: the sum from one to the number of writers."""
    outcome = ran(writers, "n" * writers, protocol=Protocol.OPTIMISTIC)
    assert (outcome.attempts, len(outcome.commits), outcome.failed) == (attempts, writers, 0)


@pytest.mark.parametrize(("writers", "landed"), [(10, 10), (1000, 16)])
def test_w14_with_sixteen_attempts_each(writers: int, landed: int) -> None:
    """delta-rs's fifteen retries: sixteen of a thousand land."""
    outcome = ran(writers, "n" * writers, protocol=Protocol.OPTIMISTIC, attempts=16)
    assert (len(outcome.commits), outcome.failed) == (landed, writers - landed)


@pytest.mark.parametrize("writers", [1, 2, 10, 30])
def test_d2_a_lock_around_the_rename_alone_makes_all_but_one_load_again(writers: int) -> None:
    """All loaded the same version before they asked, so each commit sends those that wait back to their load."""
    renames = ran(writers, "n" * writers, protocol=Protocol.RENAME_ONLY)
    assert (renames.attempts, len(renames.commits)) == (writers * (writers + 1) // 2, writers)
    assert renames.makespan_ns == writers * S
    assert renames.gets == sum(gets(version) * (writers - version) for version in range(writers))


def test_d2_the_time_under_the_lock_does_not_depend_on_the_version() -> None:
    """The load is outside: one commit's time under the lock, where the post's model adds a GET for each entry."""

    def held_ns(protocol: Protocol) -> list[int]:
        outcome = ran(1, "n" * 11, protocol=protocol, get_ns=S // 10)
        return [commit.ended_ns - commit.began_ns for commit in outcome.commits]

    assert held_ns(Protocol.RENAME_ONLY) == [S] * 11
    assert held_ns(Protocol.LOCK) == [S + gets(version) * S // 10 for version in range(11)]


def test_d2_the_load_is_no_waiting() -> None:
    """Who waits is who has asked for the lock: two writers load at once, and the second waits for one commit."""
    outcome = ran(2, "nn", protocol=Protocol.RENAME_ONLY, get_ns=S // 10, attempts=None)
    assert outcome.commits[0].waited_ns == 0
    assert outcome.commits[1].age_ns == 100 * S // 1000 + S + S // 10 + 2 * S // 10 + S


def test_d2_a_writer_gives_up_after_its_attempts() -> None:
    """Ten writers with three attempts each: three versions land, and the lock is free for whoever is left."""
    outcome = ran(10, "n" * 10, protocol=Protocol.RENAME_ONLY, attempts=3)
    assert (len(outcome.commits), outcome.failed) == (3, 7)
