"""Histories of a store that keeps its conditions, drawn from a linear model: legal by construction.

Clients write, delete and read one object, each one request after the other. Each request takes effect at one instant
of the model, or never, and three in ten answers are lost. What a client knows, it knows from answers that it had. The
judge sees what it sees of a real run: requests and answers, and no instant at which anything took effect.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from random import Random
from typing import Final

from lockref.words import IF_ABSENT, Kind, Op, Outcome
from tests.histories import History

LOST: Final = 0.3
CLIENTS: Final = ("n1", "n2", "n3", "n4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. condition: a version, `IF_ABSENT`, or "" for none. content: what it writes; "" deletes or reads."""

    number: int
    node: str
    op: Op
    sent: int
    condition: str = ""
    content: str = ""


@dataclass(slots=True)
class Drawn:
    """A history; and the confirmed conditional puts in it, with the instant of their answers and what they made."""

    history: History
    winners: list[tuple[Request, int, str]] = field(default_factory=list)


class Store:
    """The linear model: one object, and a version that is never used again. content: what stands there already.

    repeats: the version is the content's, as an ETag is, so equal contents have equal versions.
    """

    def __init__(self, *, repeats: bool, content: str = "") -> None:
        self.version, self.content = "", ""
        self._repeats = repeats
        self._count = itertools.count(1)
        if content:
            self.apply(Request(number=0, node="", op=Op.ACQUIRE, sent=0, content=content))

    def apply(self, request: Request) -> tuple[Outcome, str]:
        """What the store answers, and the version that it names."""
        if request.op is Op.READ:
            return Outcome.APPLIED, self.version
        if request.condition not in ("", self.version or IF_ABSENT):
            return Outcome.PRECONDITION_FAILED, ""
        if request.op is Op.DELETE:
            self.version = self.content = ""
        else:
            self.content = request.content
            self.version = f"etag-{request.content}" if self._repeats else f"v{next(self._count)}"
        return Outcome.APPLIED, self.version


def draw(seed: int, *, requests: int = 40, blind: float = 0.15, repeats: bool = False) -> Drawn:
    """A legal history. blind: how many of the writes carry no condition; repeats: contents and versions come again."""
    random = Random(seed)
    # A bucket need not be empty when a run begins.
    store = Store(repeats=repeats, content="c1" if random.random() < 0.5 else "")
    drawn = Drawn(History(is_simulated=False, run={"end_ns": 10**6}))
    known = dict.fromkeys(CLIENTS, "")
    numbers = itertools.count(1)
    # (instant, order of drawing, what happens): a client goes on, or a request takes effect.
    agenda: list[tuple[int, int, str, Request | None]] = []
    ties = itertools.count()
    for node in CLIENTS:
        heapq.heappush(agenda, (random.randint(0, 20), next(ties), node, None))
    while agenda:
        at, _, node, request = heapq.heappop(agenda)
        if request is None:
            if (number := next(numbers)) <= requests:
                sent = _drawn_request(random, number, node, at, known[node], blind=blind, repeats=repeats)
                _record(drawn.history, Kind.SENT, at, sent)
                is_late = random.random() < 0.2
                heapq.heappush(agenda, (at + random.randint(1, 60 if is_late else 8), next(ties), node, sent))
            continue
        gives_up = request.sent + 20
        is_lost = random.random() < LOST or at >= gives_up
        if not (is_lost and random.random() < 0.4):
            outcome, version = store.apply(request)
        answered = gives_up if is_lost else min(at + random.randint(1, 8), gives_up)
        if not is_lost:
            _record(drawn.history, Kind.REPLIED, answered, request, outcome, version, store.content)
            if outcome is Outcome.APPLIED:
                known[node] = version
                if request.content and request.condition not in ("", IF_ABSENT):
                    drawn.winners.append((request, answered, version))
        elif random.random() < 0.5:
            # Its client heard of it, and no more than that. Of the others nothing is on record but the sending.
            _record(drawn.history, Kind.REPLIED, max(gives_up, request.sent + 1), request, Outcome.AMBIGUOUS)
        heapq.heappush(agenda, (max(answered, at) + random.randint(1, 6), next(ties), node, None))
    return drawn


def twin(drawn: Drawn, seed: int) -> History | None:
    """The history with one confirmed winner confirmed to another author, too: illegal. None where nobody won."""
    if not drawn.winners:
        return None
    random = Random(seed)
    request, answered, _ = random.choice(drawn.winners)
    shift = random.randint(0, 3)
    other = Request(
        number=9999, node="n9", op=request.op, sent=request.sent + shift, condition=request.condition,
        content=request.content and "the other's",
    )  # fmt: skip
    _record(drawn.history, Kind.SENT, other.sent, other)
    made = "" if request.op is Op.DELETE else "the other's version"
    _record(drawn.history, Kind.REPLIED, answered + random.randint(0, 5), other, Outcome.APPLIED, made)
    return drawn.history


def _drawn_request(
    random: Random, number: int, node: str, at: int, known: str, *, blind: float, repeats: bool
) -> Request:
    kind = random.random()
    if kind < 0.3:
        return Request(number=number, node=node, op=Op.READ, sent=at)
    condition = "" if random.random() < blind else known or IF_ABSENT
    if kind < 0.45 and condition != IF_ABSENT:
        return Request(number=number, node=node, op=Op.DELETE, sent=at, condition=condition)
    content = f"c{random.randint(1, 4)}" if repeats else f"new{number}"
    return Request(number=number, node=node, op=Op.ACQUIRE, sent=at, condition=condition, content=content)


def _record(
    history: History, kind: Kind, at: int, request: Request, outcome: Outcome = Outcome.NONE, version: str = "",
    seen: str = "",
) -> None:  # fmt: skip
    content = seen if request.op is Op.READ else request.content
    history.event(
        kind, at, request.node, op=request.op, request=request.number, if_version=request.condition, content=content,
        owner="" if request.op is Op.DELETE or not content else f"owner-{content}", outcome=outcome, version=version,
    )  # fmt: skip
