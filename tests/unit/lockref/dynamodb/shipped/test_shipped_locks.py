"""The locks as they were shipped, answer by answer: what each writes, reads, believes and takes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from lockref.dynamodb.memory import MemoryTable
from lockref.dynamodb.shipped.crate import Crate, CrateWithFix, CrateWithTimeToLive
from lockref.dynamodb.shipped.java_client import JavaClient
from lockref.dynamodb.shipped.python_client import IN_DANGER, PythonClient
from lockref.dynamodb.shipped.row_lock import AnotherAttempt
from lockref.dynamodb.table import KEY, TABLE, VERSION, TableClient, flag, number, text
from lockref.errors import CorruptRecord, LockError, LockNotAcquirable, LockNotHeld, OutcomeUnknown, StoreRejected
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_S
from lockref.words import Outcome
from tests.hardened_rig import ManualRuntime

ROW = "s3://lake/orders"
LEASE_S = 10
CRATES = (Crate, CrateWithTimeToLive, CrateWithFix)
ALL = (*CRATES, JavaClient, PythonClient)


class Table(MemoryTable):
    """Remembers verbs; `answer` may take the place of the next write's answer."""

    def __init__(self, runtime: ManualRuntime) -> None:
        super().__init__(runtime=runtime)
        self.log: list[str] = []
        self.answer: Callable[[Reply], Reply] | None = None
        self.on_get: Callable[[], None] = lambda: None
        self.after_get: Callable[[], None] = lambda: None

    def send(self, request: Request, timeout_ns: int) -> Reply:
        self.log.append(request.verb)
        if request.verb == "get":
            self.on_get()
        reply = super().send(request, timeout_ns)
        if request.verb == "get":
            self.after_get()
        if self.answer is not None and request.verb != "get":
            answer, self.answer = self.answer, None
            return answer(reply)
        return reply


class Machine:
    """Clients of one table; the clocks move by waiting alone."""

    def __init__(self) -> None:
        self.runtime = ManualRuntime()
        self.table = Table(self.runtime)
        self.client = TableClient(self.table, NS_PER_S)

    def lock(self, build: type, **options: str) -> Any:
        return build.from_context(
            LockContext(
                runtime=self.runtime,
                open_store=lambda _timeout_ns: pytest.fail("these locks stand on a table"),
                settings=LockSettings(key=ROW, validity_ns=LEASE_S * NS_PER_S, options=options),
                open_port=lambda kind, _timeout_ns, _service: self.client if kind is TABLE else pytest.fail(kind.name),
            )
        )

    def row(self) -> dict[str, Any] | None:
        return self.client.get(ROW).item()

    def plant(self, lease: Any = None, version: str = "v1", **more: Any) -> None:
        """A row of somebody else."""
        row = {"ownerName": text("other"), VERSION: text(version), "leaseDuration": lease or text(str(LEASE_S)), **more}
        self.client.put(ROW, row)

    def epoch_s(self) -> int:
        return self.runtime.wall_ns() // NS_PER_S


@pytest.mark.parametrize("build", ALL)
def test_a_cycle_takes_the_row_and_deletes_it(build):
    """No row: put if absent. Release deletes the row, and whatever counted in it is gone (T9)."""
    machine = Machine()
    lock = machine.lock(build, owner_name="writer-bravo")
    assert lock.try_lock()
    assert lock.holds()
    assert machine.row()["ownerName"] == text("writer-bravo")
    assert lock.grant.token is None
    lock.unlock()
    assert machine.row() is None
    assert not lock.holds()
    assert "update" not in machine.table.log


@pytest.mark.parametrize(
    ("build", "lease"),
    [
        (Crate, lambda _machine: text("10")),
        (CrateWithTimeToLive, lambda machine: number(machine.epoch_s() + LEASE_S)),
        (CrateWithFix, lambda machine: number(machine.epoch_s() + LEASE_S)),
        (JavaClient, lambda _machine: text("10000")),
        (PythonClient, lambda _machine: text("10")),
    ],
)
def test_what_each_build_writes_as_its_lease(build, lease):
    """Seconds as text, the epoch second of the end as a number, milliseconds as text (B5, B8)."""
    machine = Machine()
    assert machine.lock(build).try_lock()
    assert machine.row()["leaseDuration"] == lease(machine)


