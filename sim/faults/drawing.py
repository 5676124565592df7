"""The drawing of plans: the shape that a plan must fit, and the draws by which a kind of fault fills its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockref.errors import ConfigError
from sim.faults.operations import OPS, WRITE_OPS, RequestOp
from sim.kernel.streams import Stream

ENVELOPE_KINDS = (
    "pause", "suspend", "crash", "partition", "drift", "offset", "step", "lose_request", "lose_reply", "delay",
    "duplicate", "error", "ghost_write", "hidden_retry",
)  # fmt: skip
"""What a swarm draws where a scenario names no kinds. A correct lock survives all of it.

The order is part of every stored seed, and so is the length: a new kind is
named by scenarios (`swarm: {kinds: [...]}`) and does not join this list. Not in
it: a store that lies (stale_read, ignore_conditions), an operator
(delete_object, corrupt_object, expire_items), and clocks that stand still under running code
(freeze)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The scenario that a drawn plan must fit. Durations in nanoseconds.

    clients: their names. duration_ns: faults begin within it. validity_ns: the
    lease's. drift_bound_ns: largest wall offset between two nodes inside the
    envelope. kinds: what may be drawn. is_bounded: False lets clocks go
    anywhere. rate_error_ppm: the largest rate error. heal_ns: see FaultPlan.
    services: names that partitions may cut clients off from.
    """

    clients: tuple[str, ...]
    duration_ns: int
    validity_ns: int
    drift_bound_ns: int
    kinds: tuple[str, ...] = ENVELOPE_KINDS
    is_bounded: bool = True
    rate_error_ppm: int = 1000
    heal_ns: int | None = None
    services: tuple[str, ...] = ("store", "resource")

    def __post_init__(self) -> None:
        if not self.clients:
            raise ConfigError("a swarm needs at least one client")


class Drawing:
    """One plan being drawn; remembers how much of each clock's allowance is left."""

    def __init__(self, rng: Stream, shape: Shape) -> None:
        self.rng = rng
        self.shape = shape
        # Each node may be off by half the bound, so two differ by the bound at most.
        self._clock_left = dict.fromkeys(shape.clients, shape.drift_bound_ns // 2)

    def client(self) -> str:
        """Any client."""
        return self.rng.choice(self.shape.clients)

    def instant(self) -> int:
        """True time within the plan's duration."""
        return self.rng.randrange(max(1, self.shape.duration_ns))

    def length(self) -> int:
        """A duration: tiny, anywhere up to twice the validity, or close to the validity itself."""
        rng, validity_ns = self.rng, self.shape.validity_ns
        form = rng.randrange(4)
        if form == 0:
            return rng.randrange(1, max(2, validity_ns // 20))
        if form == 1:
            return int(validity_ns * rng.uniform(0.9, 1.15))
        return rng.randrange(1, max(2, 2 * validity_ns))

    def beginning(self, client: str) -> dict[str, Any]:
        """An instant, or a cut point in the client's life: half and half."""
        rng = self.rng
        if rng.random() < 0.5:
            return {"at_ns": self.instant()}
        return {
            "when": {
                "client": client,
                "op": rng.choice(OPS),
                "nth": rng.randint(1, 3),
                "cut": f"c{rng.randrange(5)}",
            }
        }

    def clock_error(self, client: str) -> int:
        """The error of a clock, in nanoseconds: a part of the client's allowance that is not used up."""
        if not self.shape.is_bounded:
            return self.length()
        taken = self.rng.randint(0, self._clock_left[client])
        self._clock_left[client] -= taken
        assert self._clock_left[client] >= 0, "a clock was put further wrong than the envelope allows"
        return taken

    def filter(self, ops: tuple[RequestOp, ...] = OPS) -> dict[str, Any]:
        """Which requests: a window with a probability, or the n-th of one kind."""
        rng = self.rng
        fields: dict[str, Any] = {}
        if rng.random() < 0.7:
            fields["client"] = self.client()
        if rng.random() < 0.7 or len(ops) < len(WRITE_OPS) + 2:
            fields["op"] = rng.choice(ops)
        if rng.random() < 0.5:
            fields["nth"] = rng.randint(1, 4)
            fields["times"] = rng.randint(1, 4)
        else:
            fields["at_ns"] = self.instant()
            fields["for_ns"] = self.length()
            fields["probability"] = rng.choice((0.1, 0.5, 1.0))
        return fields
