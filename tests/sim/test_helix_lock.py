"""Helix' own lock class over the modelled ZooKeeper: what it promises, and each of its mistakes alone (HJ1 to HJ15).

Times are exact: the machine's clocks stand still between two steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockref.coordination.port import Call, Stat
from lockref.coordination.session import COORDINATION
from lockref.errors import ConfigError, LockError, LockLost, LockNotHeld
from lockref.helix.shipped.lock_info import NOBODY, LockInfo
from lockref.helix.shipped.nonblocking_lock import HelixException, LockConfig, LockScope, LockStatus
from lockref.helix.shipped.provider import HelixNonblockingLock, decode_state, lock_path
from lockref.helix.shipped.stored_record import parsed
from lockref.lab.loading import load_provider
from lockref.ports import Reply, Request
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.words import Outcome
from sim.faults.network import Partition
from sim.faults.plan import EMPTY_PLAN, FaultPlan
from sim.services.coordination import CoordinationService
from sim.world import World
from tests.evidence.helix.lock_player import Place, Subject, made
from tests.evidence.helix.lock_scripts import WAIT_MS, lock, stored
from tests.sim.helix_world import Asked, DisturbedChannel

PATH = LockScope.RESOURCE.path(("c", "r"))
REQUEST_NS = 2 * NS_PER_S
LONG_NS = 900 * NS_PER_S


class Rig:
    """One znode and lock objects on it. `channels`: of each, by user."""

    def __init__(self, world: World, service: CoordinationService) -> None:
        self._world = world
        self.service = service
        self.runtime = world.node("operator").process.runtime
        self.channels: dict[str, DisturbedChannel] = {}

    def place(self, name: str) -> Place:
        node = self._world.node(name)
        inner: Any = self._world.connect(node, "zk", COORDINATION, timeout_ns=REQUEST_NS)
        channel = self.channels[name] = DisturbedChannel(inner._channel)
        return COORDINATION.over(channel, REQUEST_NS), node.process.runtime

    def subject(self, user: str, **settings: Any) -> Subject:
        return made(self.place(user), PATH, lock(user, **settings))

    def put(self, body: str) -> None:
        for above in ("/c", "/c/LOCK", "/c/LOCK/RESOURCE"):
            self.service.tamper("put", above, body=b"")
        assert self.service.tamper("put", PATH, body=body.encode()) == 1

    def info(self) -> LockInfo:
        return LockInfo.of(parsed(self.service.past(PATH, 0).body))

    def version(self) -> int:
        stat = self.service.past(PATH, 0).version
        assert isinstance(stat, Stat)
        return stat.version

    def now_ms(self) -> int:
        return self.runtime.wall_ns() // NS_PER_MS

    def pass_ms(self, ms: int) -> None:
        self.runtime.sleep(ms * NS_PER_MS)

    def waits(self, subject: Subject) -> None:
        """Begin to lock; it is seen to wait."""
        subject.begin()
        self.pass_ms(200)
        assert subject.so_far() == {"answer": "pending"}
        assert self.info().waiting == subject.lock.config.user


def played(script: Callable[[Rig], None], plan: FaultPlan = EMPTY_PLAN) -> None:
    world = World(seed=1, plan=plan)
    service = CoordinationService()
    world.add("zk", service, decode=lambda _key, _body: ())
    ended: list[bool] = []
    rig = Rig(world, service)

    def work() -> None:
        script(rig)
        ended.append(True)

    world.node("operator").start(work)
    world.run(until_ns=LONG_NS)
    assert ended, "the script did not come to its end"


def test_the_first_come_holds_for_its_lease() -> None:
    """Others are refused until the lease is over by their own wall clock; asking again renews, and writes each time."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann", lease_ms=5000), rig.subject("bob")
        assert ann.lock.try_lock()
        assert (rig.info().owner, rig.version()) == ("ann", 0)
        assert not bob.lock.try_lock()
        assert rig.version() == 0
        rig.pass_ms(3000)
        assert ann.lock.try_lock()
        rig.pass_ms(4900)
        assert not bob.lock.try_lock()
        rig.pass_ms(200)
        assert bob.lock.try_lock()
        assert not ann.lock.is_current_owner()
        assert not ann.lock.unlock()
        assert bob.lock.unlock()
        assert (rig.info(), rig.version()) == (LockInfo(), 3)

    played(script)


