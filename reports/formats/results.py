"""`results.json`: the one account of a run that every page, gate and table is made from.

The model is closed (an unknown key is an error) and numbered. Nothing in it
says "safe": a verdict is held, violated or inconclusive, over so many runs,
with the bound that so many runs can prove. Times are integers in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockref.atomic_files import write_atomically
from lockref.durations import duration
from lockref.errors import ConfigError, Location
from lockref.strict_json import printable_json
from lockref.words import counted
from reports.checks.measures.confidence import bound_95, wilson_95
from reports.checks.measures.endings import ENDINGS
from reports.checks.situation_names import GRANT
from reports.checks.spec import CLAUSES, SAFETY, VIOLATED, Verdict
from reports.checks.verdicts import Counts, Whole, decide, joint_verdict, whole_verdict

FORMAT = "lockref.results/1"

Standing = Literal["violated", "inconclusive", "allowed", "held"]
"""What a gate makes of results, with what its caller allows."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class Clause(_Part):
    """One clause over all runs. `runs` counts those judged: held or violated.

    is_demanded: False where no lock can keep the clause. It is then reported, and decides nothing.
    """

    verdict: Verdict
    runs: int
    violated: int = 0
    inconclusive: int = 0
    not_applicable: int = 0
    is_demanded: bool = True
    text: str = ""


class Reach(_Part):
    """A situation: in how many runs it came about, how often, whether the scenario demands it, how often at least."""

    situation: str
    runs: int
    count: int
    is_required: bool = False
    least: int = 0


class Interval(_Part):
    """A bar of the holder timeline. kind: `believed`, `granted`, `fault`, `overlap`."""

    kind: str
    row: str
    begin_ns: int
    end_ns: int
    label: str = ""


class Tick(_Part):
    """A protected write: at its resource, accepted or not."""

    row: str
    at_ns: int
    is_accepted: bool
    label: str = ""


class Timeline(_Part):
    """The holders, believers and writers of one run, around a moment.

    origin_ns: the instant that reads as zero. dropped: marks beyond the cap.
    """

    origin_ns: int = 0
    begin_ns: int
    end_ns: int
    moment_ns: int | None = None
    rows: list[str] = Field(default_factory=list)
    intervals: list[Interval] = Field(default_factory=list)
    ticks: list[Tick] = Field(default_factory=list)
    dropped: int = 0

    def in_run_time(self, zero_ns: int) -> Timeline:
        """This timeline with all its times counted from `zero_ns`."""
        bars = [
            bar.model_copy(update={"begin_ns": bar.begin_ns - zero_ns, "end_ns": bar.end_ns - zero_ns})
            for bar in self.intervals
        ]
        moved = {name: getattr(self, name) - zero_ns for name in ("origin_ns", "begin_ns", "end_ns")}
        moment_ns = None if self.moment_ns is None else self.moment_ns - zero_ns
        ticks = [tick.model_copy(update={"at_ns": tick.at_ns - zero_ns}) for tick in self.ticks]
        return self.model_copy(update={**moved, "moment_ns": moment_ns, "intervals": bars, "ticks": ticks})


NO_INSTANTS: Final = frozenset({"size_ns", "bound_ns", "origin_ns"})
"""Keys of a witness that end in `_ns` and are no instants of the run."""


