"""What a transaction of messages writes into the book: the page of the session that is told, and of no earlier one."""

from __future__ import annotations

from collections.abc import Mapping

from lockref.helix.controller.batch import Batch
from lockref.helix.grants import Page, Standing
from lockref.helix.pipeline import LockGroup, Replica, Snapshot
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from tests.unit.lockref.helix.pipeline_driver import lock_unlock

GROUP = LockGroup(name="g", locks=("g_0", "g_1", "g_2"), replicas=1, model=lock_unlock())
GRANTED = Standing.GRANTED


def page_after(replicas: Mapping[str, Mapping[str, Replica]], known: Mapping[str, Page], *granted: str) -> Page:
    """The page of instance a, whose session is 2, when it has been told to take these locks."""
    batch = Batch(
        Snapshot(groups=(GROUP,), live={"a": "2"}, replicas=replicas),
        layout.ClusterPaths("c"),
        controller="x",
        session="9",
        now_ms=0,
        known=known,
        unwritten={},
    )
    for lock in granted:
        batch.add(
            Message(
                id=f"m-{lock}", instance="a", session="2", resource="g", lock=lock, model="m",
                source="RELEASED", target="LOCKED",
            )
        )  # fmt: skip
    return batch.pages["a"]


def test_a_new_session_begins_a_new_page():
    """T28: under the name of its earlier session nobody would believe what it was told in this one."""
    known = {"a": Page("1", {"g_2": GRANTED})}
    assert page_after({}, known, "g_0", "g_1") == Page("2", {"g_0": GRANTED, "g_1": GRANTED})


def test_the_page_of_the_same_session_goes_on():
    """T28: what it was told before stays written down."""
    known = {"a": Page("2", {"g_2": GRANTED})}
    assert page_after({}, known, "g_0") == Page("2", {"g_2": GRANTED, "g_0": GRANTED})


def test_a_first_page_names_what_the_instance_holds_or_may_hold():
    """T28: the doubt about a lock outlives the leader that has it; with this page the session counts as covered."""
    doubtful = Replica("RELEASED", doubt="its entry names no state")
    replicas = {"g_0": {"a": doubtful}, "g_1": {"a": Replica("LOCKED")}, "g_2": {"b": Replica("LOCKED")}}
    assert page_after(replicas, {}, "g_2") == Page("2", dict.fromkeys(("g_0", "g_1", "g_2"), GRANTED))


def test_a_recall_is_written_down_as_one():
    """T28: if what the instance reports cannot be read, the page alone tells that it may hold."""
    batch = Batch(
        Snapshot(groups=(GROUP,), live={"a": "2"}, replicas={"g_0": {"a": Replica("LOCKED")}}),
        layout.ClusterPaths("c"), controller="x", session="9", now_ms=0, known={}, unwritten={},
    )  # fmt: skip
    order = Message(
        id="m", instance="a", session="2", resource="g", lock="g_0", model="m", source="LOCKED", target="DROPPED"
    )
    batch.add(order)
    assert batch.pages["a"] == Page("2", {"g_0": Standing.RECALLED})