def test_a_higher_priority_waits_for_the_clean_up_and_then_has_the_lock() -> None:
    """The owner is told, clears its own fields and leaves the requestor's; the requestor writes itself."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann", cleanup=700), rig.subject("bob", priority=1)
        assert ann.lock.try_lock()
        rig.waits(bob)
        assert rig.info()[:2] == ("ann", "work of ann")
        assert bob.end() == {"answer": True}
        assert (ann.cleanups, bob.lock.status) == ([1], LockStatus.LOCKED)
        assert (rig.info().owner, rig.info().requestor, rig.version()) == ("bob", NOBODY, 3)

    played(script)


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"ownerName": "zoe", "leaseDuration": 60}'])
def test_hj1_what_cannot_be_read_is_a_free_lock(body: str) -> None:
    """HJ1: empty, broken or another lock's record: the next one takes it, and the one that holds is not told."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann"), rig.subject("bob")
        assert ann.lock.try_lock()
        rig.put(body)
        assert bob.lock.try_lock()
        assert rig.info().owner == "bob"

    played(script)


def test_hj1_a_time_that_is_no_number_is_long_ago() -> None:
    """HJ1: so is one that has one digit too many."""

    def script(rig: Rig) -> None:
        bob = rig.subject("bob")
        for timeout in ("soon", "", " 9", "9223372036854775808"):
            rig.put(stored("zoe", timeout))
            assert bob.lock.try_lock()

    played(script)


def test_hj2_anybody_may_unlock_an_expired_lock() -> None:
    """HJ2: the owner works on for a moment more, and its lock says that it was given back by somebody."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann", lease_ms=1000), rig.subject("bob")
        assert ann.lock.try_lock()
        assert not bob.lock.unlock()
        rig.pass_ms(1100)
        assert bob.lock.unlock()
        assert rig.info() == LockInfo()

    played(script)


def test_hj3_the_owners_unlock_forgets_who_waits() -> None:
    """HJ3: the lock is free from 0.2 s on, and the waiter hears at its timeout that it was not cleaned up."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann", cleanup=None), rig.subject("bob", priority=1)
        assert ann.lock.try_lock()
        began_ms = rig.now_ms()
        rig.waits(bob)
        assert ann.lock.unlock()
        assert rig.info() == LockInfo()
        assert bob.end() == {"error": "HelixException", "text": "Cleanup has not been finished by lock owner"}
        assert rig.now_ms() - began_ms >= WAIT_MS
        assert rig.info() == LockInfo()

    played(script)


def test_hj3_a_forceful_waiter_is_told_that_it_has_a_lock_that_nobody_has() -> None:
    """HJ3, Z19: nobody looks at what the forceful update said; a third one gets the lock beside it."""

    def script(rig: Rig) -> None:
        ann = rig.subject("ann", cleanup=None)
        bob, cem = rig.subject("bob", priority=1, is_forceful=True), rig.subject("cem")
        assert ann.lock.try_lock()
        rig.waits(bob)
        assert ann.lock.unlock()
        assert bob.end() == {"answer": True}
        assert rig.info() == LockInfo()
        assert cem.lock.try_lock()

    played(script)


def test_hj4_a_lock_object_that_waited_in_vain_locks_and_throws() -> None:
    """HJ4: its record names it for the whole lease, its caller was told that it failed, and all others are refused."""

    def script(rig: Rig) -> None:
        ann, bob, cem = rig.subject("ann", cleanup=None), rig.subject("bob", priority=1), rig.subject("cem")
        assert ann.lock.try_lock()
        rig.waits(bob)
        assert "error" in bob.end()
        assert ann.lock.unlock()
        for _ in range(2):
            with pytest.raises(HelixException, match="Cleanup has not been finished"):
                bob.lock.try_lock()
            assert rig.info().owner == "bob"
        assert not cem.lock.try_lock()

    played(script)


def test_hj5_the_end_of_the_owners_lease_wakes_nobody() -> None:
    """HJ5: the lease is over 1 s after it was given, and the waiter waits for its whole timeout, in vain."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann", cleanup=None, lease_ms=1000), rig.subject("bob", priority=1)
        assert ann.lock.try_lock()
        began_ms = rig.now_ms()
        rig.waits(bob)
        assert "error" in bob.end()
        assert rig.now_ms() - began_ms >= WAIT_MS > 1000

    played(script)


def test_hj6_an_owner_without_a_listener_never_gives_way() -> None:
    """HJ6: the error goes to the log of the event thread alone; with a listener the same owner gives way at once."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann", cleanup=None), rig.subject("bob", priority=1)
        assert ann.lock.try_lock()
        rig.waits(bob)
        assert [str(error) for error in ann.accessor.failures] == [
            f"{PATH}: the owner is pre-empted and has no listener to tell"
        ]
        assert "error" in bob.end()
        assert ann.lock.is_current_owner()

    played(script)


