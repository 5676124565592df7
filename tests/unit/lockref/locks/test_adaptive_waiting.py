"""H20, E34: when a waiter looks again, and how long a client keeps the lock that comes back at once."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lockref.delta.record import LeaseItem
from lockref.locks.adaptive_waiting import TURN_MAX, AdaptiveWaiting
from lockref.locks.pace import FLOOR_NS
from lockref.locks.turn_note import NUMBERS, TurnNote
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.lockfile import LockFile
from tests.hardened_rig import ManualRuntime

INTERVAL_NS = NS_PER_S
VALIDITY_NS = 10 * NS_PER_S
FAR = 100 * NS_PER_S
SPREAD_NS = 3 * FLOOR_NS


class Waiter:
    """An `AdaptiveWaiting` with a clock that the test moves. known_s: the time since its client first called."""

    def __init__(self, seed: int = 7, validity_ns: int = VALIDITY_NS, known_s: int = 60) -> None:
        self.runtime = ManualRuntime(seed)
        self.polls = AdaptiveWaiting(INTERVAL_NS, validity_ns, self.runtime)
        self.begin()
        self.runtime.advance(known_s * NS_PER_S)
        self.validity_ns = validity_ns
        self.token = self.number = 0

    def record(
        self, age_ms: int = 0, *, token: int, note: str = "", owner: str = "other", free: bool = False
    ) -> LockFile:
        until_ms = (self.runtime.wall + self.validity_ns) // NS_PER_MS - age_ms
        return LockFile(owner, until_ms, expired=free, nonce="00ff" + note, fence=token)

    def look(self, record: LockFile, lapses_in_ns: int = FAR) -> int:
        return self.polls.pause_ns(record, now_wall_ns=self.runtime.wall, lapses_in_ns=lapses_in_ns)

    def leaves(self, record: LockFile) -> int:
        return self.polls.leaves_ns(record, now_wall_ns=self.runtime.wall)

    def cycle(self, hold_ms: int = 20, *, token: int | None = None) -> TurnNote:
        """Lock, hold and unlock, without anything that takes time but the hold. Returns the note of the grant."""
        self.token = self.token + 1 if token is None else token
        note = TurnNote.of(LockFile("me", 1, expired=False, nonce=self.polls.note(), fence=self.token))
        self.polls.won(self.token, self.runtime.monotonic_ns())
        self.runtime.advance(hold_ms * NS_PER_MS)
        self.polls.held(hold_ms * NS_PER_MS)
        self.polls.released(self.runtime.monotonic_ns(), self.runtime.monotonic_ns())
        self.number = note.number
        return note

    def see_turns(self, turns: int, *, round_turns: int | None = None) -> None:
        """A look, before which others had so many turns of one grant. round_turns: what their notes tell of a round."""
        self.token += turns
        self.number += turns
        told = turns if round_turns is None else round_turns
        self.look(self.record(token=self.token, note=TurnNote(0, told, self.number).text()))

    def come_late(self) -> None:
        """The next call, so long after the release that nobody keeps the lock for it."""
        self.runtime.advance(10 * NS_PER_S)
        self.begin()

    def begin(self) -> int:
        return self.polls.begin(self.runtime.monotonic_ns())


@pytest.fixture
def waiter() -> Waiter:
    return Waiter()


def test_ignorant_waiter_polls_like_hudi(waiter):
    """H20: nothing learned: once per interval, jittered, never longer. Crowds start at once, so the first is wider."""
    record = waiter.record(token=5)
    pauses = [waiter.look(record) for _ in range(100)]
    assert 0.2 * INTERVAL_NS <= pauses[0] <= INTERVAL_NS
    assert min(pauses[1:]) >= 0.75 * INTERVAL_NS
    assert max(pauses) <= INTERVAL_NS
    assert len(set(pauses)) > 90


def test_wait_ends_with_the_lease_in_the_way(waiter):
    """H20: capped at V + β − now, learned or not."""
    assert waiter.look(waiter.record(token=5), lapses_in_ns=3) == 3
    waiter.cycle(500)
    assert waiter.look(waiter.record(token=5), lapses_in_ns=3) == 3
    assert waiter.look(waiter.record(token=6, note=".3.400.6"), lapses_in_ns=3) == 3


def test_looks_when_the_turn_should_be_over(waiter):
    """A grant that began 100 ms ago, usually lasts 400 ms, and is followed by two more: in 1.1 s, cut off at a poll."""
    waiter.cycle(400)
    waiter.come_late()
    assert 295 * NS_PER_MS <= waiter.look(waiter.record(100, token=2)) <= 360 * NS_PER_MS
    assert 695 * NS_PER_MS <= waiter.look(waiter.record(100, token=2, note=".1.1.2")) <= 760 * NS_PER_MS
    assert waiter.look(waiter.record(100, token=2, note=".2.1.2")) == INTERVAL_NS


def test_overdue_grant_is_looked_at_ever_more_rarely(waiter):
    """The pause grows with the time overdue, up to the interval."""
    waiter.cycle(400)
    waiter.come_late()
    short, later, latest = (waiter.look(waiter.record(age_ms, token=2)) for age_ms in (410, 800, 9_000))
    assert short <= SPREAD_NS
    assert 190 * NS_PER_MS <= later <= 200 * NS_PER_MS + SPREAD_NS
    assert latest == INTERVAL_NS


@pytest.mark.parametrize("age_ms", [-50_000, 20_000])
def test_records_of_other_clocks_or_terms_tell_nothing(waiter, age_ms):
    """A record that began in the future, or longer ago than a lease lasts, counts as just begun."""
    waiter.cycle(400)
    waiter.come_late()
    assert 395 * NS_PER_MS <= waiter.look(waiter.record(age_ms, token=2)) <= 420 * NS_PER_MS


def test_waits_out_a_round_before_it_looks(waiter):
    """A round has 25 turns of a grant of 25 ms, and 10 of them have passed: the next look is after 13 or 14 more."""
    waiter.cycle(20)
    waiter.come_late()
    pause_ns = waiter.look(waiter.record(token=21, note=".0.25.11"))
    assert 13 * 25 * NS_PER_MS <= pause_ns <= 15 * 25 * NS_PER_MS


def test_whoever_has_waited_longer_looks_earlier(waiter):
    """At the end of one turn the looks come in the order of the waits."""

    def mean_ns(number: int) -> float:
        waiters = [Waiter(seed) for seed in range(100)]
        for each in waiters:
            each.cycle(20)
            each.come_late()
        notes = [each.record(token=number, note=f".0.40.{number}") for each in waiters]
        return sum(each.look(note) for each, note in zip(waiters, notes, strict=True)) / len(waiters)

    assert mean_ns(41) > 1.5 * mean_ns(45) > 1.5 * mean_ns(49)


def test_pause_never_exceeds_the_interval_without_a_crowd(waiter):
    """L3: an early release is found as soon as Hudi's poll would find it."""
    waiter = Waiter(validity_ns=300 * NS_PER_S)
    waiter.cycle(60_000)
    waiter.come_late()
    assert waiter.look(waiter.record(token=2, note=".5.6.2")) == INTERVAL_NS


