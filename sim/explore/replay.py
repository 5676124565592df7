"""A stored failure: the JSON document from which a run is repeated.

The plan and the schedule's deviations are explicit data, so a failure survives
edits that move random draws. Replaying gives one of four answers, the
strongest that is true:

    same digest        the very same events
    same clause        the same clause breaks, in another trace
    not applicable     a stored decision was never offered, or the plan does
                       not fit the scenario any more
    no longer fails    everything was applied, and the clause holds

`replay` knows no scenario: it is given a way to run and a way to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockref.atomic_files import write_atomically
from lockref.errors import ConfigError, Location
from lockref.history import Recorder
from lockref.strict_json import printable_json
from sim.faults.plan import FaultPlan
from sim.kernel.exploring import Ties
from sim.kernel.schedules import Replay, Schedule
from sim.kernel.streams import STREAMS_VERSION

FAILURE_FORMAT: Literal[1] = 1
"""Another number is refused with the advice to use another version of the package."""

FAILURE_BYTES_MAX = 64 * 1024 * 1024


class RecordedRun(Protocol):
    """The part of a run that a replay needs: its record."""

    @property
    def recorder(self) -> Recorder: ...


R = TypeVar("R", bound=RecordedRun)

Run = Callable[[FaultPlan, Schedule, int], R]
"""(plan, schedule, seed) -> outcome, in a fresh world."""

Judge = Callable[[R], Collection[str]]
"""Outcome -> ids of the clauses that it breaks."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ProviderUsed(_Model):
    """The lock that failed."""

    name: str
    options: dict[str, str] = Field(default_factory=dict)
    interface_version: int = 1


class Versions(_Model):
    """The versions with which the failure was found."""

    package: str = ""
    commit: str = ""
    is_dirty: bool = False
    python: str = ""


class ShrinkRecord(_Model):
    """The shrinking of a failure: its size before and after, and the faults that the failure needs.

    size_before_ns, size_after_ns: of the symptom, such as an overlap; None for what has no size.
    """

    faults_before: int
    faults_after: int
    deviations_before: int
    deviations_after: int
    runs: int
    matters: tuple[str, ...] = ()
    does_not_matter: tuple[str, ...] = ()
    size_before_ns: int | None = None
    size_after_ns: int | None = None


class Failure(_Model):
    """One failing run, ready to be repeated. scenario is fully resolved; schedule is [decision, choice] pairs.

    ties: the steps that its schedule reorders; None where it was found without an exploration.
    faults: those of the plan in words, each with its numbers before it was shrunk.
    """

    format: Literal[1] = FAILURE_FORMAT
    id: str
    clause: str
    scenario: dict[str, Any] = Field(default_factory=dict)
    provider: ProviderUsed
    seed: int
    streams: int = STREAMS_VERSION
    plan: FaultPlan
    schedule: tuple[tuple[int, int], ...] = ()
    ties: Ties | None = None
    witness: dict[str, Any] = Field(default_factory=dict)
    digest: str
    versions: Versions = Field(default_factory=Versions)
    shrink: ShrinkRecord | None = None
    faults: tuple[str, ...] = ()

    def save(self, path: Path) -> None:
        """Write the document, and check that it reads back."""
        text = printable_json(self.model_dump_json(indent=1, exclude_none=True))
        assert Failure.model_validate_json(text) == self, "a failure did not survive its own writing"
        write_atomically(path, text + "\n")

    @classmethod
    def load(cls, path: Path) -> Failure:
        """Read a document. Raises ConfigError with the place of the first complaint."""
        place = Location(str(path))
        try:
            if path.stat().st_size > FAILURE_BYTES_MAX:
                raise ConfigError(f"larger than {FAILURE_BYTES_MAX} bytes; no stored failure is", location=place)
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}", location=place) from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "document"
            raise ConfigError(f"no stored failure: {where}: {first['msg']}", location=place) from None


class Answer(StrEnum):
    """The answer of a replay."""

    SAME_DIGEST = "same digest"
    SAME_CLAUSE = "same clause, another trace"
    NO_LONGER_FAILS = "no longer fails"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """The answer, the run behind it (None if it could not start), and a sentence for people."""

    answer: Answer
    clauses: tuple[str, ...]
    digest: str | None
    explanation: str


def replay(failure: Failure, run: Run[R], judge: Judge[R]) -> ReplayOutcome:
    """Repeat a stored failure once."""
    schedule = Replay(failure.schedule)
    try:
        outcome = run(failure.plan, schedule, failure.seed)
    except ConfigError as error:
        return ReplayOutcome(
            answer=Answer.NOT_APPLICABLE, clauses=(), digest=None, explanation=f"the run cannot be set up: {error}"
        )
    digest = outcome.recorder.digest()
    clauses = tuple(sorted(judge(outcome)))
    if failure.clause in clauses:
        if digest == failure.digest:
            answer, why = Answer.SAME_DIGEST, f"{failure.clause} is broken by the very same events"
        else:
            answer, why = Answer.SAME_CLAUSE, f"{failure.clause} is still broken, by other events"
    elif schedule.unused:
        first, choice = min(schedule.unused.items())
        answer = Answer.NOT_APPLICABLE
        why = (
            f"{len(schedule.unused)} of {len(failure.schedule)} stored decisions were never offered, the first being "
            f"choice {choice} at decision {first}: the lock decides elsewhere, because its code has changed or it is "
            "another lock. So this replay tells nothing of it: run the scenario again with `lockref sim`"
        )
    else:
        answer, why = Answer.NO_LONGER_FAILS, f"{failure.clause} holds although every stored decision was applied"
    return ReplayOutcome(answer=answer, clauses=clauses, digest=digest, explanation=why)
