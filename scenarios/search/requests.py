"""The requests of one run, as places where a fault may strike: whose, of which kind, the how many-th of that kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from lockref.history import ROW_COLUMNS, Recorder
from lockref.provider import DEFAULT_STORE
from lockref.words import Kind, Op
from scenarios.definition.schema import RESOURCE_NAME
from sim.faults.operations import RequestOp
from sim.journey import OP_NAMES

_OPS: Final = frozenset(get_args(RequestOp))
_ACQUIRE: Final = OP_NAMES[Op.ACQUIRE]
_WRITE: Final[RequestOp] = "write"
_SLOTS: Final = {name: place for place, name in enumerate(ROW_COLUMNS)}


@dataclass(frozen=True, slots=True, order=True)
class RequestPlace:
    """One request of a run. at_ns: true time at which it was made, or for the resource was applied.

    client, op, nth: as a `Trigger` names it; `service` where requests of that kind go to several.
    cycle: the how many-th acquire of its client was the last one before it.
    """

    at_ns: int
    client: str
    op: RequestOp
    nth: int
    service: str | None = None
    cycle: int = 0

    def trigger(self, cut: str) -> dict[str, Any]:
        """The fields of a `Trigger` that names this request at a cut point."""
        fields: dict[str, Any] = {"client": self.client, "op": self.op, "nth": self.nth, "cut": cut}
        return fields if self.service is None else {**fields, "service": self.service}

    @property
    def request(self) -> tuple[str, str, int]:
        """The request, whenever it is made."""
        return self.client, f"{self.op}/{self.service or ''}", self.nth

    @property
    def name(self) -> str:
        """For people: `acquire 2 of n1`."""
        return f"{self.op} {self.nth} of {self.client}"


def places_of(recorder: Recorder) -> list[RequestPlace]:
    """The requests that a run's clients made, in the order of the record.

    Requests about a connection alone have no kind, and writes to the protected resource are known where they were
    applied. A lock that gives a record back by deleting it makes releases that are deletions: these are named so.
    """
    texts = recorder.texts
    counts: Counter[tuple[str, str, str | None]] = Counter()
    cycles: Counter[str] = Counter()
    found: list[RequestPlace] = []
    last = (-1, "")
    for row in recorder.matrix().tolist():
        kind, client = row[_SLOTS["kind"]], texts[row[_SLOTS["node"]]]
        named = OP_NAMES[row[_SLOTS["op"]]]
        if kind == Kind.CALL and named == _ACQUIRE:
            cycles[client] += 1
        elif kind == Kind.EFFECT:
            # Whatever the resource calls it, a plan calls it a write; and it counts those of each service apart.
            _add(found, counts, row, client, _WRITE, RESOURCE_NAME, cycles[client])
        elif kind == Kind.SENT and named in _OPS:
            # A body with several locks has a row for each.
            request = (row[_SLOTS["request"]], client)
            if request != last:
                service = DEFAULT_STORE if named == _WRITE else None
                _add(found, counts, row, client, cast(RequestOp, named), service, cycles[client])
            last = request
    return found


def _add(
    found: list[RequestPlace],
    counts: Counter[tuple[str, str, str | None]],
    row: list[int],
    client: str,
    op: RequestOp,
    service: str | None,
    cycle: int,
) -> None:
    counts[client, op, service] += 1
    nth = counts[client, op, service]
    found.append(RequestPlace(at_ns=row[_SLOTS["at_ns"]], client=client, op=op, nth=nth, service=service, cycle=cycle))