@pytest.mark.parametrize(("validity_s", "pause_s"), [(10, 1), (300, 5), (3_000, 50)])
def test_pause_in_a_crowd_is_a_sixtieth_of_the_validity(validity_s, pause_s):
    """Of 900 turns of a round somebody else looks all the time, so nobody need look once per interval."""
    waiter = Waiter(validity_ns=validity_s * NS_PER_S)
    waiter.cycle(100)
    waiter.come_late()
    assert waiter.look(waiter.record(token=2, note=".0.900.2")) == pause_s * NS_PER_S


def test_where_requests_are_slow_a_waiter_that_knows_no_round_looks_once_in_thirty_two_of_them():
    """Five grants have passed, so it is not alone; the machine or the service is busy, and a look takes 100 ms."""
    waiter = Waiter(validity_ns=300 * NS_PER_S)
    waiter.polls._pace.asked(100 * NS_PER_MS)
    pauses = [waiter.look(waiter.record(token=1))]
    waiter.polls._wakes_ns = None
    for _ in range(8):
        pauses.append(waiter.look(waiter.record(token=6)))
        waiter.polls._wakes_ns = None
    assert pauses[0] <= INTERVAL_NS
    assert pauses[-1] == 3_200 * NS_PER_MS


def test_a_waiter_that_was_never_granted_the_lock_leaves_a_request_to_each_that_was():
    """Turns of a millisecond pass, and requests last for 50 ms: it looks at most as often as 24 others may."""
    waiter = Waiter(validity_ns=300 * NS_PER_S)
    waiter.polls._pace.asked(50 * NS_PER_MS)
    waiter.look(waiter.record(token=1))
    waiter.polls._wakes_ns = None
    waiter.runtime.advance(100 * NS_PER_MS)
    assert waiter.look(waiter.record(token=101, note=".0.1.101")) >= 24 * 50 * NS_PER_MS


