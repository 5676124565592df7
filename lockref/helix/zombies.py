"""Zombies: instances that live and answer no message.

The session of such an instance is kept alive, often by a thread of a library, while the program behind it hangs. So
the cluster counts it as live and assigns locks to it, and nobody holds them.

An instance answers a message by removing it. It is a zombie if a message has waited for the limit, and the instance has
answered no other one for as long: `silence_ns`. If it has answered another one within the limit, it is only slow: one
transition takes long. Times are those of this leader, which sees a message in the pass after it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lockref.helix.pipeline import Alarm, AlarmKind, Snapshot
from lockref.helix.records.messages import Message
from lockref.runtime import NS_PER_S, MonoNs


def silence_ns(waits_ns: int, answered_ago_ns: int | None) -> int:
    """The nanoseconds for which an instance has answered nothing, although a message waited.

    waits_ns: how long the oldest message waits. answered_ago_ns: how long ago it answered another one; None for never.
    A rebalance sends many messages at once. So an answer to one of them is no sign of life for ever.
    """
    return waits_ns if answered_ago_ns is None else min(waits_ns, answered_ago_ns)


@dataclass(slots=True)
class _Waiting:
    """The messages to one session that wait. seen: by id, when each was first seen. answered_ns: the last answer."""

    session: str
    seen: dict[str, MonoNs] = field(default_factory=dict)
    answered_ns: MonoNs | None = None


class Zombies:
    """The zombies that one leader sees. after_ns: the silence that makes a zombie; None: nobody is ever named."""

    def __init__(self, after_ns: int | None) -> None:
        self._after_ns = after_ns
        self._waiting: dict[str, _Waiting] = {}

    def forget(self) -> None:
        """The leader's session is over: when it leads again, all times begin anew."""
        self._waiting.clear()

    def named(self, snapshot: Snapshot, now_ns: MonoNs) -> list[Alarm]:
        """One alarm for each zombie and each slow instance. Its text stays the same while the same message waits."""
        if self._after_ns is None:
            return []
        pending: dict[str, dict[str, Message]] = {}
        for message in snapshot.pending:
            pending.setdefault(message.instance, {})[message.id] = message
        known = self._waiting
        self._waiting = {}
        alarms = []
        for name, session in snapshot.live.items():
            messages = pending.get(name, {})
            waiting = known.get(name)
            if waiting is None or waiting.session != session:
                waiting = _Waiting(session)
            self._waiting[name] = waiting
            if any(each not in messages for each in waiting.seen):
                waiting.answered_ns = now_ns
            waiting.seen = {each: waiting.seen.get(each, now_ns) for each in messages}
            alarm = self._alarm(name, waiting, messages, now_ns, self._after_ns)
            if alarm is not None:
                alarms.append(alarm)
        return alarms

    @staticmethod
    def _alarm(
        name: str, waiting: _Waiting, messages: dict[str, Message], now_ns: MonoNs, after_ns: int
    ) -> Alarm | None:
        if not waiting.seen:
            return None
        oldest = messages[min(waiting.seen, key=lambda each: (waiting.seen[each], messages[each].lock))]
        waits_ns = now_ns - waiting.seen[oldest.id]
        if waits_ns < after_ns:
            return None
        ago_ns = None if waiting.answered_ns is None else now_ns - waiting.answered_ns
        limit = f"{after_ns / NS_PER_S:g} s"
        what = f"{oldest.source}-{oldest.target} of {oldest.lock} (message {oldest.id})"
        if silence_ns(waits_ns, ago_ns) >= after_ns:
            return Alarm(AlarmKind.ZOMBIE, f"{name} lives and has answered no message for {limit}: {what} waits")
        return Alarm(AlarmKind.SLOW, f"{name} has answered another message since, and {what} waits for {limit}")

    def next_ns(self, now_ns: MonoNs, period_ns: int) -> int:
        """The nanoseconds until a zombie may have to be named; period_ns if that is sooner, or no message waits."""
        if self._after_ns is None:
            return period_ns
        known = [each for each in self._waiting.values() if each.seen]
        dues = [seen_ns for each in known for seen_ns in each.seen.values()]
        dues += [each.answered_ns for each in known if each.answered_ns is not None]
        left = [since_ns + self._after_ns - now_ns for since_ns in dues]
        return min([period_ns, *(each for each in left if each > 0)])
