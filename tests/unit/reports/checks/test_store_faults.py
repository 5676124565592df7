"""S1 names the store: what it accepted, whose requests they were, and what broke after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.words import Op
from reports.checks.spec import CLAUSES
from reports.formats.block import failure_block
from reports.formats.results import Failure, load_results
from tests.conditional_server import Bucket, serving
from tests.histories import History


def _block(clause: str, witness: dict) -> str:
    return failure_block(Failure(id="f", clause=clause, message=str(witness["text"]), run=0, witness=witness))


@pytest.mark.parametrize("is_simulated", [True, False])
def test_a_fork_names_the_store_and_both_requests(is_simulated: bool) -> None:
    """S1: two writes on one version, found even where others came between them."""
    h = History(is_simulated=is_simulated)
    h.released(h.granted("n0", call=0, applied=1, returned=2), call=3, applied=4)
    base = h.version
    first = h.granted("n1", call=10, applied=15, returned=18)
    second = h.granted("n2", call=10, applied=16, returned=19, if_version=base)
    witness = h.verdict("S1")["witness"]
    assert (witness["blame"], witness["kind"], witness["version"]) == ("store", "fork", base)
    assert witness["text"] == f"the store accepted two writes on version {base!r}"
    # The call has the number before its write's.
    assert {(one["node"], one["request"]) for one in witness["requests"]} == {
        ("n1", first.request + 1),
        ("n2", second.request + 1),
    }
    assert {one["if_version"] for one in witness["requests"]} == {base}
    assert {one["made"] for one in witness["requests"]} == {first.version, second.version}
    assert all(one["sent_ns"] <= one["in_effect_ns"] for one in witness["requests"])
    assert ("doctor --store" in witness.get("advice", "")) is not is_simulated
    block = _block("S1", witness)
    assert "the store, not the lock" in block
    assert all(f"{one['node']}  request {one['request']}" in block for one in witness["requests"])


def test_two_creates_name_the_create_that_was_there() -> None:
    """S1: the other create, although a renewal came between; one before a deletion is another object's."""
    h = History()
    first = h.granted("n1", call=0, applied=1, returned=2)
    h.renewed(first, at=4)
    h.granted("n2", call=5, applied=6, returned=7, if_version="absent")
    witness = h.verdict("S1")["witness"]
    assert witness["text"] == "the store accepted two creates of one object"
    assert [one["node"] for one in witness["requests"]] == ["n1", "n2"]
    assert witness["requests"][0]["request"] == first.request + 1


def test_two_creates_after_a_deletion_leave_the_create_before_it_out() -> None:
    """S1: created, deleted, created, created over: the second and the third create are the two, not the first."""
    h = History()
    first = h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.DELETE, sent=3, applied=4)
    second = h.granted("n2", call=5, applied=6, returned=7)
    third = h.granted("n3", call=8, applied=9, returned=10, if_version="absent")
    witness = h.verdict("S1")["witness"]
    assert witness["text"] == "the store accepted two creates of one object"
    assert [one["request"] for one in witness["requests"]] == [second.request + 1, third.request + 1]
    assert first.version not in {one["made"] for one in witness["requests"]}


def test_a_create_over_what_a_replacement_left_names_no_create_before_a_deletion() -> None:
    """S1: created, deleted, written by the operator, created over: no second create; the one before it is no part."""
    h = History()
    first = h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.DELETE, sent=3, applied=4)
    h.operator(Op.WRITE, 5)
    held = h.version
    h.granted("n2", call=6, applied=7, returned=8, if_version="absent")
    witness = h.verdict("S1")["witness"]
    assert witness["text"] == f"the store accepted a create of an object that it held, as {held!r}"
    assert first.version not in {one["made"] for one in witness["requests"]}


def test_an_ignored_condition_names_what_was_held() -> None:
    """S1: nobody else used the version; the object had moved on."""
    h = History()
    held = h.granted("n1", call=0, applied=1, returned=2)
    h.granted("n2", call=5, applied=6, returned=7, if_version="long-gone")
    witness = h.verdict("S1")["witness"]
    assert witness["kind"] == "condition ignored"
    assert witness["text"] == f"the store accepted a write on version 'long-gone' while it held {held.version!r}"


def test_what_breaks_after_the_stores_fault_points_to_it() -> None:
    """S3 after a fork is the store's doing: its witness and its block say so; what broke before does not."""
    h = History()
    early, other = (h.granted(node, call=0, applied=at, returned=at + 1) for node, at in (("n1", 1), ("n9", 3)))
    h.believes(early, 2, 6)
    h.believes(other, 4, 6)
    before = h.verdict("S3")["witness"]
    assert "after_store_fault" not in before

    h = History()
    h.released(h.granted("n0", call=0, applied=1, returned=2), call=3, applied=4)
    base = h.version
    one = h.granted("n1", call=10, applied=15, returned=18)
    two = h.granted("n2", call=10, applied=16, returned=19, if_version=base)
    h.believes(one, 18, 40)
    h.believes(two, 19, 40)
    after = h.verdict("S3")["witness"]
    assert after["after_store_fault"]["clause"] == "S1"
    assert "two writes on version" in after["after_store_fault"]["text"]
    assert "see S1" in _block("S3", {"text": CLAUSES["S3"], **after})


@pytest.mark.parametrize(("begins", "is_blamed"), [(13, False), (14, True), (16, True), (18, True)])
def test_a_belief_that_begins_before_the_answer_of_the_faulty_write(begins: int, is_blamed: bool) -> None:
    """S3 in a real run: the write may have taken effect from its sending (14) on, though its answer came at 19."""
    h = History(is_simulated=False)
    h.released(h.granted("n0", call=0, applied=1, returned=2), call=3, applied=4)
    base = h.version
    one = h.granted("n1", call=5, applied=6, returned=7)
    two = h.granted("n2", call=10, sent=14, applied=15, returned=19, if_version=base)
    h.believes(one, 7, 40)
    h.believes(two, begins, 40)
    assert ("after_store_fault" in h.verdict("S3")["witness"]) is is_blamed


@pytest.mark.parametrize("flaw", ["two creates", "two replacements"])
def test_a_run_on_a_faulty_store_names_the_store(
    flaw: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """U13: a server that behaves in its self-test and forks the lock: violated, exit 1, and the store is named."""
    monkeypatch.chdir(tmp_path)
    with serving(Bucket(flaw=flaw, only="table_lock")) as uri:
        assert run(["bench", "contention", "--backend", uri, "--for", "3s", "--contenders", "6"]) == 1
    told = capsys.readouterr().out
    assert "the store, not the lock" in told
    assert "lockref doctor --store" in told
    (path,) = tmp_path.glob(".lockref/runs/2*/results.json")
    results = load_results(path)
    assert results.verdict == "violated"
    (failure_of_store,) = [failure for failure in results.failures if failure.clause == "S1"][:1]
    assert failure_of_store.witness["blame"] == "store"
    assert len({one["node"] for one in failure_of_store.witness["requests"]}) == 2
    assert any("the store accepted two" in notice for notice in results.notices)
    assert json.loads(path.read_text())["capabilities"]["measured"]["replace_race"]["status"] == "kept"


def test_no_blame_without_a_fault() -> None:
    """A chain that fits accuses nobody."""
    h = History()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.write("n1", Op.DELETE, sent=5, applied=6)
    h.granted("n2", call=7, applied=8, returned=9)
    assert h.verdict("S1")["verdict"] == "held"
