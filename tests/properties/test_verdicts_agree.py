"""One verdict, whoever counts: the process's summary and Spark's grouped rows of the same runs are told alike."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lockref.history import runs_table, to_table
from reports.account import summarised_results
from reports.checks import REACH_SCHEMA, VERDICT_SCHEMA, Judgement, decide
from reports.checks.classes import CLASS_SCHEMA, CLASSES
from reports.checks.facts.surroundings.integrity import RECORD_SCHEMA
from reports.checks.facts.surroundings.store_answers import STORE_ANSWERS_SCHEMA
from reports.checks.measures.endings import ENDINGS_SCHEMA
from reports.checks.measures.speed import SPEED_SCHEMA
from reports.checks.spec import CLAUSES, FAIRNESS, LIVENESS, SAFETY
from reports.checks.summary import Summary
from reports.checks.thresholds.kept import SAMPLES_SCHEMA
from reports.formats.document import document_of
from reports.formats.exit_codes import code_of, gate
from reports.formats.github import annotation_lines
from reports.formats.junit import junit_xml
from reports.formats.results import Results
from reports.pipeline.summary import Facts, summarise
from tests.thoroughness import examples

VERDICTS = ("held", "violated", "inconclusive", "not_applicable")
SITUATIONS = ("grant", "denied", "contention", "fault:pause")
OF_THE_RUNS = (
    "verdict", "liveness", "fairness_claims", "statement", "reasons", "runs", "events", "damaged", "cut_off", "clauses",
    "classes", "reach",
)  # fmt: skip
"""What both tell of the same counts. The rest is each one's own: replays here, latencies there."""

Run = dict[str, object]

RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "scenario": st.sampled_from(["", "e01", "e02"]),
            "provider": st.sampled_from(["", "hardened"]),
            "is_cut_off": st.booleans(),
            "must_happen": st.lists(st.sampled_from(SITUATIONS), max_size=3, unique=True),
            "class": st.sampled_from(CLASSES),
            # Mostly sound runs, so that not every batch is violated.
            "verdicts": st.fixed_dictionaries(
                {clause: st.sampled_from(("held", "held", "held", *VERDICTS)) for clause in CLAUSES}
            )
            | st.fixed_dictionaries({clause: st.sampled_from(("held", "not_applicable")) for clause in CLAUSES}),
            "reach": st.fixed_dictionaries({name: st.integers(0, 2) for name in SITUATIONS}),
        }
    ),
    max_size=5,
)
LOSSES = st.tuples(st.integers(0, 2), st.integers(0, 2))
"""How many runs are damaged, and how many records name no run."""


def run_rows(runs: list[Run]) -> pa.Table:
    defaults = {"world": "simulated", "claims": []}
    names = ("scenario", "provider", "is_cut_off", "must_happen")
    return runs_table([{**defaults, "run": place, **{n: run[n] for n in names}} for place, run in enumerate(runs)])


def judgement(runs: list[Run]) -> Judgement:
    """What the judge would have said of these runs."""
    verdicts = [
        {"run": place, "clause": clause, "verdict": verdict, "count": int(verdict == "violated"), "witness": "{}"}
        for place, run in enumerate(runs)
        for clause, verdict in run["verdicts"].items()
    ]
    reach = [
        {"run": place, "situation": name, "count": count}
        for place, run in enumerate(runs)
        for name, count in run["reach"].items()
    ]
    classes = [{"run": place, "class": run["class"]} for place, run in enumerate(runs)]
    return Judgement(
        verdicts=pa.Table.from_pylist(verdicts, VERDICT_SCHEMA),
        classes=pa.Table.from_pylist(classes, CLASS_SCHEMA),
        reach=pa.Table.from_pylist(reach, REACH_SCHEMA),
        grants=pa.table({}),
        tenures=pa.table({}),
        records=pa.Table.from_pylist(
            [
                {"run": place, "state": "cut off" if run["is_cut_off"] else "whole", "why": None}
                for place, run in enumerate(runs)
            ],
            RECORD_SCHEMA,
        ),
        answers=STORE_ANSWERS_SCHEMA.empty_table(),
        speeds=SPEED_SCHEMA.empty_table(),
        endings=ENDINGS_SCHEMA.empty_table(),
        threshold_samples=SAMPLES_SCHEMA.empty_table(),
    )


def in_process(runs: list[Run], losses: tuple[int, int]) -> Summary:
    """The process's count."""
    damaged, nameless = losses
    return Summary.of(judgement(runs), to_table([]), run_rows(runs), damaged=damaged, nameless=nameless)


def on_spark(runs: list[Run], losses: tuple[int, int]) -> Results:
    """The account of a pass in which each run was another worker's."""
    facts = Facts(sources={0: "h"}, counts=in_process([], losses))
    for run in runs:
        facts.join(Facts(sources={0: "h"}, counts=in_process([run], (0, 0))))
    return summarise(facts, title="t")