def _in_run_time(value: Any, zero_ns: int, name: str = "") -> Any:
    """A witness with every instant in it, however deep, counted from `zero_ns`."""
    if isinstance(value, dict):
        return {key: _in_run_time(inner, zero_ns, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_in_run_time(inner, zero_ns, name) for inner in value]
    is_instant = name.endswith("_ns") and name not in NO_INSTANTS and type(value) is int
    return value - zero_ns if is_instant else value


class Failure(_Part):
    """One distinct failure: the first run that shows it, and how many more do.

    id: how `lockref replay` knows it, or a name within this document.
    because: its cause in one line, as `lockref explain` tells it; empty where nobody looked for one.
    replay: the command line that shows it again; empty where nothing can.
    similar: further runs. notes: label and text, what else is known of it.
    All times are counted from the zero of the run, on the terminal, in this document, in pictures and in blocks alike.
    begin_ns: that zero on the clock of the history: added to a time, it gives the `at_ns` of an event. It is 0 in a
    simulation, and the run's first event in a real run.
    """

    id: str
    clause: str
    message: str
    run: int
    seed: int | None = None
    source: str = ""
    scenario: str = ""
    provider: str = ""
    backend: str = ""
    begin_ns: int = 0
    at_ns: int | None = None
    similar: int = 0
    because: str = ""
    replay: str = ""
    notes: list[tuple[str, str]] = Field(default_factory=list)
    block: str = ""
    witness: dict[str, Any] = Field(default_factory=dict)
    timeline: Timeline | None = None

    def in_run_time(self) -> Failure:
        """This failure, given in the times of its history, in times from the zero of its run."""
        at_ns = None if self.at_ns is None else self.at_ns - self.begin_ns
        witness = _in_run_time(self.witness, self.begin_ns)
        timeline = None if self.timeline is None else self.timeline.in_run_time(self.begin_ns)
        return self.model_copy(update={"at_ns": at_ns, "witness": witness, "timeline": timeline})


class Quantiles(_Part):
    """Quantiles of one measure. `curve` pairs (quantile, nanoseconds).

    rank_error: by how much the rank of a quantile may be off, as a share of the samples; 0 where they are exact.
    """

    cell: str
    measure: str
    op: str = ""
    outcome: str = ""
    samples: int
    rank_error: float = 0.0
    min_ns: int
    p50_ns: int
    p90_ns: int
    p95_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    curve: list[tuple[float, int]] = Field(default_factory=list)


class OutcomeCount(_Part):
    """The number of calls or requests of one operation that ended with this outcome."""

    cell: str
    kind: str
    op: str
    outcome: str
    count: int


class Fairness(_Part):
    """Jain's index over the runs of a cell, and the longest streak of one client."""

    cell: str
    runs: int
    grants: int
    jain_min: float | None = None
    jain_p50: float | None = None
    longest_streak: int = 0


class ClientCount(_Part):
    """One client's share of a cell."""

    cell: str
    client: str
    asked: int
    granted: int
    wait_max_ns: int | None = None


class Scatter(_Part):
    """Single samples for a picture: (nanoseconds since the run began, value). `total` counts those left out, too."""

    cell: str
    measure: str
    outcome: str
    total: int
    points: list[tuple[int, int]] = Field(default_factory=list)


class Quarantined(_Part):
    """Records of one source that were set aside, by reason."""

    source: str
    reason: str
    records: int


class Silence(_Part):
    """A stretch in which the store served nothing although it was asked; instants from the run's begin.

    unanswered, refused: requests that ended in it. reason: what most of their answers said.
    """

    begin_ns: int
    end_ns: int
    unanswered: int
    refused: int
    reason: str = ""


class AnswerCount(_Part):
    """Requests that ended in one stretch of a run."""

    begin_ns: int
    end_ns: int
    requests: int
    unanswered: int
    refused: int


class StoreAnswers(_Part):
    """The answers of one real run's store. Instants count from the run's begin.

    Source: `reports.checks.facts.surroundings.store_answers`.

    lost_at_ns: from when on it served nothing to the end. contradicted: readings that showed a state which a confirmed
    write had replaced; contradiction, contradiction_ns: the first of them in words, and when it was shown.
    over_time: the whole run, stretch by stretch.
    """

    run: int
    run_ns: int
    requests: int
    unanswered: int
    refused: int
    unanswered_share: float
    silent_ns: int
    silent_share: float
    lost_at_ns: int | None = None
    contradicted: int = 0
    contradiction: str | None = None
    contradiction_ns: int | None = None
    silences: list[Silence] = Field(default_factory=list)
    over_time: list[AnswerCount] = Field(default_factory=list)


class ClientSpeed(_Part):
    """One client of a real run: calls, grants, its longest wait in one call, its longest time without a grant."""

    client: str
    asked: int
    granted: int
    wait_max_ns: int
    drought_max_ns: int


class Speed(_Part):
    """The speed and the fairness of a lock in a real run (`reports.checks.measures.speed`). None where it is unknown.

    cut_short: calls that were not granted by the end of the run, and whose clients would have waited on.
    response: of an open loop, from a call's intended start to its grant. late_max_ns: how late a call began at most.
    Rates are per `answered_ns`, the run's time without the silences of its store. The four shares add up to one.
    """

    run: int
    run_ns: int
    answered_ns: int
    clients: int
    clients_asked: int
    clients_served: int
    processes: int | None = None
    processes_served: int | None = None
    calls: int
    grants: int
    cut_short: int = 0
    grants_per_s: float | None = None
    requests_per_grant: float | None = None
    wait_p50_ns: int | None = None
    wait_p90_ns: int | None = None
    wait_p99_ns: int | None = None
    wait_max_ns: int | None = None
    response_p50_ns: int | None = None
    response_p90_ns: int | None = None
    response_p99_ns: int | None = None
    response_max_ns: int | None = None
    late_max_ns: int | None = None
    handoff_p50_ns: int | None = None
    handoff_p90_ns: int | None = None
    handoff_p99_ns: int | None = None
    handoff_max_ns: int | None = None
    held_share: float
    handoff_share: float
    idle_share: float
    silent_share: float
    jain: float | None = None
    longest_wait_ns: int
    longest_wait_client: str
    longest_drought_ns: int
    longest_drought_client: str
    per_client: list[ClientSpeed] = Field(default_factory=list)


MEASURED: Final = "measured"
"""Marks a field of `Results` that the pipeline measures from the kept histories, or has joined with the run's own."""

JUDGED_FIELDS: Final = (
    *("verdict", "liveness", "fairness_claims", "statement", "reasons", "clauses", "classes", "reach"),
    *("endings", "longest_gap_ns"),
)
"""What one call of the judge says of a set of runs; it is shown whole or not at all."""


class Results(_Part):
    """The whole account. Verdicts and reasons are what `reports.checks.verdicts.decide` says.

    format: this format and its version. title: what was run. verdict: of the safety clauses.
    liveness, fairness_claims: the verdicts of theirs. statement: the verdict in one sentence, with its bound.
    reasons: why it is inconclusive, if it is. runs: how many were judged. events: how many they recorded.
    cut_off: runs whose record ended early. clauses: each clause over all runs, by id.
    reach: the situations, and how often each came about. failures: the distinct failures, those of safety first.
    latency: quantiles of what was measured. outcomes: how calls and requests ended. fairness: how grants were shared.
    clients: each client's share. scatters: single samples for pictures. quarantine: records that were set aside.
    provenance: where it comes from: versions, machine, command line. capabilities: what the store of the run can do.
    files: the files beside this one. notices: what a reader should know besides.
    is_store_lost: in a real run the store went away and never came back.
    answers: what the store of each real run answered. speed: the figures of
    the one real run; None for virtual time, and for several runs together.
    endings: how grants ended to how many. longest_gap_ns: the longest time between two grants in which a lock belonged
    to nobody, or after the last one while clients still asked.
    sealed: the files of the history as the run wrote them: name to digest (BLAKE2b, 16 bytes) of their bytes.
    clients_left_out: clients that `clients` has no room for, those with the fewest grants.
    classes: runs by severity. damaged: runs not judged because their record is damaged.
    """

    format: Literal["lockref.results/1"] = "lockref.results/1"
    title: str = ""
    verdict: Verdict
    liveness: Verdict = "not_applicable"
    fairness_claims: Verdict = "not_applicable"
    statement: str
    is_store_lost: bool = False
    speed: Speed | None = None
    answers: list[StoreAnswers] = Field(default_factory=list)
    reasons: list[str] = Field(default_factory=list)
    runs: int
    events: int = 0
    damaged: int = 0
    cut_off: int = 0
    clauses: dict[str, Clause] = Field(default_factory=dict)
    classes: dict[str, int] = Field(default_factory=dict)
    reach: list[Reach] = Field(default_factory=list)
    endings: dict[str, int] = Field(default_factory=dict)
    longest_gap_ns: int | None = None
    failures: list[Failure] = Field(default_factory=list)
    latency: Annotated[list[Quantiles], MEASURED] = Field(default_factory=list)
    outcomes: Annotated[list[OutcomeCount], MEASURED] = Field(default_factory=list)
    fairness: Annotated[list[Fairness], MEASURED] = Field(default_factory=list)
    clients: Annotated[list[ClientCount], MEASURED] = Field(default_factory=list)
    clients_left_out: Annotated[int, MEASURED] = 0
    scatters: Annotated[list[Scatter], MEASURED] = Field(default_factory=list)
    quarantine: Annotated[list[Quarantined], MEASURED] = Field(default_factory=list)
    provenance: Annotated[dict[str, Any], MEASURED] = Field(default_factory=dict)
    capabilities: dict[str, Any] = Field(default_factory=dict)
    files: Annotated[dict[str, str], MEASURED] = Field(default_factory=dict)
    sealed: dict[str, str] = Field(default_factory=dict)
    notices: list[str] = Field(default_factory=list)

    @classmethod
    def measured_fields(cls) -> frozenset[str]:
        """The fields that are marked as `MEASURED`; every other field is the run's own account of itself."""
        return frozenset(name for name, field in cls.model_fields.items() if MEASURED in field.metadata)

    def judged_again(self, again: Results) -> Results:
        """This account of a run, after the histories that it kept were measured, and judged once more, in `again`.

        One verdict is shown, and the worse one counts: a violation that was seen outranks every doubt. The run has
        judged all of its runs, so its verdict stands, unless a clause that it demands is broken in what it kept.
        Then the verdict, the clauses and the failures shown are those of the kept histories.
        """
        # Where two beliefs may overlap, only tokens can keep late writes out (S4), and `again` has not asked for them.
        open_clauses = {*self.not_demanded, *(["S4"] if "S3" in self.not_demanded else [])}
        broken = {name for name, clause in again.clauses.items() if name in SAFETY and clause.violated}
        is_excused = bool(broken) and broken <= open_clauses
        is_worse = again.verdict == VIOLATED != self.verdict and not is_excused
        names = {*self.measured_fields(), *((*JUDGED_FIELDS, "failures") if is_worse else ())}
        joined = self.model_copy(update={name: getattr(again, name) for name in names})
        assert joined.verdict == (again if is_worse else self).verdict, "a verdict of two judgements"
        return joined

    @property
    def broken(self) -> dict[str, Clause]:
        """The demanded clauses that broke."""
        return {name: clause for name, clause in self.clauses.items() if clause.violated and clause.is_demanded}

    @property
    def not_demanded(self) -> dict[str, Clause]:
        """The clauses that were not demanded."""
        return {name: clause for name, clause in self.clauses.items() if not clause.is_demanded}

    @property
    def worst(self) -> Verdict:
        """The worst of safety, liveness and claimed fairness, for a gate that knows one word."""
        return joint_verdict([self.verdict, self.liveness, self.fairness_claims])

    @property
    def whole(self) -> Whole:
        """The verdict on the run in a word, which tells broken safety from broken liveness."""
        return whole_verdict(safety=self.verdict, liveness=self.liveness, fairness=self.fairness_claims)

    @property
    def starved(self) -> str:
        """The clients of a real run that asked and were never served, in words; empty where there are none."""
        if self.speed is None or self.speed.clients_served >= self.speed.clients_asked:
            return ""
        unserved = self.speed.clients_asked - self.speed.clients_served
        of_all = f"{unserved:,} of {counted(self.speed.clients_asked, 'client')} that asked"
        allowed = "No clause that held promises each client a turn in that time. " if self.worst == "held" else ""
        return f"{of_all} were never granted the lock before the run ended. {allowed}Waits are those of the others"

    @property
    def colour(self) -> Verdict:
        """The verdict whose colour a page gives it: nothing is green beside starvation or an open question."""
        return "inconclusive" if self.worst == "held" and self.starved else self.worst

    def standing(
        self, *, allow_inconclusive: bool = False, allow_not_live: bool = False, allow_store_lost: bool = False
    ) -> Standing:
        """The standing of this verdict at a gate: `violated` and `inconclusive` stop it, `allowed` and `held` do not.

        allow_inconclusive, allow_not_live, allow_store_lost: the caller takes exit codes 3, 4 and 5 for a pass. Code 5
        stands for what is undecided because the store was lost. A broken safety clause always stops.
        """
        verdicts = (self.verdict, self.liveness, self.fairness_claims)
        if self.verdict == "violated" or ("violated" in verdicts and not allow_not_live):
            return "violated"
        is_open = self.is_store_lost or "inconclusive" in verdicts
        if is_open and not (allow_store_lost if self.is_store_lost else allow_inconclusive):
            return "inconclusive"
        return "allowed" if is_open or "violated" in verdicts else "held"

    @property
    def endings_line(self) -> str:
        """The endings of grants and the longest gap, in one line; empty if nothing was granted."""
        ended = [f"{count:,} {name}" for name, count in self.endings.items() if name != "held"]
        held = self.endings.get("held", 0)
        told = [f"grants ended: {', '.join(ended)}"] if ended else []
        told += [f"{held:,} held at the end"] if held else []
        told += [] if self.longest_gap_ns is None else [f"longest gap {duration(self.longest_gap_ns)}"]
        return "; ".join(told)

    @property
    def untold_reasons(self) -> list[str]:
        """The reasons that the statement does not give already."""
        return [reason for reason in self.reasons if reason not in self.statement]

    def write(self, path: Path) -> Path:
        """Write `results.json`: indented, keys in the model's order, so that equal results give equal bytes."""
        return write_atomically(path, printable_json(self.model_dump_json(indent=1)) + "\n")


def load_results(path: Path) -> Results:
    """Read a `results.json`. Raises ConfigError that says what in it is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"no results to read: {error}", location=Location(str(path))) from error
    try:
        return Results.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        message = f"{where}: {first['msg']}; expected {FORMAT}, as written by `lockref report`"
        raise ConfigError(message, location=Location(str(path))) from error


def judged(counts: Counts, *, title: str, classes: Mapping[str, int], events: int, is_sample: bool = True) -> Results:
    """The account of counted runs, as far as it is about their verdict; the caller adds what else it knows.

    is_sample: as of `statement`.
    """
    verdicts = decide(counts)
    reach, least = counts.reach, counts.required
    return Results(
        title=title,
        verdict=verdicts.safety,
        liveness=verdicts.liveness,
        fairness_claims=verdicts.fairness,
        statement=statement(
            verdict=verdicts.safety,
            runs=counts.runs,
            violated=counts.broken_runs,
            reasons=list(verdicts.reasons),
            grants=reach.get(GRANT, (0, 0))[1],
            is_partial=any(counts.verdicts[name][VIOLATED] for name in counts.not_demanded if name in counts.verdicts),
            is_sample=is_sample,
        ),
        reasons=list(verdicts.reasons),
        runs=counts.runs,
        events=events,
        damaged=counts.damaged,
        cut_off=counts.cut_off,
        clauses={
            name: Clause(
                verdict=verdict,
                runs=counts.verdicts[name]["held"] + counts.verdicts[name]["violated"],
                violated=counts.verdicts[name]["violated"],
                inconclusive=counts.verdicts[name]["inconclusive"],
                not_applicable=counts.verdicts[name]["not_applicable"],
                is_demanded=name not in counts.not_demanded,
                text=CLAUSES[name],
            )
            for name, verdict in verdicts.clauses.items()
        },
        classes=dict(sorted(classes.items())),
        reach=[
            Reach(situation=name, runs=runs, count=count, is_required=name in least, least=least.get(name, 0))
            for name, (runs, count) in reach.items()
        ],
        endings={name: counts.endings[name] for name in ENDINGS if counts.endings[name]},
        longest_gap_ns=counts.longest_gap_ns,
        is_store_lost=verdicts.is_store_lost,
        answers=[StoreAnswers.model_validate(row) for row in counts.answers],
        speed=Speed.model_validate(counts.speeds[0]) if len(counts.speeds) == 1 == counts.runs else None,
        notices=[*counts.notices, *troubles(reach)],
    )


def troubles(reach: Mapping[str, tuple[int, int]]) -> list[str]:
    """Troubles that no clause forbids: grants that were lost under their holders, calls that raised."""
    found = []
    for situation, noun, words in (
        ("lost_at_work", "tenure", "lost while the holder worked"),
        ("failed_call", "acquire", "ended in an error"),
    ):
        runs, count = reach.get(situation, (0, 0))
        if count:
            found.append(f"{counted(count, noun)} {words}, in {counted(runs, 'run')}")
    return found


def statement(
    *,
    verdict: Verdict,
    runs: int,
    violated: int,
    reasons: list[str],
    grants: int = 0,
    is_partial: bool = False,
    is_sample: bool = True,
) -> str:
    """The verdict in one sentence. The word "safe" does not occur.

    grants: how often the lock was given in these runs; 0 where nobody counted.
    is_partial: a clause broke that is not demanded, so the verdict is about the others.
    is_sample: False for runs that a search has chosen: they tell no rate.
    """
    given = f" with {counted(grants, 'grant')}" if grants else ""
    # So few runs say nothing about the rate among runs. A real run is one run.
    is_sample = is_sample and runs >= 4
    if violated:
        low, high = wilson_95(violated, runs)
        interval = f": at 95 % confidence, {_percent(low)} to {_percent(high)} % of runs do" if is_sample else ""
        return f"{violated:,} of {counted(runs, 'run')}{given} broke a safety clause{interval}"
    if runs == 0:
        return "no run could be judged"
    tail = f"; inconclusive: {reasons[0]}" if verdict == "inconclusive" and reasons else ""
    # Inconclusive runs say nothing about the rate either.
    is_bounded = is_sample and verdict == "held"
    bound = f": at 95 % confidence, at most {_percent(bound_95(runs))} % of runs break it" if is_bounded else ""
    of_what = " of the clauses demanded here" if is_partial else ""
    return f"0 violations{of_what} in {counted(runs, 'run')}{given}{bound}{tail}"


def _percent(share: float) -> str:
    """Two significant digits, never in powers of ten."""
    return f"{float(f'{100 * share:.2g}'):g}"
