"""Clauses that a scenario does not demand, and what that means for a lock without tokens."""

from __future__ import annotations

import pytest

from reports.checks import judge
from reports.checks.summary import Summary
from reports.checks.verdicts import decide
from tests.histories import History, tables

NOT_DEMANDED = frozenset({"S3"})


def late_write(*, with_tokens: bool) -> History:
    """Beliefs overlap, and the resource accepts the earlier grant's write after the later one's."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1 if with_tokens else None)
    h.believes(a, 2, 9)
    b = h.granted("n2", call=0, applied=3, returned=4, token=2 if with_tokens else None)
    h.believes(b, 4, 9)
    h.effect(b, at=5)
    h.effect(a, at=6)
    return h


def counted(*histories: History, not_demanded: frozenset[str] = NOT_DEMANDED) -> Summary:
    events, runs = tables(*histories)
    return Summary.of(judge(events, runs), events, runs, not_demanded=not_demanded)


def test_only_tokens_can_refuse_a_late_write_where_beliefs_may_overlap() -> None:
    """S4 is demanded there of a lock that shows tokens, and of no other; with S3 demanded it is of both."""
    with_tokens, without = counted(late_write(with_tokens=True)), counted(late_write(with_tokens=False))
    assert [finding.clause for finding in with_tokens.findings if finding.clause in ("S3", "S4")] == ["S4"]
    assert not any(finding.clause in ("S3", "S4") for finding in without.findings)
    assert decide(without).clauses["S4"] == "not_applicable"
    strict = counted(late_write(with_tokens=False), not_demanded=frozenset())
    assert {"S3", "S4"} <= {finding.clause for finding in strict.findings}


@pytest.mark.parametrize("first", [True, False])
def test_where_batches_are_cut_does_not_change_what_is_demanded(first: bool) -> None:
    """A batch without tokens must not take S4 from the batches before or after it."""
    histories = [late_write(with_tokens=first), late_write(with_tokens=not first)]
    whole = counted(*histories)
    parts = counted(histories[0])
    parts.add(counted(histories[1]))
    assert decide(parts) == decide(whole)
    assert decide(whole).clauses["S4"] == "violated"
