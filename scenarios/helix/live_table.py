"""The terminal view of a cluster: locks by instances, what moves, who holds nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from lockref.helix.controller.controller import Pass

ROWS_MAX: Final = 40
"""More locks than this are counted by instance in the place of being listed."""

HELD, COMING, GOING = "■", "▸", "◂"


def live_view(done: Pass, printable: Callable[[str], str]) -> Group:
    """One pass as a table. ■ holds, ▸ is told to take, ◂ is told to give back.

    printable: makes text fit for a terminal. Names are those of a file and of whoever has registered at ZooKeeper.
    """

    def plain(text: str, style: str = "") -> Text:
        # A string would be read as rich's own markup: `[/x]` in a name ended the command.
        return Text(printable(text).replace("\n", " "), style=style)

    snapshot = done.snapshot
    under_way = {(each.lock, each.instance): each.target for each in (*snapshot.pending, *done.decision.messages)}
    locks = [(lock, group.model.top) for group in snapshot.groups for lock in group.locks]
    gaps = [lock for lock, top in locks if all(each.state != top for each in snapshot.of(lock).values())]
    instances = list(snapshot.live)
    view = _counts(done, locks, plain) if len(locks) > ROWS_MAX else _cells(done, locks, instances, under_way, plain)
    held = len(locks) - len(gaps)
    foot = f"{len(instances)} live · {held} of {len(locks)} locks held · {len(under_way)} moves under way"
    if gaps:
        foot += f" · held by nobody: {', '.join(gaps[:6])}{' …' if len(gaps) > 6 else ''}"
    alarms = [plain(f"{each.kind.value}: {each.text}", "red") for each in done.decision.alarms]
    return Group(view, plain(foot, "dim"), *alarms)


def _cells(
    done: Pass,
    locks: list[tuple[str, str]],
    instances: list[str],
    under_way: Mapping[tuple[str, str], str],
    plain: Callable[[str], Text],
) -> Table:
    view = Table("lock", box=None, pad_edge=False)
    for each in instances:
        view.add_column(plain(each))
    for lock, top in locks:
        cells = []
        for each in instances:
            replica = done.snapshot.of(lock).get(each)
            mark = Text(HELD, style="green") if replica is not None and replica.state == top else Text("·", style="dim")
            target = under_way.get((lock, each))
            if target is not None:
                mark = Text(COMING, style="yellow") if target == top else Text(GOING, style="yellow")
            cells.append(mark)
        view.add_row(plain(lock), *cells)
    return view


def _counts(done: Pass, locks: list[tuple[str, str]], plain: Callable[[str], Text]) -> Table:
    view = Table("instance", "locks", box=None, pad_edge=False)
    load = dict.fromkeys(done.snapshot.live, 0)
    for lock, top in locks:
        for each, replica in done.snapshot.of(lock).items():
            if replica.state == top:
                load[each] += 1
    for each, count in load.items():
        view.add_row(plain(each), str(count))
    return view
