"""Exploring: PCT, bounded exhaustive search, stored failures, shrinking."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lockref.errors import ConfigError, DeterminismError
from lockref.history import Recorder
from sim.explore.pct import Pct
from sim.explore.replay import Answer, Failure, ProviderUsed, replay
from sim.explore.shrink import shrink
from sim.faults.clocks import Step
from sim.faults.network import LoseReply
from sim.faults.plan import FaultPlan
from sim.faults.process import Pause
from sim.kernel.kernel import Kernel, RandomTies, Replay, Schedule
from sim.kernel.streams import derive, stream

S = 1_000_000_000


def interleave(schedule: Schedule, *, tasks: int = 3, steps: int = 3, gap_ns: int = 10) -> list[int]:
    """The order in which tasks run that all wake together again and again."""
    kernel, order = Kernel(schedule), []

    def work(number: int) -> None:
        for _ in range(steps):
            kernel.wait(gap_ns)
            order.append(number)

    for number in range(tasks):
        kernel.spawn(lambda number=number: work(number), name=f"t{number}")
    kernel.run(10**9)
    return order


# PCT


def test_pct_without_change_points_runs_by_priority():
    """depth 1: one random order of the tasks, kept at every instant."""
    orders = set()
    for seed in range(20):
        order = interleave(Pct(stream(seed, "pct"), depth=1))
        assert order == order[:3] * 3
        orders.add(tuple(order[:3]))
    assert len(orders) == 6


def test_pct_change_points_demote_once():
    """depth 2: at one decision somebody falls behind all others, and stays there."""
    changed = 0
    for seed in range(60):
        rounds = [
            order[i : i + 3]
            for order in [interleave(Pct(stream(seed, "pct"), depth=2, decisions=7))]
            for i in (0, 3, 6)
        ]
        assert len({tuple(r) for r in rounds}) <= 3
        changed += rounds[0] != rounds[2]
    assert changed > 10


def test_pct_runs_replay_from_their_deviations():
    """A PCT run is stored as deviations like any other."""
    kernel_order = {}
    for seed in range(10):
        kernel = Kernel(Pct(stream(seed, "pct"), depth=3, decisions=8))
        order: list[int] = []

        def work(number: int, kernel: Kernel = kernel, order: list[int] = order) -> None:
            for _ in range(3):
                kernel.wait(10)
                order.append(number)

        for number in range(3):
            kernel.spawn(lambda number=number, work=work: work(number), name=f"t{number}")
        kernel.run(1000)
        kernel_order[seed] = (order, list(kernel.deviations))
    for order, deviations in kernel_order.values():
        assert interleave(Replay(deviations)) == order


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"decisions": 0}])
def test_pct_needs_sensible_numbers(wrong):
    """A depth or length below one is the caller's mistake."""
    with pytest.raises(ConfigError, match="at least 1"):
        Pct(stream(1, "pct"), **wrong)


# Replay


@dataclass
class Outcome:
    """A run for the tests below: three tasks, broken if the last task runs before the first."""

    recorder: Recorder = field(default_factory=Recorder)
    order: list[int] = field(default_factory=list)


def run(plan: FaultPlan, schedule: Schedule, seed: int) -> Outcome:
    if any(fault.target == "n9" for fault in plan.faults):
        raise ConfigError("the fault plan names client 'n9'")
    outcome = Outcome()
    outcome.order = interleave(schedule)
    for number in outcome.order:
        outcome.recorder.event(5, (seed, 0, 0, ""), f"n{number}")
    return outcome


def judge(outcome: Outcome) -> list[str]:
    return ["S3"] if outcome.order.index(2) < outcome.order.index(0) else []


