"""What a waiter remembers of a row, and what a lease without a holder keeps (T1 to T5)."""

from __future__ import annotations

import pytest

from lockref.delta.lease import DeltaLease, is_lapsed
from lockref.delta.options import LeaseOptions
from lockref.delta.record import LeaseItem
from lockref.delta.watching import Watch
from lockref.delta.writer import LeaseItemWriter
from lockref.dynamodb.table import VERSION, number, text
from lockref.locks.rules import Rules
from lockref.locks.values import Attempt, Moment, Reserved, Stored
from lockref.ports import Reply
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_S, MonoNs, WallNs
from lockref.stores.port import Version
from tests.hardened_rig import ManualRuntime
from tests.unit.lockref.dynamodb.test_lease import ROW, WATCH_NS, Machine

TERMS = LeaseOptions.from_settings(LockSettings(key=ROW, validity_ns=10 * NS_PER_S)).terms()


def test_only_the_version_that_was_seen_last_has_stood() -> None:
    """T4: nothing is known of another version, nor of a row that is gone."""
    watch = Watch()
    watch.saw(Version("a"), MonoNs(100))
    watch.saw(Version("a"), MonoNs(150))
    assert watch.stood_ns(Version("a"), MonoNs(170)) == 70
    assert watch.stood_ns(Version("b"), MonoNs(170)) == 0
    assert watch.stood_ns(None, MonoNs(170)) == 0
    watch.saw(Version("b"), MonoNs(180))
    assert watch.stood_ns(Version("b"), MonoNs(190)) == 10
    assert watch.stood_ns(Version("a"), MonoNs(190)) == 0


def test_a_waiter_counts_from_after_the_answer() -> None:
    """T4: the row may have been written while the answer was on its way. Here it took 3 s."""
    machine = Machine()
    machine.plant()
    waiter = machine.lock()

    def late(_request: object, perform: object) -> Reply:
        reply: Reply = perform()  # type: ignore[operator]
        machine.runtime.advance(3 * NS_PER_S)
        return reply

    machine.table.script = [late]
    assert not waiter.try_lock()
    machine.runtime.mono += WATCH_NS - 1
    assert not waiter.try_lock()
    machine.runtime.mono += 1
    assert waiter.try_lock()


def test_every_look_is_a_consistent_read() -> None:
    """T4: a waiter that saw an old state would count from the wrong moment."""
    machine = Machine()
    lock = machine.lock()
    assert lock.try_lock()
    lock.unlock()
    assert machine.table.log[0] == "get"
    assert "get_eventual" not in machine.table.log


@pytest.mark.parametrize("ahead_s", [30, 3599])
def test_a_row_of_0_6_keeps_its_lease_to_the_end_of_its_last_second(ahead_s: int) -> None:
    """B4, T2: 0.6 rounds the instant down, so its holder may go on for nearly a second after it."""
    machine = Machine()
    ends_s = machine.runtime.wall // NS_PER_S + ahead_s
    machine.plant(leaseDuration=number(ends_s))
    waiter = machine.lock()
    assert not waiter.try_lock()
    machine.runtime.mono += WATCH_NS
    machine.runtime.wall = (ends_s + 1) * NS_PER_S - 1
    assert not waiter.try_lock()
    machine.runtime.wall += 1
    assert waiter.try_lock()


def test_a_row_that_names_us_and_that_we_did_not_write_in_this_call_is_waited_for() -> None:
    """T8: a write of an earlier grant that landed late names our owner, and a version that no call of ours awaits."""
    machine = Machine(owner_name="ingest")
    lock = machine.lock()
    name, _, incarnation = lock.owner.rpartition("/")
    machine.plant(ownerName=text(name), incarnation=text(incarnation), **{VERSION: text("late")})
    assert not lock.try_lock()
    machine.runtime.mono += WATCH_NS - 1
    assert not lock.try_lock()
    machine.runtime.mono += 1
    assert lock.try_lock()


def test_a_lease_of_a_part_of_a_second_is_told_as_the_next_whole_one() -> None:
    """T1, T5: a waiter must not count less than the holder has."""
    settings = LockSettings(key=ROW, validity_ns=10 * NS_PER_S + 1)
    assert DeltaLease.watch_ns(settings) == 11 * NS_PER_S * 11 // 10
    runtime = ManualRuntime()
    writer = LeaseItemWriter(
        "name/i", terms=LeaseOptions.from_settings(settings).terms(), rules=Rules(), runtime=runtime,
        new_nonce=lambda: "n",
    )  # fmt: skip
    assert writer.attempt(Stored(None, None), Reserved(token=1, mark=None)).record.duration_s == 11


def test_an_acquiring_write_keeps_what_others_have_put_into_the_record() -> None:
    """A place that writes the whole record, such as a znode, would lose it."""
    writer = LeaseItemWriter("name/i", terms=TERMS, rules=Rules(), runtime=ManualRuntime(), new_nonce=lambda: "n")
    before = LeaseItem(name="other", nonce="v1", duration_s=10, others={"colour": text("blue")})
    found = writer.attempt(Stored(version=Version("v1"), record=before), Reserved(token=1, mark=None))
    assert found.record.others == {"colour": text("blue")}


def test_a_write_that_nobody_believes_in_lapses_one_lease_after_it_was_sent() -> None:
    """B6: until then others may wait for it, so it is worth undoing."""
    record = LeaseItem(name="name", nonce="n", duration_s=10)
    sent = Moment(WallNs(0), MonoNs(500))
    write = Attempt(
        record=record,
        sent=sent,
        deadline=Rules().deadline_after(sent, TERMS),
        wall_estimate_ns=WallNs(0),
        if_version=None,
    )
    last = 500 + TERMS.validity_ns
    assert not is_lapsed(write, Moment(WallNs(0), MonoNs(last - 1)), TERMS)
    assert is_lapsed(write, Moment(WallNs(0), MonoNs(last)), TERMS)
