"""`GateResult`: what a gate found about a lock, over all scenarios. Screen, JUnit, Markdown and JSON are made from it.

A scenario has one outcome. Failures are grouped over scenarios by cause: one missing check of a lock breaks dozens of
scenarios and is told once. Times are in seconds of the machine that ran the gate; they decide nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from lockref.errors import ConfigError, Location
from reports.checks.spec import Verdict

HELD: Final = "held"
VIOLATED: Final = "violated"
NOT_LIVE: Final = "not_live"
INCONCLUSIVE: Final = "inconclusive"
NOT_APPLICABLE: Final = "not_applicable"
NOT_RUN: Final = "could_not_be_run"
ACCEPTED: Final = "accepted"

Outcome = Literal["held", "violated", "not_live", "accepted", "inconclusive", "not_applicable", "could_not_be_run"]
"""violated: a safety clause broke. not_live: liveness, claimed fairness or a threshold broke, and no safety clause.

accepted: as `violated` or `not_live`, and every cause is a known failure that the lock's team has accepted.
"""

OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class GatedScenario(_Part):
    """One scenario of a gate.

    reason: why it is inconclusive, does not apply, or could not be run; of one that held, what was not asked of this
    lock ("" where all was). runs: seeds that were judged. seconds: time that its runs and its failures took here, over
    all processes. broken: the demanded clauses that broke. broken_limits: its thresholds that broke, with what was
    measured. groups: the ids of the failure groups that it shows.
    source: the file of a scenario that is the user's own; "" for the catalogue. ids, faults, clauses: what a selection
    by name may ask for: the ids of the file, the kinds of faults in it, the clauses that were judged.
    exit_code: of this scenario alone. measures: what was measured, by the text of each threshold.
    """

    name: str
    outcome: Outcome
    reason: str = ""
    runs: int = 0
    seconds: float = 0.0
    broken: tuple[str, ...] = ()
    broken_limits: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    source: str = ""
    ids: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    clauses: tuple[str, ...] = ()
    exit_code: int = 0
    measures: tuple[tuple[str, str], ...] = ()


class FailureGroup(_Part):
    """The failures of one cause.

    cause: a word for the cause that is the same for every seed: `S3:two-clients:stopped`.
    id: of the failure that is its example (`lockref replay`); scenario and seed: where it was found.
    clause: the first cause in its run. also: further clauses that broke in the runs of the group.
    shape: how the clause broke, in words. faults: the kinds of faults that the shrunk run needs.
    sentence: one line with client and numbers. replay: the line that shows it again; "" if none does.
    scenarios: all that show it. runs: how many runs do, over all scenarios. is_safety: False for liveness and fairness.
    is_shrunk: False where there was no time to shrink it: then `faults` may be too many. block: the failure as `sim`
    tells it, in at most 25 lines. accepted: why it does not stop the gate, and until when; "" where it does.
    """

    cause: str
    id: str
    clause: str
    shape: str
    faults: tuple[str, ...]
    sentence: str
    scenario: str
    seed: int | None = None
    replay: str = ""
    scenarios: tuple[str, ...] = ()
    runs: int = 0
    also: tuple[str, ...] = ()
    client: str = ""
    is_safety: bool = True
    is_shrunk: bool = True
    block: str = ""
    accepted: str = ""


class Crash(_Part):
    """One step of the lock that raised what is no LockError: its author's to mend. It ends the runs of a scenario.

    step: the function of the lock. sentence: what it raised, where, and what lay under the lock's key then.
    scenarios: all that it ended. replay: the line that shows it again. file, line: where it raised; "" and None where
    that is in no file below the folder of the command.
    """

    step: str
    sentence: str
    scenarios: tuple[str, ...]
    replay: str = ""
    file: str = ""
    line: int | None = None


class AbilityFound(_Part):
    """One ability of the lock.

    name: as `--declare` knows it. has: whether the lock is held to it. evidence: what was seen, in one line.
    origin: `seen` or `declared`. contradiction: what was declared and seen otherwise; "" where nothing contradicts.
    """

    name: str
    has: bool
    evidence: str
    origin: Literal["seen", "declared"] = "seen"
    contradiction: str = ""


class Required(_Part):
    """One limit that the caller requires of all runs together.

    told: the limit, what was measured, and over how many samples. exit_code: what it adds to the gate's.
    """

    text: str
    verdict: Verdict
    told: str
    exit_code: int = 0


class GateResult(_Part):
    """The findings of a gate.

    format: this format and its version. provider: the lock. stands_on: the kind of service that it stands on.
    abilities: what the lock can do. seconds: how long the gate took.
    exit_code: the verdict as docs/results.md numbers it. scenarios: in the order of the catalogue. groups: safety
    first, those that most scenarios show first. unexplored: sentences on what was not explored. cut: why the gate ended
    before all was explored that was planned; "" if it did not. folder: the run folder, as a path.
    lock_file, lock_line: where the class of the lock begins; "" and None where that is not known.
    crashes: the errors of Python that the lock raised, each told once over all scenarios.
    required: the limits of `--require`. notes: what was lost and ran again, what is wrong with the list of known
    failures, and what was left out.
    """

    format: Literal["lockref.gate/1"] = "lockref.gate/1"
    provider: str
    stands_on: str
    exit_code: int
    scenarios: tuple[GatedScenario, ...]
    groups: tuple[FailureGroup, ...] = ()
    abilities: tuple[AbilityFound, ...] = ()
    seconds: float = 0.0
    unexplored: tuple[str, ...] = ()
    cut: str = ""
    folder: str = ""
    lock_file: str = ""
    lock_line: int | None = None
    crashes: tuple[Crash, ...] = ()
    required: tuple[Required, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """All runs that were judged."""
        return sum(each.runs for each in self.scenarios)

    @property
    def undecided(self) -> tuple[GatedScenario, ...]:
        """Scenarios without a verdict on the lock, but for those that a crash ended: `crashes` tells them."""
        crashed = {name for crash in self.crashes for name in crash.scenarios}
        open_ones = (*self.having("inconclusive"), *self.having("could_not_be_run"))
        return tuple(each for each in open_ones if each.name not in crashed)

    def count(self, outcome: Outcome) -> int:
        """The number of scenarios that ended so."""
        return sum(each.outcome == outcome for each in self.scenarios)

    def having(self, outcome: Outcome) -> tuple[GatedScenario, ...]:
        """The scenarios that ended so, in their order."""
        return tuple(each for each in self.scenarios if each.outcome == outcome)

    def groups_of(self, scenario: GatedScenario) -> tuple[FailureGroup, ...]:
        """The causes that a scenario shows, those first that stop the gate."""
        shown = [group for group in self.groups if group.id in scenario.groups]
        return tuple(sorted(shown, key=lambda group: bool(group.accepted)))

    @property
    def stopping(self) -> tuple[FailureGroup, ...]:
        """The causes that nobody has accepted."""
        return tuple(group for group in self.groups if not group.accepted)


def load_gate(path: Path) -> GateResult:
    """Read a `gate.json`. Raises ConfigError for what is none of this version."""
    try:
        return GateResult.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", location=Location(str(path))) from error
    except ValidationError as error:
        raise ConfigError("is no account of a gate of this version", location=Location(str(path))) from error
