"""The tables of a cluster's status, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from lockref.words import counted
from reports.formats.text import short

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from lockref.helix.operations.status import ClusterStatus, LockStatus, ResourceStatus

LOCKS_MAX: Final = 40
"""A longer resource is shown by the locks alone that an operator should look at; `-v` lists all."""


def say_status(console: Console, status: ClusterStatus, hosts: str) -> None:
    """Print a status: controller, instances, resources, and what could not be read."""
    console.say(f"cluster {status.name} on {hosts}", style="head")
    console.say(_controller_line(status), style="" if status.controller else "bad")
    console.say()
    if status.instances:
        console.say_table(_instances(status))
    else:
        console.say("no instance is configured; lockref cluster add-instance adds one")
    for instance in status.instances:
        for note in instance.notes():
            is_bad = instance.silence is not None and note == instance.silence.text()
            console.say(f"  {short(instance.name)}: {note}", style="bad" if is_bad else "")
    if not status.resources:
        console.say("\nno resource is configured; lockref cluster add-resource adds one")
    for resource in status.resources:
        _say_resource(console, resource, status)
    for problem in status.problems:
        console.say(f"not readable: {problem}", style="bad")


def _controller_line(status: ClusterStatus) -> str:
    leader = status.controller
    line = "controller: none leads, so nobody is given a lock or told to give one back"
    if leader is not None:
        line = f"controller: {leader.name} leads" + (f" (session {leader.session})" if leader.session else "")
    if status.is_paused:
        because = f" because: {status.pause_reason}" if status.pause_reason else ""
        line += f"; the cluster is paused (CONTROLLER/PAUSE){because}"
    if status.is_in_maintenance:
        line += "; the cluster is in maintenance (CONTROLLER/MAINTENANCE), which concerns FULL_AUTO resources alone"
    return line


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False, header_style="bold")


def _row(table: Table, cells: Iterable[str]) -> None:
    # A string would be read as rich's own markup.
    table.add_row(*(Text(short(cell, 200)) for cell in cells))


def _instances(status: ClusterStatus) -> Table:
    table = _table("instance", "host", "live", "enabled", "owns", "messages", "session")
    for each in status.instances:
        live = "no" if not each.session else "zombie" if each.silence and each.silence.is_zombie else "yes"
        enabled = "yes" if each.is_enabled else "NO"
        place = f"{each.host}:{each.port}" if each.is_configured else "–"
        cells = (
            each.name, place, live, enabled, str(len(each.owned)), str(len(each.messages)), each.session or "–"
        )  # fmt: skip
        _row(table, cells)
    return table


def _say_resource(console: Console, resource: ResourceStatus, status: ClusterStatus) -> None:
    owned = len(resource.locks) - len(resource.unowned)
    state = "" if resource.is_enabled else ", DISABLED"
    console.say(
        f"\nresource {resource.name}{state}: {resource.mode}, {resource.model}, replicas {resource.replicas or '–'}; "
        f"{owned} of {counted(len(resource.locks), 'lock')} owned",
        style="head",
    )
    if resource.refusal:
        console.say(f"  lockref's controller does not drive it: {resource.refusal}")
    else:
        console.say(f"  lockref's controller drives it by {resource.rule_text}")
    for lock in resource.crowded:
        console.say(f"  TWO OWNERS: {lock.name} is owned by {', '.join(lock.owners)}", style="bad")
    waiting = {
        (message.resource, message.lock): f"{instance.name}: {message.source}-{message.target}"
        for instance in status.instances
        for message in instance.messages
        if message.lock and not message.is_stale
    }
    shown = resource.locks
    if len(shown) > LOCKS_MAX and not console.verbose:
        shown = tuple(lock for lock in resource.locks if _is_odd(lock) or (resource.name, lock.name) in waiting)
        console.say(
            f"  {len(resource.locks) - len(shown)} locks with one owner and nothing under way are left out (-v)"
        )
        shown = shown[:LOCKS_MAX]
    if not shown:
        return
    has_ideal = any(lock.ideal for lock in shown)
    table = _table(
        "lock", "owner", *(["ideal state"] if has_ideal else []), "current states", "external view", "message"
    )
    for lock in shown:
        states = ", ".join(f"{name} {state}" for name, state in lock.states.items())
        view = "same" if lock.is_view_current else ", ".join(f"{name} {state}" for name, state in lock.view.items())
        cells = [lock.name, ", ".join(lock.owners) or "NONE", *([lock.ideal or "–"] if has_ideal else [])]
        _row(table, [*cells, states or "–", view or "nothing", waiting.get((resource.name, lock.name), "")])
    console.say_table(table)


def _is_odd(lock: LockStatus) -> bool:
    return len(lock.owners) != 1 or not lock.is_view_current
