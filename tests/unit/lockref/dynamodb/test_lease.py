"""Delta's lease, corrected: timing rules T1 to T13 and the bugs that they answer, on a machine whose time is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lockref.delta.options import LeaseOptions
from lockref.delta.record import NOTHING_TO_FINISH, LeaseItem
from lockref.dynamodb.item import parse, serialize
from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.memory import MemoryTable
from lockref.dynamodb.table import KEY, VERSION, TableClient, number, text, to_bytes
from lockref.errors import LockLost, LockNotAcquirable, LockNotHeld, OutcomeUnknown
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_S
from lockref.words import Outcome
from tests.hardened_rig import ManualRuntime

ROW = "s3://bucket/table"
LEASE_S = 10
WATCH_NS = 11 * NS_PER_S


class Scripted(MemoryTable):
    """A table whose next answers are scripted: each rule is handed the request and how to perform it."""

    def __init__(self, runtime: ManualRuntime) -> None:
        super().__init__(runtime=runtime)
        self.script: list[Callable[[Request, Callable[[], Reply]], Reply]] = []
        self.log: list[str] = []

    def send(self, request: Request, timeout_ns: int) -> Reply:
        if request.key == ROW:
            self.log.append(request.verb)
            if self.script:
                return self.script.pop(0)(request, lambda: MemoryTable.send(self, request, timeout_ns))
        return super().send(request, timeout_ns)


class Machine:
    """Clients of one table on a machine whose clocks stand still until told."""

    def __init__(self, **options: Any) -> None:
        self.runtime = ManualRuntime()
        self.table = Scripted(self.runtime)
        self.client = TableClient(self.table, NS_PER_S)
        self.options = options

    def lock(self, **options: Any) -> DynamoLock:
        settings = LockSettings(key=ROW, validity_ns=LEASE_S * NS_PER_S, options={**self.options, **options})
        return DynamoLock(self.client, ROW, LeaseOptions.from_settings(settings), runtime=self.runtime)

    def row(self) -> LeaseItem:
        return parse(to_bytes(self.client.get(ROW).item()))

    def plant(self, **attributes: Any) -> None:
        row = {"ownerName": text("other"), VERSION: text("v1"), "leaseDuration": text(str(LEASE_S)), **attributes}
        self.client.put(ROW, {name: value for name, value in row.items() if value is not None})


def heartbeats_of(lock: DynamoLock) -> list[Any]:
    """The heartbeats that it will start, one for each grant."""
    beats: list[Any] = []
    made = lock.gated.client.new_heartbeat

    def kept(*arguments: Any, **parts: Any) -> Any:
        beats.append(made(*arguments, **parts))
        return beats[-1]

    lock.gated.client.new_heartbeat = kept
    return beats


def lose_reply(_request: Request, perform: Callable[[], Reply]) -> Reply:
    perform()
    return TIMED_OUT


def test_a_cycle_leaves_the_row_with_its_generation():
    """T9: a release marks the row and keeps it, so the next grant has the next generation."""
    machine = Machine()
    lock = machine.lock()
    assert lock.try_lock()
    assert lock.fencing_token == 1
    held = machine.row()
    assert (held.duration_s, held.token, held.is_released, held.name) == (LEASE_S, 1, False, lock.owner.split("/")[0])
    assert held.data == NOTHING_TO_FINISH, "whoever takes over finds something to finish, and nothing to do (B12)"
    lock.unlock()
    assert machine.row().is_released
    assert not lock.holds()
    other = machine.lock()
    assert other.try_lock()
    assert other.fencing_token == 2


def test_a_dead_holder_is_counted_out_by_the_waiter():
    """T1, T4, T5: ρ × lease after the waiter first saw the row, and not a moment earlier; no wall clock is asked."""
    machine = Machine()
    machine.plant()
    waiter = machine.lock()
    assert not waiter.try_lock()
    machine.runtime.wall += 10**15
    assert not waiter.try_lock()
    machine.runtime.wall -= 2 * 10**15
    machine.runtime.mono += WATCH_NS - 1
    assert not waiter.try_lock()
    machine.runtime.mono += 1
    assert waiter.try_lock()


def test_the_next_process_of_a_name_resumes_what_an_ended_one_left():
    """T9: at once, with the next generation, and only where this machine knows that the earlier process has ended."""
    machine = Machine(owner_name="ingest")
    assert machine.lock().try_lock()
    machine.runtime.pid = 101
    next_process = machine.lock()
    assert not next_process.try_lock(), "the earlier process may live: it has the same name, and nothing more is known"
    machine.runtime.ended = [100]
    assert not machine.lock(owner_name="other").try_lock(), "another name's lease is waited for"
    assert next_process.try_lock()
    assert (next_process.fencing_token, machine.row().process) == (2, "machine:101")


@pytest.mark.parametrize("options", [{}, {"owner_name": "ingest"}])
def test_a_row_names_a_process_only_for_the_next_one_of_its_name(options):
    """T9: an owner without a name of its own has no next process; nobody resumes a row of another program."""
    machine = Machine(**options)
    lock = machine.lock()
    assert lock.try_lock()
    assert machine.row().process == ("machine:100" if options else "")
    lock.unlock()
    machine.plant(ownerName=text("ingest"))
    machine.runtime.ended = [0, 100]
    assert not machine.lock(owner_name="ingest").try_lock()


@pytest.mark.parametrize("additional_ms", [0, 1000, 5000])
def test_a_caller_that_names_no_time_waits_for_a_lease_and_the_additional_time(additional_ms):
    """B7: a holder that renews is waited for as long as the options say, and one that is dead is outlived."""
    machine = Machine()
    properties = {"DYNAMO_LOCK_LEASE_DURATION": "10", "DYNAMO_LOCK_ADDITIONAL_TIME_TO_WAIT_MILLIS": str(additional_ms)}
    options = LeaseOptions.from_properties(properties)
    waiter = DynamoLock(machine.client, ROW, options, runtime=machine.runtime)
    renewals = iter(range(1000))
    machine.runtime.on_advance = lambda: machine.plant(**{VERSION: text(f"renewed {next(renewals)}")})
    began = machine.runtime.mono
    machine.plant()
    assert not waiter.lock()
    waited_ns = machine.runtime.mono - began
    assert 0 <= waited_ns - (WATCH_NS + additional_ms * 10**6) <= 2 * options.request_timeout_ns
    machine.runtime.on_advance = None
    with waiter:
        assert waiter.holds()


def test_a_changed_row_is_watched_anew():
    """T4: any new version restarts the count, whoever wrote it."""
    machine = Machine()
    machine.plant()
    waiter = machine.lock()
    assert not waiter.try_lock()
    machine.runtime.mono += WATCH_NS - 1
    machine.plant(**{VERSION: text("v2")})
    assert not waiter.try_lock()
    machine.runtime.mono += WATCH_NS - 1
    assert not waiter.try_lock()
    machine.runtime.mono += 1
    assert waiter.try_lock()


def test_the_row_says_how_long_it_is_watched():
    """T1: the holder's own duration counts, not the waiter's setting."""
    machine = Machine()
    machine.plant(leaseDuration=text("20"))
    waiter = machine.lock()
    assert not waiter.try_lock()
    machine.runtime.mono += 2 * WATCH_NS - 1
    assert not waiter.try_lock()
    machine.runtime.mono += 1
    assert waiter.try_lock()


@pytest.mark.parametrize("instant", ["1", "1795309390", "99999999999"])
def test_a_row_with_an_instant_is_watched_for_our_own_lease(instant):
    """B1, B8: 0.6 writes the epoch second of the end as a number. It blocks nobody for ever, and is not believed."""
    machine = Machine()
    machine.plant(leaseDuration=number(int(instant)))
    waiter = machine.lock()
    assert not waiter.try_lock()
    machine.runtime.mono += WATCH_NS - 1
    assert not waiter.try_lock()
    machine.runtime.mono += 1
    assert waiter.try_lock()
    assert machine.row().duration_s == LEASE_S


@pytest.mark.parametrize(("theirs_s", "ours_s"), [(60, 10), (10, 60)])
@pytest.mark.parametrize("is_instant", [True, False])
def test_the_longer_lease_counts_where_a_row_tells_a_number(theirs_s, ours_s, is_instant):
    """B8, T5: whether 0.6 writes an instant or somebody a duration, a live holder of the longer lease keeps its row."""
    machine = Machine()
    start_ns = machine.runtime.wall
    ends_s = start_ns // NS_PER_S + theirs_s if is_instant else theirs_s
    machine.plant(leaseDuration=number(ends_s))
    settings = LockSettings(key=ROW, validity_ns=ours_s * NS_PER_S)
    waiter = DynamoLock(machine.client, ROW, LeaseOptions.from_settings(settings), runtime=machine.runtime)
    while not waiter.try_lock():
        machine.runtime.advance(NS_PER_S // 2)
    waited_ns = machine.runtime.wall - start_ns
    assert 60 * NS_PER_S <= waited_ns <= 67 * NS_PER_S


def test_the_holder_stops_before_anybody_may_take_over():
    """T2, T3, T6: counted from before the write left, on its own clock, a margin early; a step back changes nothing."""
    machine = Machine(margin_ms="500")
    lock = machine.lock()

    def late(_request: Request, perform: Callable[[], Reply]) -> Reply:
        reply = perform()
        machine.runtime.advance(2 * NS_PER_S)
        return reply

    machine.table.script = [lambda _request, perform: perform(), late]
    assert lock.try_lock()
    machine.runtime.wall -= 10**15
    machine.runtime.mono += 7_500_000_000 - 1
    assert lock.holds()
    machine.runtime.mono += 1
    assert not lock.holds()
    with pytest.raises(LockLost):
        lock.assert_held()


def test_an_own_row_whose_answer_was_lost_is_ours():
    """B6, T8: the lost answer of a put is looked up; the client does not wait for itself."""
    machine = Machine()
    lock = machine.lock()
    machine.table.script = [lambda _request, perform: perform(), lose_reply]
    assert lock.try_lock()
    assert machine.row().owner == lock.owner


def test_two_processes_of_one_name_exclude_each_other():
    """D4: an owner name is for people and for resuming; it never makes somebody else's lease ours."""
    machine = Machine(owner_name="writer-bravo")
    first, second = machine.lock(), machine.lock()
    assert first.try_lock()
    assert machine.row().name == "writer-bravo"
    assert not second.try_lock()
    second.close()
    assert first.holds()


