"""The quick form of the probe is a part of the full one: the same questions, and one reading of the answers."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable

import pytest

from lockref.stores.memory import MemoryStore
from lockref.stores.port import Version, WriteReply
from lockref.stores.probe import races as quick_races
from lockref.stores.probe import readings, selftest
from lockref.stores.probe.clauses import CLAUSES, CONDITIONS
from lockref.stores.probe.measured import Measurements
from lockref.stores.probe.selftest import measure
from lockref.words import Outcome
from scenarios.probe import session
from scenarios.probe.findings import Finding
from scenarios.probe.questions import races as full_races
from scenarios.probe.questions.spread import Racers
from scenarios.probe.steps import steps_for


def test_the_quick_form_asks_only_questions_that_the_full_probe_has() -> None:
    """Each condition that it measures is the same object, and a step of the full probe asks it."""
    findings = {clause: Finding(condition) for clause, condition in CLAUSES.items()}
    asked_in_full = {step.clause for step in steps_for(1, findings, Racers([]), rounds=4)}
    for name, condition in CONDITIONS.items():
        assert CLAUSES[condition.clause] is condition
        assert condition.clause in asked_in_full
        assert Measurements().findings[name].condition is condition


def _names_in(module: object) -> set[str]:
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    constants = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "_repeat"
        and isinstance(node.args[0], ast.Constant)
    }
    return {str(name) for name in constants}


def test_the_races_of_the_quick_form_are_named_conditions() -> None:
    """A race that no condition names would be told under no clause."""
    assert _names_in(quick_races) == {"create_race", "replace_race", "delete_race"} <= set(CONDITIONS)


@pytest.mark.parametrize(
    ("module", "reading"),
    [
        (selftest, readings.read_refusal),
        (session, readings.read_refusal),
        (quick_races, readings.read_race),
        (full_races, readings.read_race),
    ],
)
def test_both_forms_read_answers_by_one_function(module: object, reading: Callable[..., object]) -> None:
    """No probe decides by itself what an answer and the object behind it mean."""
    assert getattr(module, reading.__name__) is reading


A, B, START = b"a", b"b", b"start"


@pytest.mark.parametrize(
    ("winners", "unknown", "after", "end"),
    [
        ([A], [], A, readings.RaceEnd.RIGHT),
        ([], [], START, readings.RaceEnd.VOID),
        ([], [A], A, readings.RaceEnd.VOID),
        ([], [], A, readings.RaceEnd.UNASKED),
        ([], [None], None, readings.RaceEnd.VOID),
        ([A, B], [], A, readings.RaceEnd.SEVERAL),
        ([A], [B], B, readings.RaceEnd.BESIDE),
        ([A], [], START, readings.RaceEnd.NOT_SHOWN),
        ([A], [], B, readings.RaceEnd.LOST),
        ([None], [], None, readings.RaceEnd.RIGHT),
    ],
)
def test_a_round_of_a_race_has_one_end(
    winners: list[bytes | None], unknown: list[bytes | None], after: bytes | None, end: readings.RaceEnd
) -> None:
    """C2, C3, C9: at most one winner, and what it wrote is there; a request without an answer proves nothing."""
    assert readings.read_race(winners, unknown, before=START, after=after) is end


class _RefusesAndStores(MemoryStore):
    """Answers 412 to every racing replacement, and carries each of them out."""

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        reply = super().put_if_version(key, body, version)
        if "-race" not in key or reply.outcome is not Outcome.APPLIED:
            return reply
        return WriteReply(outcome=Outcome.PRECONDITION_FAILED, reason="412")


def test_the_quick_form_sees_a_race_that_was_refused_and_carried_out() -> None:
    """C3: the full probe called such a store unsafe, and the quick form called each round void."""
    found = measure(_RefusesAndStores(), "p", racers=4, rounds=2)
    finding = found.findings["replace_race"]
    assert finding.status == "ignored"
    assert finding.detail.startswith("refused every request, and carried one out")


class _LosesTheAnswerOfDeletes(MemoryStore):
    """Carries racing deletes out, and answers none of them."""

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        reply = super().delete(key, version)
        if "-race" not in key or version is None:
            return reply
        return WriteReply(outcome=Outcome.AMBIGUOUS, reason="no answer")

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        if "-race" in key and body.startswith(b"spare"):
            super().delete(key, version)
            return WriteReply(outcome=Outcome.PRECONDITION_FAILED, reason="412")
        return super().put_if_version(key, body, version)


def test_a_delete_without_an_answer_accuses_no_store() -> None:
    """C9: the object is gone and nobody won. A delete that may have landed explains it."""
    found = measure(_LosesTheAnswerOfDeletes(), "p", racers=4, rounds=2)
    assert found.findings["delete_race"].status == "not_measured"
    assert found.findings["delete_race"].void > 0
