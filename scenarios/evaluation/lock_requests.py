"""The requests that a lock sends, learned by running it: on them depends what a store must keep for it.

A lock that is only read would be taken at its word, and a stranger's lock tells nothing of itself. So it is run in
virtual time, where several clients contend, one crashes while it holds, one loses answers and one is cut off. What its
clients send then is what counts: a condition that no request carries need not be kept by any store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import LockrefError
from lockref.history import to_table
from lockref.lab.loading import ProviderSpec
from lockref.runtime import NS_PER_S
from lockref.stores.probe.clauses import Sent, designs_of
from lockref.words import IF_ABSENT, Kind, Op, counted
from scenarios.batch import run_seeds
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.worlds.real import run_real

SEEDS: Final = range(1, 5)

_TROUBLE: Final = """
version: 1
name: requests-of-a-lock
clients: 4
duration: 120s
lock: {validity: 10s, renew_every: 1s, poll_every: 1s}
workload: {cycles: 4, start: 0s..1s, think: 0s..500ms, hold: 500ms..3s, wait: 40s, clients: {n1: {hold: 30s}}}
faults:
  - {kind: lose_reply, client: n2, op: acquire, nth: 1}
  - {kind: lose_reply, client: n3, op: release, nth: 1}
  - {kind: partition, at: 40s, groups: [[n4], [store]], for: 20s}
  - {kind: crash, client: n1, at: 12s}
"""
_REAL_CLIENTS: Final = 4
_REAL_NS: Final = 2 * NS_PER_S
_ANYWHERE: Final = "memory:requests-of-a-lock"

WRITES: Final = (Op.ACQUIRE, Op.RENEW, Op.RELEASE, Op.WRITE)
"""Operations that write an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequests:
    """The requests of a lock, and what a store must carry for it.

    sent: the conditional requests that it was seen to send. designs: see `designs_of`. is_seen: some request was seen;
    else the lock is asked about as one that compares and swaps. how: how this was learned, in one sentence.
    """

    sent: tuple[Sent, ...]
    designs: tuple[str, ...]
    is_seen: bool
    how: str

    @property
    def words(self) -> str:
        """The requests that the lock sends, as the object of a sentence."""
        return in_words(self.sent) if self.is_seen else "what nobody has seen: it is taken for compare-and-swap"


_UNSEEN: Final = ("cas",)
"""The designs of a lock whose requests nobody could see: what most leases stand on."""


def learn_requests(spec: ProviderSpec) -> LockRequests:
    """Run the lock and tell what it sends. A lock that cannot be run so is taken for one that compares and swaps."""
    try:
        events, how = _real(spec) if spec.needs_real_time else _simulated(spec)
    except LockrefError as error:
        return LockRequests(sent=(), designs=_UNSEEN, is_seen=False, how=f"the lock could not be run: {error}")
    sent = conditions_in(events)
    if not _requests(events):
        return LockRequests(sent=(), designs=_UNSEEN, is_seen=False, how=f"{how}: none of its requests was seen")
    return LockRequests(sent=sent, designs=designs_of(sent), is_seen=True, how=how)


def conditions_in(events: pa.Table) -> tuple[Sent, ...]:
    """The kinds of conditional requests in a history, in the order of `Sent`."""
    sent = events.filter(pc.equal(events["kind"], Kind.SENT.name.lower()))
    named = {op.name.lower(): op for op in (*WRITES, Op.DELETE)}
    pairs = sent.select(["op", "if_version"]).group_by(["op", "if_version"]).aggregate([])
    found = {
        _kind(named[op], condition or "")
        for op, condition in zip(pairs["op"].to_pylist(), pairs["if_version"].to_pylist(), strict=True)
        if op in named
    }
    return tuple(kind for kind in Sent if kind in found)


def _kind(op: Op, condition: str) -> Sent | None:
    """The kind of one request; None of one that carries no condition."""
    if not condition:
        return None
    if op is Op.DELETE:
        return Sent.DELETE
    return Sent.CREATE if condition == IF_ABSENT else Sent.REPLACE


def _requests(events: pa.Table) -> int:
    return len(events.filter(pc.equal(events["kind"], Kind.SENT.name.lower())))


def _simulated(spec: ProviderSpec) -> tuple[pa.Table, str]:
    outcomes = run_seeds(parse_scenario(_TROUBLE.lstrip("\n")), spec, list(SEEDS))
    events = to_table([outcome.recorder for outcome in outcomes], [outcome.seed for outcome in outcomes])
    runs = counted(len(outcomes), "run")
    return (
        events,
        f"{_requests(events):,} requests of {runs} in virtual time, with contention, a crash and lost answers",
    )


def _real(spec: ProviderSpec) -> tuple[pa.Table, str]:
    """For a lock with clocks or threads of its own, which no simulation can turn."""
    done = run_real(load_scenario("contention"), spec, _ANYWHERE, clients=_REAL_CLIENTS, duration_ns=_REAL_NS)
    return done.events, f"{_requests(done.events):,} requests of {_REAL_CLIENTS} clients on a store in memory"


def in_words(sent: Iterable[Sent]) -> str:
    """The requests as a list: `creates and replacements by version`; of none, that none carries a condition."""
    named = [kind.value.replace("create", "creates").replace("replacement", "replacements").replace("delete", "deletes")
             for kind in sent]  # fmt: skip
    told = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    return told or "no request under a condition"
