"""Histories of programs on the wire: requests without calls, judged by the chain, by effects and by waits."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.words import IF_ABSENT, Kind, Op, Outcome
from reports.checks.spec import HELD, NOT_APPLICABLE, VIOLATED
from tests.histories import LOCK, History

S = 1_000_000_000
OBJECT = "state/x"
TIMING: dict[str, Any] = {
    "validity_ns": 10 * S,
    "poll_interval_ns": 2 * S,
    "request_timeout_ns": 0,
    "drift_bound_ns": 0,
    "faults_end_ns": 0,
    "lock_protocols": {LOCK: "wire"},
}
"""A free lock must be had within 2 s, and a real run is allowed one second more."""


class Wire(History):
    """What passes between programs and their store. Instants are in seconds."""

    def __init__(self, **run: Any) -> None:
        super().__init__(run={**TIMING, **run}, is_simulated=False)

    def takes(self, node: str, at: float, *, on: str | None = None) -> None:
        self.write(node, Op.ACQUIRE, sent=ns(at), replied=ns(at) + 2, owner=f"owner-{node}-{at}",
                   valid_until=ns(at + 10), if_version=on)  # fmt: skip

    def gives_back(self, node: str, at: float, *, on: str | None = None) -> None:
        self.write(node, Op.DELETE, sent=ns(at), replied=ns(at) + 2, if_version=on)

    def refused(self, node: str, at: float) -> None:
        self.write(node, Op.ACQUIRE, sent=ns(at), replied=ns(at) + 2, owner=f"owner-{node}-{at}",
                   if_version=IF_ABSENT, outcome=Outcome.PRECONDITION_FAILED)  # fmt: skip

    def looks(self, node: str, at: float) -> None:
        self.read(node, ns(at) + 2, sent=ns(at), version=self.version, owner="somebody")

    def works(self, node: str, sent: float, answered: float | None = None) -> None:
        """A write to the protected object, with the effect that it had."""
        request = self.number()
        row: dict[str, Any] = {"request": request, "lock": OBJECT, "op": Op.WRITE}
        self.event(Kind.SENT, ns(sent), node, **row)
        self.event(Kind.EFFECT, ns(sent), node, request=request, op=Op.WRITE, outcome=Outcome.APPLIED)
        self.event(Kind.REPLIED, ns(sent if answered is None else answered), node, **row, outcome=Outcome.APPLIED)


def ns(seconds: float) -> int:
    return round(seconds * S)


def test_an_orderly_program_is_not_accused():
    """Taken, worked under, given back, by two clients in turn; what the wire cannot show says so."""
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    h.works("n1", 2)
    h.gives_back("n1", 3)
    h.takes("n2", 4, on=IF_ABSENT)
    h.works("n2", 5)
    judged = h.judged()
    found = {row["clause"]: (row["verdict"], row["witness"]) for row in judged.verdicts.to_pylist()}
    assert {clause for clause, (verdict, _) in found.items() if verdict == HELD} >= {"S1", "S4", "S5", "S6", "L1", "L3"}
    for clause in ("S3", "S7", "L4", "L5", "L6"):
        assert found[clause][0] == NOT_APPLICABLE
        assert found[clause][1], f"{clause} says why"


@pytest.mark.parametrize("end", ["given back", "taken over"])
def test_a_write_after_the_grant_is_outside(end):
    """S4: its client does not hold the lock any more, whoever does."""
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    if end == "given back":
        h.gives_back("n1", 2)
    else:
        h.takes("n2", 12)
    h.works("n1", 13)
    found = h.verdict("S4")
    assert (found["verdict"], found["witness"]["kind"]) == (VIOLATED, "outside its grant")


def test_a_write_by_a_client_that_never_held_is_outside():
    """S4: without a lock at all."""
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    h.works("n2", 2)
    assert h.verdict("S4")["verdict"] == VIOLATED


@pytest.mark.parametrize(("sent", "answered", "verdict"), [(11, 13, HELD), (12.1, 13, VIOLATED), (0.5, 0.9, VIOLATED),
                                                           (0.5, 1, HELD)])  # fmt: skip
def test_a_write_counts_at_the_instant_that_suits_it(sent, answered, verdict):
    """Between sending and answer nobody knows when it took effect: both ends of the grant, from both sides."""
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    h.takes("n2", 12)
    h.works("n1", sent, answered)
    assert h.verdict("S4")["verdict"] == verdict


def test_two_writes_while_a_takeover_is_under_way_accuse_nobody():
    """S4: the takeover is answered at 12.5 s; until then either client may be the holder, in whatever order they write.

    n2 writes first, then n1: the order of their grants says nothing where each held the lock when it wrote.
    """
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    h.write("n2", Op.ACQUIRE, sent=ns(12), replied=ns(12.5), owner="owner-n2", valid_until=ns(22))
    h.works("n2", 12.1)
    h.works("n1", 12.2)
    assert h.verdict("S4")["verdict"] == HELD


def test_a_lapsed_grant_that_nobody_took_still_guards():
    """S4: a lease that ran out is its holder's until somebody takes it (E7)."""
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    h.works("n1", 30)
    assert h.verdict("S4")["verdict"] == HELD


