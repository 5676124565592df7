"""Per-node clocks.

A clock is a piecewise linear map from true time to local time. Timers are
solved on the map instead of polled, so a slow clock really wakes late. Wall
and monotonic readings share one map but not one offset: a step moves only the
wall. Freezing stops both; at its end the wall catches up in one step, as after
a machine suspend, and monotonic time goes on where it stopped.

Only the present piece is kept: readings are asked for now, never for the past.
"""

from __future__ import annotations

from lockref.errors import ConfigError
from lockref.runtime import MonoNs, WallNs

WALL_EPOCH_NS = 1_700_000_000 * 1_000_000_000
"""What an undisturbed wall clock shows at true time 0."""

PPM = 1_000_000


class NodeClock:
    """One node's wall and monotonic clock as functions of true time.

    wall_offset_ns: wall minus true wall at the start. rate_ppm: how much faster
    than true time both clocks run. mono_start_ns: the monotonic reading at true
    time 0; arbitrary, as on real machines, so that comparing two nodes'
    monotonic readings is visibly nonsense.

    Every method takes true time, which must not go backwards over a change.
    """

    __slots__ = (
        "_catch_up_ns", "_from_ns", "_mono_ns", "_rate", "_wall_minus_mono_ns", "mono_shift_ns", "wall_shift_ns",
    )  # fmt: skip

    def __init__(self, *, wall_offset_ns: int = 0, rate_ppm: int = 0, mono_start_ns: int = 0) -> None:
        # The piece: from `_from_ns` on, local time runs at `_rate` / PPM. A
        # piece that begins in the future is a freeze until then.
        self._from_ns = 0
        self._mono_ns = mono_start_ns
        self._rate = PPM + _checked_rate(rate_ppm)
        self._wall_minus_mono_ns = WALL_EPOCH_NS + wall_offset_ns - mono_start_ns
        self._catch_up_ns = 0
        # Monotonic and wall time minus true time while these are constants,
        # which is the common case and worth a shortcut; None while they are not.
        self.mono_shift_ns: int | None = None
        self.wall_shift_ns: int | None = None
        self._update_shifts(0)

    # The readings are the simulator's most frequent calls, and calling a
    # NewType costs as much as taking one; hence the ignored return types.

    def mono_ns(self, true_ns: int) -> MonoNs:
        """The monotonic reading."""
        shift = self.mono_shift_ns
        if shift is not None:
            return true_ns + shift  # type: ignore[return-value]
        elapsed = true_ns - self._from_ns
        if elapsed <= 0:
            return self._mono_ns  # type: ignore[return-value]
        return self._mono_ns + elapsed * self._rate // PPM  # type: ignore[return-value]

    def wall_ns(self, true_ns: int) -> WallNs:
        """The wall reading."""
        shift = self.wall_shift_ns
        if shift is not None:
            return true_ns + shift  # type: ignore[return-value]
        if true_ns < self._from_ns:
            return WallNs(self._mono_ns + self._wall_minus_mono_ns - self._catch_up_ns)
        return WallNs(self.mono_ns(true_ns) + self._wall_minus_mono_ns)

    def both_ns(self, true_ns: int) -> tuple[WallNs, MonoNs]:
        """Wall and monotonic reading of one instant."""
        shift = self.mono_shift_ns
        if shift is not None:
            mono_ns = true_ns + shift
            return mono_ns + self._wall_minus_mono_ns, mono_ns  # type: ignore[return-value]
        return self.wall_ns(true_ns), self.mono_ns(true_ns)

    def true_at_mono(self, true_ns: int, mono_ns: int) -> int:
        """The first true instant, not before `true_ns`, at which the monotonic clock shows at least `mono_ns`."""
        missing = mono_ns - self._mono_ns
        if missing <= 0:
            return true_ns
        return max(true_ns, self._from_ns - (-missing * PPM // self._rate))

    @property
    def rate_ppm(self) -> int:
        """The rate error of the clocks: how much faster than true time they run."""
        return self._rate - PPM

    def is_frozen(self, true_ns: int) -> bool:
        """True while local time stands still."""
        return true_ns < self._from_ns

    def set_rate(self, true_ns: int, rate_ppm: int) -> None:
        """Run at another rate from now on; readings stay continuous."""
        self._begin_piece(true_ns)
        self._rate = PPM + _checked_rate(rate_ppm)
        self._update_shifts(true_ns)

    def step_wall(self, true_ns: int, by_ns: int) -> None:
        """Move the wall clock at once; the monotonic clock and timers do not notice."""
        self._begin_piece(true_ns)
        self._wall_minus_mono_ns += by_ns
        self._update_shifts(true_ns)

    def freeze(self, true_ns: int, for_ns: int) -> None:
        """Stop both clocks for `for_ns` of true time. A freeze inside a freeze can only make it longer."""
        assert for_ns >= 0, "a freeze has no negative length"
        self._begin_piece(true_ns)
        longer_ns = true_ns + for_ns - self._from_ns
        if longer_ns > 0:
            self._from_ns += longer_ns
            self._catch_up_ns += longer_ns
            self._wall_minus_mono_ns += longer_ns
            self._update_shifts(true_ns)

    def _begin_piece(self, true_ns: int) -> None:
        """Let the piece start now, without changing a reading; a freeze under way keeps its end."""
        if true_ns >= self._from_ns:
            self._mono_ns = int(self.mono_ns(true_ns))
            self._from_ns = true_ns
            self._catch_up_ns = 0
            self._update_shifts(true_ns)

    def _update_shifts(self, true_ns: int) -> None:
        """Say whether readings are a constant away from true time. Called after every change of the piece."""
        if self._rate == PPM and true_ns >= self._from_ns:
            self.mono_shift_ns = self._mono_ns - self._from_ns
            self.wall_shift_ns = self.mono_shift_ns + self._wall_minus_mono_ns
        else:
            self.mono_shift_ns = self.wall_shift_ns = None


def _checked_rate(rate_ppm: int) -> int:
    if not -PPM < rate_ppm < PPM:
        raise ConfigError(f"a clock's rate is {rate_ppm} ppm; expected more than -{PPM} and less than {PPM}")
    return rate_ppm
