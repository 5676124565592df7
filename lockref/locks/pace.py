"""The usual durations of the requests, grants and turns of one lock, as one of its clients sees them.

Each figure follows what is seen by a quarter of the difference, so that one slow answer changes little.
"""

from __future__ import annotations

from typing import Final

from lockref.runtime import NS_PER_MS

FLOOR_NS: Final = 5 * NS_PER_MS
"""The duration of a request, for a client that has measured none."""
_LEARNING: Final = 0.25


class Pace:
    """The usual durations, in nanoseconds; None: not seen yet.

    own_ns: of one grant in our own turn, from one acquiring write to the next.
    turn_ns: of one turn of anybody, with the time until the next one begins.
    away_ns: from our release to our next call.
    """

    def __init__(self) -> None:
        self.own_ns: float | None = None
        self.turn_ns: float | None = None
        self.away_ns: float | None = None
        self._request_ns: float | None = None
        self._any_ns: float | None = None
        # A token and the number of a turn that were seen, and when.
        self._token_seen: tuple[int, int] | None = None
        self._turn_seen: tuple[int, int] | None = None

    @property
    def request_ns(self) -> float:
        """The usual duration of one request."""
        return self._request_ns or FLOOR_NS

    @property
    def grant_ns(self) -> float | None:
        """The usual duration of one grant. That of anybody's has the gaps between turns in it, so it is the most."""
        if self.own_ns is None or self._any_ns is None:
            return self._any_ns if self.own_ns is None else self.own_ns
        return min(self.own_ns, self._any_ns)

    def asked(self, duration_ns: int) -> None:
        """A request took so long."""
        self._request_ns = _learned(self._request_ns, duration_ns)

    def came_back(self, away_ns: int) -> None:
        """A call came so long after our release."""
        self.away_ns = _learned(self.away_ns, away_ns)

    def had(self, grant_ns: int) -> None:
        """A grant in our own turn took so long."""
        self.own_ns = _learned(self.own_ns, grant_ns)

    def saw(self, token: int, number: int, now_ns: int) -> None:
        """A record of another client was seen. number: of its turn. Too few of either tell nothing of a duration."""
        if self._token_seen is None or token < self._token_seen[0]:
            self._token_seen = (token, now_ns)
        elif token > self._token_seen[0] + 2:
            self._any_ns = _learned(self._any_ns, _each(self._token_seen, token, now_ns))
            self._token_seen = (token, now_ns)
        if self._turn_seen is None or number < self._turn_seen[0]:
            self._turn_seen = (number, now_ns)
        elif number > self._turn_seen[0] + 1:
            self.turn_ns = _learned(self.turn_ns, _each(self._turn_seen, number, now_ns))
            self._turn_seen = (number, now_ns)

    def forget_sightings(self) -> None:
        """Our own grants lie between what was seen of others and what will be."""
        self._token_seen = self._turn_seen = None


def _each(seen: tuple[int, int], count: int, now_ns: int) -> float:
    return (now_ns - seen[1]) / (count - seen[0])


def _learned(before: float | None, found: float) -> float:
    return float(found) if before is None else before + _LEARNING * (found - before)