def told(counted: Summary) -> Results:
    return summarised_results(counted, title="t", scenario="s", provider="p", provenance={})


@given(runs=RUNS, losses=LOSSES)
@settings(deadline=None, max_examples=examples(150))
def test_the_process_and_spark_say_the_same_of_the_same_counts(runs: list[Run], losses: tuple[int, int]) -> None:
    """Verdict, liveness, fairness, reasons, clauses, reach and exit code: one definition, two ways to it."""
    here, there = told(in_process(runs, losses)), on_spark(runs, losses)
    assert {name: getattr(here, name) for name in OF_THE_RUNS} == {name: getattr(there, name) for name in OF_THE_RUNS}
    assert code_of([here]) == code_of([there])


@given(runs=RUNS, losses=LOSSES, cut=st.integers(0, 5))
@settings(deadline=None, max_examples=examples(100))
def test_batches_do_not_change_a_verdict(runs: list[Run], losses: tuple[int, int], cut: int) -> None:
    """A campaign adds up batch by batch: the verdict is that of all runs judged at once."""
    joined = in_process(runs[:cut], losses)
    joined.add(in_process(runs[cut:], (0, 0)))
    assert decide(joined) == decide(in_process(runs, losses))


@given(runs=RUNS, losses=LOSSES)
@settings(deadline=None, max_examples=examples(150))
def test_what_was_seen_is_said_and_what_was_not_asked_is_not(runs: list[Run], losses: tuple[int, int]) -> None:
    """A violation is never hidden, "held" never said against a doubt, and nothing holds that no run could be asked."""
    verdicts = decide(in_process(runs, losses))
    seen = {clause: {run["verdicts"][clause] for run in runs} for clause in CLAUSES}
    for said, clauses in ((verdicts.safety, SAFETY), (verdicts.liveness, LIVENESS), (verdicts.fairness, FAIRNESS)):
        found = set().union(*(seen[clause] for clause in clauses))
        assert (said == "violated") == ("violated" in found)
        if said == "held":
            assert "held" in found
            assert "inconclusive" not in found
        if said == "inconclusive":
            assert verdicts.reasons
    if runs and verdicts.safety == "held":
        assert losses == (0, 0)
        assert all(run["reach"]["grant"] or any(_twin(run, other) for other in runs) for run in runs)


def _twin(run: Run, other: Run) -> bool:
    """True if `other` shows a grant for the scenario and provider of `run`."""
    same = (run["scenario"], run["provider"]) == (other["scenario"], other["provider"])
    return same and other["reach"]["grant"] > 0


@given(runs=RUNS, losses=LOSSES, allowed=st.sets(st.sampled_from([3, 4, 5])), store_lost=st.booleans())
@settings(deadline=None, max_examples=examples(100))
def test_every_gate_is_told_the_same_of_what_it_allows(
    runs: list[Run], losses: tuple[int, int], allowed: set[int], store_lost: bool
) -> None:
    """`--allow-exit`: exit code, JUnit and annotations agree on what still stops the gate, and hide nothing."""
    results = told(in_process(runs, losses))
    results.is_store_lost = store_lost and results.verdict == "inconclusive"
    plain, code = code_of([results]), code_of([results], sorted(allowed))
    case = ET.fromstring(junit_xml([results], **gate(allowed)))[0][0]
    told_by_junit = {element.tag for element in case} - {"properties"}
    passed = {"skipped"} if plain else set()
    assert told_by_junit == {1: {"failure"}, 4: {"failure"}, 3: {"error"}, 5: {"error"}, 0: passed}[code]
    annotations = {line.split(" ")[0] for line in annotation_lines([results], **gate(allowed))}
    assert ("::error" in annotations) == (code in (1, 4))
    assert ("::warning" in annotations) >= (code in (3, 5))
    if code == 0:
        assert annotations == ({"::notice"} if plain else set())


@given(runs=RUNS, losses=LOSSES)
@settings(deadline=None, max_examples=examples(100))
def test_every_gate_is_told_the_same(runs: list[Run], losses: tuple[int, int]) -> None:
    """Exit code, `--json`, JUnit and annotations agree on what failed, what is open and what passed."""
    results = told(in_process(runs, losses))
    code = code_of([results])
    document = document_of([results], digest="d", folder=None)
    said = {document["verdict"], document["liveness"], document["fairness_claims"]}
    assert (document["verdict"] == "violated") == (code == 1)
    assert ("violated" in said) == (code in (1, 4))
    assert ("violated" not in said and "inconclusive" in said) == (code == 3)
    case = ET.fromstring(junit_xml([results]))[0][0]
    told_by_junit = {element.tag for element in case} - {"properties"}
    assert told_by_junit == {1: {"failure"}, 4: {"failure"}, 3: {"error"}, 0: set()}[code]
    annotations = {line.split(" ")[0] for line in annotation_lines([results])}
    assert ("::error" in annotations) == (code in (1, 4))
    assert ("::warning" in annotations) >= (code == 3)
    assert annotations or code == 0
