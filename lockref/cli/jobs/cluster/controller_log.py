"""The log of a controller that stays: who leads, what it sees, what it sends, who owns what, and what is wrong.

Each line begins with the wall clock in UTC. With `--json` each event is one object on standard output. A cluster may
have ten thousand locks, so what happens to many locks in one pass is told as numbers.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from lockref.helix.controller.controller import Pass
from lockref.helix.controller.controller_event import ControllerEvent
from lockref.helix.pipeline import Alarm
from lockref.runtime import NS_PER_MS, Runtime
from lockref.words import counted

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console

LINES_MAX: Final = 12
"""So many locks that change hands in one pass have a line each."""

_WORDS: Final = {
    ControllerEvent.SESSION: "a session is open",
    ControllerEvent.LEADS: "leads",
    ControllerEvent.SUSPENDED: "no server answers; the session may end",
    ControllerEvent.RESUMED: "a server answers again, in the same session",
    ControllerEvent.LOST: "the session is over; a new one is asked for",
}


class ControllerLog:
    """Callbacks for one controller. name: its name. leader: tells who leads, for one that stands by."""

    def __init__(self, console: Console, runtime: Runtime, name: str, leader: Callable[[], str]) -> None:
        self._console = console
        self._runtime = runtime
        self._name = name
        self._leader = leader
        # The controller's thread and the command's own both write lines.
        self._mutex = threading.Lock()
        self._live: tuple[str, ...] | None = None
        self._owners: dict[str, tuple[str, ...]] | None = None
        self._alarms: dict[Alarm, None] = {}
        self._is_settled = False

    def event(self, kind: str, text: str, *, style: str = "", **facts: Any) -> None:
        """One event. text: for people; facts: for `--json`."""
        at = datetime.fromtimestamp(self._runtime.wall_ns() / 1e9, UTC)
        with self._mutex:
            if self._console.as_json:
                line = {"at": at.isoformat(timespec="milliseconds"), "controller": self._name, "event": kind}
                self._console.line({**line, "text": text, **facts})
            else:
                self._console.say(f"{at:%Y-%m-%dT%H:%M:%SZ} {text}", style=style)

    def heard(self, event: ControllerEvent) -> None:
        """The controller leads or does not, or its session is lost or opened."""
        if event is ControllerEvent.STANDS_BY:
            leader = self._leader()
            self.event(event.value, f"{self._name} stands by: {leader} leads", leader=leader)
            return
        if event is ControllerEvent.LEADS:
            self._live, self._owners, self._alarms, self._is_settled = None, None, {}, False
        self.event(event.value, f"{self._name}: {_WORDS[event]}", style="bad" if event is ControllerEvent.LOST else "")

    def alarm(self, alarm: Alarm) -> None:
        self._alarms[alarm] = None
        self.event("alarm", f"ALARM {alarm.kind.value}: {alarm.text}", style="bad", alarm=alarm.kind.value)

    def passed(self, done: Pass) -> None:
        """One pass of the leader: what differs from the pass before."""
        for alarm in [each for each in self._alarms if each not in done.decision.alarms]:
            del self._alarms[alarm]
            self.event("alarm over", f"over: {alarm.kind.value}: {alarm.text}", alarm=alarm.kind.value)
        self._tell_live(tuple(done.snapshot.live))
        self._tell_owners(_owners(done))
        if done.sent:
            words = Counter(f"{each.source}-{each.target}" for each in done.decision.messages)
            what = ", ".join(f"{count} {edge}" for edge, count in sorted(words.items()))
            took = f"{done.took_ns / NS_PER_MS:.0f} ms"
            self.event(
                "rebalance",
                f"rebalances: {counted(done.sent, 'message')} sent ({what}; {took})",
                sent=done.sent,
                transitions=dict(words),
            )
        self._tell_settled(done)

    def _tell_live(self, live: tuple[str, ...]) -> None:
        before = self._live
        if before == live:
            return
        self._live = live
        joined = [each for each in live if each not in (before or ())]
        left = [each for each in before or () if each not in live]
        parts = [f"{', '.join(names)} {word}" for names, word in ((joined, "live"), (left, "gone")) if names]
        self.event("instances", f"instances: {'; '.join(parts) or 'none lives'}", live=list(live), gone=left)

    def _tell_owners(self, owners: Mapping[str, tuple[str, ...]]) -> None:
        before, self._owners = self._owners, dict(owners)
        if before is None:
            self.event("found", f"finds {_held(owners)}", owned=_owned(owners), locks=len(owners))
            return
        changed = {
            lock: (before.get(lock, ()), owners.get(lock, ()))
            for lock in dict.fromkeys([*before, *owners])
            if before.get(lock, ()) != owners.get(lock, ())
        }
        if len(changed) > LINES_MAX:
            unowned = sum(not new for _, new in changed.values())
            tail = f", {unowned} without an owner now" if unowned else ""
            self.event(
                "owners", f"{len(changed)} locks have changed hands{tail}: {_loads(owners)}", changed=len(changed)
            )
            return
        for lock, (old, new) in changed.items():
            was = f" (was {', '.join(old)})" if old else ""
            self.event("owner", f"{lock}: {', '.join(new) or 'no owner'}{was}", lock=lock, owners=list(new))

    def _tell_settled(self, done: Pass) -> None:
        is_settled = not (done.snapshot.pending or done.decision.messages or done.decision.removals)
        if is_settled and not self._is_settled:
            owners = self._owners or {}
            self.event("settled", f"settled: {_held(owners)}", owned=_owned(owners), locks=len(owners))
        self._is_settled = is_settled


def _owners(done: Pass) -> dict[str, tuple[str, ...]]:
    """By lock, the instances that report the top state."""
    return {
        lock: tuple(
            sorted(each for each, replica in done.snapshot.of(lock).items() if replica.state == group.model.top)
        )
        for group in done.snapshot.groups
        for lock in group.locks
    }


def _owned(owners: Mapping[str, tuple[str, ...]]) -> int:
    return sum(bool(each) for each in owners.values())


def _held(owners: Mapping[str, tuple[str, ...]]) -> str:
    return f"{_owned(owners)} of {counted(len(owners), 'lock')} owned: {_loads(owners)}"


def _loads(owners: Mapping[str, tuple[str, ...]]) -> str:
    load = Counter(each for names in owners.values() for each in names)
    return ", ".join(f"{name} {count}" for name, count in sorted(load.items())) or "nobody owns any"