@pytest.mark.parametrize("build", ALL)
def test_a_held_row_is_left_alone_by_an_attempt(build):
    """One attempt without waiting reads once and writes nothing."""
    machine = Machine()
    machine.plant()
    machine.table.log.clear()
    assert not machine.lock(build).try_lock()
    assert machine.table.log == ["get"]


def test_the_crate_counts_a_lease_from_its_first_look():
    """0.5, W15: taken by the first look that is more than a lease after the first sight, with the old data (B12)."""
    for poll_s, taken_s in ((1, 21), (10, 30)):
        machine = Machine()
        machine.plant(text("20"), data=text("rename"))
        lock = machine.lock(Crate)
        lock.poll_ns = poll_s * NS_PER_S
        began_ns = machine.runtime.monotonic_ns()
        assert lock.lock(60)
        assert machine.runtime.monotonic_ns() - began_ns == taken_s * NS_PER_S
        assert (lock.took_over, machine.row()["data"]) == (True, text("rename"))


def test_a_changed_row_is_watched_anew():
    """Any new version restarts the count; a holder that renews every few seconds is never taken over."""
    machine = Machine()
    machine.plant()
    versions = iter(range(2, 100))
    ticks = 0

    def renew() -> None:
        nonlocal ticks
        ticks += 1
        if ticks % 5 == 0:
            machine.plant(version=f"v{next(versions)}")

    machine.runtime.on_advance = renew
    assert not machine.lock(Crate).lock(60)


def test_a_number_never_expires_for_whoever_reads_text():
    """B1, B8: 0.6.1 waits for ever, for its own rows and everybody's; so does 0.5 for a row of 0.6.1."""
    for build in (CrateWithTimeToLive, Crate):
        machine = Machine()
        machine.plant(number(machine.epoch_s() + LEASE_S))
        assert not machine.lock(build).lock(3600)
        assert set(machine.table.log) == {"put", "get"}
        assert machine.table.log.count("put") == 1


def test_the_fix_takes_a_live_lock_at_the_second_look():
    """B2: one poll after the first sight, whatever the lease says."""
    machine = Machine()
    machine.plant(number(machine.epoch_s() + 3600))
    lock = machine.lock(CrateWithFix)
    began_ns = machine.runtime.monotonic_ns()
    assert lock.lock(30)
    assert machine.runtime.monotonic_ns() - began_ns == NS_PER_S


def test_a_wall_clock_that_jumps_takes_a_live_lock():
    """B4: 0.5 counts on the wall clock."""
    machine = Machine()
    machine.plant()
    jumps = iter([20 * NS_PER_S])

    def jump() -> None:
        machine.runtime.wall += next(jumps, 0)

    machine.runtime.on_advance = jump
    began_ns = machine.runtime.monotonic_ns()
    assert machine.lock(Crate).lock(30)
    assert machine.runtime.monotonic_ns() - began_ns == NS_PER_S


@pytest.mark.parametrize("build", CRATES)
def test_released_and_closed_rows(build):
    """A row that another client has marked released is taken; one that an operator has closed is an error."""
    machine = Machine()
    machine.plant(isReleased=text("1"))
    assert machine.lock(build).try_lock()
    machine.plant(isNonAcquirable=text("1"))
    with pytest.raises(LockNotAcquirable, match="isNonAcquirable"):
        machine.lock(build).try_lock()


@pytest.mark.parametrize("build", ALL)
def test_a_lost_answer_is_an_error_and_the_row_a_strangers(build):
    """B6: the write landed; its author is told nothing, and meets its own lease."""
    machine = Machine()
    lock = machine.lock(build)
    machine.table.answer = lambda _reply: TIMED_OUT
    with pytest.raises(OutcomeUnknown, match="ambiguous"):
        lock.try_lock()
    assert not lock.holds()
    assert machine.row()["ownerName"] == text(lock.owner)
    assert not lock.try_lock()


@pytest.mark.parametrize("build", ALL)
def test_a_refusal_for_good_is_told(build):
    machine = Machine()
    machine.table.answer = lambda _reply: Reply(Outcome.REJECTED, status=400, reason="AccessDeniedException")
    with pytest.raises(StoreRejected, match="AccessDenied"):
        machine.lock(build).try_lock()


