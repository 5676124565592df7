"""Forks in virtual time: what a child inherits, who is forked at all, and that a seed still has one trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockref.dynamodb.table import TABLE, VERSION, number
from lockref.errors import ConfigError
from lockref.history import to_table
from lockref.lab.loading import load_provider, provider_from
from lockref.provider import LockContext
from lockref.storage.lock import StorageLock
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.worlds.simulated import run_simulated
from tests.quality.planted.strangers import PlainLock

FORKED = load_scenario("forked-holder")


def rows_of(spec, seed: int = 1) -> list[dict[str, object]]:
    return to_table([run_simulated(FORKED, spec, seed).recorder]).to_pylist()


def test_a_child_of_the_hardened_lock_sends_nothing_and_is_told() -> None:
    """H9: its guard says no, its unlock and its lock raise, and no request leaves it."""
    child = [row for row in rows_of(load_provider("hardened")) if row["node"] == "n1-child"]
    assert [row["outcome"] for row in child if row["kind"] == "return"] == ["rejected", "rejected"]
    assert not [row for row in child if row["kind"] in ("sent", "believed", "effect")]


def test_the_child_has_a_copy_of_its_own() -> None:
    """What the child does to the object changes nothing for its parent; the owner is the same."""

    class Marked(PlainLock):
        is_fork_safe = True
        made: list[Marked] = []  # noqa: RUF012 - shared by parent and child, as code outside the object is

        def unlock(self) -> None:
            self.made.append(self)
            super().unlock()

    rows_of(provider_from(Marked, name="marked"))
    first, second = Marked.made[:2]
    assert first is not second
    assert first.me == second.me
    assert first.runtime is not second.runtime


def test_the_child_has_a_way_of_its_own_to_every_service() -> None:
    """What a lock opened beside its store is the child's own, too: its requests carry the child's name, and land."""

    class UsesTable(PlainLock):
        """Writes down in a table who unlocks, under a number that goes up by one."""

        is_fork_safe = True

        def __init__(self, context: LockContext) -> None:
            super().__init__(context)
            self.table = context.open(TABLE, timeout_ns=self.timeout_ns, service="notes")
            self.same_table = self.table

        def unlock(self) -> None:
            assert self.same_table is self.table
            before = self.table.get("unlocks").item() or {VERSION: number(0)}
            self.table.put("unlocks", {VERSION: number(int(before[VERSION]["N"]) + 1)})
            super().unlock()

    scenario = parse_scenario(
        "version: 1\nname: forked\nclients: 1\nduration: 20s\nservices: {notes: {kind: table}}\n"
        "workload: {life: forks, cycles: 1, start: 0s, hold: 2s, writes: 4, wait: 5s}"
    )
    rows = to_table([run_simulated(scenario, provider_from(UsesTable, name="uses-table"), 1).recorder]).to_pylist()
    notes = [row for row in rows if row["lock"] == "unlocks" and row["op"] == "write"]
    for kind in ("sent", "applied", "replied"):
        assert {row["node"] for row in notes if row["kind"] == kind} == {"n1", "n1-child"}
    applied = [row["version"] for row in notes if row["kind"] == "applied"]
    assert applied == [str(number + 1) for number in range(len(applied))], "both write into one table"


@pytest.mark.parametrize("reference", ["hudi", "tests.quality.planted.strangers:PlainLock"])
def test_who_never_promised_it_is_not_forked(reference: str) -> None:
    """Most locks never said that they would survive a fork: nothing is held against them."""
    assert not [row for row in rows_of(load_provider(reference)) if str(row["node"]).endswith("-child")]


def test_a_lock_that_cannot_be_copied_is_named() -> None:
    """A promise that cannot be tried is an error in words, not a silent yes."""

    class Uncopyable(StorageLock):
        @classmethod
        def from_context(cls, context: LockContext) -> Uncopyable:
            lock = super().from_context(context)
            lock.steps = (number for number in range(3))
            return lock

    with pytest.raises(ConfigError, match="Uncopyable declares is_fork_safe, but cannot be copied"):
        rows_of(provider_from(Uncopyable, name="uncopyable"))


def test_one_seed_one_trace() -> None:
    """Copies and children follow the seed like everything else."""
    run: Callable[[int], str] = lambda seed: run_simulated(FORKED, load_provider("hardened"), seed).digest  # noqa: E731
    assert [run(seed) for seed in (1, 2, 3)] == [run(seed) for seed in (1, 2, 3)]
