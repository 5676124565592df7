"""Node clocks: readings, and timers solved on the map."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockref.errors import ConfigError
from sim.kernel.clocks import WALL_EPOCH_NS, NodeClock

S = 1_000_000_000

changes = st.lists(
    st.tuples(
        st.integers(0, 20 * S),
        st.one_of(
            st.tuples(st.just("rate"), st.integers(-200_000, 200_000)),
            st.tuples(st.just("step"), st.integers(-30 * S, 30 * S)),
            st.tuples(st.just("freeze"), st.integers(0, 5 * S)),
        ),
    ),
    max_size=6,
)


def change(clock: NodeClock, at_ns: int, what: tuple[str, Any]) -> None:
    name, value = what
    {"rate": clock.set_rate, "step": clock.step_wall, "freeze": clock.freeze}[name](at_ns, value)


@given(changes, st.integers(0, 10 * S))
def test_monotonic_time_never_goes_back(plan, start):
    """A monotonic clock is monotone over every drift, step and freeze, and continuous at each."""
    clock = NodeClock(mono_start_ns=start, rate_ppm=50)
    last = clock.mono_ns(0)
    for at_ns, what in sorted(plan, key=lambda entry: entry[0]):
        reading = clock.mono_ns(at_ns)
        assert reading >= last
        change(clock, at_ns, what)
        assert clock.mono_ns(at_ns) == reading
        last = reading
    for later in (20 * S, 21 * S, 40 * S):
        assert clock.mono_ns(later) >= last
        last = clock.mono_ns(later)


@given(changes, st.integers(0, 40 * S))
def test_reading_both_clocks_is_reading_each(plan, later_ns):
    """One call for two readings answers what two calls do, in every piece: steps, rates, and inside a freeze."""
    clock = NodeClock(mono_start_ns=7)
    at_ns = 0
    for at_ns, what in sorted(plan, key=lambda entry: entry[0]):
        assert clock.both_ns(at_ns) == (clock.wall_ns(at_ns), clock.mono_ns(at_ns))
        change(clock, at_ns, what)
        assert clock.both_ns(at_ns) == (clock.wall_ns(at_ns), clock.mono_ns(at_ns))
    at_ns += later_ns
    assert clock.both_ns(at_ns) == (clock.wall_ns(at_ns), clock.mono_ns(at_ns))


@given(changes, st.integers(0, 30 * S), st.integers(0, 60 * S))
def test_timer_is_the_first_instant_that_reaches_it(plan, ask_ns, wait_ns):
    """The inverse is exact: at the instant found the clock shows the target, one nanosecond earlier it does not."""
    clock = NodeClock(mono_start_ns=7)
    for at_ns, what in sorted(plan, key=lambda entry: entry[0]):
        change(clock, at_ns, what)
    ask_ns = max([ask_ns, *(at_ns for at_ns, _ in plan)])
    target = clock.mono_ns(ask_ns) + wait_ns
    due = clock.true_at_mono(ask_ns, target)
    assert clock.mono_ns(due) >= target
    assert due == ask_ns or clock.mono_ns(due - 1) < target


def test_slow_clock_wakes_late():
    """A clock 10 % slow needs 10/9 of the time for its timer."""
    clock = NodeClock(rate_ppm=-100_000)
    assert clock.true_at_mono(0, 9 * S) == 10 * S


def test_step_moves_only_the_wall():
    """A wall step leaves monotonic time and timers alone (E31)."""
    clock = NodeClock()
    clock.step_wall(5 * S, -3 * S)
    assert clock.wall_ns(6 * S) == WALL_EPOCH_NS + 3 * S
    assert clock.mono_ns(6 * S) == 6 * S
    assert clock.true_at_mono(5 * S, 8 * S) == 8 * S


def test_freeze_stops_both_and_the_wall_catches_up_at_once():
    """H1: during a freeze nothing moves; at its end the wall is right again and monotonic time has lost the window."""
    clock = NodeClock()
    clock.freeze(2 * S, 4 * S)
    assert clock.is_frozen(5 * S)
    assert (clock.mono_ns(5 * S), clock.wall_ns(5 * S)) == (2 * S, WALL_EPOCH_NS + 2 * S)
    assert (clock.mono_ns(7 * S), clock.wall_ns(7 * S)) == (3 * S, WALL_EPOCH_NS + 7 * S)
    assert clock.wall_ns(6 * S) == WALL_EPOCH_NS + 6 * S
    assert clock.true_at_mono(3 * S, 3 * S) == 7 * S


def test_freeze_within_a_freeze_only_lengthens():
    """Overlapping freezes are one freeze up to the later end."""
    clock = NodeClock()
    clock.freeze(1 * S, 4 * S)
    clock.freeze(2 * S, 1 * S)
    assert not clock.is_frozen(5 * S)
    clock.freeze(3 * S, 5 * S)
    assert clock.is_frozen(8 * S - 1)
    assert clock.mono_ns(9 * S) == 2 * S
    assert clock.wall_ns(9 * S) == WALL_EPOCH_NS + 9 * S


def test_drift_is_shared_by_wall_and_monotonic_clock():
    """Both clocks hang on one oscillator."""
    clock = NodeClock(rate_ppm=1000, wall_offset_ns=5)
    assert clock.mono_ns(S) == S + S // 1000
    assert clock.wall_ns(S) == WALL_EPOCH_NS + 5 + S + S // 1000


@pytest.mark.parametrize("rate_ppm", [-1_000_000, 1_000_000])
def test_clock_that_stands_still_or_doubles_is_refused(rate_ppm):
    """A rate of -100 % has no inverse; it is a freeze, and is refused."""
    with pytest.raises(ConfigError, match="rate"):
        NodeClock(rate_ppm=rate_ppm)


def test_second_freeze_remembers_nothing_of_the_first():
    """M: at the start of each freeze the wall stands where it was, and no reading goes back."""
    clock = NodeClock()
    clock.freeze(1 * S, 2 * S)
    before = clock.wall_ns(9 * S)
    clock.freeze(9 * S, 5 * S)
    assert clock.wall_ns(9 * S) == clock.wall_ns(12 * S) == before
    assert clock.wall_ns(14 * S) == WALL_EPOCH_NS + 14 * S


def test_lengthened_freeze_stands_still_to_its_end():
    """A freeze that is made longer moves neither clock before its new end; then the wall catches up on all of it."""
    clock = NodeClock()
    clock.freeze(1 * S, 4 * S)
    still = clock.both_ns(2 * S)
    clock.freeze(3 * S, 6 * S)
    assert clock.both_ns(3 * S) == clock.both_ns(8 * S) == still == (WALL_EPOCH_NS + S, S)
    assert clock.both_ns(9 * S) == (WALL_EPOCH_NS + 9 * S, S)
