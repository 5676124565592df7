"""When should a waiter look again, and for how long may a client keep the lock that comes back at once?

A look costs the store and the machine as much as a write, and while they are busy with looks, the holder waits for the
answer to its release. So a crowd may look only as often as the lock changes hands, however large it is. Three rules:

**Turns.** A hand-over costs a look and the time until somebody looks. So a client that locks again right after its
release keeps the lock for a few grants, its *turn*: it writes on the version that its release left, without a look.
Then it sits out one round. The number of turns in a round gives the length of a turn, so that a round takes the same
time however many wait, and all clients have turns of the same length. A client that comes back late has no turn,
because the lock would be free in vain meanwhile.

**The note.** Each record tells how many grants of its writer's turn are left, how many turns a round has, and the
number of this turn (`lockref/locks/turn_note.py`). So waiters know when a turn ends, and agree on the length of a
round.

**The order.** The numbers count turns. So a waiter knows how many have passed since its own last one. It looks when a
round has nearly passed, and from then on at the ends of turns only. Whoever has waited for longer looks earlier. A
waiter that finds another one quicker skips more ends of turns from then on, unless it has waited for over a round.

A client that knows nothing looks once per interval, jittered, as Hudi does (H20), and more rarely where it sees many
turns go by. In a new crowd nobody knows how many wait, and the round that notes tell is too short. So a client that
was never granted the lock looks about once in two intervals, at the end of a turn, until it has waited for longer than
a round should take. And first turns are short, so that those who come first have no more than others. The interval is
the longest pause, so that an early release is found as soon as by Hudi's poll. Only in a crowd, of which somebody
looks all the time, it may be up to a sixtieth of the validity. No pause outlasts the lease in the way. A client that
finds a round of its own empty is alone: it goes on without a look, and its turns are longer.

The age of a record is taken from its wall time. Clocks that differ make the waiter slower, never the lock unsafe.
The figures below were chosen in a model of one interpreter and one server; docs/the-lock.md has what they come to.
"""

from __future__ import annotations

from lockref.locks.pace import FLOOR_NS, Pace
from lockref.locks.turn_note import LEFT_MAX, NUMBERS, ROUND_MAX, TurnNote
from lockref.locks.values import Record
from lockref.runtime import NS_PER_S, MonoNs, Runtime

TURN_MAX = LEFT_MAX
"""The most grants of a turn."""
ROUND_NS = 9 * NS_PER_S
"""Turns are as long as they may be for a round to take this time."""

_GROWTH_OF_TURN = 2  # Turns no more than double each time, so that a client that is new does not block others.
_ROUND_UP, _ROUND_DOWN = 0.5, 0.2  # How fast the length of a round is corrected.
# Pauses of a client that knows nothing, in intervals. Crowds start at once, so the first one has a wider range. Where
# more than one turn passes, each pause is longer than the one before by a half.
_FIRST, _IGNORANT, _FEW_TURNS, _GROWTH = (0.2, 1.0), (0.75, 1.0), 1, 1.5
_CALM = 24  # A client that was never granted the lock leaves the time of so many requests to others.
# A waiter takes others to be waiting for each end of a turn: so many at most, more each time that one of them is
# quicker, and fewer each time that the lock is granted to it.
_SKIPS_MAX, _LOST, _WON = 10.0, 1.15, 0.6
# The weight of a wait is its length in rounds, to this power; beyond a hundred rounds nothing is added.
_PRIORITY, _LONG = 16, 100.0
# A client that was never granted the lock looks once in about two intervals. It is late after so many rounds that
# took so many intervals, or after the time that a round should take.
_NEW_PAUSE, _NEW_ROUNDS, _NEW_INTERVALS = (1.0, 3.0), 1.3, 1.0
_GOES_ON = 4  # A released lock is left to its owner until its grant is as old as so many usual ones.
# The longest pause: an interval for sixteen grants of a round, up to this share of the validity.
_CROWD, _SHARE = 16, 60
# A turn lasts for eight requests, or for this share of an interval for each other client, if that is longer; but for
# the second share at most, and that where no other client was seen. Nor does it last for more than this small part of
# the time since its client first called: who comes first to a new lock shall not have much more of it than others.
_HANDOVER, _PER_CLIENT, _OF_INTERVAL, _OF_TIME = 8, 0.125, 0.45, 1 / 32


