"""Which rows change a queue or an assignment, when, and for whom: on hand-made histories."""

from __future__ import annotations

import pytest

from lockref.words import Op, Outcome
from reports.checks import Judgement
from tests.histories import LOCK
from tests.service_histories import Service


def grants(judgement: Judgement) -> list[tuple[str, int, int | None, str]]:
    return [
        (row["node"], row["begin_hi_ns"], row["end_hi_ns"], row["end_kind"]) for row in judgement.grants.to_pylist()
    ]


def joins(h: Service, at: int, node: str, number: int, *, replied: int | None = None, task: str = "main") -> None:
    h.says(at, node, by=node, op=Op.ACQUIRE, token=number, replied=replied, task=task)


def test_a_deleted_state_gives_the_lock_back():
    """Assignment: a participant whose state is deleted has the lock no more, though the deletion names it."""
    h = Service("assignment")
    h.says(2, "n1", by="n1")
    h.says(6, "n1", by="n1", op=Op.DELETE)
    assert grants(h.judged()) == [("n1", 2, 6, "released")]


def test_an_owner_is_the_node_of_that_name():
    """Assignment: the node of the owner's name has the lock, not who wrote it down, nor who was told that name."""
    h = Service("assignment")
    h.fails("n1", call=0, returned=1)
    h.says(2, "n1", by="controller")
    request = h.call("n2", Op.ACQUIRE, 3)
    h.returns("n2", Op.ACQUIRE, 4, request, Outcome.APPLIED, owner="n1")
    assert grants(h.judged()) == [("n1", 2, None, "open")]


def test_a_waiter_that_writes_its_node_anew_keeps_its_place():
    """Queue: a number that is there already changes nothing, whether its waiter has the lock or not."""
    h = Service("queue")
    joins(h, 1, "n1", 1)
    joins(h, 2, "n2", 2, task="first")
    joins(h, 5, "n1", 1)
    joins(h, 6, "n2", 2, task="second")
    h.says(9, "n1", by="n1", op=Op.RELEASE, token=1)
    judgement = h.judged()
    assert grants(judgement) == [("n1", 1, 9, "released"), ("n2", 9, None, "open")]
    assert judgement.grants["task"].to_pylist() == ["main", "first"]


def test_a_row_that_names_nobody_takes_everybody_out():
    """Queue: after a deletion with neither owner nor number nobody waits, and the next who joins has the lock."""
    h = Service("queue")
    joins(h, 1, "n1", 1)
    joins(h, 2, "n2", 2)
    h.says(5, "", by="operator", op=Op.DELETE)
    joins(h, 8, "n3", 3)
    assert grants(h.judged()) == [("n1", 1, 5, "deleted"), ("n3", 8, None, "open")]


def test_a_number_without_an_owner_takes_its_waiter_out():
    """Queue: a deletion that names a number alone takes out whoever waits under it, and nobody else."""
    h = Service("queue")
    for number in (1, 2, 3):
        joins(h, number, f"n{number}", number)
    h.says(5, "", by="operator", op=Op.DELETE, token=1)
    assert grants(h.judged()) == [("n1", 1, 5, "deleted"), ("n2", 5, None, "open")]


@pytest.mark.parametrize(("answered", "latest"), [(7, 9), (30, 30)])
def test_nobody_has_the_lock_before_it_has_joined(answered, latest):
    """Queue: in a real run the next one's grant begins when the one before is gone and it has itself joined."""
    h = Service("queue", is_simulated=False)
    joins(h, 1, "n1", 1, replied=2)
    joins(h, 4, "n2", 2, replied=answered)
    h.says(6, "n1", by="n1", op=Op.RELEASE, token=1, replied=9)
    judgement = h.judged()
    assert grants(judgement) == [("n1", 2, 9, "released"), ("n2", latest, None, "open")]
    assert judgement.grants["begin_lo_ns"].to_pylist() == [1, 6]


def test_who_is_taken_out_before_its_join_is_answered_has_left():
    """Queue: in a real run a grant ends with the row that took its owner out, however late the join was answered."""
    h = Service("queue", is_simulated=False)
    joins(h, 1, "n1", 1, replied=30)
    h.says(6, "n1", by="n3", op=Op.DELETE, token=1, replied=9)
    assert grants(h.judged()) == [("n1", 30, 9, "deleted")]


def test_a_grant_belongs_to_the_call_by_which_its_owner_joined():
    """Queue: the task that has the lock is the one that joined, not the one that left it to others."""
    h = Service("queue")
    joins(h, 1, "n1", 1, task="one")
    joins(h, 2, "n2", 2, task="two")
    h.says(5, "n1", by="n1", op=Op.RELEASE, token=1, task="one")
    assert h.judged().grants["task"].to_pylist() == ["one", "two"]


def test_each_lock_has_its_own_queue():
    """Queue: who waits for one lock, under the same number, keeps nobody from another."""
    h = Service("queue")
    h.run["lock_protocols"]["a second lock"] = "queue"
    joins(h, 1, "n1", 1)
    h.lock = "a second lock"
    joins(h, 2, "n2", 1)
    found = [(row["lock"], row["node"], row["begin_hi_ns"]) for row in h.judged().grants.to_pylist()]
    assert sorted(found) == [("a second lock", "n2", 2), (LOCK, "n1", 1)]
