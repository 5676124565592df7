"""docs/the-lock.md says which function does which step, by which clause: all of that is in the source."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable

import pytest

from lockref.clouds.answers import A_READ, Meaning
from lockref.clouds.s3.answers import Answers
from lockref.clouds.s3.facts import BODILESS_404, OUTCOMES
from lockref.clouds.statuses import classify
from lockref.lab.loading import load_provider
from lockref.locks.decisions import next_step
from lockref.locks.fence import BLOCK, fence_key
from lockref.locks.values import REQUEST_TIMEOUT_NS_MAX, Step
from lockref.runtime import NS_PER_S
from lockref.stores.port import WriteReply
from lockref.words import Outcome
from scenarios.campaign import run_campaign
from scenarios.definition.load import load_scenario
from tests.docs import ROOT

PAGE = (ROOT / "docs" / "the-lock.md").read_text(encoding="utf-8")
_TIE = re.compile(r"`(lockref/\S+\.py): ([\w.]+)`")
_CLAUSE = re.compile(r"\b[A-Z]{1,2}\d+\b")
_FILE = re.compile(r"`(lockref/\S+\.py)`")

TIES = [
    (path, name, tuple(_CLAUSE.findall(row.split("|")[-3])))
    for row in PAGE.splitlines()
    if row.startswith("|")
    for path, name in _TIE.findall(row)
]
CORE = re.search(r"The core is .*?\n\n((?:- .*\n(?:  .*\n)*)+)", PAGE)

CORE_FILES_MAX = 7
CORE_LINES_MAX = 800


def source_of(path: str, name: str) -> str:
    """The source of a function or class in a file, with its comments. Empty where there is none."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found: ast.AST | None = ast.parse(text)
    for part in name.split("."):
        inner = [node for node in ast.iter_child_nodes(found) if getattr(node, "name", None) == part]
        if not inner:
            return ""
        found = inner[0]
    return ast.get_source_segment(text, found) or ""


def test_the_page_ties_its_steps() -> None:
    """A change of the page's form must not leave these tests without anything to ask."""
    assert len(TIES) > 30
    assert all(clauses for _, _, clauses in TIES)


@pytest.mark.parametrize(("path", "name", "clauses"), TIES, ids=[f"{name} {path[-12:]}" for path, name, _ in TIES])
def test_a_step_is_where_the_page_says(path: str, name: str, clauses: tuple[str, ...]) -> None:
    """The function exists, and each clause of the step is named in its source."""
    source = source_of(path, name)
    assert source, f"{path} has no {name}"
    assert [clause for clause in clauses if not re.search(rf"\b{clause}\b", source)] == []


S3_ANSWERS = [
    (answer, step)
    for row, step in re.findall(r"^\| (`\d{3}[^|]*) \| ([A-Z]+) \|$", PAGE, re.MULTILINE)
    for answer in re.findall(r"`(\d{3}[^`]*)`", row)
]


@pytest.mark.parametrize(("answer", "step"), S3_ANSWERS, ids=[answer for answer, _ in S3_ANSWERS])
def test_an_answer_of_s3_means_what_the_page_says(answer: str, step: str) -> None:
    """A5: a port copies this table, so it is the table that the lock itself uses."""
    status, _, code = answer.partition(" ")
    row = classify(OUTCOMES, int(status), code)
    reply = WriteReply(outcome=row.outcome, missing=row.missing, status=int(status))
    assert next_step(reply).name == step


def test_the_page_tells_the_answers_that_ports_get_wrong() -> None:
    """A5: each of these is in the table of the page."""
    told = {answer for answer, _ in S3_ANSWERS}
    assert told >= {"304", "301", "400 RequestTimeout", "404 NoSuchBucket", "404 NoSuchKey", "408", "501", "503"}
    assert "503 SlowDown" in told


READS: dict[str, Callable[[Meaning], bool]] = {
    "FOUND": lambda reply: reply.outcome is Outcome.APPLIED and not reply.is_absent,
    "ABSENT": lambda reply: reply.outcome is Outcome.APPLIED and reply.is_absent,
    "REFUSED": lambda reply: reply.outcome is Outcome.REJECTED,
    "FAILED": lambda reply: reply.outcome not in (Outcome.APPLIED, Outcome.REJECTED),
}
S3_READS = [
    (answer, result)
    for result, row in re.findall(r"^\| ([A-Z]+) \| (.*`\d{3}.*) \|$", PAGE, re.MULTILINE)
    for answer in re.findall(r"`(\d{3}[^`]*)`", row)
]


@pytest.mark.parametrize(("answer", "result"), S3_READS, ids=[answer for answer, _ in S3_READS])
def test_an_answer_of_s3_to_a_read_means_what_the_page_says(answer: str, result: str) -> None:
    """A5: what a read may answer is another table than that of the writes."""
    status, _, code = answer.partition(" ")
    version = '"1"' if result == "FOUND" else ""
    assert READS[result](Answers().meaning_of(A_READ, int(status), code=code, version=version))


def test_the_page_tells_every_result_of_a_read() -> None:
    """And what has no status of its own: a success without a version, a 404 without a body."""
    assert {result for _, result in S3_READS} == set(READS)
    assert Answers().meaning_of(A_READ, 200).outcome is Outcome.AMBIGUOUS
    assert READS["ABSENT"](Answers().read_answer(A_READ, 404, {}, b""))
    row = classify(OUTCOMES, 404, BODILESS_404)
    assert next_step(WriteReply(outcome=row.outcome, missing=row.missing, status=404)) is Step.GONE


def test_the_page_tells_the_numbers_of_the_lock() -> None:
    """The longest request, the block of tokens, and where the fence object lies."""
    assert f"at most {REQUEST_TIMEOUT_NS_MAX // NS_PER_S} s, H18" in PAGE
    assert f"a block of {BLOCK:,} tokens" in PAGE
    assert f"`table_lock.json` has `{fence_key('table_lock.json')}`" in PAGE


def test_the_page_points_to_the_vectors_that_there_are() -> None:
    """The number of bodies that a port must read as Hudi does is told as it is."""
    vectors = json.loads((ROOT / "tests" / "data" / "hudi_parsing.json").read_text(encoding="utf-8"))
    assert f"has {len(vectors)} bodies" in PAGE


def test_files_that_the_page_names_exist() -> None:
    """The optional ones, too."""
    assert [path for path in _FILE.findall(PAGE) if not (ROOT / path).is_file()] == []


def test_the_core_is_as_small_as_the_page_says() -> None:
    """What somebody must read who ports the lock: seven files, and no more lines than are told."""
    assert CORE is not None
    files = re.findall(r"^- `(lockref/\S+\.py)`", CORE[1], re.MULTILINE)
    lines = sum(len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in files)
    told = re.search(r"seven files of ([\d,]+) lines", PAGE)
    assert told is not None
    assert len(files) <= CORE_FILES_MAX
    assert lines <= int(told[1].replace(",", "")) <= CORE_LINES_MAX


@pytest.mark.parametrize(
    ("name", "scenario", "clause"), [("ForgetfulRelease", "swarm", "S6"), ("Boastful", "e06", "S3")]
)
def test_a_shown_variant_is_caught(name: str, scenario: str, clause: str) -> None:
    """Each variant of the guide is the reference but for one part, and a clause says which promise it breaks."""
    spec = load_provider(f"{ROOT / 'docs' / 'examples' / 'variants.py'}:{name}")
    result = run_campaign(load_scenario(scenario), spec, range(1, 31), keep_runs=0)
    assert clause in {finding.clause for finding in result.summary.findings}
