"""The records of one run that a cause is told from: requests, calls, faults that struck, and beliefs.

Times are those of the history, in nanoseconds of true time; whoever tells them subtracts the zero of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reports.explanation.explanation import ToldFault

WRITES: Final = ("acquire", "renew", "release", "write", "delete")
PAUSES: Final = ("pause", "suspend")
UNANSWERED: Final = ("ambiguous", "none")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The two clocks of a client at one instant of true time."""

    at_ns: int
    wall_ns: int
    mono_ns: int


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request of a client to the store, and what became of it.

    applied: the instant and the outcome of each time that the store took it up; a repeated delivery makes several.
    outcome: what the client heard; empty where it heard nothing. clocks: the client's own at the sending; None where
    nobody recorded them.
    """

    number: int
    seq: int
    node: str
    task: str
    key: str
    op: str
    condition: str
    sent_ns: int
    owner: str = ""
    token: int | None = None
    stamp_ns: int | None = None
    applied: list[tuple[int, str]] = field(default_factory=list)
    replied_ns: int | None = None
    outcome: str = ""
    version: str = ""
    clocks: Reading | None = None

    @property
    def is_write(self) -> bool:
        return self.op in WRITES

    @property
    def landed_ns(self) -> int | None:
        """When the store first did what it asks; None if it never did, or if nobody knows."""
        return next((at_ns for at_ns, outcome in self.applied if outcome == "applied"), None)

    @property
    def is_unanswered(self) -> bool:
        return self.replied_ns is None or self.outcome in UNANSWERED

    @property
    def is_refused(self) -> bool:
        """True where the client heard that the record was not what its condition asks for."""
        return self.replied_ns is not None and self.outcome == "precondition_failed"


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of a lock by its client: `lock`, `try_lock` or `unlock`."""

    number: int
    node: str
    task: str
    key: str
    op: str
    begin_ns: int
    end_ns: int | None = None
    outcome: str = ""
    token: int | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault of the plan, once, in this run. end_ns: None for what strikes at an instant, or never ended."""

    fault: ToldFault
    node: str
    begin_ns: int
    end_ns: int | None = None

    @property
    def is_pause(self) -> bool:
        return self.fault.kind in PAUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """The belief of a client from a granted acquire to its unlock. yes: the instants at which its guard said so."""

    number: int
    node: str
    task: str
    key: str
    token: int | None
    yes: tuple[tuple[int, str], ...]

    @property
    def first_ns(self) -> int:
        return self.yes[0][0]

    @property
    def last_ns(self) -> int:
        return self.yes[-1][0]