def test_hj7_a_forceful_one_takes_the_lock_from_an_owner_that_cleans_up() -> None:
    """HJ7: the owner may clean up for 1 s and takes 3 s. For 2 s both work, and no token tells them apart."""

    def script(rig: Rig) -> None:
        ann = rig.subject("ann", cleanup_ms=1000, cleanup=3000)
        bob = rig.subject("bob", priority=1, is_forceful=True)
        assert ann.lock.try_lock()
        began_ms = rig.now_ms()
        rig.waits(bob)
        assert bob.end() == {"answer": True}
        assert 1000 <= rig.now_ms() - began_ms < 1100
        assert (rig.info().owner, list(ann.accessor.failures)) == ("bob", [])
        rig.pass_ms(2500)
        assert [str(error) for error in ann.accessor.failures] == [f"User ann failed to update lock path {PATH}"]
        assert rig.info().owner == "bob"

    played(script)


def test_hj13_a_lower_request_displaces_a_higher_one() -> None:
    """HJ13: 2 waits for the owner's clean-up; 1 comes, is not refused, and 2 hears that it was pre-empted."""

    def script(rig: Rig) -> None:
        ann, cem, bob = rig.subject("ann", cleanup=None), rig.subject("cem", priority=2), rig.subject("bob", priority=1)
        assert ann.lock.try_lock()
        rig.waits(cem)
        assert "error" in told(bob)
        assert cem.end() == {"answer": False}
        assert (rig.info().requestor, rig.info().requestor_priority) == ("bob", 1)

    played(script)


def test_hj13_a_forceful_one_that_comes_second_does_not_wait_at_all() -> None:
    """HJ13: its own waiting time was never set, so it takes the lock from an owner that has 4 s to clean up."""

    def script(rig: Rig) -> None:
        ann, cem = rig.subject("ann", cleanup=1000), rig.subject("cem", priority=2)
        bob = rig.subject("bob", priority=1, is_forceful=True)
        assert ann.lock.try_lock()
        rig.waits(cem)
        began_ms = rig.now_ms()
        assert bob.lock.try_lock()
        assert rig.now_ms() - began_ms < 100
        assert (rig.info().owner, ann.cleanups) == ("bob", [1])

    played(script)


@pytest.mark.parametrize("priority", [0, 1])
def test_hj14_who_was_quicker_after_the_clean_up_has_the_lock_beside_the_waiter(priority: int) -> None:
    """HJ14: the waiter does not look at what its update said, and is told that it has the lock."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann"), rig.subject("bob", priority=1)
        cem = rig.subject("cem", priority=priority)
        assert ann.lock.try_lock()
        quicker: list[bool] = []

        def disturb(request: Request, ask: Asked) -> Reply:
            takes = isinstance(request.body, Call) and b'"OWNER" : "bob"' in request.body
            if takes and not quicker:
                quicker.append(cem.lock.try_lock())
            return ask(request)

        rig.channels["bob"].disturb = disturb
        assert told(bob) == {"answer": True}
        assert quicker == [True]
        assert rig.info().owner == "cem"
        assert not bob.lock.is_current_owner()

    played(script)


def test_hj15_the_second_waiting_of_a_lock_object_is_over_at_once() -> None:
    """HJ15: what woke it the first time stays set. A forceful one takes the lock from an owner that has just begun."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann"), rig.subject("bob", priority=1, is_forceful=True)
        dan = rig.subject("dan", cleanup=3000)
        assert ann.lock.try_lock()
        assert told(bob) == {"answer": True}
        assert bob.lock.unlock()
        assert dan.lock.try_lock()
        began_ms = rig.now_ms()
        assert bob.lock.try_lock()
        assert rig.now_ms() - began_ms < 100
        assert (rig.info().owner, dan.cleanups) == ("bob", [1])

    played(script)


def told(subject: Subject) -> dict[str, Any]:
    subject.begin()
    return subject.end()


