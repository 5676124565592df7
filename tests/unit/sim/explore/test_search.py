"""Searching schedules: all orders that make a difference, or all near the default."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from sim.explore.exhaustive import Search
from sim.explore.policies import Policy, parse_policy
from sim.explore.pos import Pos
from sim.kernel.exploring import ExploringKernel, Ties
from sim.kernel.footprints import SERVICE, Footprint
from sim.kernel.kernel import Schedule
from sim.kernel.streams import stream


class Store:
    """A world of its own: nodes that read and write keys, each request a step at the store."""

    def __init__(self, schedule: Schedule) -> None:
        self.kernel = ExploringKernel(schedule, "greenlet", None, ties=Ties(window_ns=10), footprint_of=self.footprint)
        self.log: list[str] = []

    @staticmethod
    def footprint(callback: Callable[[], object]) -> Footprint:
        assert isinstance(callback, partial)
        _, key, changes = callback.args
        return (((SERVICE, key), changes),)

    def node(self, name: str, *requests: tuple[str, bool]) -> None:
        def work() -> None:
            for key, changes in requests:
                self.kernel.call_at(self.kernel.now_ns + 10, partial(self.apply, name, key, changes))
                self.kernel.wait(20)

        self.kernel.spawn(work, name=name, node=name)

    def apply(self, name: str, key: str, changes: bool) -> None:
        self.log.append(f"{name} {'writes' if changes else 'reads'} {key}")


def outcomes(search: Search, build: Callable[[Store], None]) -> list[tuple[str, ...]]:
    found = []
    for schedule in search:
        store = Store(schedule)
        build(store)
        store.kernel.run(1000)
        schedule.end_instant()
        if not schedule.is_pruned:
            found.append(tuple(store.log))
    return found


def everything(build: Callable[[Store], None]) -> tuple[list[tuple[str, ...]], Search]:
    search = Search(None, 1000)
    return outcomes(search, build), search


def test_steps_without_a_common_place_run_in_one_order():
    """Three nodes that write three keys: one run shows all there is, and the search is exhausted."""

    def build(store: Store) -> None:
        for name in "abc":
            store.node(name, (name, True), (name, True))

    found, search = everything(build)
    assert len(found) == 1
    assert (search.tally.schedules, search.tally.pruned, search.tally.is_exhausted) == (1, 0, True)


def test_reads_of_one_key_run_in_one_order_and_writes_in_all():
    """Readers do not compete with each other; each of them competes with the writer."""

    def readers(store: Store) -> None:
        for name in "abc":
            store.node(name, ("k", False))

    def writers(store: Store) -> None:
        for name in "abc":
            store.node(name, ("k", True))

    assert len(everything(readers)[0]) == 1
    found = everything(writers)[0]
    assert set(found) == {tuple(f"{name} writes k" for name in order) for order in itertools.permutations("abc")}


def test_no_order_of_competing_steps_is_left_out():
    """Against all orders of all ties, tried one by one: the reduced search finds the same orders at each key."""

    def build(store: Store) -> None:
        store.node("a", ("k", True), ("m", True))
        store.node("b", ("k", False), ("k", True))
        store.node("c", ("m", True), ("k", True))

    def by_key(log: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(line for line in log if line.endswith(key)) for key in ("k", "m"))

    reduced, search = everything(build)
    full = Search(100, 100_000)
    all_orders = outcomes(full, build)
    assert search.tally.is_exhausted
    assert full.tally.is_exhausted
    assert {by_key(log) for log in reduced} == {by_key(log) for log in all_orders}
    assert search.tally.schedules < full.tally.schedules + full.tally.pruned


def test_delay_bound_counts_choices_that_differ():
    """With one choice that differs from the default, one writer at most overtakes; the first run is the default."""

    def build(store: Store) -> None:
        for name in "abc":
            store.node(name, ("k", True))

    search = Search(1, 1000)
    found = outcomes(search, build)
    assert found[0] == ("a writes k", "b writes k", "c writes k")
    assert search.tally.is_exhausted
    assert ("c writes k", "b writes k", "a writes k") not in found
    assert ("c writes k", "a writes k", "b writes k") in found


def test_search_that_is_cut_off_says_so():
    """When its bound on runs is hit, the search proves nothing."""

    def build(store: Store) -> None:
        for name in "abcd":
            store.node(name, ("k", True))

    search = Search(None, 5)
    outcomes(search, build)
    assert search.tally.schedules + search.tally.pruned == 5
    assert not search.tally.is_exhausted


def test_a_fifo_of_a_search_is_left_early():
    """Whoever takes no further schedule has not exhausted the search."""
    search = Search(None, 100)
    assert next(iter(search)).deviations == ()
    assert not search.tally.is_exhausted


def test_preemptions_are_searched_and_bounded():
    """Two threads that each add one in two steps lose an addition where one interrupts the other."""

    def run(schedule: Schedule) -> int:
        kernel = ExploringKernel(schedule, "greenlet", None, ties=Ties(window_ns=10), footprint_of=lambda _: ())
        count = 0

        def adds() -> None:
            nonlocal count
            kernel.wait(10)
            read = count
            kernel.preempt()
            count = read + 1

        for name in ("t1", "t2"):
            kernel.spawn(adds, name=name, node="n1")
        kernel.run(100)
        return count

    search = Search(None, 100)
    found = []
    for schedule in search:
        count = run(schedule)
        schedule.end_instant()
        if not schedule.is_pruned:
            found.append(count)
    assert set(found) == {1, 2}
    assert search.tally.is_exhausted


def test_pos_meets_each_order_and_replays():
    """Every order of three writers comes up, from one seed each."""

    def order(seed: int) -> tuple[str, ...]:
        store = Store(Pos(stream(seed, "explore")))
        for name in "abc":
            store.node(name, ("k", True))
        store.kernel.run(1000)
        return tuple(line[0] for line in store.log)

    assert {order(seed) for seed in range(60)} == set(itertools.permutations("abc"))
    assert order(7) == order(7)


def test_policies_have_names_and_numbers():
    """What a user types is what is told."""
    for text in ("random", "pct:3", "pos", "delay:2", "exhaustive"):
        assert str(parse_policy(text)) == text
    assert parse_policy("delay:2") == Policy("delay", 2)
    assert [parse_policy(text).is_systematic for text in ("pct:1", "delay:1", "exhaustive")] == [False, True, True]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("ranndom", "Did you mean 'random'"),
        ("pct", "pct:D"),
        ("pct:0", "from 1 to"),
        ("delay:many", "delay:N"),
        ("pos:2", "takes no number"),
        ("", "expected one of"),
    ],
)
def test_a_wrong_policy_is_told(wrong, said):
    """Each mistake is answered with the accepted form."""
    with pytest.raises(ValueError, match=said):
        parse_policy(wrong)


def test_a_wrong_policy_is_told_what_else_is_accepted_there():
    """A command that takes other words beside policies names them all, and the nearest."""
    with pytest.raises(ValueError, match=r"exhaustive, faults\. Did you mean 'faults'"):
        parse_policy("fault", others=("faults",))
