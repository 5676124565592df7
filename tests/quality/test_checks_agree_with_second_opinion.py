"""The judge against the second opinion, on simulated runs: what that calls illegal, the judge must see."""

from __future__ import annotations

import random

import pytest

from lockref.lab.loading import load_provider
from lockref.words import Op, Outcome
from reports.checks import judge
from reports.checks.second_opinion.crosscheck import crosscheck
from reports.checks.spec import SAFETY
from scenarios.batch import simulate_many
from scenarios.definition.load import load_scenario
from tests.histories import History

SEEDS = range(1, 13)


def answers(scenario: str, provider: str) -> tuple[dict[int, str], set[int]]:
    """What the second opinion says of each run, and the runs in which the judge finds a safety violation."""
    batch = simulate_many(load_scenario(scenario), load_provider(provider), SEEDS)
    second = {run: said for (run, _), said in crosscheck(batch.events, batch.runs).items()}
    rows = judge(batch.events, batch.runs).verdicts.to_pylist()
    return second, {row["run"] for row in rows if row["verdict"] == "violated" and row["clause"] in SAFETY}


@pytest.mark.parametrize("provider", ["hudi", "hardened"])
@pytest.mark.parametrize(
    "scenario",
    ["contention", "e03-killed-holder", "e08-paused-holder", "e14-release-reply-lost", "u04-reuse-after-lost-release",
     "u01-partitioned-holder", "e12-replace-reply-lost"],
)  # fmt: skip
def test_what_the_second_opinion_calls_illegal_the_judge_calls_violated(scenario, provider):
    """S1, S2, S7 twice defined: illegal answers are always among the judge's violations, and legal runs are decided."""
    second, violated = answers(scenario, provider)
    assert set(second) == set(SEEDS)
    illegal = {run for run, said in second.items() if said.startswith("illegal")}
    assert illegal <= violated, {run: second[run] for run in illegal - violated}


def test_a_false_grant_is_illegal_by_both_definitions():
    """U4: Hudi's provider answers yes from memory; no lock that excludes could have answered so."""
    second, violated = answers("u04-reuse-after-lost-release", "hudi")
    assert all(said.startswith("illegal") for said in second.values()), second
    assert violated == set(SEEDS)


def test_an_honest_lock_is_legal_by_both_definitions():
    """The other side: contention alone, answers of a lock that excludes."""
    second, violated = answers("contention", "hardened")
    assert set(second.values()) == {"legal"}
    assert violated == set()


def said(history: History) -> str:
    """What the second definition says of a hand-made run with one lock."""
    (answer,) = crosscheck(*history.tables()).values()
    return answer


@pytest.mark.parametrize("token", [None, 0])
def test_an_unlock_after_an_acquire_of_unknown_outcome_is_legal_by_both(token):
    """S7: whether the acquire had landed or not, nothing of it is left; tokens that begin at 0 change nothing."""
    for has_landed in (False, True):
        h = History()
        request = h.call("n1", Op.ACQUIRE, 0)
        if has_landed:
            h.write("n1", Op.ACQUIRE, sent=1, owner="o1", token=token, valid_until=90, reply=Outcome.AMBIGUOUS)
        h.returns("n1", Op.ACQUIRE, 2, request, Outcome.AMBIGUOUS)
        release = h.call("n1", Op.RELEASE, 3)
        if has_landed:
            h.write("n1", Op.RELEASE, sent=4, owner="o1", token=token)
        h.returns("n1", Op.RELEASE, 5, release, Outcome.APPLIED)
        h.granted("n2", call=6, applied=7, returned=8, token=None if token is None else token + 1)
        assert said(h) == "legal"
        assert h.verdict("S7")["verdict"] == "held"


@pytest.mark.parametrize("is_readable", [True, False])
def test_nested_locking_is_legal_by_both(is_readable):
    """H9: one grant entered twice and left twice is one operation of each kind, whoever can read its records."""
    h = History()
    owner = "o1" if is_readable else ""
    for call, back in ((0, 2), (3, 4)):
        request = h.call("n1", Op.ACQUIRE, call)
        if call == 0:
            h.write("n1", Op.ACQUIRE, sent=1, owner=owner, token=0 if is_readable else None, valid_until=90)
        h.returns("n1", Op.ACQUIRE, back, request, Outcome.APPLIED, owner=owner, token=0)
    h.fails("n2", call=3, returned=8)
    for call, back in ((5, 6), (9, 11)):
        request = h.call("n1", Op.RELEASE, call)
        if call == 9:
            h.write("n1", Op.RELEASE, sent=10, owner=owner)
        h.returns("n1", Op.RELEASE, back, request, Outcome.APPLIED)
    assert said(h) == "legal"
    assert h.verdict("S7")["verdict"] == ("held" if is_readable else "not_applicable")


def drawn(rng: random.Random) -> History:
    """Clients take turns at a lock; some unlock twice, or what they never had, or late; one unlock in six lies."""
    h = History(run={"validity_ns": 40})
    now, token = 0, 0
    for _ in range(rng.randint(2, 5)):
        client = rng.choice(["n1", "n2", "n3"])
        token += 1
        held = h.granted(client, call=now, applied=now + 1, returned=now + 2, token=token, valid_for=40)
        now += 3
        lapses, lies = rng.random() < 0.3, rng.random() < 1 / 6
        if lies:
            # "Released", and nothing reached the store: whoever asks meanwhile is told the truth, that it is held.
            h.released(held, call=now, returned=now + 1)
            h.fails("n4", call=now + 2, returned=now + 3)
            now += 4
        if lapses or lies:
            now += 50
            token += 1
            other = h.granted("n5", call=now, applied=now + 1, returned=now + 2, token=token, valid_for=40)
            h.released(other, call=now + 3, applied=now + 4)
            now += 5
        else:
            h.released(held, call=now, applied=now + 1)
            now += 2
        for who in rng.sample([client, "n3", "n6"], rng.randint(0, 3)):
            request = h.call(who, Op.RELEASE, now)
            h.returns(who, Op.RELEASE, now + 1, request, Outcome.APPLIED)
            now += 2
    return h


@pytest.mark.parametrize("seeds", [50, pytest.param(200, marks=pytest.mark.long)])
def test_both_definitions_agree_on_unlocks_of_what_is_not_held(seeds: int) -> None:
    """S7: an unlock says that the grant is over. A second, a late or an idle one is true; a false one is not."""
    answers = {"legal": 0, "illegal": 0}
    for seed in range(seeds):
        h = drawn(random.Random(seed))
        answer = said(h).split(":")[0]
        assert (answer == "illegal") == (h.verdict("S7")["verdict"] == "violated"), (seed, said(h))
        answers[answer] += 1
    assert min(answers.values()) > seeds // 5, answers