def test_whoever_was_refused_hears_no_more() -> None:
    """A record that names a lock object as the requestor of a free lock wakes one that listens, and none of these."""

    def script(rig: Rig) -> None:
        ann, cem, dan = rig.subject("ann", cleanup=None), rig.subject("cem", priority=2), rig.subject("dan", priority=3)
        refused, late = rig.subject("refused"), rig.subject("late", priority=1, waiting_ms=0)
        assert ann.lock.try_lock()
        assert not refused.lock.try_lock()
        assert "error" in told(late)
        rig.waits(cem)
        rig.waits(dan)
        assert cem.end() == {"answer": False}
        assert "error" in dan.end()
        for deaf in ("refused", "late", "cem", "dan"):
            rig.put(stored(NOBODY, "-1", REQUESTOR_ID=deaf))
            rig.pass_ms(500)
            assert rig.info().owner == NOBODY
        rig.put(stored(NOBODY, "-1", REQUESTOR_ID="ann"))
        rig.pass_ms(500)
        assert rig.info().owner == "ann"

    played(script)


# Sessions and breaks.


def test_a_session_that_ends_changes_nothing_of_the_lock() -> None:
    """The znode is persistent; the next request opens a session, and a pre-emption is heard in it."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann"), rig.subject("bob", priority=1)
        assert ann.lock.try_lock()
        rig.pass_ms(1000)  # No request is on its way.
        assert rig.service.tamper("expire_session", "ann") == 1
        rig.pass_ms(20_000)
        assert told(bob) == {"answer": True}
        assert ann.cleanups == [1]
        assert rig.service.tamper("expire_session", "bob") == 1
        assert bob.lock.is_current_owner()

    played(script)


def test_a_request_without_an_answer_is_sent_again() -> None:
    """A write that had taken effect is found to be one's own; nobody else was let in."""

    def script(rig: Rig) -> None:
        ann = rig.subject("ann")
        lost: list[Request] = []

        def disturb(request: Request, ask: Asked) -> Reply:
            reply = ask(request)
            if isinstance(request.body, Call) and b"OWNER" in request.body and not lost:
                lost.append(request)
                return reply._replace(outcome=reply.outcome.AMBIGUOUS)
            return reply

        rig.put("")
        rig.channels["ann"].disturb = disturb
        assert ann.lock.try_lock()
        assert (rig.info().owner, rig.version(), len(lost)) == ("ann", 2, 1)

    played(script)


def test_what_changed_during_a_break_is_told_after_it() -> None:
    """The owner is cut off while somebody asks; it gives way once it is connected again."""

    def script(rig: Rig) -> None:
        ann, bob = rig.subject("ann"), rig.subject("bob", priority=1, waiting_ms=60_000, cleanup_ms=60_000)
        ann.lock.config = LockConfig(user="ann", lease_ms=600_000, cleanup_ms=60_000, on_cleanup=lambda: None)
        assert ann.lock.try_lock()
        rig.pass_ms(6_000)
        rig.waits(bob)
        assert bob.end() == {"answer": True}
        assert rig.runtime.monotonic_ns() > 25 * NS_PER_S

    played(
        script, FaultPlan.of(Partition(id="p", groups=(("ann",), ("zk",)), at_ns=5 * NS_PER_S, for_ns=20 * NS_PER_S))
    )


# The provider.


def context_on(world: World, name: str, **options: str) -> LockContext:
    node = world.node(name)
    settings = LockSettings(key="lake/orders", validity_ns=10 * NS_PER_S, options=options)
    return LockContext(
        runtime=node.process.runtime,
        open_store=lambda _timeout_ns: pytest.fail("no object store"),
        settings=settings,
        open_port=lambda kind, timeout_ns, _service: world.connect(node, "zk", kind, timeout_ns=timeout_ns),
    )


def test_the_provider_is_known_by_name() -> None:
    spec = load_provider("helix-lock")
    assert (spec.stands_on, spec.record_format, spec.protocol) == ("coordination", "helix-lock", None)
    assert spec.claims == ()