def test_an_unconditional_unlock_of_a_successor_is_accused():
    """S6: a late DELETE without a condition removes another client's lock; with one it is refused."""
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    h.takes("n2", 12)
    h.gives_back("n1", 13, on="")
    found = h.verdict("S6")
    assert (found["verdict"], found["witness"]["kind"]) == (VIOLATED, "deleted by another")


def endless(*, on: str, between: str = "") -> dict[str, Any]:
    """The verdict on S5 where n2 writes its record over n1's, and neither says until when it is valid."""
    h = Wire(validity_ns=None)
    h.write("n1", Op.ACQUIRE, sent=ns(1), replied=ns(1) + 2, owner="owner-n1", if_version=IF_ABSENT)
    seen = str(h.version)
    if between:
        h.gives_back("n1", 2)
    condition = seen if on == "seen" else on
    h.write("n2", Op.ACQUIRE, sent=ns(30), replied=ns(30) + 2, owner="owner-n2", if_version=condition)
    return h.verdict("S5")


def test_a_record_without_an_end_that_is_overwritten_blindly_is_accused():
    """S5: nobody gave the lock back, and whoever took it did not name what it replaced."""
    found = endless(on="")
    assert (found["verdict"], found["count"]) == (VIOLATED, 1)
    assert "without a condition" in found["witness"]["text"]


@pytest.mark.parametrize(("on", "between"), [("seen", ""), ("", "given back"), (IF_ABSENT, "given back")])
def test_without_any_end_of_validity_s5_does_not_apply(on, between):
    """S5: who read the record first may have had a rule for its age; what was given back is free for everybody."""
    found = endless(on=on, between=between)
    assert found["verdict"] == NOT_APPLICABLE
    assert "nor does the run" in str(found["witness"])


def test_an_early_takeover_is_accused():
    """S5: the record promised more time."""
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    h.takes("n2", 8)
    assert h.verdict("S5")["verdict"] == VIOLATED


def test_objects_beside_the_lock_are_no_locks():
    """S1, S6: the runs table names the locks; state that is overwritten without a condition accuses nobody."""
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    for number, node in enumerate(("n1", "n2", "n1"), 2):
        row: dict[str, Any] = {"request": h.number(), "lock": "other", "op": Op.WRITE, "if_version": IF_ABSENT}
        h.event(Kind.SENT, ns(number), node, **row)
        h.event(Kind.REPLIED, ns(number) + 2, node, **row, outcome=Outcome.APPLIED, version=f"w{number}")
    assert h.verdict("S1")["verdict"] == h.verdict("S6")["verdict"] == HELD