def mean_place_ns(known_s: int, *, is_new: bool, round_turns: int) -> float:
    """The mean pause after the end of a turn, of 100 waiters that have seen 60 turns of 20 ms pass.

    known_s: for how long they call. is_new: they were never granted the lock.
    """
    pauses = []
    for seed in range(100):
        waiter = Waiter(seed, validity_ns=300 * NS_PER_S, known_s=known_s - 1)
        if not is_new:
            waiter.cycle(20)
            waiter.come_late()
            waiter.runtime.advance((known_s - 11) * NS_PER_S)
        waiter.token = waiter.number = 0
        waiter.look(waiter.record(token=1, note=TurnNote(0, round_turns, 1).text()))
        waiter.runtime.advance(NS_PER_S)
        waiter.polls._wakes_ns = None
        pauses.append(waiter.look(waiter.record(token=60, note=TurnNote(0, round_turns, 60).text())))
    return sum(pauses) / len(pauses)


def test_new_clients_in_a_new_crowd_look_once_in_two_intervals_and_those_that_wait_for_long_at_each_end_of_a_turn():
    """The round that notes tell is the wait so far, in a crowd that grows: it does not say who is late, but time does.

    A client that was granted the lock before may tell by the round.
    """
    fresh, late = (mean_place_ns(known_s, is_new=True, round_turns=60) for known_s in (2, 20))
    assert 1.5 * NS_PER_S <= fresh <= 2.5 * NS_PER_S
    assert late <= 0.25 * NS_PER_S


def test_a_new_client_that_saw_more_than_a_round_pass_is_late_but_not_in_the_first_interval():
    """At first a round is as long as the few turns that anybody has waited for."""
    first, later = (mean_place_ns(known_s, is_new=True, round_turns=20) for known_s in (1, 3))
    assert first >= 1.5 * NS_PER_S
    assert later <= 0.25 * NS_PER_S


@pytest.mark.parametrize(("known_ms", "grants"), [(100, 2), (3_200, 5), (16_000, 15)])
def test_a_turn_is_no_longer_than_a_thirty_second_of_the_time_that_the_client_knows_the_lock(known_ms, grants):
    """Whoever comes first to a new lock soon has the same turns as others: 40 ms at first, then up to 15 of 20 ms."""
    waiter = Waiter(known_s=0)
    waiter.polls._turn, waiter.polls._round = 15.0, 5
    waiter.polls._pace.had(20 * NS_PER_MS)
    waiter.runtime.advance(known_ms * NS_PER_MS)
    assert waiter.polls._length() == grants


def test_where_records_tell_no_instant_a_released_lock_is_left_once_to_an_owner_whose_turn_goes_on(waiter):
    """A lease that tells a duration has turns, too."""
    waiter.cycle(20)
    waiter.come_late()
    free = LeaseItem(name="other", nonce="00ff.2.9.2", duration_s=10, token=2, is_released=True)
    assert waiter.polls.leaves_ns(free, now_wall_ns=waiter.runtime.wall) >= 2 * 20 * NS_PER_MS - SPREAD_NS
    assert waiter.polls.leaves_ns(free, now_wall_ns=waiter.runtime.wall) == 0


def test_grants_that_pass_tell_how_long_one_lasts(waiter):
    """Ten grants in a second, none of them ours."""
    waiter.look(waiter.record(token=1))
    waiter.runtime.advance(NS_PER_S)
    pause_ns = waiter.look(waiter.record(token=11, note=".0.1.2"))
    assert pause_ns <= 100 * NS_PER_MS + 2 * 10 * 100 * NS_PER_MS
    waiter.cycle(30, token=12)
    waiter.begin()
    assert waiter.look(waiter.record(token=13, note=".0.1.4")) >= 25 * NS_PER_MS