def test_an_operator_can_close_the_lock():
    """isNonAcquirable: a typed error names the row, and nothing is written."""
    machine = Machine()
    machine.plant(isNonAcquirable=text("1"))
    before = machine.client.get(ROW).item()
    with pytest.raises(LockNotAcquirable, match=ROW):
        machine.lock().try_lock()
    assert machine.client.get(ROW).item() == before


def test_what_others_left_in_a_row_is_kept():
    """Nothing is lost: attributes that this lock does not know, and the data of a dead holder (B12)."""
    machine = Machine()
    machine.plant(colour=text("blue"), data=text("{}"))
    lock = machine.lock()
    assert not lock.try_lock()
    machine.runtime.advance(WATCH_NS)
    assert lock.try_lock()
    body = machine.client.get(ROW).item()
    assert (body["colour"], body["data"], body[KEY]) == (text("blue"), text("{}"), text(ROW))
    lock.unlock()
    body = machine.client.get(ROW).item()
    assert (body["colour"], body["data"]) == (text("blue"), text("{}"))
    assert lock.try_lock()
    lock.update_data("done")
    lock.unlock()
    body = machine.client.get(ROW).item()
    assert (body["colour"], "data" in body) == (text("blue"), False)


def test_what_others_add_while_it_is_held_is_kept():
    """An operator closes a held lock: renewal and release leave the mark and every other attribute as they are."""
    machine = Machine()
    lock = machine.lock()
    beats = heartbeats_of(lock)
    lock.intent = "ours"
    assert lock.try_lock()
    machine.client.update(ROW, put={"isNonAcquirable": text("1"), "colour": text("blue")})
    first = machine.row()
    beats[-1].renew()
    assert (machine.row().nonce == first.nonce, machine.row().data) == (False, "ours")
    assert lock.holds()
    lock.unlock()
    body = machine.client.get(ROW).item()
    assert (body["colour"], body["isNonAcquirable"], machine.row().is_released) == (text("blue"), text("1"), True)
    assert "data" not in body
    with pytest.raises(LockNotAcquirable):
        machine.lock().try_lock()
    machine.client.update(ROW, remove=["isNonAcquirable"])
    successor = machine.lock()
    assert successor.try_lock()
    assert machine.client.get(ROW).item()["colour"] == text("blue")
    assert not machine.row().is_released


