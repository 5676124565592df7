"""The orders of one leader, until each takes effect.

An instance may remove a message and do nothing. The leader would send the same message again, as fast as the instance
removes it (HJ8). So an order without effect is repeated only after a pause. The pause is harmless: a lock that is not
given back stays with its instance. An order to take a lock is not repeated at all: without effect, it puts the lock in
doubt (`grants`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lockref.helix.pipeline import Alarm, AlarmKind, Snapshot
from lockref.helix.records.messages import Message
from lockref.runtime import NS_PER_S, MonoNs


class _Order(NamedTuple):
    instance: str
    lock: str
    source: str
    target: str


class Orders:
    """Remembers as long as this process leads. period_ns: after it an order may be repeated."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        # When, and to which session.
        self._sent: dict[_Order, tuple[MonoNs, str]] = {}

    def due(
        self, messages: Sequence[Message], snapshot: Snapshot, now_ns: MonoNs
    ) -> tuple[tuple[Message, ...], list[Alarm]]:
        """The messages that may be sent now, and an alarm for each instance that does not do what it is told."""
        for order, (_, session) in list(self._sent.items()):
            replica = snapshot.of(order.lock).get(order.instance)
            is_same = snapshot.live.get(order.instance) == session
            if replica is None or replica.state != order.source or not is_same:
                del self._sent[order]
        due: list[Message] = []
        unheeded: dict[str, list[Message]] = {}
        for message in messages:
            sent = self._sent.get(_order(message))
            if sent is not None:
                unheeded.setdefault(message.instance, []).append(message)
            if sent is None or now_ns - sent[0] >= self._period_ns:
                due.append(message)
        alarms = [
            Alarm(
                AlarmKind.UNHEEDED,
                f"{name} has removed the message {found[0].source}-{found[0].target} for {found[0].lock}"
                f"{f' and {len(found) - 1} like it' if len(found) > 1 else ''}, and nothing came of it; the controller "
                f"sends it again after {self._period_ns / NS_PER_S:g} s",
            )
            for name, found in sorted(unheeded.items())
        ]
        return tuple(due), alarms

    def sent(self, messages: Sequence[Message], snapshot: Snapshot, now_ns: MonoNs) -> None:
        """These are on their way."""
        tops = {group.name: group.model.top for group in snapshot.groups}
        for message in messages:
            if message.target != tops[message.resource]:
                self._sent[_order(message)] = (now_ns, message.session)


def _order(message: Message) -> _Order:
    return _Order(message.instance, message.lock, message.source, message.target)
