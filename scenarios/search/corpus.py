"""The corpus of a fuzzing: the trials that showed something new, and the features that are known.

In its folder each trial is a file, and `fuzz.json` says for which lock and scenario, and how far it is. A file appears
whole. What stands there is read strictly: a corpus may come from elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockref.atomic_files import write_atomically
from lockref.errors import ConfigError, Location
from lockref.strict_json import printable_json
from scenarios.definition.schema import Scenario
from scenarios.search.requests import RequestPlace
from scenarios.search.trials import Trial
from sim.faults.plan import FaultPlan

FORMAT: Final = 1
STATE: Final = "fuzz.json"
ENTRIES: Final = "corpus"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


D = TypeVar("D", bound=_Document)


class KeptTrial(_Document):
    """One trial of a corpus: see `Entry`."""

    format: Literal[1] = FORMAT
    number: int = Field(ge=0)
    scenario: dict[str, Any]
    seed: int = Field(ge=0, lt=2**63)
    plan: FaultPlan
    features: tuple[str, ...]
    places: tuple[RequestPlace, ...]
    patience_ns: int = Field(ge=0)


class FuzzState(_Document):
    """The state of a fuzzing after a whole generation.

    asked: what it was asked for. generation: the next one. runs: made so far. chosen: how often each kept trial was
    changed, in their order.
    """

    format: Literal[1] = FORMAT
    asked: dict[str, Any]
    generation: int = Field(ge=0)
    runs: int = Field(ge=0)
    chosen: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class Entry:
    """One trial that is kept.

    features: those that it was the first to show. places: the requests of its run. patience_ns: how long its lock waits
    for an answer. chosen: how often it was changed.
    """

    trial: Trial
    features: tuple[str, ...]
    places: tuple[RequestPlace, ...] = ()
    patience_ns: int = 0
    chosen: int = 0


@dataclass(slots=True)
class Corpus:
    """The kept trials, in the order in which they came, and every feature that was seen."""

    entries: list[Entry] = field(default_factory=list)
    features: set[str] = field(default_factory=set)

    def offer(
        self, trial: Trial, features: frozenset[str], *, places: tuple[RequestPlace, ...] = (), patience_ns: int = 0
    ) -> Entry | None:
        """Keep a trial if it shows something new; None if it does not. places, patience_ns: see `Entry`."""
        new = features - self.features
        if not new:
            return None
        self.features |= new
        entry = Entry(trial=trial, features=tuple(sorted(new)), places=places, patience_ns=patience_ns)
        self.entries.append(entry)
        return entry


class CorpusFolder:
    """The folder of a corpus."""

    def __init__(self, folder: Path, asked: dict[str, Any]) -> None:
        """asked: the lock, the scenario and the seed: another question has another corpus."""
        self._folder = folder
        self._asked = asked

    def begin(self) -> None:
        """Take a new folder. Raises ConfigError if it holds a corpus already, or cannot be made."""
        if (self._folder / STATE).exists():
            raise ConfigError(
                f"{self._folder} holds a corpus; --resume goes on with it, another --out begins a new one"
            )
        try:
            (self._folder / ENTRIES).mkdir(parents=True, exist_ok=True)
            self.note(Corpus(), generation=0, runs=0)
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be made: {error.strerror or error}") from error

    def load(self) -> tuple[Corpus, FuzzState]:
        """Read what stands there. Raises ConfigError, with the file, for what is none of this version or question."""
        state = _read(self._folder / STATE, FuzzState)
        if state.asked != self._asked:
            differing = sorted(name for name in self._asked if state.asked.get(name) != self._asked[name])
            raise ConfigError(
                f"is the corpus of another question: {', '.join(differing) or 'an older form'} differs",
                location=Location(str(self._folder / STATE)),
            )
        corpus = Corpus()
        for path in sorted((self._folder / ENTRIES).glob("*.json")):
            kept = _read(path, KeptTrial)
            if kept.number >= state.runs:
                # Its generation was not finished, and is drawn again.
                continue
            try:
                scenario = Scenario.model_validate(kept.scenario)
            except ValidationError as error:
                raise ConfigError(_complaint(error), location=Location(str(path))) from None
            trial = Trial(number=kept.number, scenario=scenario, seed=kept.seed, plan=kept.plan)
            corpus.offer(trial, frozenset(kept.features), places=kept.places, patience_ns=kept.patience_ns)
        for entry, chosen in zip(corpus.entries, state.chosen, strict=False):
            entry.chosen = chosen
        return corpus, state

    def keep(self, entry: Entry) -> None:
        """Write one kept trial."""
        trial = entry.trial
        document = KeptTrial(
            number=trial.number,
            scenario=trial.scenario.model_dump(mode="json", by_alias=True),
            seed=trial.seed,
            plan=trial.plan,
            features=entry.features,
            places=entry.places,
            patience_ns=entry.patience_ns,
        )
        text = printable_json(document.model_dump_json(indent=1, exclude_none=True))
        write_atomically(self._folder / ENTRIES / f"{trial.number:08}.json", text + "\n")

    def note(self, corpus: Corpus, *, generation: int, runs: int) -> None:
        """Write how far the fuzzing is."""
        chosen = tuple(entry.chosen for entry in corpus.entries)
        state = FuzzState(asked=self._asked, generation=generation, runs=runs, chosen=chosen)
        write_atomically(self._folder / STATE, json.dumps(state.model_dump(), indent=1) + "\n")


def _read(path: Path, kind: type[D]) -> D:
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", location=Location(str(path))) from error
    except ValidationError as error:
        raise ConfigError(_complaint(error), location=Location(str(path))) from None


def _complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "document"
    return f"no part of a corpus: {place}: {first['msg']}"