def test_a_foreign_release_is_honoured():
    """isReleased of the originals: taken at once, and the generation rises above every one before (T9)."""
    machine = Machine()
    first = machine.lock()
    assert first.try_lock()
    first.unlock()
    machine.plant(isReleased=text("1"))
    second = machine.lock()
    assert second.try_lock()
    assert second.fencing_token is not None
    assert second.fencing_token > 1


def test_a_deleted_row_does_not_reset_the_generation():
    """T9, B5: the originals release by deleting, and TTL may; tokens go on rising."""
    machine = Machine()
    first = machine.lock()
    assert first.try_lock()
    machine.client.delete(ROW)
    second = machine.lock()
    assert second.try_lock()
    assert second.fencing_token is not None
    assert second.fencing_token > 1


def test_a_row_tells_no_number_for_a_lifetime_to_find():
    """T10, B5: DynamoDB deletes by a number of epoch seconds; leaseDuration is text."""
    machine = Machine()
    assert machine.lock().try_lock()
    assert machine.client.get(ROW).item()["leaseDuration"] == text(str(LEASE_S))


def test_a_record_reads_as_it_was_written():
    """Both ways: attributes to bytes and back."""
    record = LeaseItem(name="a", nonce="n", duration_s=7, incarnation="i", token=3, mark=9, data="d")
    assert parse(serialize(record)) == record
    freed = record.freed("m")
    assert (freed.is_released, freed.data, freed.token, parse(serialize(freed))) == (True, None, 3, freed)