def failing() -> Failure:
    """A stored failure of that run."""
    for seed in range(100):
        kernel_schedule = RandomTies(stream(seed, "s"))
        kernel = Kernel(kernel_schedule)
        order: list[int] = []

        def work(number: int, kernel: Kernel = kernel, order: list[int] = order) -> None:
            for _ in range(3):
                kernel.wait(10)
                order.append(number)

        for number in range(3):
            kernel.spawn(lambda number=number, work=work: work(number), name=f"t{number}")
        kernel.run(1000)
        if order.index(2) < order.index(0):
            digest = run(FaultPlan(), Replay(kernel.deviations), 7).recorder.digest()
            return Failure(
                id="x1",
                clause="S3",
                provider=ProviderUsed(name="planted"),
                seed=7,
                plan=FaultPlan(),
                schedule=tuple(kernel.deviations),
                digest=digest,
            )
    raise AssertionError("no seed failed")


def test_failure_survives_its_file(tmp_path: Path):
    """save and load give the same failure back."""
    failure = failing().model_copy(
        update={"plan": FaultPlan.of(Pause(id="f", client="n1", at_ns=1, for_ns=2)), "witness": {"events": [1, 2]}}
    )
    path = tmp_path / "failure.json"
    failure.save(path)
    assert Failure.load(path) == failure
    assert json.loads(path.read_text())["format"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no stored failure"), (b"\xff\xfe", "no stored failure"), (b'{"format": 2}', "format"), (b"[]", "document")],
)
def test_bad_failure_files_are_refused(tmp_path: Path, content, message):
    """A ConfigError that begins with the path, whatever the file holds."""
    path = tmp_path / "failure.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        Failure.load(path)
    assert str(caught.value).startswith(str(path))


def test_missing_failure_file_is_refused(tmp_path: Path):
    """A path that is not there is a ConfigError, not a traceback."""
    with pytest.raises(ConfigError, match="cannot be read"):
        Failure.load(tmp_path / "nowhere.json")


def test_replay_same_digest():
    """Unchanged code: the very same events."""
    answered = replay(failing(), run, judge)
    assert (answered.answer, answered.clauses) == (Answer.SAME_DIGEST, ("S3",))


def test_replay_same_clause_in_another_trace():
    """The events differ, the clause still breaks."""
    answered = replay(failing().model_copy(update={"digest": "other"}), run, judge)
    assert answered.answer is Answer.SAME_CLAUSE


def test_replay_no_longer_fails():
    """Everything stored was applied and the clause holds: fixed."""
    answered = replay(failing(), run, lambda _outcome: ["L1"])
    assert (answered.answer, answered.clauses) == (Answer.NO_LONGER_FAILS, ("L1",))


def test_replay_not_applicable_when_decisions_are_gone():
    """A stored decision that is never offered explains why nothing fails: search again."""
    failure = failing().model_copy(update={"schedule": ((1000, 1),)})
    answered = replay(failure, run, judge)
    assert answered.answer is Answer.NOT_APPLICABLE
    assert "choice 1 at decision 1000: the lock decides elsewhere" in answered.explanation
    assert "`lockref sim`" in answered.explanation


def test_replay_not_applicable_when_the_plan_does_not_fit():
    """A plan for clients that are not there any more."""
    plan = FaultPlan.of(Pause(id="f", client="n9", at_ns=0, for_ns=1))
    assert replay(failing().model_copy(update={"plan": plan}), run, judge).answer is Answer.NOT_APPLICABLE


# Shrinking


def pauses(count: int) -> FaultPlan:
    return FaultPlan.of(
        *(Pause(id=f"p{i}", client="n1", at_ns=i * S + 123_456_789, for_ns=(i + 1) * S + 7) for i in range(count)),
        LoseReply(id="noise", client="n1", nth=3),
        Step(id="step", client="n2", at_ns=S, by_ns=-5 * S),
    )


def needs_two_pauses(plan: FaultPlan, deviations) -> bool:
    """Breaks if p2 lasts over 1.5 s and p5 is there at all, and decision 4 takes choice 2."""
    faults = {fault.id: fault for fault in plan.faults}
    return "p5" in faults and "p2" in faults and faults["p2"].for_ns > 1_500_000_000 and (4, 2) in deviations


