"""What a transaction of messages writes into the book: the page of the session that is told, and of no earlier one."""

from __future__ import annotations

from collections.abc import Mapping

from lockref.helix.controller.batch import BATCH_BYTES_MAX, PAGE_BYTES_EACH, Batch
from lockref.helix.grants import Page, Standing
from lockref.helix.pipeline import LockGroup, Replica, Snapshot
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from tests.unit.lockref.helix.pipeline_driver import lock_unlock

GROUP = LockGroup(name="g", locks=("g_0", "g_1", "g_2"), replicas=1, model=lock_unlock())
GRANTED = Standing.GRANTED


def batch_of(unwritten: Mapping[str, Page]) -> Batch:
    """An empty transaction beside pages that say less than their znodes."""
    return Batch(
        Snapshot(groups=(GROUP,), live={"a": "2"}, replicas={}), layout.ClusterPaths("c"), controller="x", session="9",
        now_ms=0, known={}, unwritten=unwritten,
    )  # fmt: skip


def order(number: int) -> Message:
    return Message(
        id=f"m{number}", instance="a", session="2", resource="g", lock="g_0", model="m", source="RELEASED",
        target="LOCKED",
    )  # fmt: skip


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


def test_what_is_struck_out_of_a_page_is_written_with_the_next_batch():
    """T28: a batch without an order to that instance writes its page all the same, and is not full of it."""
    shorter = Page("2", {f"g_{number}": GRANTED for number in range(BATCH_BYTES_MAX // PAGE_BYTES_EACH)})
    batch = batch_of({"a": shorter})
    assert batch.pages == {"a": shorter}
    assert not batch.is_full, "pages alone are one transaction: nothing could make it smaller"
    batch.add(order(0))
    assert batch.is_full


def test_a_batch_is_full_by_the_bytes_of_its_messages_and_of_what_it_writes_down():
    """A transaction has a greatest size: what an order adds to the page counts, as its path and its body do."""
    batch = batch_of({})
    while not batch.is_full:
        batch.add(order(len(batch.messages)))
    sent = sum(len(operation.path) + len(operation.body) for operation in batch.operations)
    written = len(batch.messages) * (len("g_0") + PAGE_BYTES_EACH)
    assert 0 < sent + written - BATCH_BYTES_MAX <= (sent + written) // len(batch.messages) + 1
