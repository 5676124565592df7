"""The terminal view of a cluster: locks by instances, what moves, who holds nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from lockref.helix.controller.controller import Pass

ROWS_MAX: Final = 40
"""More locks than this are counted by instance in the place of being listed."""

HELD, COMING, GOING = "■", "▸", "◂"


def live_view(done: Pass) -> Group:
    """One pass as a table. ■ holds, ▸ is told to take, ◂ is told to give back."""
    snapshot = done.snapshot
    under_way = {(each.lock, each.instance): each.target for each in (*snapshot.pending, *done.decision.messages)}
    locks = [(lock, group.model.top) for group in snapshot.groups for lock in group.locks]
    gaps = [lock for lock, top in locks if all(each.state != top for each in snapshot.of(lock).values())]
    instances = list(snapshot.live)
    view = _counts(done, locks) if len(locks) > ROWS_MAX else _cells(done, locks, instances, under_way)
    held = len(locks) - len(gaps)
    foot = f"{len(instances)} live · {held} of {len(locks)} locks held · {len(under_way)} moves under way"
    if gaps:
        foot += f" · held by nobody: {', '.join(gaps[:6])}{' …' if len(gaps) > 6 else ''}"
    alarms = [Text(f"{each.kind.value}: {each.text}", style="red") for each in done.decision.alarms]
    return Group(view, Text(foot, style="dim"), *alarms)


def _cells(
    done: Pass, locks: list[tuple[str, str]], instances: list[str], under_way: Mapping[tuple[str, str], str]
) -> Table:
    view = Table("lock", *instances, box=None, pad_edge=False)
    for lock, top in locks:
        cells = []
        for each in instances:
            replica = done.snapshot.of(lock).get(each)
            mark = Text(HELD, style="green") if replica is not None and replica.state == top else Text("·", style="dim")
            target = under_way.get((lock, each))
            if target is not None:
                mark = Text(COMING, style="yellow") if target == top else Text(GOING, style="yellow")
            cells.append(mark)
        view.add_row(lock, *cells)
    return view


def _counts(done: Pass, locks: list[tuple[str, str]]) -> Table:
    view = Table("instance", "locks", box=None, pad_edge=False)
    load = dict.fromkeys(done.snapshot.live, 0)
    for lock, top in locks:
        for each, replica in done.snapshot.of(lock).items():
            if replica.state == top:
                load[each] += 1
    for each, count in load.items():
        view.add_row(each, str(count))
    return view
