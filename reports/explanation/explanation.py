"""The explanation of one failure, as values: what pages, terminals and tests print.

All times are counted from the zero of the run, in nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

SENTENCE_MAX: Final = 160
"""Characters of the sentence of cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldFault:
    """One fault of the plan of a run.

    id, kind, target: as in the plan. text: the fault in one line with its numbers, those before it was shrunk included.
    happened: the same as a clause with a verb, such as `n1 was paused for 31 s`. mattered: how often the fault changed
    something in this run, 0 where the failure was found not to need it; None where nobody counted.
    """

    id: str
    kind: str
    target: str
    text: str
    happened: str
    mattered: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One line of the table: at which time, on which lane (a client, `store`, `resource`), what happened.

    is_guilty: the event that breaks the clause. is_fault: something that the plan did.
    """

    at_ns: int
    node: str
    what: str
    is_guilty: bool = False
    is_fault: bool = False

    def as_json(self) -> dict[str, Any]:
        marks = {name: True for name in ("is_guilty", "is_fault") if getattr(self, name)}
        return {"at_ns": self.at_ns, "node": self.node, "what": self.what, **marks}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request on its way from a client to a service and back.

    applied_ns: when the service took it up; None where it never arrived, or where nobody knows. replied_ns: when the
    client had the answer; None where it never came. end: `applied`, `refused`, `read`, `lost request`, `lost reply`,
    `open`. text: the whole story in one line.
    """

    lane: str
    service: str
    label: str
    text: str
    end: str
    sent_ns: int
    applied_ns: int | None = None
    replied_ns: int | None = None
    is_guilty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stretch of time on a lane. kind: `belief`, `pause`, `down` (its process is gone), `grant`, `cut` (network)."""

    lane: str
    kind: str
    begin_ns: int
    end_ns: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An instant on a lane. kind: `lease`, `return`, `yes`, `no`, `fault`, `late`."""

    lane: str
    kind: str
    at_ns: int
    label: str
    is_guilty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """The space-time diagram as values.

    lanes: clients first, then `store` and `resource`, where something happens there. begin_ns, end_ns: the window that
    is shown. folded: instants and words of what is not drawn between two shown events. notices: what was cut.
    """

    lanes: tuple[str, ...]
    begin_ns: int
    end_ns: int
    messages: tuple[Message, ...] = ()
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()
    folded: tuple[tuple[int, str], ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a failure happened.

    sentence: the cause in one line of at most `SENTENCE_MAX` characters. paragraph: two to five sentences. events: the
    rows of the shrunk run that the cause is made of, in order. lanes: see `Diagram.lanes`. faults: the plan in words.
    replay: the line that shows the failure again; empty if none does. notices: what else the reader must know.
    """

    id: str
    clause: str
    demand: str
    scenario: str
    provider: str
    seed: int | None
    message: str
    sentence: str
    paragraph: str
    events: tuple[EventRow, ...]
    diagram: Diagram
    faults: tuple[str, ...] = ()
    replay: str = ""
    notices: tuple[str, ...] = field(default=())

    @property
    def lanes(self) -> tuple[str, ...]:
        return self.diagram.lanes

    def as_json(self) -> dict[str, Any]:
        """The document of `--json`."""
        return {
            "format": "lockref.explanation/1",
            "id": self.id,
            "clause": self.clause,
            "demand": self.demand,
            "scenario": self.scenario,
            "provider": self.provider,
            "seed": self.seed,
            "message": self.message,
            "sentence": self.sentence,
            "paragraph": self.paragraph,
            "faults": list(self.faults),
            "events": [row.as_json() for row in self.events],
            "lanes": list(self.lanes),
            "window_ns": [self.diagram.begin_ns, self.diagram.end_ns],
            "notices": [*self.notices, *self.diagram.notices],
            "replay": self.replay,
        }