@pytest.mark.parametrize(("last", "verdict"), [(5.9, HELD), (6.2, VIOLATED)])
def test_a_waiter_of_a_free_lock_is_seen_by_its_requests(last, verdict):
    """L3: free at 3 s, asked for every second and never granted; 2 s and the second of a real run are allowed."""
    h = Wire(end_ns=ns(60))
    h.takes("n1", 1, on=IF_ABSENT)
    for at in (2, 2.9):
        h.refused("n2", at)
    h.gives_back("n1", 3)
    for at in (4.0, 5.0, last):
        h.refused("n2", at)
    assert h.verdict("L3")["verdict"] == verdict


def test_who_only_gives_back_does_not_wait():
    """L3: a client that tries in vain to remove a record, every second, never asked for the lock."""
    h = Wire(end_ns=ns(60))
    h.takes("n1", 1, on=IF_ABSENT)
    h.gives_back("n1", 3)
    for at in range(4, 12):
        h.write("n2", Op.DELETE, sent=ns(at), if_version="gone", outcome=Outcome.PRECONDITION_FAILED)
    assert h.verdict("L3")["verdict"] == HELD


def test_a_holder_that_looks_at_its_own_record_does_not_wait():
    """L3: it holds the lock, and has nothing to wait for."""
    h = Wire(end_ns=ns(60))
    h.takes("n1", 1, on=IF_ABSENT)
    for at in (2, 3):
        h.looks("n1", at)
    h.gives_back("n1", 4)
    assert h.verdict("L3")["verdict"] == HELD


def test_a_wait_ends_with_the_request_that_is_granted():
    """L3: also where its answer is lost, and its record is removed before the client is heard again."""
    h = Wire(end_ns=ns(60))
    h.takes("n1", 1, on=IF_ABSENT)
    h.refused("n2", 2)
    h.gives_back("n1", 3)
    h.event(Kind.SENT, ns(3.5), "n2", request=h.number(), op=Op.ACQUIRE, if_version=IF_ABSENT,
            content="c2", owner="owner-n2", valid_until_ns=ns(13.5))  # fmt: skip
    h.read("n1", ns(4) + 2, sent=ns(4), version="v-n2", content="c2", owner="owner-n2")
    h.version = "v-n2"
    h.gives_back("n1", 5)
    assert h.verdict("L3")["verdict"] == HELD


def test_who_lets_time_pass_has_stopped_waiting():
    """L3: between two requests that are further apart than a poll interval nobody waits."""
    h = Wire(end_ns=ns(60))
    h.takes("n1", 1, on=IF_ABSENT)
    h.gives_back("n1", 3)
    for at in (4, 10, 20):
        h.refused("n2", at)
    assert h.verdict("L3")["verdict"] == HELD


def test_a_dead_holder_that_blocks_for_ever_is_seen():
    """L2: the holder was killed, its record promises ten seconds, and others ask in vain long after that."""
    h = Wire(end_ns=ns(60), faults_end_ns=ns(2))
    h.takes("n1", 1, on=IF_ABSENT)
    h.fault("n1", ns(2), "crash", "begin")
    for at in range(3, 30):
        h.refused("n2", at)
    assert h.verdict("L2")["verdict"] == VIOLATED
    granted = Wire(end_ns=ns(60), faults_end_ns=ns(2))
    granted.takes("n1", 1, on=IF_ABSENT)
    granted.fault("n1", ns(2), "crash", "begin")
    for at in range(3, 12):
        granted.looks("n2", at)
    granted.takes("n2", 12)
    assert granted.verdict("L2")["verdict"] == HELD


def test_without_a_lock_nothing_is_accused():
    """S4: what guards a write is unknown where no lock record was seen."""
    h = Wire(lock_protocols={"(no lock object was seen)": "wire"})
    h.works("n1", 1)
    found = h.verdict("S4")
    assert found["verdict"] == NOT_APPLICABLE