@pytest.mark.parametrize("build", ALL)
def test_a_release_after_a_steal_is_an_error(build):
    """B11: the work is done, and the caller hears of a failure; the successor's row stays."""
    machine = Machine()
    lock = machine.lock(build)
    assert lock.try_lock()
    machine.plant(version="stolen")
    with pytest.raises(LockError, match="another's by now"):
        lock.unlock()
    assert machine.row()[VERSION] == text("stolen")
    with pytest.raises(LockNotHeld):
        lock.unlock()


@pytest.mark.parametrize("build", CRATES)
def test_the_crate_believes_for_ever(build):
    """B9: it has no heartbeat and no way to ask its lease."""
    machine = Machine()
    lock = machine.lock(build)
    assert lock.try_lock()
    machine.runtime.advance(3600 * NS_PER_S)
    assert lock.holds()
    assert machine.runtime.tasks == []


def beat(machine: Machine, lock: Any, times: int, answer: Callable[[Reply], Reply] | None = None) -> None:
    """Let a lock's background tasks run for so many heartbeats."""
    beats = 0

    def tick() -> None:
        nonlocal beats
        beats += 1
        if answer is not None:
            machine.table.answer = answer
        if beats >= times:
            lock._ended.set()

    machine.runtime.on_advance = tick
    machine.runtime.run("heartbeat")
    machine.runtime.on_advance = None


def test_java_believes_by_its_clock_and_a_503_counts_as_a_renewal():
    """B14: without answers it stops after a lease; with 503 it goes on, and its row stands still."""
    for answer, believes in ((TIMED_OUT, False), (Reply(Outcome.AMBIGUOUS, status=503, reason="busy"), True)):
        machine = Machine()
        lock = machine.lock(JavaClient)
        assert lock.try_lock()
        version = machine.row()[VERSION]
        # No heartbeat of its own changes the row from here on, whatever the answers say.
        machine.client.put(ROW, {**{k: v for k, v in machine.row().items() if k != KEY}, "ownerName": text("x")})
        beat(machine, lock, 15, lambda _reply, answer=answer: answer)
        assert lock.holds() is believes
        assert machine.row()[VERSION] == version


def test_java_renews_and_stops_where_its_row_is_gone():
    machine = Machine()
    lock = machine.lock(JavaClient)
    assert lock.try_lock()
    first = machine.row()[VERSION]
    beat(machine, lock, 3)
    assert machine.row()[VERSION] != first
    assert lock.holds()
    lock = machine.lock(JavaClient)
    machine.client.delete(ROW)
    assert lock.try_lock()
    machine.plant(version="stolen")
    beat(machine, lock, 3)
    assert not lock.holds()
    with pytest.raises(LockError):
        lock.unlock()


def test_java_takes_a_released_row_by_its_mark():
    """The condition asks for the mark `"1"` and for no version; a row with another mark is never taken."""
    for mark, is_taken in ((text("1"), True), (flag(True), False)):
        machine = Machine()
        machine.plant(isReleased=mark)
        # The row changes its version between the look and the write.
        machine.table.after_get = lambda machine=machine, mark=mark: machine.plant(version="v2", isReleased=mark)
        assert machine.lock(JavaClient).try_lock() is is_taken


def test_an_attempt_of_java_ends_a_second_after_the_first_holders_lease():
    """A second holder's lease does not make it longer."""
    machine = Machine()
    machine.plant(text("2000"))
    looks = 0

    def look():
        nonlocal looks
        looks += 1
        machine.client.put(ROW, {"ownerName": text("other"), VERSION: text(f"v{looks}"), "leaseDuration": text("2000")})

    lock = machine.lock(JavaClient)
    lock.poll_ns = NS_PER_S * 3 // 2
    began_ns = machine.runtime.monotonic_ns()
    machine.table.on_get = look
    with pytest.raises(AnotherAttempt, match="timed out"):
        lock.acquire(may_wait=True, until_ns=began_ns + 60 * NS_PER_S)
    assert looks == 4
    assert machine.runtime.monotonic_ns() - began_ns == 4_500_000_000


@pytest.mark.parametrize(
    "answer", [TIMED_OUT, Reply(Outcome.THROTTLED, status=400, reason="ProvisionedThroughputExceededException")]
)
def test_a_waiting_attempt_of_java_passes_over_a_write_without_an_answer(answer):
    """It looks again, meets its own row, and waits until that is over (B6). A 503 ends the attempt."""
    machine = Machine()
    lock = machine.lock(JavaClient)
    machine.table.answer = lambda _reply: answer
    began_ns = machine.runtime.monotonic_ns()
    assert lock.lock(60)
    assert machine.runtime.monotonic_ns() - began_ns > LEASE_S * NS_PER_S
    lock.unlock()
    machine.table.answer = lambda _reply: Reply(Outcome.AMBIGUOUS, status=503, reason="busy")
    with pytest.raises(OutcomeUnknown, match="busy"):
        lock.lock(60)


