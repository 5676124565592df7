"""One run of an evaluation in one word, and what its requests cost."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lockref.history import SCHEMA
from reports.comparison.store_runs import (
    FEW,
    FEW_HANDOFFS,
    HELD,
    NOT_LIVE,
    NOTHING,
    STARVED,
    VIOLATED,
    Requests,
    count_requests,
    run_facts,
)
from reports.formats.results import Clause, Reach, Results, Speed

PRICE = {"read": 0.0004, "write": 0.005, "delete": 0.0, "charges_refused": True}


def results(*, verdict: str = "held", served: int = 4, grants: int = 40, handoffs: int = 10, **more: object) -> Results:
    speed = Speed(
        run=0, run_ns=1, answered_ns=1, clients=4, clients_asked=4, clients_served=served, calls=50, grants=grants,
        held_share=1, handoff_share=0, idle_share=0, silent_share=0, longest_wait_ns=1, longest_wait_client="n1",
        longest_drought_ns=1, longest_drought_client="n1",
    )  # fmt: skip
    reach = [
        Reach(situation="grant", runs=1, count=grants, is_required=True, least=20),
        Reach(situation="handoff", runs=1, count=handoffs, is_required=True, least=8),
    ]
    return Results(verdict=verdict, statement="", runs=1, speed=speed, reach=reach, **more)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (results(), HELD),
        (results(served=3), STARVED),
        (results(verdict="inconclusive", served=3), STARVED),
        (results(verdict="inconclusive", grants=0, served=0), NOTHING),
        (results(verdict="inconclusive", grants=19), FEW),
        (results(verdict="inconclusive", handoffs=3), FEW_HANDOFFS),
        (results(verdict="violated", served=3), VIOLATED),
        (results(liveness="violated", clauses={"L1": Clause(verdict="violated", runs=1, violated=1)}), NOT_LIVE),
        (results(liveness="violated", notices=["threshold violated: wait.p50 < 1s: 2.000 s over 9 samples"]), HELD),
    ],
)
def test_held_is_never_said_beside_starvation(found: Results, word: str) -> None:
    """A broken clause first, then who was served, then how much; a limit that was missed is told apart."""
    assert run_facts(found)["word"] == word


def test_limits_are_read_with_their_figures() -> None:
    found = run_facts(
        results(notices=["threshold violated: wait.p50 < 1s: 2.000 s over 9 samples; worst 3 s: n1", "other"])
    )
    assert found["limits"] == [
        {"limit": "wait.p50 < 1s", "verdict": "violated", "told": "2.000 s over 9 samples; worst 3 s: n1"}
    ]


def event(kind: str, op: str, request: int, outcome: str = "none") -> dict[str, object]:
    empty = {field.name: None for field in SCHEMA}
    return {**empty, "run": 0, "seq": request, "at_ns": request, "node": "n1", "kind": kind, "op": op,
            "outcome": outcome, "request": request}  # fmt: skip


def test_a_request_that_tells_of_several_locks_is_paid_for_once() -> None:
    """Rows of one request number are one request; calls and answers are none."""
    rows = [
        event("sent", "read", 1), event("replied", "read", 1, "applied"),
        event("sent", "acquire", 2), event("sent", "renew", 2), event("replied", "acquire", 2, "precondition_failed"),
        event("sent", "write", 3), event("sent", "delete", 4), event("call", "acquire", 5),
    ]  # fmt: skip
    found = count_requests(pa.Table.from_pylist(rows, schema=SCHEMA))
    assert found == Requests(reads=1, writes=2, deletes=1, refused=1)


def test_a_thousand_cycles_cost_what_their_requests_cost() -> None:
    """Prices are for 1,000 requests: two reads and four writes in two cycles; a refused one may be free."""
    sent = Requests(reads=2, writes=4, refused=1)
    assert sent.cost(PRICE, cycles=2) == pytest.approx(0.0004 + 2 * 0.005)
    assert sent.cost({**PRICE, "charges_refused": False}, cycles=2) == pytest.approx(0.0004 + 1.5 * 0.005)
    assert sent.cost(PRICE, cycles=0) is None
