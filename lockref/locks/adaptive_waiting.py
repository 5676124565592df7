"""When should a waiter look again?

A fixed poll is blind twice: it looks often in the middle of a critical
section, when nothing can have changed, and seldom just after the end of one.
Critical sections of one table tend to be alike, so a waiter can do better with
what it sees anyway, and without one request more:

- it learns how long a grant lasts and how much that varies: from its own
  tenures, and from fencing tokens that advanced between two looks;
- it knows when the present grant began: validUntil − L of its first record;
- so it looks when that grant should be over. Found still held, it looks again
  after a while that grows with the time already overdue;
- if another owner was quicker, there are many of us: it spreads its looks ever
  wider, until they are as rare as the configured interval, which is Hudi's
  poll. Grants of its own make it bolder again.

A client that locks again right after its own release would shut the others out
(E34): it knows first that the lock is free. So it pauses before it locks again:
always while it has recently seen other waiters, otherwise now and then. The
pause is a share of the usual length of a grant. Waiters time their next look so
that it falls into that pause.

The interval stays the longest pause in any case, so that a waiter finds an
early release as soon as Hudi's would. Without anything learned it polls like
Hudi, jittered (H20). A wait never outlasts the lease that it waits for.

Estimates use the records' wall times. Clocks that differ make them worse, and
the waiter slower, never the lock unsafe. Nothing here reads a clock.
"""

from __future__ import annotations

from lockref.locks.values import Record
from lockref.runtime import NS_PER_MS, MonoNs, Runtime

FLOOR_NS = 5 * NS_PER_MS
"""The closest that two looks of one waiter come: a request takes about that long anyway."""

_LEARNING = 0.25
_OVERDUE_GROWTH = 0.5
_SPREAD_FIRST = 16.0
_LOSS_FACTOR = 3.0
_WIN_FACTOR = 0.6
_COURTESY_SHARE = 0.25
_COURTESY_ALONE = 0.4
_QUIET_WINS = 3