def test_a_refused_write_is_told():
    """403: the row is not ours to write, and the lock says so instead of trying for ever."""
    machine = Machine()
    machine.table.script = [
        lambda _request, perform: perform(),
        lambda *_: Reply(Outcome.REJECTED, status=400, reason="AccessDenied"),
    ]
    with pytest.raises(Exception, match="AccessDenied"):
        machine.lock().try_lock()
    assert machine.client.get(ROW).item() is None


def test_a_second_holder_that_dies_is_waited_for_once():
    """B7: it is first seen at 2 s or later; one watch time after that the lease is over, whatever was seen before."""
    machine = Machine()
    machine.plant()
    start_ns = machine.runtime.monotonic_ns()
    has_changed = False

    def second_holder() -> None:
        nonlocal has_changed
        if not has_changed and machine.runtime.monotonic_ns() - start_ns >= 2 * NS_PER_S:
            has_changed = True
            machine.plant(recordVersionNumber=text("second"))

    machine.runtime.on_advance = second_holder
    assert machine.lock().lock(60)
    took_ns = machine.runtime.monotonic_ns() - start_ns
    assert WATCH_NS + 2 * NS_PER_S <= took_ns <= WATCH_NS + 4 * NS_PER_S


def test_the_row_tells_what_its_holder_is_about_to_do():
    """B12: a successor of a dead holder sees what that one left; once it is done, the next renewal tells ours."""
    machine = Machine()
    dead, successor = machine.lock(), machine.lock()
    beats = heartbeats_of(successor)
    dead.intent, successor.intent = "the dead one's", "ours"
    assert dead.try_lock()
    assert (dead.data, dead.took_over) == ("the dead one's", False)
    assert not successor.try_lock()
    machine.runtime.mono += WATCH_NS
    assert successor.try_lock()
    assert (successor.data, successor.took_over, machine.row().data) == ("the dead one's", True, "the dead one's")
    successor.update_data("ours")
    assert not successor.took_over
    beats[-1].renew()
    assert machine.row().data == "ours"
    successor.unlock()
    assert machine.row().data is None
    with pytest.raises(LockNotHeld):
        successor.update_data("again")


def lose_read(_request: Request, _perform: Callable[[], Reply]) -> Reply:
    return TIMED_OUT


