"""Random fault plans by swarm: some kinds off for a whole run, the rest with wild weights.

A plan with a little of everything hides what a plan with much of one thing
shows, so every run draws its own mixture (Groce et al., ISSTA 2012; practised
in TigerBeetle's fuzzer). Durations spread around the lease's validity, where
locks break. Bounded plans stay inside an envelope that a correct lock must
survive: clocks of two nodes never disagree by more than the drift bound, the
store lies about no write, and nobody reaches into it from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lockref.errors import ConfigError
from sim.faults.vocabulary import FAULT_TYPES, FaultPlan
from sim.kernel.clocks import PPM
from sim.kernel.streams import Stream

ENVELOPE_KINDS = (
    "pause", "suspend", "crash", "partition", "drift", "offset", "step", "lose_request", "lose_reply", "delay",
    "duplicate", "error", "ghost_write", "hidden_retry",
)  # fmt: skip
"""What a correct lock survives. Not in it: a store that lies (stale_read,
ignore_conditions), an operator (delete_object, corrupt_object), and clocks
that stand still under running code (freeze)."""

FAULTS_MAX = 8
UNAPPLIED_STATUSES: tuple[int | str, ...] = (409, 429, 500, 503, "reset", "timeout")
AMBIGUOUS_STATUSES: tuple[int | str, ...] = (500, 503, "reset", "timeout")
"""Only these may follow an applied write: 409, 412 and 429 say that it was not."""
WRITE_OPS = ("acquire", "renew", "release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a plan must fit. Durations in nanoseconds.

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
        for kind in self.kinds:
            if kind not in FAULT_TYPES:
                raise ConfigError(f"swarm kind is {kind!r}; expected one of {', '.join(FAULT_TYPES)}")


def swarm(rng: Stream, shape: Shape) -> FaultPlan:
    """Draw a plan; the same stream and shape give the same plan."""
    share = rng.choice((0.1, 0.3, 0.5, 0.8))
    enabled = [kind for kind in shape.kinds if rng.random() < share]
    if not enabled:
        return FaultPlan(heal_ns=shape.heal_ns)
    weights = [rng.random() ** 3 + 0.01 for _ in enabled]
    drawing = _Drawing(rng, shape)
    faults: list[dict[str, Any]] = []
    for kind in rng.choices(enabled, weights, k=rng.randint(1, FAULTS_MAX)):
        fields = drawing.draw(kind)
        if fields is not None:
            faults.append({"id": f"f{len(faults) + 1}", "kind": kind, **fields})
    return FaultPlan.model_validate({"faults": faults, "heal_ns": shape.heal_ns})


class _Drawing:
    """One plan being drawn; remembers how much of each clock's allowance is left."""

    def __init__(self, rng: Stream, shape: Shape) -> None:
        self._rng = rng
        self._shape = shape
        # Each node may be off by half the bound, so two differ by the bound at most.
        self._clock_left = dict.fromkeys(shape.clients, shape.drift_bound_ns // 2)
        self._kinds: dict[str, Callable[[], dict[str, Any] | None]] = {
            "pause": self._pause,
            "suspend": lambda: {"client": self._client(), "at_ns": self._instant(), "for_ns": self._length()},
            "crash": self._crash,
            "partition": self._partition,
            "drift": self._drift,
            "offset": self._offset,
            "step": self._offset,
            "freeze": self._freeze,
            "delete_object": lambda: {"at_ns": self._instant()},
            "corrupt_object": lambda: {"at_ns": self._instant()},
            "delay": lambda: {
                **self._filter(),
                "by_ns": self._length(),
                "direction": rng.choice(("request", "reply")),
            },
            "duplicate": lambda: {**self._filter(), "gap_ns": self._length()},
            "error": self._error,
            "ghost_write": lambda: {**self._filter(WRITE_OPS), "service": "store", "by_ns": self._length()},
            "stale_read": lambda: {**self._filter(("read",)), "service": "store", "lag_ns": self._length()},
            "hidden_retry": lambda: {**self._filter(WRITE_OPS), "service": "store"},
            "ignore_conditions": lambda: {**self._filter(WRITE_OPS), "service": "store"},
        }

    def draw(self, kind: str) -> dict[str, Any] | None:
        """The fields of a fault; None if the envelope has no room for it."""
        return self._kinds.get(kind, self._filter)()

    def _client(self) -> str:
        return self._rng.choice(self._shape.clients)

    def _instant(self) -> int:
        return self._rng.randrange(max(1, self._shape.duration_ns))

    def _length(self) -> int:
        """A duration: tiny, anywhere up to twice the validity, or close to the validity itself."""
        rng, validity_ns = self._rng, self._shape.validity_ns
        form = rng.randrange(4)
        if form == 0:
            return rng.randrange(1, max(2, validity_ns // 20))
        if form == 1:
            return int(validity_ns * rng.uniform(0.9, 1.15))
        return rng.randrange(1, max(2, 2 * validity_ns))

    def _beginning(self, client: str) -> dict[str, Any]:
        """An instant, or a cut point in the client's life: half and half."""
        rng = self._rng
        if rng.random() < 0.5:
            return {"at_ns": self._instant()}
        return {
            "when": {
                "client": client,
                "op": rng.choice((*WRITE_OPS, "read", "write")),
                "nth": rng.randint(1, 3),
                "cut": f"c{rng.randrange(5)}",
            }
        }

    def _pause(self) -> dict[str, Any]:
        client = self._client()
        task = self._rng.choice((None, None, "heartbeat", "main"))
        return {"client": client, "for_ns": self._length(), "task": task, **self._beginning(client)}

    def _crash(self) -> dict[str, Any]:
        client = self._client()
        restart_ns = self._length() if self._rng.random() < 0.7 else None
        return {"client": client, "restart_after_ns": restart_ns, **self._beginning(client)}

    def _partition(self) -> dict[str, Any]:
        rng, shape = self._rng, self._shape
        client = self._client()
        services = shape.services if rng.random() < 0.5 else (rng.choice(shape.services),)
        groups: tuple[tuple[str, ...], ...] = ((client,), services)
        if rng.random() < 0.5:
            groups = (groups[1], groups[0])
        return {
            "groups": groups,
            "for_ns": self._length(),
            "one_way": rng.random() < 0.5,
            **self._beginning(client),
        }

    def _take(self, client: str) -> int:
        """Part of what is left of the client's clock allowance."""
        if not self._shape.is_bounded:
            return self._length()
        taken = self._rng.randint(0, self._clock_left[client])
        self._clock_left[client] -= taken
        return taken

    def _offset(self) -> dict[str, Any]:
        client = self._client()
        sign = self._rng.choice((-1, 1))
        return {"client": client, "at_ns": self._instant(), "by_ns": sign * self._take(client)}

    def _drift(self) -> dict[str, Any] | None:
        shape = self._shape
        client, at_ns, for_ns = self._client(), self._instant(), self._length()
        rate_ppm = shape.rate_error_ppm
        if shape.is_bounded:
            # What the rate adds up to comes off the same allowance as offsets.
            rate_ppm = min(rate_ppm, self._take(client) * PPM // max(1, for_ns))
        if rate_ppm == 0:
            return None
        rate_ppm = self._rng.choice((-1, 1)) * self._rng.randint(1, rate_ppm)
        return {"client": client, "at_ns": at_ns, "for_ns": for_ns, "rate_ppm": rate_ppm}

    def _freeze(self) -> dict[str, Any]:
        client = self._client()
        return {"client": client, "at_ns": self._instant(), "for_ns": self._take(client)}

    def _filter(self, ops: tuple[str, ...] = (*WRITE_OPS, "read", "write")) -> dict[str, Any]:
        """Which requests: a window with a probability, or the n-th of one kind."""
        rng = self._rng
        fields: dict[str, Any] = {}
        if rng.random() < 0.7:
            fields["client"] = self._client()
        if rng.random() < 0.7 or len(ops) < len(WRITE_OPS) + 2:
            fields["op"] = rng.choice(ops)
        if rng.random() < 0.5:
            fields["nth"] = rng.randint(1, 4)
            fields["times"] = rng.randint(1, 4)
        else:
            fields["at_ns"] = self._instant()
            fields["for_ns"] = self._length()
            fields["probability"] = rng.choice((0.1, 0.5, 1.0))
        return fields

    def _error(self) -> dict[str, Any]:
        cut = self._rng.choice(("c1", "c2"))
        status = self._rng.choice(UNAPPLIED_STATUSES if cut == "c1" else AMBIGUOUS_STATUSES)
        fields = self._filter()
        # `write` is what the resource is asked, and the store by a lock whose records nobody can read.
        service = {} if fields.get("op") == "write" else {"service": "store"}
        return {**fields, **service, "cut": cut, "status": status}
