"""Orders of a leader that have no effect are repeated after a while, and told; see `lockref.helix.orders`."""

from __future__ import annotations

from lockref.helix.orders import Orders
from lockref.helix.pipeline import LockGroup, Replica, Snapshot
from lockref.helix.records.messages import Message
from lockref.runtime import NS_PER_S, MonoNs
from tests.unit.lockref.helix.pipeline_driver import lock_unlock

GROUP = LockGroup(name="g", locks=("g_0",), replicas=1, model=lock_unlock())
LOCKED = Replica("LOCKED")


def seen(session: str, replica: Replica | None = LOCKED) -> Snapshot:
    """Instance a lives under this session, and reports this of g_0."""
    return Snapshot(groups=(GROUP,), live={"a": session}, replicas={"g_0": {"a": replica} if replica else {}})


def give_back(session: str) -> Message:
    return Message(
        instance="a", session=session, resource="g", lock="g_0", model="m", source="LOCKED", target="DROPPED"
    )


def due(orders: Orders, session: str, now_s: float) -> tuple[int, int]:
    """How many messages may be sent now, and how many instances do not do what they are told."""
    messages, alarms = orders.due([give_back(session)], seen(session), MonoNs(round(now_s * NS_PER_S)))
    return len(messages), len(alarms)


def sent(session: str = "1") -> Orders:
    """An order that was sent at the instant 0 s; it may be repeated after 10 s."""
    orders = Orders(10 * NS_PER_S)
    orders.sent([give_back(session)], seen(session), MonoNs(0))
    return orders


def test_an_order_without_effect_is_repeated_after_the_period():
    """HJ8: told at once, and sent again after the period, not before."""
    orders = sent()
    assert due(orders, "1", 9.9) == (0, 1)
    assert due(orders, "1", 10) == (1, 1)


def test_an_order_is_forgotten_with_the_session_that_it_was_sent_to():
    """Z20: the instance has begun a new session, and never heard of it: it is sent at once, and nobody is accused."""
    assert due(sent("1"), "2", 1) == (1, 0)


def test_an_order_is_forgotten_once_its_effect_was_seen():
    """The lock was given back and taken again in between."""
    for effect in (Replica("RELEASED"), None):
        orders = sent()
        orders.due([], seen("1", effect), MonoNs(NS_PER_S))
        assert due(orders, "1", 2) == (1, 0)


def test_an_order_to_take_a_lock_is_not_remembered():
    """One that is gone without effect puts the lock in doubt (`grants`)."""
    orders = Orders(10 * NS_PER_S)
    take = Message(instance="a", session="1", resource="g", lock="g_0", model="m", source="RELEASED", target="LOCKED")
    snapshot = seen("1", Replica("RELEASED"))
    orders.sent([take], snapshot, MonoNs(0))
    assert orders.due([take], snapshot, MonoNs(1)) == ((take,), [])