def test_a_pre_empted_holder_believes_until_its_clean_up_has_ended() -> None:
    """Its unlock then sends nothing: the record is the next one's."""
    world = World(seed=1)
    world.add("zk", CoordinationService(), decode=lambda _key, _body: ())
    low = HelixNonblockingLock(context_on(world, "n1", cleanup_ms="9000", cleanup_takes_ms="2000"))
    high = HelixNonblockingLock(context_on(world, "n2", **{"priority.n2": "1", "priority": "0"}))
    seen: list[Any] = []

    def work() -> None:
        runtime = world.node("n2").process.runtime
        assert low.try_lock()
        assert low.grant is not None
        assert (low.grant.token, low.grant.deadline_ns) == (None, None)
        runtime.spawn(lambda: seen.append(high.try_lock()), name="high")
        runtime.sleep(1500 * NS_PER_MS)
        assert low.holds()
        assert not seen
        runtime.sleep(1000 * NS_PER_MS)
        assert (low.holds(), high.holds(), seen) == (False, True, [True])
        with pytest.raises(LockLost, match="higher priority"):
            low.unlock()
        with pytest.raises(LockNotHeld):
            low.unlock()
        assert not low.try_lock()
        high.unlock()
        assert high.grant is None
        assert low.lock(1.0)
        low.close()
        low.close()
        assert not low.holds()
        with pytest.raises(LockError, match="closed"):
            low.try_lock()
        seen.append("ended")

    world.node("n2").start(work)
    world.run(until_ns=60 * NS_PER_S)
    assert seen == [True, "ended"]


def test_who_gave_way_before_its_call_returned_does_not_hold() -> None:
    """The answer to its write is late; the clean-up was asked for, and has ended, before it."""
    world = World(seed=1)
    world.add("zk", CoordinationService(), decode=lambda _key, _body: ())
    runtime = world.node("n1").process.runtime

    def late(request: Request, ask: Asked) -> Reply:
        reply = ask(request)
        if isinstance(request.body, Call) and b"mine" in request.body and reply.outcome is Outcome.APPLIED:
            runtime.sleep(NS_PER_S)
        return reply

    def opened(kind: Any, timeout_ns: int, _service: str) -> Any:
        inner: Any = world.connect(world.node("n1"), "zk", kind, timeout_ns=timeout_ns)
        channel = DisturbedChannel(inner._channel)
        channel.disturb = late
        return kind.over(channel, timeout_ns)

    low = HelixNonblockingLock(replace(context_on(world, "n1", owner_name="mine", cleanup_ms="9000"), open_port=opened))
    high = HelixNonblockingLock(context_on(world, "n2", priority="1"))
    seen: list[Any] = []

    def work() -> None:
        runtime.spawn(lambda: seen.append(("low", low.try_lock(), low.holds())), name="low")
        runtime.sleep(500 * NS_PER_MS)
        seen.append(("high", high.try_lock()))
        runtime.sleep(2 * NS_PER_S)

    world.node("n1").start(work)
    world.run(until_ns=60 * NS_PER_S)
    assert seen == [("high", True), ("low", False, False)]


@pytest.mark.parametrize(
    ("name", "value"), [("priority", "-1"), ("waiting_ms", "soon"), ("forceful", "yes"), ("listener.n1", "no")]
)
def test_an_option_of_the_wrong_kind_is_refused(name: str, value: str) -> None:
    world = World(seed=1)
    world.add("zk", CoordinationService(), decode=lambda _key, _body: ())
    with pytest.raises(ConfigError, match=name.partition(".")[0]):
        HelixNonblockingLock(context_on(world, "n1", **{name: value}))


def test_what_a_znode_says_of_its_lock() -> None:
    """Owner and the instant of its lease; a free lock is released; whatever is no such record says nothing."""
    path = lock_path("lake/orders")
    (view,) = decode_state(path, LockInfo(owner="ann", timeout_ms=1_700_000_000_000).record().to_json())
    assert (view.lock, view.owner, view.valid_until_ns) == ("lake/orders", "ann", 1_700_000_000_000 * NS_PER_MS)
    assert not view.is_released
    (free,) = decode_state(path, LockInfo().record().to_json())
    assert (free.is_released, free.valid_until_ns) == (True, None)
    (far,) = decode_state(path, LockInfo(owner="ann", timeout_ms=2**63 - 1).record().to_json())
    assert far.valid_until_ns == 2**63 - 1
    for body in (b"", b"{", b"[]", json.dumps({"id": "LOCK", "simpleFields": None}).encode(), b'{"ownerName": "x"}'):
        assert decode_state(path, body) == []
    assert decode_state("/elsewhere", LockInfo(owner="ann").record().to_json()) == []
