"""The four rebalancers: equal answers to equal questions, what a change of instances moves, and loads (T22)."""

from __future__ import annotations

import random

import pytest

from lockref.helix import rebalancers
from lockref.helix.cluster.declared import lock_names
from lockref.helix.measures import Change, ask, measure
from lockref.helix.pipeline import ThrottleRule, decide
from lockref.helix.rebalancers import REBALANCERS, Assignment, Question, Rebalancer, keep, sticky
from lockref.helix.strange_rebalancer import Cabinet
from lockref.runtime import NS_PER_S, ThreadRuntime
from tests.unit.lockref.helix.pipeline_driver import Driven


def leave_and_rejoin(rebalancer: Rebalancer, locks: int, nodes: int, seed: int) -> tuple[Change, Change]:
    """The first instance leaves, then comes back. The seed is in the names, on which the digests depend."""
    names = lock_names(f"group{seed}", locks)
    live = [f"node-{seed}-{number}" for number in range(nodes)]
    full = ask(rebalancer, names, live, {})
    less = ask(rebalancer, names, live[1:], full)
    again = ask(rebalancer, names, live, less)
    return measure(full, less, live[1:]), measure(less, again, live)


def test_in_maintenance_holders_keep_what_they_may_hold():
    """Who is disabled, or disabled for the lock, is not named: the controller would find another one for it."""
    holders = {"g_0": ("a",), "g_1": ("b",), "g_2": ("b", "c")}
    question = Question(("g_0", "g_1", "g_2", "g_3"), ("b", "c"), holders, 2, disabled={"g_2": ["b"]})
    assert keep(question) == {"g_0": (), "g_1": ("b",), "g_2": ("c",), "g_3": ()}


@pytest.mark.parametrize("name", REBALANCERS)
def test_the_order_of_insertion_does_not_matter(name: str):
    """T22, Z5: holders that were entered in another order change nothing."""
    shuffler = random.Random(91)
    locks = lock_names("g", 40)
    live = tuple(f"n{number}" for number in range(5))
    held = {lock: (shuffler.choice(live),) for lock in locks}
    expected = REBALANCERS[name](Question(locks, live, held, 1))
    assert set(expected) == set(locks)
    for _ in range(20):
        entries = list(held.items())
        shuffler.shuffle(entries)
        assert REBALANCERS[name](Question(locks, live, dict(entries), 1)) == expected


@pytest.mark.parametrize(("locks", "nodes"), [(12, 3), (1_000, 10), (10_000, 50)])
def test_sticky_moves_the_least_and_stays_balanced(locks: int, nodes: int):
    """T22: on leave and on rejoin exactly the lower bound; loads differ by one at most."""
    for change in leave_and_rejoin(sticky, locks, nodes, 1):
        assert change.moved == change.least > 0
        assert change.load_max - change.load_min <= 1


@pytest.mark.parametrize("name", ["hrw", "ring"])
@pytest.mark.parametrize(("locks", "nodes"), [(12, 3), (1_000, 10)])
def test_hashing_moves_only_to_the_newcomer(name: str, locks: int, nodes: int):
    """T22: the leave moves orphans only, and the rejoin takes back the same locks."""
    leave, rejoin = leave_and_rejoin(REBALANCERS[name], locks, nodes, 2)
    assert leave.unnecessary == 0
    assert rejoin.moved == leave.moved


@pytest.mark.parametrize("name", REBALANCERS)
def test_two_holders_are_two_instances(name: str):
    """T7: for each lock as many different instances as it shall have, or all there are."""
    locks = lock_names("g", 12)
    for live, expected in ((("a", "b", "c"), 2), (("a",), 1), ((), 0)):
        answer = REBALANCERS[name](Question(locks, live, {}, 2))
        assert all(len(set(answer.get(lock, ()))) == expected for lock in locks)


def test_a_throttled_cluster_still_converges():
    """T25: two messages at a time for each instance; all twelve locks are held in the end."""
    cluster = Driven(sticky, live={"a": "1", "b": "2", "c": "3"})
    sent = []
    for _ in range(3):
        messages = decide(
            cluster.snapshot(), {"lock-group": sticky}, throttles=[ThrottleRule({"INSTANCE": "*"}, 2)]
        ).messages
        sent.append(len(messages))
        cluster.execute(messages)
    assert sent == [6, 6, 0]
    assert len(cluster.table()) == 12


class Remembers:
    """A rule with a memory: whoever had a lock before keeps it."""

    def __init__(self) -> None:
        self.given: Assignment = {}

    def __call__(self, question: Question) -> Assignment:
        self.given = self.given or sticky(question)
        return self.given


def test_a_rule_is_loaded_once_so_that_it_may_remember(monkeypatch: pytest.MonkeyPatch):
    """Z15: one object for all runs of a controller's pipeline; another controller loads its own."""
    loaded: list[str] = []

    def load(name: str) -> Rebalancer:
        loaded.append(name)
        return Remembers()

    monkeypatch.setattr(rebalancers, "load", load)
    cabinet = Cabinet(ThreadRuntime(), NS_PER_S)
    assert cabinet.of("rule") is cabinet.of("rule")
    assert loaded == ["rule"]
    assert Cabinet(ThreadRuntime(), NS_PER_S).of("rule") is not cabinet.of("rule")
    assert loaded == ["rule", "rule"]