@pytest.mark.parametrize("attribute", ["ownerName", VERSION, "leaseDuration"])
def test_java_fails_on_a_row_that_lacks_an_attribute(attribute):
    """Also on a released one, which it would otherwise take."""
    machine = Machine()
    machine.plant(isReleased=text("1"))
    row = {name: value for name, value in machine.row().items() if name not in (attribute, KEY)}
    machine.client.put(ROW, row)
    with pytest.raises(CorruptRecord, match=attribute):
        machine.lock(JavaClient).try_lock()


def test_a_heartbeat_of_java_after_its_lease_is_refused_without_a_request():
    machine = Machine()
    lock = machine.lock(JavaClient)
    assert lock.try_lock()
    machine.runtime.advance(LEASE_S * NS_PER_S + 1)
    machine.table.log.clear()
    with pytest.raises(LockNotHeld, match="lease is over"):
        lock.send_heartbeat()
    assert machine.table.log == []


def test_java_asks_for_its_release_after_a_refused_heartbeat_and_closes_without():
    """A refused heartbeat takes the lock off the client's list: a release by the caller asks, a close does not."""
    machine = Machine()
    for give_back, asked in ((lambda lock: lock.unlock(), ["delete"]), (lambda lock: lock.close(), [])):
        machine.client.delete(ROW)
        lock = machine.lock(JavaClient)
        assert lock.try_lock()
        machine.plant(version="stolen")
        with pytest.raises(LockError, match="another's by now"):
            lock.send_heartbeat()
        assert not lock.holds()
        assert not lock.is_expired()
        machine.table.log.clear()
        with contextlib.suppress(LockError):
            give_back(lock)
        assert machine.table.log == asked


def test_python_never_renews_what_was_in_danger():
    """B15: seven seconds without an answer, then a healthy table: no renewal leaves any more, and it believes on."""
    machine = Machine()
    lock = machine.lock(PythonClient)
    assert lock.try_lock()
    machine.runtime.advance(7 * NS_PER_S)
    checker = next(task for task in machine.runtime.tasks if "checker" in task.name)
    machine.runtime.tasks.remove(checker)
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        if ticks >= 2:
            lock._ended.set()

    machine.runtime.on_advance = tick
    checker.work()
    assert lock.status == IN_DANGER
    lock._ended = machine.runtime.event()
    machine.table.log.clear()
    beat(machine, lock, 5)
    assert "put" not in machine.table.log
    assert lock.holds()


# ---- what the recorded traces of the originals told ----


@pytest.mark.parametrize("build", CRATES)
def test_only_the_text_1_marks_a_row_as_released(build):
    """Any `isReleased` is seen, but the put asks for the text "1": another value keeps everybody out."""
    machine = Machine()
    machine.plant(isReleased=flag(True))
    assert not machine.lock(build).lock(60)
    assert machine.row()["ownerName"] == text("other")


def test_with_the_fix_text_is_read_no_longer():
    """PR #6 looks at the number: a lease of 0.4.3 never ends for it, as one of 0.6.1 never ends for 0.4.3 (B8)."""
    machine = Machine()
    machine.plant()
    assert not machine.lock(CrateWithFix).lock(3600)
    assert machine.lock(CrateWithTimeToLive).lock(60)


@pytest.mark.parametrize("build", CRATES)
def test_a_row_without_owner_or_version_is_an_error(build):
    """`InvalidItemSchema`: nothing is written, whoever's row it is."""
    for attribute in ("ownerName", VERSION):
        machine = Machine()
        machine.plant(isReleased=text("1"))
        row = {name: value for name, value in machine.row().items() if name not in (attribute, KEY)}
        machine.client.put(ROW, row)
        with pytest.raises(CorruptRecord, match=attribute):
            machine.lock(build).try_lock()
        assert machine.row() == {KEY: text(ROW), **row}


@pytest.mark.parametrize("build", [Crate, CrateWithTimeToLive])
def test_a_lease_of_other_words_is_an_error(build):
    machine = Machine()
    machine.plant(text("soon"))
    with pytest.raises(CorruptRecord, match="leaseDuration is 'soon'"):
        machine.lock(build).try_lock()


