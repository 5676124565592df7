"""Causes from a recorded history alone: what it shows is told, and what would be a guess is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.words import Op, Outcome
from reports.account import judged_history
from reports.checks import judge
from reports.checks.summary import Finding, Summary
from reports.explanation.explanation import SENTENCE_MAX
from reports.explanation.facts import RunFacts
from reports.explanation.recorded import UNSURE_NS, RecordedCauses
from reports.history_files import write_history
from tests.histories import TIMING, History, tables, timed
from tests.unit.reports.explanation.test_causes import SECONDS, S, paused_holder


def sentence(history: History, clause: str) -> str:
    """The cause of the one failure of a clause, from the history alone."""
    events, runs = tables(history)
    findings = Summary.of(judge(events, runs), events, runs).findings
    [finding] = [found for found in findings if found.clause == clause]
    return RecordedCauses(events, runs).sentence_of(finding)


def taken_over_early(struck: str = "", kind: str = "pause") -> History:
    """n2 takes over at 2 s, 8.5 s before the lease of n1 ends; n1 says yes until 4 s. struck: by a fault until 3 s."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S // 2, returned=S // 2 + 1, valid_for=10 * S)
    if struck:
        history.fault(struck, S, kind, "begin")
    other = history.granted("n2", call=S, applied=2 * S, returned=2 * S + 1, valid_for=10 * S)
    if struck:
        history.fault(struck, 3 * S, kind, "end")
    history.believes(one, S // 2 + 1, 4 * S)
    history.believes(other, 2 * S + 1, 5 * S)
    return history


def test_a_client_that_stood_still_is_named_with_the_length_of_its_pause() -> None:
    """S3: of the plan nobody knows the words, so the length is that of the record."""
    told = sentence(paused_holder(), "S3")
    assert told == (
        "n1 was paused for 12 s under a lease of 10 s; n2 took over at 11.500 s; n1 woke at 13.000 s and still said yes"
    )
    assert len(told) <= SENTENCE_MAX


@pytest.mark.parametrize(("struck", "kind"), [("", ""), ("n3", "pause"), ("n1", "delay_reply")])
def test_a_fault_that_may_have_had_no_part_is_not_called_the_cause(struck: str, kind: str) -> None:
    """A pause of a bystander and a late reply are in the record; that they mattered is not."""
    told = sentence(taken_over_early(struck, kind), "S3")
    assert told == "n2 took over at 2.000 s, 8.5 s before the lease of n1 ended; n1 still said yes at 4.000 s"


def test_a_cause_that_repeats_the_failure_is_not_told() -> None:
    """S5: who replaced what too early is what the failure says of itself."""
    assert sentence(taken_over_early(), "S5") == ""


@pytest.mark.parametrize(("late_ns", "is_told"), [(UNSURE_NS, True), (UNSURE_NS + 1, False)])
def test_a_grant_that_began_at_an_uncertain_instant_is_not_told_of(late_ns: int, is_told: bool) -> None:
    """Without a record of the store a grant begins between its request and its answer; a wide gap names no instant."""
    history = paused_holder()
    events, runs = tables(history)
    judgement = judge(events, runs)
    [finding] = [each for each in Summary.of(judgement, events, runs).findings if each.clause == "S3"]
    grants = judgement.grants
    begins = [hi - late_ns for hi in grants["begin_hi_ns"].to_pylist()]
    vague = grants.set_column(grants.column_names.index("begin_lo_ns"), "begin_lo_ns", [begins])
    assert bool(RecordedCauses(events, runs, grants=vague).sentence_of(finding)) is is_told


@pytest.mark.parametrize(
    ("is_simulated", "reply", "is_known"),
    [(True, Outcome.AMBIGUOUS, True), (False, Outcome.AMBIGUOUS, False), (False, Outcome.PRECONDITION_FAILED, True)],
)
def test_a_request_without_an_answer_is_called_lost_only_where_the_store_was_recorded(
    is_simulated: bool, reply: Outcome, is_known: bool
) -> None:
    """Nobody knows whether a real server applied what it did not answer."""
    history = History(run={**TIMING, **SECONDS}, is_simulated=is_simulated)
    history.write("n1", Op.DELETE, sent=S, outcome=Outcome.PRECONDITION_FAILED, reply=reply)
    events, runs = tables(history)
    finding = Finding(clause="L1", kind="", fault_kinds=(), run=0, at_ns=S, witness={})
    facts = RunFacts(events, judge(events, runs).grants, runs.to_pylist()[0], finding, None)
    [exchange] = facts.exchanges.values()
    assert facts.never_landed(exchange) is is_known


def test_check_tells_the_cause_in_the_block_of_a_failure(tmp_path: Path) -> None:
    """A history that nobody can run again has its cause beside the line that judges it again."""
    write_history(tmp_path, *tables(paused_holder()))
    failures = {failure.clause: failure for failure in judged_history(tmp_path).failures}
    assert failures["S4"].because.endswith("n1 woke at 13.000 s and wrote without looking")
    assert f"because    {failures['S4'].because}" in failures["S4"].block