class AdaptiveWaiting:
    """The experience of one client with the lock for which it waits.

    interval_ns: the longest pause between two looks, unless there is a crowd.
    validity_ns: L, to tell from a record when its grant began.
    """

    def __init__(self, interval_ns: int, validity_ns: int, runtime: Runtime) -> None:
        self._interval_ns, self._validity_ns = interval_ns, validity_ns
        self._now_ns, self._random = runtime.monotonic_ns, runtime.random
        self._pace = Pace()
        # Our turn: how long the next one may be, what is left of this one, and what the next write tells.
        self._turn, self._left = 1.0, 0
        self._plan, self._begins, self._holds = TurnNote(), True, False
        self._won_token: int | None = None
        self._won_number = 0
        self._came_ns: MonoNs | None = None  # When this client first called.
        self._won_ns, self._released_ns = 0, MonoNs(0)
        # The others: the turns of a round; the number of the last turn; the one from which this wait counts.
        self._round: int | None = None
        self._number = 0
        self._first_number: int | None = None
        self._wakes_ns: int | None = None  # When the next look is to begin.
        self._skips = _SKIPS_MAX  # How many waiters there are for each end of a turn, as far as this one knows.
        self._aim: tuple[str | None, int] | None = None  # The owner and last token of the turn whose end is awaited.
        self._lead = 0.0  # By how many grants to come earlier, for an owner that leaves the lock for short moments.
        self._found: Record | None = None  # The free record on which the next write relies.
        self._idle, self._left_to, self._looks = 0.0, 0, 0

    # ---- our own turn ----

    def begin(self, now_ns: MonoNs) -> int:
        """A call begins. Returns how long to leave the lock to others first (E34)."""
        self._looks, self._holds, self._wakes_ns = 0, False, None
        self._came_ns = now_ns if self._came_ns is None else self._came_ns
        if self._released_ns == 0:
            return 0
        away_ns, is_first = now_ns - self._released_ns, self._pace.away_ns is None
        self._pace.came_back(min(away_ns, self._interval_ns))
        if is_first and away_ns <= (self._pace.own_ns or 0.0):
            # The first grant told of no turn, since nobody knew that this client comes back.
            self._left = self._length() - 1
        if self._left > 0:
            return 0
        self._first_number = self._won_number
        # A client that is alone leaves the lock free for a moment, in which a waiter that it does not know may look.
        alone_ns = 4 * self._pace.request_ns * self._random.uniform(0.8, 1.2)
        pause_ns = self._turns_until_due() * self._usual_turn_ns() - away_ns if self._round else alone_ns
        return max(0, min(round(pause_ns), self._longest_ns(0)))

    def goes_on(self) -> bool:
        """May this call write on the version that our release left? In our turn, and where nobody else was seen."""
        return self._left > 0 or not self._round

    def note(self) -> str:
        """The note of our next write: of the grant that we have, or of the one that the write asks for."""
        if not self._holds:
            self._begins = self._left <= 0
            self._plan = self._new_turn() if self._begins else TurnNote(self._left - 1, self._round, self._won_number)
        return self._plan.text()

    def _new_turn(self) -> TurnNote:
        left = self._length() - 1 if self._comes_back() else 0
        number = (self._number + 1) % NUMBERS
        if self._first_number is None:
            return TurnNote(left, self._round, number)
        # What could have passed while the lock was free does not count: we were late by that much.
        waited = max(0.0, self._number - self._first_number - self._idle)
        before = waited if self._round is None else self._round
        gain = _ROUND_UP if waited > before or self._idle > before / 2 else _ROUND_DOWN
        # A fraction is rounded up or down by chance, else a small correction would be lost each time.
        told = int(before + gain * (waited - before) + self._random.random())
        return TurnNote(left, min(told, ROUND_MAX), number)

    def _length(self) -> int:
        """The grants of a turn: few where they are long, or few clients wait, so that nobody waits long for its end."""
        own_ns, request_ns = self._pace.own_ns or FLOOR_NS, self._pace.request_ns
        share = min(_PER_CLIENT * self._round, _OF_INTERVAL) if self._round else _OF_INTERVAL
        enough = max(1 + round(_HANDOVER * request_ns / own_ns), int(share * self._interval_ns / own_ns))
        early_ns = max(_OF_TIME * self._known_ns(), _HANDOVER * FLOOR_NS)
        return max(1, min(int(self._turn), enough, int(early_ns / own_ns)))

    def _known_ns(self) -> int:
        """The time since this client first called."""
        return 0 if self._came_ns is None else self._now_ns() - self._came_ns

    def won(self, token: int | None, sent_ns: MonoNs) -> None:
        """We were granted the lock, under this token, by a write that was sent then."""
        is_next = self._won_token is not None and token == self._won_token + 1
        self._holds, self._left = True, self._plan.left
        if self._begins and is_next:
            # A turn ended, and nobody came.
            self._round, self._turn = 0, min(self._turn + 1, TURN_MAX)
        elif self._begins:
            self._round, self._skips = self._plan.round, max(1.0, self._skips * _WON)
            round_ns = ((self._round or 0) + 1) * (self._pace.grant_ns or FLOOR_NS)  # If all turns were of one grant.
            self._turn = max(1.0, min(self._turn * _GROWTH_OF_TURN + 0.5, ROUND_NS / round_ns, TURN_MAX))
        elif is_next:
            self._pace.had(sent_ns - self._won_ns)
        self._won_token, self._won_number, self._won_ns = token, self._plan.number, sent_ns
        self._number = self._won_number
        self._idle, self._found, self._aim, self._lead = 0.0, None, None, 0.0

    def held(self, duration_ns: int) -> None:
        """A tenure of our own lasted so long; the others' are probably alike."""
        if self._pace.own_ns is None:
            self._pace.had(duration_ns + round(self._pace.request_ns))

    def released(self, now_ns: MonoNs, began_ns: MonoNs) -> None:
        """A release of ours landed; it began then."""
        self._released_ns = now_ns
        self._pace.forget_sightings()
        self._pace.asked(now_ns - began_ns)

    # ---- the turns of others ----

    def pause_ns(self, record: Record, *, now_wall_ns: int, lapses_in_ns: int) -> int:
        """The pause after `record`, the live lease of another client, was seen; or one that `leaves_ns` leaves alone.

        lapses_in_ns: until the lease may be taken over if nobody renews it.
        """
        if record.is_released:
            return lapses_in_ns
        passed, usual_ns = self._observe(record), self._pace.grant_ns
        self._looks += 1
        if usual_ns is None or (self._round is None and passed > 1):
            growth = _GROWTH ** min(self._looks - 1, 8) if passed > _FEW_TURNS else 1.0
            share = self._random.uniform(*(_FIRST if self._looks == 1 else _IGNORANT))
            return min(self._pause(self._interval_ns * share * growth, passed), lapses_in_ns)
        left, age_ns = TurnNote.of(record).left, self._age_ns(record, now_wall_ns)
        end_ns = (left + 1) * usual_ns - (usual_ns / 2 if age_ns is None else age_ns)
        if end_ns < 0:
            # This grant is longer than usual, and nobody knows by how much.
            end_ns = -end_ns / 2
        due_ns = (self._turns_until_due() - passed) * self._usual_turn_ns()
        if due_ns > end_ns:
            self._aim = None
            return min(self._pause(due_ns, passed), lapses_in_ns)
        if self._aim is not None and self._aim[0] != record.owner:
            self._lose()
        elif self._aim is not None and (record.token or 0) > self._aim[1]:
            self._lead = min(self._lead + 0.5, 2.0)
        self._aim = (record.owner, (record.token or 0) + left)
        end_ns = max(end_ns - (self._lead * usual_ns if left else 0.0), self._pace.request_ns)
        return min(self._pause(end_ns + self._place_ns(passed), passed), lapses_in_ns)

    def leaves_ns(self, record: Record, *, now_wall_ns: int) -> int:
        """The time for which to leave a released lock to its owner, whose turn goes on; 0: take it.

        No record is left alone twice: its owner may have changed its mind.
        """
        if record.token is not None and record.token == self._won_token:
            return 0
        passed, usual_ns = self._observe(record), self._pace.grant_ns or 4.0 * FLOOR_NS
        left, age_ns = TurnNote.of(record).left, self._age_ns(record, now_wall_ns)
        is_new = record.token is not None and record.token != self._left_to
        if left > 0 and is_new and (age_ns is None or age_ns < _GOES_ON * usual_ns):
            self._left_to = record.token or 0
            self._aim = (record.owner, self._left_to + left)
            pause_ns = left * usual_ns + self._place_ns(passed)
            # Beside the pause before this look, a wait in vain is still within the bound of L3.
            return max(1, min(round(pause_ns), self._interval_ns // 4))
        late_ns = 0.0 if age_ns is None else age_ns - usual_ns - self._pace.request_ns
        self._found, self._idle = record, max(0.0, late_ns / self._usual_turn_ns())
        return 0

    def pause_after_lost_race_ns(self) -> int:
        """The pause after a 412 on a conditional write: a grant of another client has just begun."""
        record, self._found, self._aim, self._left = self._found, None, None, 0
        usual_ns = self._pace.grant_ns
        if usual_ns is None:
            return self._pause(self._interval_ns * self._random.uniform(*_FIRST), 0)
        passed, left = (0, 0) if record is None else (self._passed(record), TurnNote.of(record).left)
        if left == 0:
            self._lose()
        return self._pause(usual_ns * (left or self._length()) + self._place_ns(passed), passed)

    def _observe(self, record: Record) -> int:
        """Learn from a record of another client. Returns the turns that have passed since this wait began to count."""
        self._left = 0
        turns = TurnNote.of(record).round
        self._round = self._round if turns is None else turns
        now_ns, token = self._now_ns(), record.token
        if self._wakes_ns is not None and 0 <= now_ns - self._wakes_ns < self._interval_ns:
            # Later, a look has failed in between. Earlier, the pause was cut short: the caller's time is nearly over.
            self._pace.asked(now_ns - self._wakes_ns)
        self._wakes_ns = None
        if token is None:
            return 0
        self._number = _number_of(record)
        self._pace.saw(token, self._number, now_ns)
        return self._passed(record)

    def _passed(self, record: Record) -> int:
        if record.token is None:
            return 0
        number = _number_of(record)
        if self._first_number is None or number < self._first_number:
            self._first_number = number - 1
        return number - self._first_number

    def _age_ns(self, record: Record, now_wall_ns: int) -> int | None:
        """The age of its grant; None: it has no stamp. 0 if its stamp cannot be: of other terms, or ahead."""
        if record.expiry_ns is None:
            return None
        age_ns = now_wall_ns - (record.expiry_ns - self._validity_ns)
        return age_ns if 0 <= age_ns < self._validity_ns else 0

    def _usual_turn_ns(self) -> float:
        """The usual duration of one turn of anybody, which is as long as ours. Never 0.

        Clients that come back late have turns of one grant, and the lock is free between them. That time is no part of
        a turn, but a hand-over in a crowd is.
        """
        grant_ns, turn_ns = self._pace.grant_ns or 4.0 * FLOOR_NS, self._pace.turn_ns
        comes_late = self._pace.away_ns is not None and not self._comes_back()
        expected_ns = grant_ns if comes_late else self._length() * grant_ns + 4 * self._pace.request_ns
        return max(1.0, expected_ns if turn_ns is None else min(turn_ns, expected_ns))

    def _comes_back(self) -> bool:
        """True for a client that locks again soon. Any other would keep the lock free in vain."""
        away_ns = self._pace.away_ns
        return away_ns is not None and away_ns <= (self._pace.own_ns or 0.0)

    def _turns_until_due(self) -> float:
        """The turns of a wait before it is worth a look: until one of the two turns before our own is under way."""
        return max(0.0, (self._round or 0) - self._random.uniform(0.2, 2.0))

    def _lose(self) -> None:
        self._skips = min(self._skips * _LOST, _SKIPS_MAX)

    def _place_ns(self, passed: int) -> float:
        """The place of our look after the end of this turn. Whoever has waited for less looks later, or turns later."""
        waited, turn_ns = min(passed / max(1, self._round or 0), _LONG), self._usual_turn_ns()
        if self._won_token is None:
            # Nobody knows yet how many there are in a crowd of new clients: the round that notes tell is too short.
            spent_ns = self._known_ns()
            by_rounds = min(waited / _NEW_ROUNDS, spent_ns / (_NEW_INTERVALS * self._interval_ns))
            weight = max(1.0, by_rounds, min(spent_ns / ROUND_NS, _LONG)) ** _PRIORITY
            # Aimed at the end of a turn, so no more than fit into the longest pause.
            pause_ns = min(self._interval_ns * self._random.uniform(*_NEW_PAUSE), self._longest_ns(passed) - turn_ns)
            turns = max(0.0, pause_ns / turn_ns)
        else:
            weight = max(1.0, waited) ** _PRIORITY
            # Not more clients wait than turns have passed.
            turns = 2 * (min(self._skips, max(1, self._round or 0, passed)) - 1.0) * self._random.random()
        skipped = int(turns / weight + self._random.random())
        late = self._random.random() / max(0.5, waited) ** 2 - 0.5
        return skipped * turn_ns + late * self._pace.request_ns

    def _pause(self, pause_ns: float, passed: int) -> int:
        if self._won_token is None:
            # Two may wait for each turn of others. Together they shall send about one request at a time.
            pause_ns = max(pause_ns, min(2 * passed, _CALM) * self._pace.request_ns)
        pause = max(1, min(round(pause_ns), self._longest_ns(passed)))
        self._wakes_ns = self._now_ns() + pause
        return pause

    def _longest_ns(self, passed: int) -> int:
        crowd_ns = max(self._round or 0, passed) * self._length() * self._interval_ns // _CROWD
        if passed > _FEW_TURNS:
            crowd_ns = max(crowd_ns, round(32 * self._pace.request_ns))  # The machine or the service is busy.
        return max(self._interval_ns, min(crowd_ns, self._validity_ns // _SHARE))


def _number_of(record: Record) -> int:
    """The number of a turn. Where a writer leaves no note, each grant counts as a turn."""
    return TurnNote.of(record).number or record.token or 0