@pytest.mark.parametrize("build", [JavaClient, PythonClient])
@pytest.mark.parametrize("lease", [text("soon"), number(5)])
def test_a_lease_that_cannot_be_read_is_never_over(build, lease):
    """The originals fail on such a row; nobody takes it over."""
    machine = Machine()
    machine.plant(lease)
    with pytest.raises(CorruptRecord, match="leaseDuration"):
        machine.lock(build).lock(30)
    assert machine.row()["ownerName"] == text("other")


@pytest.mark.parametrize("build", ALL)
def test_only_the_crate_keeps_its_row_when_it_is_closed(build):
    """B12: who leaves without a release keeps the lock; the Java client and the Python port release when closed."""
    machine = Machine()
    lock = machine.lock(build)
    assert lock.try_lock()
    lock.close()
    assert not lock.holds()
    assert (machine.row() is None) is (build not in CRATES)


@pytest.mark.parametrize("build", CRATES)
def test_a_throttled_attempt_is_one_that_timed_out(build):
    """The crate says "not acquired, try again", and no error; a throttled release is an error."""
    machine = Machine()
    lock = machine.lock(build)
    throttled = Reply(Outcome.THROTTLED, status=400, reason="ProvisionedThroughputExceededException")
    machine.table.answer = lambda _reply: throttled
    with pytest.raises(AnotherAttempt, match="ProvisionedThroughput"):
        lock.acquire(may_wait=True, until_ns=machine.runtime.monotonic_ns() + 60 * NS_PER_S)
    machine.client.delete(ROW)
    assert lock.try_lock()
    machine.table.answer = lambda _reply: throttled
    with pytest.raises(OutcomeUnknown):
        lock.unlock()


def test_a_wall_clock_that_goes_back_takes_a_live_lock():
    """B4: a released build subtracts unsigned numbers, and the difference is near the largest."""
    machine = Machine()
    machine.plant()
    jumps = iter([-5 * NS_PER_S])

    def jump() -> None:
        machine.runtime.wall += next(jumps, 0)

    machine.runtime.on_advance = jump
    began_ns = machine.runtime.monotonic_ns()
    assert machine.lock(Crate).lock(30)
    assert machine.runtime.monotonic_ns() - began_ns == NS_PER_S


def test_an_attempt_ends_by_the_monotonic_clock_and_loses_its_fraction():
    """B3: 1.9 s beside a lease of 10 s are 11 s; the wall clock, which goes back all the time, does not count."""
    machine = Machine()
    machine.plant()
    versions = iter(range(1000))

    def live_and_go_back() -> None:
        machine.runtime.wall -= 2 * NS_PER_S
        machine.plant(version=f"live-{next(versions)}")

    machine.runtime.on_advance = live_and_go_back
    lock = machine.lock(Crate)
    lock.additional_ns = 1_900_000_000
    began_ns = machine.runtime.monotonic_ns()
    with pytest.raises(AnotherAttempt, match="timed out"):
        lock.acquire(may_wait=True, until_ns=began_ns + 3600 * NS_PER_S)
    assert machine.runtime.monotonic_ns() - began_ns == 12 * NS_PER_S


def test_a_wait_below_a_second_adds_nothing_to_an_attempt():
    """B3: 900 ms beside a lease of 10 s are 10 s, so the first look after 10 s ends the attempt."""
    assert ends_after_s(Crate, lambda _machine: text("10"), additional_ns=900_000_000) == 11


