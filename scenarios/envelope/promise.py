"""The promise of a lock: where in an envelope it says that a clause holds. The analytic curve, clause by clause.

Nothing here is measured. `docs/spec.md` says what a lock promises and within which disturbances; the functions below
are those sentences in numbers. A point is inside the promise of a clause while none of its limits is passed.

- *clocks* (spec.md, Glossary, "envelope"; S5): the wall clocks of two processes differ by at most β. A rate error adds
  what it amounts to by the end of the run.
- *lease* (spec.md, Glossary, "validity"; S5): a grant is not replaced before its validity ends, as a waiter reads it: V
  and β after its last renewal was sent, less what the waiter's clock is ahead. That renewal is at most one interval and
  two messages old when a pause begins. Whoever is back by then still has the lock, whether it looks at a clock or not.
  Where messages are lost, nobody can say how old the last renewal is.
- *watch* (spec.md, Liveness, "records that tell a duration"): a waiter takes over once it has seen one record for W on
  its own clock. No two wall clocks are compared, so no offset matters.

Which limits a clause has depends on what the lock says of itself (`lockref.claims`), and on whether its grants carry
tokens (spec.md, S4: "Locks that show tokens are held to S4 everywhere"; without a token nothing stops a late write).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lockref.claims import LEASE, LOSSES, NO_LEASE, TOKENS
from lockref.errors import ConfigError
from lockref.lab.loading import ProviderSpec
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_MS
from reports.checks.spec import CLAUSES
from scenarios.envelope.contended import Point

BETA_NS: Final = LockSettings().drift_bound_ns
"""β of every cell: the scenario leaves it at what locks are promised."""

_PPM: Final = 1_000_000
_STAMPED: Final = frozenset({"rfc91"})
"""Formats of records whose stamp is known to be a lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit of a promise. left_ns: of a point, how far it is from the limit; below 0 it is beyond.

    text: in words. reference: the place of the sentence.
    """

    name: str
    text: str
    reference: str
    left_ns: Callable[[Point], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The promise of one clause: it holds wherever no limit is passed; everywhere if there is none."""

    clause: str
    limits: Sequence[Limit] = ()

    def left_ns(self, point: Point) -> float:
        """The distance of the point from the nearest limit, below 0 beyond it; infinite where there is none."""
        return min((limit.left_ns(point) for limit in self.limits), default=float("inf"))

    def covers(self, point: Point) -> bool:
        return self.left_ns(point) >= 0

    @property
    def references(self) -> list[str]:
        """The places at which the clause and its limits are said."""
        return [f"{self.clause}: {CLAUSES[self.clause]}", *(limit.reference for limit in self.limits)]

    @property
    def text(self) -> str:
        """The limits in words."""
        return " and ".join(limit.text for limit in self.limits) or "everywhere"


def _apart_ns(point: Point) -> float:
    """The largest difference of two wall clocks in the run of a point."""
    return point.offset + point.rate * point.duration_ns / _PPM


def _age_ns(point: Point) -> float:
    """The largest age of the holder's last renewal, from its sending, when a pause begins."""
    return point.renew_every_ns * (1 + point.rate / _PPM) + 2 * point.latency


def _known_age(left_ns: Callable[[Point], float]) -> Callable[[Point], float]:
    return lambda point: float("-inf") if point.loss else left_ns(point)


CLOCKS: Final = Limit(
    name="clocks",
    text=f"clocks agree within β = {BETA_NS // NS_PER_MS} ms",
    reference="Glossary: envelope",
    left_ns=lambda point: BETA_NS - _apart_ns(point),
)
STAMP: Final = Limit(
    name="lease",
    text="the pause ends within the validity and β of the last renewal, less what a clock is ahead",
    reference="Glossary: validity",
    left_ns=_known_age(lambda point: point.validity + BETA_NS - _apart_ns(point) - _age_ns(point) - point.pause),
)


def _watch(watch_ns: Callable[[LockSettings], int]) -> Limit:
    return Limit(
        name="watch",
        text="the pause ends before a waiter has seen one record for W",
        reference="Liveness: records that tell a duration",
        left_ns=_known_age(lambda point: _watched_ns(watch_ns, point) - _age_ns(point) - point.pause),
    )


def _watched_rate(watch_ns: Callable[[LockSettings], int]) -> Limit:
    return Limit(
        name="rates",
        text="the holder's clock counts V before a waiter's counts W",
        reference="Liveness: records that tell a duration",
        left_ns=lambda point: _watched_ns(watch_ns, point) * (1 - point.rate / _PPM) - point.validity,
    )


def _watched_ns(watch_ns: Callable[[LockSettings], int], point: Point) -> float:
    """W at a point; without end before it for a timing that the lock refuses, and so promises nothing about."""
    try:
        return watch_ns(LockSettings(validity_ns=point.validity, renew_interval_ns=point.renew_every_ns))
    except ConfigError:
        return float("-inf")


def promises_of(spec: ProviderSpec, *, shows_tokens: bool) -> Mapping[str, Promise]:
    """The promises of a lock, by clause. Empty for a lock that says nothing by which a promise could be told.

    shows_tokens: its grants carried tokens in the runs.
    """
    claims = frozenset(spec.claims)
    if NO_LEASE in claims:
        # Nobody ever takes over, so no pause and no clock matters.
        return {clause: Promise(clause=clause) for clause in ("S1", "S2", "S3", "S4", "S5", "S6", "S7")}
    is_stamped = spec.record_format in _STAMPED or LEASE in claims
    tells_losses = LOSSES in claims
    if not (is_stamped or tells_losses or spec.watch_ns):
        return {}
    lease = STAMP if spec.watch_ns is None else _watch(spec.watch_ns)
    apart = CLOCKS if spec.watch_ns is None else _watched_rate(spec.watch_ns)
    # Who tells its holder of a loss by the deadline (L4) needs no pause to be short. For all others the lease must
    # outlast it, and the sentences on beliefs, owners and answers hold no longer than that.
    holder = (apart,) if tells_losses else (apart, lease)
    fenced = shows_tokens or TOKENS in claims
    return {
        "S1": Promise(clause="S1"),
        "S2": Promise(clause="S2"),
        "S3": Promise(clause="S3", limits=holder),
        "S4": Promise(clause="S4", limits=() if fenced else (apart, lease)),
        "S5": Promise(clause="S5", limits=(apart,)),
        "S6": Promise(clause="S6", limits=holder),
        "S7": Promise(clause="S7", limits=holder),
    }