def test_shrinking_leaves_what_is_needed():
    """Of 10 faults and 50 deviations, two faults and one deviation remain; durations go to what is needed."""
    deviations = [(i, 1 + i % 3) for i in range(50) if i != 4] + [(4, 2)]
    shrunk = shrink(needs_two_pauses, pauses(8), sorted(deviations))
    assert [fault.id for fault in shrunk.plan.faults] == ["p2", "p5"]
    assert shrunk.deviations == ((4, 2),)
    p2, p5 = shrunk.plan.faults
    assert 1_500_000_000 < p2.for_ns <= 1_600_000_000
    assert p5.for_ns == 0
    assert p2.at_ns == 2 * S, "instants are rounded where that is possible"
    assert {fault_id for fault_id, matters in shrunk.matters.items() if matters} == {"p2", "p5"}
    assert set(shrunk.matters) == {fault.id for fault in pauses(8).faults}
    assert not shrunk.is_cut_off
    assert shrunk.runs < 150


def test_shrinking_handles_negative_shifts():
    """A step back of the clock shrinks towards 0 from below."""
    plan = FaultPlan.of(Step(id="s", client="n1", at_ns=S, by_ns=-5 * S - 1))
    shrunk = shrink(lambda plan, _deviations: bool(plan.faults) and plan.faults[0].by_ns < -2 * S, plan, [])
    assert -2 * S - 100_000_000 <= shrunk.plan.faults[0].by_ns < -2 * S


def test_shrinking_to_nothing():
    """A failure that needs neither faults nor deviations ends without them."""
    shrunk = shrink(lambda _plan, _deviations: True, pauses(5), [(1, 1), (2, 1)])
    assert (shrunk.plan.faults, shrunk.deviations) == ((), ())
    assert not any(shrunk.matters.values())


def test_shrinking_is_bounded():
    """The bound on runs cuts the search off, and what was found so far still fails."""
    deviations = ((4, 2),)
    shrunk = shrink(needs_two_pauses, pauses(8), deviations, runs_max=5)
    assert shrunk.is_cut_off
    assert needs_two_pauses(shrunk.plan, shrunk.deviations)


@pytest.mark.parametrize("runs", [0, 3])
def test_shrinking_ends_when_its_caller_has_had_enough(runs):
    """A bound of the caller's own, such as on time: what was found so far is confirmed, and no more is run."""
    ran = []

    def fails(plan, deviations):
        ran.append(plan)
        return needs_two_pauses(plan, deviations)

    shrunk = shrink(fails, pauses(8), ((4, 2),), is_spent=lambda: len(ran) > runs)
    assert shrunk.is_cut_off
    assert needs_two_pauses(shrunk.plan, shrunk.deviations)
    assert len(ran) == shrunk.runs == runs + 1 + 2
    assert not any(shrunk.matters.values()), "whether a fault that is left matters was not tried"


def test_shrinking_refuses_what_does_not_fail():
    """A run that does not fail, or fails only once, is a determinism error."""
    with pytest.raises(DeterminismError, match="does not fail"):
        shrink(lambda _plan, _deviations: False, pauses(1), [])
    answers = iter([True])
    with pytest.raises(DeterminismError, match="failed once and not again"):
        shrink(lambda _plan, _deviations: next(answers, False), FaultPlan(), [])


def test_choice_just_beyond_what_is_offered_is_not_taken():
    """A stored choice counts from 0: with two steps ready, choice 2 does not exist."""
    schedule = Replay([(0, 2), (1, 1)])
    assert (schedule.choose(0, [7, 8]), schedule.choose(1, [7, 8])) == (0, 1)
    assert schedule.unused == {0: 2}


def test_shrunk_run_is_confirmed_twice():
    """A failure that comes once more and then not again is no result: shrinking says so."""
    answers = iter([True, True, False])
    with pytest.raises(DeterminismError, match="once and not again"):
        shrink(lambda _plan, _deviations: next(answers), FaultPlan(), ())


def test_every_bit_of_a_seed_counts():
    """A commit hash is a seed: those that agree in their low bits are different runs."""
    assert len({derive(seed, "label") for seed in (7, 7 + 2**32, 7 + 2**62)}) == 3
