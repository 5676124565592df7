"""Forms of faults that may strike a request: their kinds, each at the cuts and with the lengths that mean something.

All of them are faults that a correct lock survives (`ENVELOPE_KINDS`), and two of them together are, too: a clock jumps
by half of what two clocks may differ. Lengths are in the terms of the lock: shorter than its lease or longer, longer
than it waits for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lockref.provider import DEFAULT_STORE
from scenarios.definition.draw import DrawnScenario
from scenarios.definition.schema import RESOURCE_NAME, Scenario
from scenarios.search.requests import RequestPlace
from sim.faults.fault import CUTS, Fault
from sim.faults.operations import CHANGING_OPS
from sim.faults.plan import FAULT_TYPES

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The durations, in nanoseconds, by which faults are measured, and who is there.

    validity_ns: of the lock's record. poll_ns: how often a waiter looks. patience_ns: how long the lock waits for one
    answer. jump_ns: how far a clock may jump so that two such jumps stay within the envelope.
    """

    validity_ns: int
    poll_ns: int
    patience_ns: int
    jump_ns: int

    @classmethod
    def of(cls, scenario: Scenario, drawn: DrawnScenario, request_timeout_ns: int) -> Terms:
        """request_timeout_ns: of the lock, as a run has shown it."""
        return cls(
            validity_ns=drawn.validity_ns,
            poll_ns=drawn.poll_interval_ns,
            patience_ns=request_timeout_ns or drawn.poll_interval_ns,
            jump_ns=scenario.envelope.offset.most // 2,
        )

    @property
    def beyond_ns(self) -> int:
        """Longer than a lease, and than a waiter takes to see that: so that its successor is at work."""
        return self.validity_ns + self.poll_ns + self.poll_ns // 4

    @property
    def within_ns(self) -> int:
        """Shorter than a lease, longer than most else."""
        return self.validity_ns // 2

    @property
    def late_ns(self) -> int:
        """Longer than the lock waits for an answer."""
        return self.patience_ns + self.patience_ns // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way in which a request may be struck.

    name: for people. cut: where on its way. fields: of the fault, without its id and its place.
    is_last: the client does not ask for the lock again after the cycle of that request.
    is_late: the request takes effect after a lease, when a successor is at work.
    """

    name: str
    kind: str
    cut: str
    fields: Callable[[RequestPlace, Terms], Fields]
    ops: frozenset[str] | None = None
    is_last: bool = False
    is_late: bool = False

    @property
    def way(self) -> str:
        """The name without the cut: the same wherever on its way the request is struck."""
        return self.name.removesuffix(f" at {self.cut}")

    def fits(self, place: RequestPlace, terms: Terms) -> bool:
        """False for a form that says nothing about such a request, such as a clock that may not be wrong."""
        return (self.ops is None or place.op in self.ops) and (self.kind != "step" or terms.jump_ns > 0)

    def fault(self, place: RequestPlace, terms: Terms, *, number: int) -> Fault:
        """The fault. number: of it within its plan; ids of one plan differ by it."""
        kind = FAULT_TYPES[self.kind]
        words = f"{number}-{self.kind.replace('_', '-')}-{place.client}-{place.op}-{place.nth}-{self.cut}"
        fields = {"id": words[:64], "when": place.trigger(self.cut), **self.fields(place, terms)}
        return kind.model_validate(fields)


def _plain(fields: Mapping[str, Any]) -> Callable[[RequestPlace, Terms], Fields]:
    return lambda _place, _terms: dict(fields)


def _request_forms() -> Iterator[Form]:
    nothing = _plain({})
    yield Form(name="request lost", kind="lose_request", cut="c1", fields=nothing)
    yield Form(name="answer lost", kind="lose_reply", cut="c3", fields=nothing)
    for cut, statuses in (("c1", (409, 429, 503, "reset")), ("c2", (500, "reset"))):
        for status in statuses:
            # 409 and 429 say that nothing was changed, which no read needs to be told.
            ops = CHANGING_OPS if status == 409 else None
            fields = _plain({"status": status, "cut": cut})
            yield Form(name=f"{status} at {cut}", kind="error", cut=cut, fields=fields, ops=ops)
    yield Form(
        name="request late", kind="delay", cut="c1", fields=lambda _p, t: {"by_ns": t.late_ns, "direction": "request"}
    )
    yield Form(
        name="request later than a lease", kind="delay", cut="c1", ops=CHANGING_OPS, is_late=True,
        fields=lambda _p, t: {"by_ns": t.beyond_ns, "direction": "request"},
    )  # fmt: skip
    yield Form(
        name="answer slow", kind="delay", cut="c3",
        fields=lambda _p, t: {"by_ns": t.patience_ns * 4 // 5, "direction": "reply"},
    )  # fmt: skip
    yield Form(
        name="arrived again", kind="duplicate", cut="c1", ops=CHANGING_OPS, is_late=True,
        fields=lambda _p, t: {"gap_ns": t.beyond_ns},
    )  # fmt: skip
    yield Form(name="sent again by the SDK", kind="hidden_retry", cut="c2", ops=CHANGING_OPS, fields=nothing)
    # The same, and the client leaves: nobody cleans up what it does not know.
    yield Form(name="answer lost, and no more", kind="lose_reply", cut="c3", fields=nothing, is_last=True)
    yield Form(name="request lost, and no more", kind="lose_request", cut="c1", fields=nothing, is_last=True)
    yield Form(
        name="request late, and no more", kind="delay", cut="c1", is_last=True, ops=CHANGING_OPS,
        fields=lambda _p, t: {"by_ns": t.late_ns, "direction": "request"},
    )  # fmt: skip


def _state_forms(cut: str) -> Iterator[Form]:
    def of(fields: Callable[[RequestPlace, Terms], Fields]) -> Callable[[RequestPlace, Terms], Fields]:
        return lambda place, terms: {"client": place.client, **fields(place, terms)}

    beyond = of(lambda _p, t: {"for_ns": t.beyond_ns})
    within = of(lambda _p, t: {"for_ns": t.within_ns})
    yield Form(name=f"paused beyond its lease at {cut}", kind="pause", cut=cut, fields=beyond, is_late=cut == "c0")
    yield Form(name=f"paused within its lease at {cut}", kind="pause", cut=cut, fields=within)
    yield Form(
        name=f"heartbeat paused at {cut}", kind="pause", cut=cut,
        fields=of(lambda _p, t: {"for_ns": t.beyond_ns, "task": "heartbeat"}),
    )  # fmt: skip
    yield Form(name=f"suspended at {cut}", kind="suspend", cut=cut, fields=beyond, is_late=cut == "c0")
    yield Form(name=f"crashed at {cut}", kind="crash", cut=cut, fields=of(lambda _p, _t: {}))
    yield Form(
        name=f"crashed and started again at {cut}", kind="crash", cut=cut,
        fields=of(lambda _p, t: {"restart_after_ns": t.validity_ns // 10}),
    )  # fmt: skip
    for sign, way in ((1, "forward"), (-1, "back")):
        yield Form(name=f"clock {way} at {cut}", kind="step", cut=cut, fields=_jump(sign))
    for way, is_cut in (("cut off", _cut_off), ("unheard", _unheard), ("deaf", _deaf)):
        yield Form(name=f"{way} at {cut}", kind="partition", cut=cut, fields=is_cut)


def _jump(sign: int) -> Callable[[RequestPlace, Terms], Fields]:
    return lambda place, terms: {"client": place.client, "by_ns": sign * terms.jump_ns}


def _cut_off(place: RequestPlace, terms: Terms) -> Fields:
    groups = ((place.client,), (DEFAULT_STORE, RESOURCE_NAME))
    return {"groups": groups, "for_ns": terms.beyond_ns}


def _unheard(place: RequestPlace, terms: Terms) -> Fields:
    return {"groups": ((place.client,), (DEFAULT_STORE,)), "one_way": True, "for_ns": terms.beyond_ns}


def _deaf(place: RequestPlace, terms: Terms) -> Fields:
    return {"groups": ((DEFAULT_STORE,), (place.client,)), "one_way": True, "for_ns": terms.beyond_ns}


REQUEST_FORMS: Final = tuple(_request_forms())
"""The forms that strike one request and nothing else: no process stands still, dies or is cut off, no clock jumps."""

FORMS: Final = (*REQUEST_FORMS, *(form for cut in CUTS for form in _state_forms(cut)))
"""Every form, in the order in which they are tried."""
