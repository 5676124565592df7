"""The cost of a change of instances under a rebalancer: moved locks, unnecessary moves among these, and the load.

Source: section 9 of the domain notes. All figures count pairs of a lock and a holder, so they serve any number of
holders per lock.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lockref.helix.rebalancers import Assignment, Question, Rebalancer


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of the live instances, measured.

    moved: holders that were replaced. unnecessary: those of them that are still live. least: no rebalancer that keeps
    the load balanced can move fewer. load_max, load_min: locks of the fullest and of the emptiest live instance, after.
    """

    moved: int
    unnecessary: int
    least: int
    load_max: int
    load_min: int


def loads(assignment: Assignment, live: Collection[str]) -> dict[str, int]:
    """The number of locks that each live instance holds."""
    found = dict.fromkeys(live, 0)
    for holders in assignment.values():
        for each in holders:
            if each in found:
                found[each] += 1
    return found


def measure(before: Assignment, after: Assignment, live: Collection[str]) -> Change:
    """Compare two assignments. live: the instances after the change; at least one."""
    present = set(live)
    lost = [each for lock, holders in before.items() for each in holders if each not in after.get(lock, ())]
    orphans = sum(each not in present for holders in before.values() for each in holders)
    load, load_before = loads(after, live), loads(before, live)
    quota = sum(load.values()) // len(present)
    # Orphans must move. Whoever has less than its share must be given the difference.
    missing = sum(max(0, quota - each) for each in load_before.values())
    return Change(
        moved=len(lost),
        unnecessary=sum(each in present for each in lost),
        least=max(orphans, missing),
        load_max=max(load.values()),
        load_min=min(load.values()),
    )


def ask(
    rebalancer: Rebalancer, locks: tuple[str, ...], live: Collection[str], held: Assignment, per_lock: int = 1
) -> Assignment:
    """The rebalancer's answer if the live ones of `held` hold their locks now."""
    present = sorted(live)
    holders = {lock: tuple(each for each in held.get(lock, ()) if each in present) for lock in locks}
    return rebalancer(Question(locks, tuple(present), holders, per_lock))
