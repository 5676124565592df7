"""When should a waiter look again?

A fixed poll is blind twice: it looks often in the middle of a long critical
section, when nothing can have changed, and seldom just after the end of one.
Critical sections of one table tend to be alike, so a waiter can do better with
what it sees anyway:

- it learns how long a grant lasts: from fencing tokens that advanced between
  two looks, and from its own tenures;
- it looks when the present grant should be over, and not before;
- what it finds then still held, it looks at again after a while that grows
  with the time already overdue;
- if somebody else was quicker, there are many of us: it sits out ever more
  grants, until its looks are on average as rare as the configured interval,
  which is Hudi's poll. A grant of its own makes it bolder again.

Without anything learned it polls like Hudi, jittered (H20). A wait never
outlasts the lease that it waits for. Nothing here reads a clock.
"""

from __future__ import annotations

from lockref.runtime import Runtime
from lockref.storage.lockfile import LockFile

FLOOR_NS = 5_000_000
"""No waiter looks twice within 5 ms: a request takes about that long anyway."""

_WINDOW = 0.2
"""Waiters that expect the same end spread over this part of a grant's usual length."""

_OVERDUE_GROWTH = 0.5
_LEARNING = 0.25
_PRESSURE_MAX = 1024.0


class PollPolicy:
    """What one client has learned about the lock it waits for.

    interval_ns: the longest pause between two looks of a crowded waiter, and
    the pause of one that has learned nothing yet.
    """

    def __init__(self, interval_ns: int, runtime: Runtime) -> None:
        self._interval_ns = interval_ns
        self._random = runtime.random
        self._grant_ns: float | None = None
        self._pressure = 1.0
        self._holder: tuple[str | None, int | None] | None = None
        self._holder_seen_ns = 0

    @property
    def expected_grant_ns(self) -> int | None:
        """How long a grant usually lasts, as far as known."""
        return None if self._grant_ns is None else round(self._grant_ns)

    def begin(self) -> None:
        """A call begins: what was seen before it no longer tells when a grant began."""
        self._holder = None

    def won(self) -> None:
        """We were granted the lock: the crowd is smaller than feared."""
        self._pressure = max(1.0, self._pressure / 2)

    def held(self, duration_ns: int) -> None:
        """A tenure of our own lasted so long; the others' are probably alike."""
        self._learn(duration_ns)

    def pause_ns(self, record: LockFile, *, now_ns: int, lapses_in_ns: int) -> int:
        """How long to wait after `record`, somebody's live lease, was seen at monotonic `now_ns`.

        lapses_in_ns: until the lease may be taken over if nobody renews it.
        """
        self._observe(record, now_ns)
        pause_ns = self._until_end_ns(now_ns)
        return max(1, min(round(pause_ns), lapses_in_ns))

    def _observe(self, record: LockFile, now_ns: int) -> None:
        holder = (record.owner, record.fence)
        if holder == self._holder:
            return
        if self._holder is not None:
            # Somebody was quicker than we were.
            self._pressure = min(_PRESSURE_MAX, self._pressure * 2)
            before = self._holder[1]
            if before is not None and record.fence is not None and record.fence > before:
                self._learn((now_ns - self._holder_seen_ns) / (record.fence - before))
        self._holder = holder
        self._holder_seen_ns = now_ns

    def _learn(self, duration_ns: float) -> None:
        if self._grant_ns is None:
            self._grant_ns = duration_ns
        else:
            self._grant_ns += _LEARNING * (duration_ns - self._grant_ns)

    def _until_end_ns(self, now_ns: int) -> float:
        if self._grant_ns is None:
            return self._interval_ns * self._random.uniform(0.75, 1.0)
        usual_ns = max(self._grant_ns, float(FLOOR_NS))
        age_ns = now_ns - self._holder_seen_ns
        spread_ns = usual_ns * _WINDOW * self._random.random()
        if age_ns < usual_ns:
            # Sit out some grants, the more of us there are; but look once per interval.
            rounds = min(int(self._random.uniform(0, self._pressure)), int(self._interval_ns / usual_ns))
            return min(usual_ns * (rounds + 1) - age_ns + spread_ns, float(self._interval_ns))
        overdue_ns = (age_ns - usual_ns) * _OVERDUE_GROWTH
        return min(max(overdue_ns, usual_ns * _WINDOW, float(FLOOR_NS)) + spread_ns, float(self._interval_ns))