@pytest.mark.parametrize("is_undone", [True, False])
@pytest.mark.parametrize("who", ["the same", "another"])
def test_a_take_over_that_nobody_was_told_of_leaves_the_work_in_the_row(is_undone, who):
    """B12, B6: the answer of the take-over is lost, and the call ends. Its undoing keeps what is to be finished."""
    machine = Machine()
    machine.plant(data=text("the dead one's"))
    lock = machine.lock()
    lock.intent = "ours"
    assert not lock.try_lock()
    machine.runtime.mono += WATCH_NS
    machine.table.script = [lambda _request, perform: perform(), lose_reply, *[lose_read] * 20]
    with pytest.raises(OutcomeUnknown):
        lock.try_lock()
    machine.table.script = []
    assert machine.row().owner == lock.owner
    orphans = lock.gated.client.cleanup.orphans
    if is_undone:
        assert lock.gated.client.cleanup.undo(list(orphans))
        assert machine.row().is_released
    assert machine.row().data == "the dead one's"
    successor = lock if who == "the same" else machine.lock()
    successor.intent = "ours"
    if not successor.try_lock():
        machine.runtime.mono += WATCH_NS
        assert successor.try_lock()
    assert (successor.took_over, successor.data) == (True, "the dead one's")
    successor.update_data("ours")
    successor.unlock()
    assert (machine.row().data, machine.row().is_released) == (None, True)
    assert lock.try_lock()
    assert (lock.took_over, lock.data) == (False, "ours")


@pytest.mark.parametrize("is_done", [True, False])
def test_a_holder_that_loses_its_lease_leaves_what_it_has_not_done(is_done):
    """B12: it took over and was too late; what the dead holder left is still in the row, unless it is done."""
    machine = Machine()
    machine.plant(data=text("the dead one's"))
    lock = machine.lock()
    assert not lock.try_lock()
    machine.runtime.mono += WATCH_NS
    assert lock.try_lock()
    if is_done:
        lock.update_data("ours")
    machine.runtime.mono += LEASE_S * NS_PER_S
    with pytest.raises(LockLost):
        lock.unlock()
    successor = machine.lock()
    if not successor.try_lock():
        machine.runtime.mono += WATCH_NS
        assert successor.try_lock()
    assert successor.took_over is not is_done


@pytest.mark.parametrize("left", [{"isReleased": text("1")}, {"data": text(NOTHING_TO_FINISH)}, {"data": None}])
def test_nothing_is_left_by_who_gave_back_or_told_nothing(left):
    """A released row, and rows that name nothing: the new holder's own intent stands at once."""
    machine = Machine()
    machine.plant(**{"data": text("old"), **left})
    lock = machine.lock()
    lock.intent = "ours"
    if not lock.try_lock():
        machine.runtime.mono += WATCH_NS
        assert lock.try_lock()
    assert (lock.data, lock.took_over) == ("ours", False)


def test_an_intent_for_the_next_grant_says_nothing_of_this_one():
    """B12: a holder that already says what it will do next has no dead holder's work to finish."""
    lock = Machine().lock()
    lock.intent = "ours"
    assert lock.try_lock()
    lock.intent = "the next one"
    assert (lock.data, lock.took_over) == ("ours", False)
    lock.unlock()
    assert lock.try_lock()
    assert (lock.data, lock.took_over) == ("the next one", False)


def test_a_second_grant_starts_without_what_the_first_one_updated():
    """What was told of one take-over says nothing of the next one."""
    machine = Machine()
    lock = machine.lock()
    lock.intent = "ours"
    assert lock.try_lock()
    lock.update_data("done")
    lock.unlock()
    machine.plant(data=text("left"))
    assert not lock.try_lock()
    machine.runtime.mono += WATCH_NS
    beats = heartbeats_of(lock)
    assert lock.try_lock()
    assert (lock.data, lock.took_over) == ("left", True)
    beats[-1].renew()
    assert machine.row().data == "left"


def test_a_row_of_ones_own_that_nobody_heard_of_leaves_nothing_to_finish():
    """B12, B6: the next call finds the write of an earlier one, whose work was never begun."""
    machine = Machine()
    lock = machine.lock()
    lock.intent = "ours"
    machine.table.script = [lambda _request, perform: perform(), lose_reply, *[lose_read] * 20]
    with pytest.raises(OutcomeUnknown):
        lock.try_lock()
    machine.table.script = []
    assert (machine.row().owner, machine.row().data) == (lock.owner, "ours")
    lock.intent = "the next one"
    if not lock.try_lock():
        machine.runtime.mono += WATCH_NS
        assert lock.try_lock()
    assert (lock.data, lock.took_over) == ("the next one", False)