def test_a_pause_that_was_cut_short_tells_nothing_of_requests(waiter):
    """The last look of a call comes before its time. A client that took it for a quick answer would wait no more."""
    waiter.look(waiter.record(token=1))
    waiter.runtime.advance(INTERVAL_NS // 5)
    waiter.look(waiter.record(token=11, note=".0.100.11"))
    waiter.cycle(20, token=12)
    waiter.begin()
    assert waiter.look(waiter.record(token=13, note=".0.100.13")) > INTERVAL_NS // 2


def test_where_others_are_quicker_a_waiter_skips_turns(waiter):
    """Ends of turns that went to others make it look more rarely; grants of its own make it bolder again."""

    def mean_ns(polls: Waiter) -> float:
        note = f".0.40.{polls.token + 40}"
        pauses = [polls.look(polls.record(token=polls.token + 40, note=note, owner="last")) for _ in range(200)]
        return sum(pauses) / len(pauses)

    waiter.cycle(20)
    for _ in range(10):
        waiter.begin()
        waiter.look(waiter.record(token=waiter.token + 1))
        waiter.cycle(20, token=waiter.token + 2)
    waiter.begin()
    bold_ns = mean_ns(waiter)
    for number in range(20):
        note = f".0.40.{waiter.token + 40}"
        waiter.look(waiter.record(token=waiter.token + 40, note=note, owner=f"winner {number}"))
    assert bold_ns < 60 * NS_PER_MS
    # The clock of this test stands still, so the pauses of the same look are compared.
    assert waiter.polls._skips > 4
    assert bold_ns > 0


def test_after_a_lost_race_the_winner_is_left_alone(waiter):
    """A 412 says that a grant has just begun: the next look is not before that one should end."""
    assert 0.2 * INTERVAL_NS <= waiter.polls.pause_after_lost_race_ns() <= INTERVAL_NS
    waiter.cycle(400)
    waiter.come_late()
    assert waiter.polls.pause_after_lost_race_ns() >= 395 * NS_PER_MS


def test_a_released_lock_is_left_to_an_owner_whose_turn_goes_on(waiter):
    """Once for each record: whoever does not come back is not waited for again."""
    waiter.cycle(20)
    waiter.come_late()
    free = waiter.record(22, token=2, note=".2.9.2", free=True)
    assert waiter.leaves(free) >= 2 * 20 * NS_PER_MS - SPREAD_NS
    assert waiter.leaves(free) == 0


@pytest.mark.parametrize(("age_ms", "note"), [(22, ".0.9.2"), (22, ""), (500, ".2.9.2")])
def test_other_released_locks_are_taken(waiter, age_ms, note):
    """A turn that has ended, an owner that tells of none, and one that should have come back long ago."""
    waiter.cycle(20)
    waiter.come_late()
    assert waiter.leaves(waiter.record(age_ms, token=2, note=note, free=True)) == 0


def test_own_release_is_taken_again(waiter):
    """In its turn a client that had to look takes what its own release left, and the turn goes on."""
    for _ in range(4):
        waiter.cycle(20)
        waiter.begin()
    while (note := waiter.cycle(20)).left == 0:
        waiter.begin()
    waiter.begin()
    assert waiter.leaves(waiter.record(20, token=waiter.token, note=note.text(), owner="me", free=True)) == 0
    assert waiter.cycle(20).left == note.left - 1


@pytest.mark.parametrize("ended_by", ["a lost race", "a record of another client"])
def test_a_turn_ends_with_a_grant_of_another_client(waiter, ended_by):
    """E34: whoever was overtaken in its turn relies on its memory no more, and its next note begins a turn."""
    for _ in range(4):
        waiter.begin()
        waiter.see_turns(30)
        note = waiter.cycle(20)
        waiter.begin()
    assert note.left > 1
    assert waiter.polls.goes_on()
    if ended_by == "a lost race":
        waiter.polls.pause_after_lost_race_ns()
    else:
        waiter.see_turns(1, round_turns=30)
    assert not waiter.polls.goes_on()
    assert waiter.cycle(20).number > note.number


def test_a_client_tells_of_a_turn_only_once_it_has_come_back(waiter):
    """Waiters would wait in vain for a client that locks once, or seldom."""
    assert waiter.cycle(20).left == 0
    waiter.runtime.advance(5 * NS_PER_S)
    waiter.begin()
    assert waiter.cycle(20).left == 0


def test_a_client_alone_steps_back_seldom(waiter):
    """E34: with nobody in sight it leaves the lock free once in 0.45 of a poll, which is 22 grants of 20 ms."""
    paused_ns, ends = 0, []
    for number in range(400):
        pause_ns = waiter.begin()
        assert waiter.polls.goes_on()
        if pause_ns:
            ends.append(number)
        paused_ns += pause_ns
        waiter.runtime.advance(pause_ns)
        waiter.cycle(20)
    assert [after - before for before, after in pairwise(ends)][-5:] == [22] * 5
    assert paused_ns <= 0.08 * 400 * 20 * NS_PER_MS


def test_a_round_is_sat_out_after_a_turn(waiter):
    """E34: a client leaves the lock to the others, without a look and without its remembered version."""
    turns = []
    for _ in range(12):
        waiter.begin()
        waiter.see_turns(2)
        grants = [waiter.cycle(8)]
        while (pause_ns := waiter.begin()) == 0:
            assert waiter.polls.goes_on()
            grants.append(waiter.cycle(8))
        assert not waiter.polls.goes_on()
        turns.append([note.left for note in grants])
        assert {note.number for note in grants} == {grants[0].number}
    assert turns[-1] == list(reversed(range(TURN_MAX)))
    # Two turns of thirty grants of 8 ms, and it looks in the second one.
    assert 1.2 * 240 * NS_PER_MS <= pause_ns <= 1.8 * 240 * NS_PER_MS


def company(waiter: Waiter, turns: int, *, round_turns: int | None = None, hold_ms: int = 20) -> int:
    """A wait for so many turns of others, and our turn. Returns its length."""
    waiter.begin()
    waiter.see_turns(turns, round_turns=round_turns)
    length = 1
    while waiter.cycle(hold_ms).left:
        waiter.begin()
        length += 1
    return length


@pytest.mark.parametrize(("turns", "length"), [(15, 22), (30, 14), (90, 4), (300, 1), (1_000, 1)])
def test_a_round_takes_nine_seconds_however_many_wait(waiter, turns, length):
    """Grants of 20 ms: 91 clients have turns of four; the poll interval keeps those of 16 short. All compute alike."""
    assert [company(waiter, turns) for _ in range(12)][-1] == length


def test_a_turn_is_short_where_the_notes_tell_of_too_short_a_round(waiter):
    """In a crowd that is new the notes tell of 5 turns, and 600 pass: 12 s, and half of the way to them is 6 s."""
    assert [company(waiter, 600, round_turns=5) for _ in range(8)][-1] == 1


def test_a_turn_shrinks_at_once_and_doubles_at_most(waiter):
    """Grants of a millisecond: a crowd is told soon, and its clients go on step by step when it has gone."""
    for _ in range(8):
        company(waiter, 30, hold_ms=1)
    assert [company(waiter, 20_000, round_turns=30, hold_ms=1) for _ in range(3)] == [30, 1, 1]
    assert [company(waiter, 30, round_turns=30, hold_ms=1) for _ in range(5)] == [1, 2, 5, 11, 23]


@pytest.mark.parametrize(
    ("turns", "hold_ms", "length"), [(1, 40, 3), (2, 40, 6), (4, 40, 11), (9, 40, 11), (2, 150, 1), (9, 600, 1)]
)
def test_a_turn_is_short_where_grants_are_long_or_few_wait(waiter, turns, hold_ms, length):
    """An eighth of a poll of 1 s for each other client, 0.45 at most: nobody waits for long for the end of a turn."""
    assert [company(waiter, turns, hold_ms=hold_ms) for _ in range(12)][-1] == length


def test_a_round_is_no_longer_than_the_turns_that_the_lock_was_taken_for(waiter):
    """A client that came too late, to a lock that had been free for long, tells all that rounds are shorter."""
    waiter.cycle(20)
    waiter.come_late()
    assert waiter.leaves(waiter.record(2_000, token=41, note=".0.40.41", free=True)) == 0
    waiter.token = 41
    assert waiter.cycle(20).round < 30


def test_numbers_begin_again_and_damaged_ones_hurt_nobody(waiter):
    """A note or a token that cannot be makes a waiter slower, and no figure grows without a bound."""
    for _ in range(4):
        company(waiter, 30)
    waiter.begin()
    last = waiter.record(token=2**63 - 1, note=f".0.1.{NUMBERS - 1}")
    assert 0 < waiter.look(last) <= INTERVAL_NS
    assert waiter.cycle(20, token=4).number == 0
    waiter.begin()
    assert 0 < waiter.look(waiter.record(token=2**63 - 1)) <= INTERVAL_NS


def test_records_without_tokens_are_polled(waiter):
    """Hudi's holders have no token and no note."""
    waiter.cycle(400)
    waiter.come_late()
    bare = LockFile("hudi", (waiter.runtime.wall + VALIDITY_NS) // NS_PER_MS, expired=False)
    assert 395 * NS_PER_MS <= waiter.look(bare) <= INTERVAL_NS
    free = LockFile("hudi", (waiter.runtime.wall + VALIDITY_NS) // NS_PER_MS, expired=True)
    assert waiter.leaves(free) == 0