def test_with_the_fix_an_attempt_is_to_last_for_half_a_century():
    """B3: the first sight adds an epoch second to the time of an attempt; 0.5 ends it at its second look."""
    poll_s = 10**7
    machine = Machine()
    due_s = machine.epoch_s() + LEASE_S + 1
    took_s = ends_after_s(CrateWithFix, lambda machine: number(machine.epoch_s() + LEASE_S), poll_s=poll_s)
    assert took_s == (due_s // poll_s + 1) * poll_s
    assert took_s > 50 * 365 * 86400
    assert ends_after_s(Crate, lambda _machine: text("10"), poll_s=poll_s) == poll_s


def ends_after_s(
    build: type, lease: Callable[[Machine], Any], *, additional_ns: int = NS_PER_S, poll_s: int = 1
) -> int:
    """After how many seconds one attempt gives up on a row whose holder renews it before every look."""
    machine = Machine()
    first = lease(machine)
    machine.plant(first)
    versions = iter(range(1000))
    machine.runtime.on_advance = lambda: machine.plant(first, version=f"live-{next(versions)}")
    lock = machine.lock(build)
    lock.additional_ns, lock.poll_ns = additional_ns, poll_s * NS_PER_S
    began_ns = machine.runtime.monotonic_ns()
    with pytest.raises(AnotherAttempt, match="timed out"):
        lock.acquire(may_wait=True, until_ns=began_ns + 10**10 * NS_PER_S)
    return (machine.runtime.monotonic_ns() - began_ns) // NS_PER_S


def test_the_time_of_an_attempt_grows_for_the_first_holder_alone():
    """B7: three healthy holders within 12 s, and the attempt gives up on the third, which has held for 4 s."""
    machine = Machine()
    machine.plant()
    ticks = iter(range(1, 1000))

    def hand_over() -> None:
        tick = next(ticks)
        if tick % 4 == 0:
            machine.plant(version=f"holder-{tick // 4}")

    machine.runtime.on_advance = hand_over
    lock = machine.lock(Crate)
    began_ns = machine.runtime.monotonic_ns()
    with pytest.raises(AnotherAttempt, match="timed out"):
        lock.acquire(may_wait=True, until_ns=began_ns + 3600 * NS_PER_S)
    assert machine.runtime.monotonic_ns() - began_ns == 12 * NS_PER_S


def test_a_second_holder_that_dies_is_waited_for_almost_twice():
    """B7: it dies at 2 s. The first attempt ends at 12 s, the next one counts anew: taken at 23 s, not 13 s."""
    machine = Machine()
    machine.plant()
    ticks = iter(range(1, 1000))

    def second_holder() -> None:
        if next(ticks) == 2:
            machine.plant(version="second")

    machine.runtime.on_advance = second_holder
    began_ns = machine.runtime.monotonic_ns()
    assert machine.lock(Crate).lock(60)
    assert machine.runtime.monotonic_ns() - began_ns == 23 * NS_PER_S


def test_the_crate_sleeps_the_same_time_between_all_its_looks():
    """B13: every look of every waiter is one refresh period after the one before, without jitter."""
    machine = Machine()
    machine.plant()
    looks: list[int] = []
    machine.table.on_get = lambda: looks.append(machine.runtime.monotonic_ns())
    assert not machine.lock(Crate).lock(8)
    assert len(looks) == 9
    assert {later - earlier for earlier, later in pairwise(looks)} == {NS_PER_S}


@pytest.mark.parametrize("build", CRATES)
def test_the_row_carries_the_intent_of_its_holder_or_of_the_dead_one(build):
    """A new and a released row get the holder's own data; only a row that was taken over keeps the dead holder's."""
    machine = Machine()
    lock = machine.lock(build)
    lock.intent = "mine"
    for released in ({}, {"isReleased": text("1"), "data": text("theirs")}):
        if released:
            machine.plant(**released)
        assert lock.try_lock()
        assert (machine.row()["data"], lock.took_over) == (text("mine"), False)
        before = lock.held
        lock.update_data("changed")
        assert (machine.row()["data"], lock.held != before) == (text("changed"), True)
        lock.unlock()
        assert machine.row() is None
    with pytest.raises(LockNotHeld):
        lock.update_data("late")


def test_an_update_of_a_stolen_row_is_an_error():
    machine = Machine()
    lock = machine.lock(Crate)
    assert lock.try_lock()
    machine.plant(version="stolen")
    with pytest.raises(LockError, match="another's by now"):
        lock.update_data("late")
    assert machine.row()[VERSION] == text("stolen")


def test_python_tries_a_refused_put_again_with_the_same_version():
    """One call of `acquire_lock` draws one version, however often it puts."""
    machine = Machine()
    refused = Reply(Outcome.PRECONDITION_FAILED, status=400, reason="ConditionalCheckFailedException")
    machine.table.answer = lambda _reply: refused
    lock = machine.lock(PythonClient)
    versions: list[str] = []

    def drop() -> None:
        versions.append(machine.row()[VERSION]["S"])
        machine.client.delete(ROW)
        machine.runtime.on_advance = None

    machine.runtime.on_advance = drop
    assert lock.lock(30)
    assert versions == [lock.held]