class AdaptiveWaiting:
    """The experience of one client with the lock for which it waits.

    interval_ns: the longest pause between two looks.
    validity_ns: L, to tell from a record when its grant began.
    """

    def __init__(self, interval_ns: int, validity_ns: int, runtime: Runtime) -> None:
        self._interval_ns = interval_ns
        self._validity_ns = validity_ns
        self._random = runtime.random
        # The length of a grant: usual value and usual deviation, as in TCP's timer.
        self._usual_ns: float | None = None
        self._deviation_ns = 0.0
        # How wide to spread looks, in steps. A new client expects a crowd; a few
        # grants of its own teach it otherwise sooner than a crowd could be undone.
        self._spread = _SPREAD_FIRST
        self._holder: tuple[str | None, int | None] | None = None
        self._began_ns = 0
        # Grants in a row without a sign of anybody else; a new client has seen nobody.
        self._quiet_wins = _QUIET_WINS
        # The instant until which we leave the lock to others after a release of our own.
        self._yields_until_ns = MonoNs(0)

    def begin(self, now_ns: MonoNs) -> int:
        """A call begins: the holder seen last has probably changed since, which says nothing about a crowd.

        Returns how long to leave the lock to others first (E34).
        """
        self._holder = None
        return max(0, self._yields_until_ns - now_ns)

    def released(self, now_ns: MonoNs) -> None:
        """A release of ours landed: others may look first (E34)."""
        self._yields_until_ns = MonoNs(now_ns + self.courtesy_ns())

    def courtesy_ns(self) -> int:
        """The pause after our own release in which we leave the lock to others before we write again (E34)."""
        usual_ns = min(self._usual_ns or 0.0, float(self._interval_ns))
        if self._quiet_wins < _QUIET_WINS:
            # Never longer than a poll: a sibling task that waits for this very lock sits it out, too (L3).
            return min(round(usual_ns * self._random.uniform(0.5, 1.5)), self._interval_ns)
        if self._random.random() < _COURTESY_SHARE:
            return round(usual_ns * self._random.uniform(0, _COURTESY_ALONE))
        return 0

    def won(self) -> None:
        """We were granted the lock: the crowd is smaller than feared."""
        self._quiet_wins += 1
        self._spread = max(1.0, self._spread * _WIN_FACTOR)

    def held(self, duration_ns: int) -> None:
        """A tenure of our own lasted so long; the others' are probably alike."""
        self._learn(duration_ns)

    def pause_ns(self, record: Record, *, now_wall_ns: int, lapses_in_ns: int) -> int:
        """The pause after `record`, the live lease of another client, was seen.

        lapses_in_ns: until the lease may be taken over if nobody renews it.
        """
        self._observe(record, now_wall_ns)
        pause_ns = min(self._until_end_ns(now_wall_ns), self._interval_ns)
        return max(1, min(round(pause_ns), lapses_in_ns))

    def pause_after_lost_race_ns(self) -> int:
        """The pause after a 412 on a conditional write: a grant of another client has just begun."""
        self._lost()
        self._holder = None
        if self._usual_ns is None:
            return round(self._interval_ns * self._random.uniform(0.75, 1.0))
        pause_ns = self._after_end_ns(self._usual_ns)
        return max(1, round(min(pause_ns, self._interval_ns)))

    def _lost(self) -> None:
        """Another client was quicker than this one."""
        self._quiet_wins = 0
        self._spread = min(self._spread * _LOSS_FACTOR, max(1.0, self._interval_ns / self._step_ns))

    def _observe(self, record: Record, now_wall_ns: int) -> None:
        self._quiet_wins = 0
        holder = (record.owner, record.token)
        if holder == self._holder:
            return
        # A record without a stamp, not of our validity, or of a clock ahead of ours tells nothing: then it began now.
        written_ns = 0 if record.expiry_ns is None else record.expiry_ns - self._validity_ns
        began_ns = written_ns if now_wall_ns - self._validity_ns < written_ns <= now_wall_ns else now_wall_ns
        if self._holder is not None:
            if record.owner != self._holder[0]:
                self._lost()
            else:
                # The same one again: no crowd, but a neighbour who leaves no gap (E34).
                self._spread = max(1.0, self._spread * _WIN_FACTOR)
            before = self._holder[1]
            if before is not None and record.token is not None and record.token > before:
                self._learn((began_ns - self._began_ns) / (record.token - before))
        self._holder = holder
        self._began_ns = began_ns

    @property
    def _step_ns(self) -> float:
        """The distance of looks that makes sense near the end of a grant."""
        return max(self._deviation_ns / 2, float(FLOOR_NS))

    def _learn(self, duration_ns: float) -> None:
        if self._usual_ns is None:
            self._usual_ns, self._deviation_ns = duration_ns, duration_ns / 2
            return
        error_ns = duration_ns - self._usual_ns
        self._usual_ns += _LEARNING * error_ns
        self._deviation_ns += _LEARNING * (abs(error_ns) - self._deviation_ns)

    def _until_end_ns(self, now_wall_ns: int) -> float:
        if self._usual_ns is None:
            return self._interval_ns * self._random.uniform(0.75, 1.0)
        left_ns = self._began_ns + self._usual_ns - now_wall_ns
        if left_ns < 0:
            left_ns = max(self._step_ns / 2, -left_ns * _OVERDUE_GROWTH)
        return self._after_end_ns(left_ns)

    def _after_end_ns(self, left_ns: float) -> float:
        """From now to the next look, if the present grant should end in `left_ns`."""
        wide_ns = min(self._step_ns * self._spread, float(self._interval_ns))
        usual_ns = max(self._usual_ns or 0.0, float(FLOOR_NS))
        if wide_ns < usual_ns:
            return max(left_ns + wide_ns * self._random.random(), wide_ns * 0.9)
        # A crowd: sit out some grants, but look at the end of one rather than in the middle.
        least_ns = wide_ns * self._random.uniform(0.95, 1.0)
        rounds = max(0.0, -(-(least_ns - left_ns) // usual_ns))
        return left_ns + rounds * usual_ns + max(self._deviation_ns, float(FLOOR_NS)) * self._random.random()
