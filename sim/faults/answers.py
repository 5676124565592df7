"""Faults of what a service answers, and of the SDK that hears it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lockref.clouds.statuses import outcome_of
from lockref.runtime import NS_PER_S
from lockref.words import Outcome
from sim.faults.fault import ArmedFault, Cut, Fault, InFlight, Interference, RequestFault, Treatment
from sim.faults.network import hides_something
from sim.faults.operations import WRITE_OPS
from sim.faults.quantities import Count, Duration, InFile

if TYPE_CHECKING:
    from lockref.ports import Reply
    from sim.faults.drawing import Drawing
    from sim.journey import Refusal

UNAPPLIED_STATUSES: tuple[int | str, ...] = (409, 429, 500, 503, "reset", "timeout")
"""What may be answered in the place of applying a write."""

AMBIGUOUS_STATUSES: tuple[int | str, ...] = tuple(
    status for status in UNAPPLIED_STATUSES if isinstance(status, str) or outcome_of(status) is Outcome.AMBIGUOUS
)
"""The statuses that leave open whether the request was applied. No other one may be drawn for an applied write: 409 and
429 say that it was not."""


class Error(RequestFault):
    """The service answers with `status`, before applying (`cut: c1`) or after (`cut: c2`) (E6, E16, E29).

    status: an HTTP status, or `reset` for a broken connection, or `timeout` for no answer at all. 429 says that the
    request was not applied; 5xx leaves it open (503, too), but 501 does not. cut: where it is not given, the trigger's
    if that is c1 or c2, else c1.
    """

    kind: Literal["error"] = "error"
    rank: ClassVar[int] = 80
    status: Annotated[
        Annotated[int, Field(ge=400, le=599)] | Literal["reset", "timeout"],
        InFile(Literal[403, 409, 412, 429, 500, 501, 502, 503, "reset", "timeout"]),
    ]
    cut: Literal["c1", "c2"] | None = None

    @property
    def is_late(self) -> bool:
        return self.strikes_at == "c2"

    @property
    def strikes_at(self) -> Cut:
        """The cut that counts."""
        if self.cut is not None:
            return self.cut
        return "c2" if self.when is not None and self.when.cut == "c2" else "c1"

    def refusal(self, armed: ArmedFault[Fault], in_flight: InFlight, cut: Cut) -> Refusal | None:
        if self.strikes_at != cut:
            return None
        # At c1 the request is not applied because of the fault; at c2 the fault hides what the request did.
        armed.fire(has_mattered=hides_something(in_flight) if cut == "c2" else not in_flight.is_over)
        if isinstance(self.status, int):
            return self.status, f"status {self.status} (injected)"
        return None, self.status

    def loses_reply(self, armed: ArmedFault[Fault], in_flight: InFlight) -> bool:
        return self.status == "timeout"

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        cut = drawing.rng.choice(("c1", "c2"))
        status = drawing.rng.choice(UNAPPLIED_STATUSES if cut == "c1" else AMBIGUOUS_STATUSES)
        fields = drawing.filter()
        # `write` is every request to the resource. It is also a write to the store by a lock with unreadable records.
        service = {} if fields.get("op") == "write" else {"service": "store"}
        return {**fields, **service, "cut": cut, "status": status}

    def forms(self) -> list[str]:
        return [f"{self.kind} {self.status} at {self.strikes_at}"]

    def interference(self) -> Interference | None:
        if isinstance(self.status, int):
            # After the write only: an answer without the server would need the whole request read first.
            return Interference(answer=self.status) if self.strikes_at == "c2" else None
        act = Treatment.RESET if self.status == "reset" else Treatment.HOLD
        return Interference(request=act) if self.strikes_at == "c1" else Interference(reply=act)

    def happened(self) -> str:
        when = "after" if self.strikes_at == "c2" else "before"
        said = f"was answered with {self.status}" if isinstance(self.status, int) else f"met a {self.status}"
        return f"{self.struck} {said}, {when} the service had applied it"


class _Partitions(dict[tuple[str, bool], tuple[int, int]]):
    """By key, and whether for reads: what is left of its limit, in billionths of a request, and since when."""


class Throttle(RequestFault):
    """A table's partition serves `reads` and `writes` requests a second and refuses the others, unapplied, with `code`.

    Every key is a partition of its own, and all clients share it. A key that was idle for a second serves a whole
    second's requests at once. key: only this one. reads, writes: not limited where they are not given. A lock's row has
    less than 1 kB, so a consistent read costs one read unit and a write one write unit, whether its condition holds or
    not.
    """

    kind: Literal["throttle"] = "throttle"
    rank: ClassVar[int] = 85
    key: str | None = None
    reads: Count | None = None
    writes: Count | None = None
    code: Literal["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"] = (
        "ProvisionedThroughputExceededException"
    )

    @model_validator(mode="after")
    def _limits_something(self) -> Throttle:
        if self.reads is None and self.writes is None:
            raise ValueError("limits nothing; give 'reads', 'writes' or both, in requests a second")
        return self

    def obstacle(self) -> str:
        return "" if self.key is None else "the wire does not show which key a request is about; leave out `key`"

    def refusal(self, armed: ArmedFault[Fault], in_flight: InFlight, cut: Cut) -> Refusal | None:
        key, is_read = in_flight.request.key, in_flight.op == "read"
        per_s = self.reads if is_read else self.writes
        if cut != "c1" or per_s is None or self.key not in (None, key):
            return None
        partitions = armed.notes(_Partitions)
        now_ns = armed.now_ns
        # What is left, in billionths of a request, so that whole numbers carry it from instant to instant.
        left, since_ns = partitions.get((key, is_read), (per_s * NS_PER_S, now_ns))
        left = min(per_s * NS_PER_S, left + (now_ns - since_ns) * per_s)
        is_served = left >= NS_PER_S
        partitions[key, is_read] = (left - NS_PER_S if is_served else left), now_ns
        if is_served:
            return None
        armed.fire(has_mattered=not in_flight.is_over)
        return 429, f"{self.code}: more than {per_s} {'reads' if is_read else 'writes'} a second (injected)"

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        reads, writes = drawing.rng.randint(1, 10), drawing.rng.randint(1, 10)
        return {**drawing.filter(), "service": "store", "reads": reads, "writes": writes}

    def happened(self) -> str:
        limits = [
            f"{count} {what}" for count, what in ((self.reads, "reads"), (self.writes, "writes")) if count is not None
        ]
        return f"each key served at most {' and '.join(limits)} a second"


class HiddenRetry(RequestFault):
    """The request is applied and its answer lost inside the SDK, which sends it again `gap` later.

    The caller sees the second answer only (A2, E17).
    """

    kind: Literal["hidden_retry"] = "hidden_retry"
    rank: ClassVar[int] = 40
    gap_ns: Duration = 10_000_000

    def on_send(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        armed.fire(lasts_ns=self.gap_ns)
        in_flight.retry_after_ns = self.gap_ns

    def on_retried(self, armed: ArmedFault[Fault], in_flight: InFlight, first: Reply, second: Reply) -> None:
        if first.outcome is not second.outcome:
            armed.has_mattered()

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {**drawing.filter(WRITE_OPS), "service": "store"}

    def happened(self) -> str:
        return f"the SDK lost the answer to {self.struck} and sent it again {self.gap_ns} ns later"


class GhostWrite(RequestFault):
    """The request is held up and applied `by` later, long after its caller gave up; no answer (E30, A7)."""

    kind: Literal["ghost_write"] = "ghost_write"
    rank: ClassVar[int] = 20
    by_ns: Duration

    def on_send(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        armed.fire(lasts_ns=self.by_ns)
        in_flight.to_service_ns += self.by_ns
        in_flight.is_reply_lost = True

    def on_applied(self, armed: ArmedFault[Fault], in_flight: InFlight, reply: Reply) -> None:
        # Refused or not: the write was missing when its caller waited for it, as a lost request is.
        armed.has_mattered()

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {**drawing.filter(WRITE_OPS), "service": "store", "by_ns": drawing.length()}

    def happened(self) -> str:
        return f"{self.struck} arrived {self.by_ns} ns late, without an answer"
