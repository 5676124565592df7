"""C21: a reading of a real store that shows what a confirmed write had replaced is the store's lie, not the lock's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.words import Op, Outcome
from reports.checks import decide, judge
from reports.checks.summary import Summary
from tests.conditional_server import Bucket, serving
from tests.histories import Held, History, tables

S = 1_000_000_000


def counts(*histories: History) -> Summary:
    events, runs = tables(*histories)
    return Summary.of(judge(events, runs), events, runs)


def contradicted(h: History) -> int:
    (row,) = counts(h).answers
    return int(row["contradicted"])


def begun(*, is_simulated: bool = False) -> tuple[History, Held]:
    """n1 holds the lock by version v1, and somebody read that."""
    h = History(is_simulated=is_simulated)
    held = h.granted("n1", call=0, applied=1, returned=2, valid_for=1000)
    h.read("n2", 4, sent=3, version=held.version)
    return h, held


def denied_after_a_lost_release(*, is_simulated: bool = False) -> History:
    """The store confirms n1's release, and shows the grant ever after: what it did to a write that it lost."""
    h, held = begun(is_simulated=is_simulated)
    h.released(held, call=10, applied=11)
    request = h.call("n2", Op.ACQUIRE, 20)
    h.read("n2", 23, sent=21, version=held.version, owner=held.owner)
    h.returns("n2", Op.ACQUIRE, 30, request, Outcome.PRECONDITION_FAILED)
    return h


def test_a_lost_release_is_the_stores_lie() -> None:
    """S7, C21: the denial was honest by what the store showed; the run proves nothing, and the store is named."""
    h = denied_after_a_lost_release()
    found = h.verdict("S7")
    assert found["verdict"] == "inconclusive"
    assert "a confirmed write had replaced" in found["witness"]["reason"]
    judged = counts(h)
    verdicts = decide(judged)
    assert (verdicts.safety, judged.broken_runs, contradicted(h)) == ("inconclusive", 0, 1)
    assert verdicts.reasons[0].startswith("the store showed a state that a confirmed write had replaced, once (C21)")
    told = " ".join(judged.notices)
    assert "it showed 'v1' to n2" in told
    assert "confirmed to n1 (release" in told
    assert "lockref doctor --store" in told


def test_the_other_denials_of_such_a_lock_are_not_held_against_it() -> None:
    """S7: a contender that remembers what the store showed, and asks nothing, is excused as well."""
    h = denied_after_a_lost_release()
    h.fails("n3", call=40, returned=50)
    assert h.verdict("S7")["verdict"] == "inconclusive"


def test_a_denial_before_the_store_lied_stays_a_lie() -> None:
    """S7: what the lock answered while the store was sound is the lock's own word."""
    h = History(is_simulated=False)
    h.fails("n3", call=0, returned=5)
    held = h.granted("n1", call=10, applied=11, returned=12)
    h.read("n2", 14, sent=13, version=held.version)
    h.released(held, call=20, applied=21)
    h.read("n2", 32, sent=31, version=held.version)
    assert h.verdict("S7")["verdict"] == "violated"


def test_a_simulated_store_lies_by_plan() -> None:
    """A simulated store tells of its writes itself; its stale readings are faults of the plan and no finding."""
    judged = counts(denied_after_a_lost_release(is_simulated=True))
    assert judged.answers == []
    assert not any("C21" in reason for reason in decide(judged).reasons)


@pytest.mark.parametrize(("sent", "found"), [(10, 0), (14, 0), (15, 0), (16, 1)])
def test_only_a_reading_sent_after_the_answer_counts(sent: int, found: int) -> None:
    """C21: the write and its answer overlap with earlier readings, which may show either state."""
    h, held = begun()
    h.write("n1", Op.RELEASE, sent=10, applied=11, replied=15, owner=held.owner)
    h.read("n2", 20, sent=sent, version=held.version)
    assert contradicted(h) == found


def test_a_state_from_before_the_record_counts_if_a_write_named_it() -> None:
    """C21: nobody on record made v0, and a confirmed write replaced it. Of another version nothing is known."""
    h = History(is_simulated=False)
    h.read("n1", 1, sent=0, version="v0")
    h.write("n1", Op.ACQUIRE, sent=2, applied=3, if_version="v0", owner="o1")
    h.read("n2", 6, sent=5, version="v0")
    h.read("n2", 8, sent=7, version="somebody-elses")
    assert contradicted(h) == 1


def test_nothing_counts_where_nobody_deleted() -> None:
    """C21: the object cannot be gone, unless some deletion came, or may have come, after the write."""
    h, _ = begun()
    h.read("n2", 12, sent=11)
    assert contradicted(h) == 1

    h, _ = begun()
    h.write("n1", Op.DELETE, sent=8, outcome=Outcome.AMBIGUOUS)
    h.read("n2", 12, sent=11)
    assert contradicted(h) == 0


def test_readings_that_never_name_a_version_say_nothing() -> None:
    """A record whose readings hold no versions at all is only less exact."""
    h = History(is_simulated=False)
    h.granted("n1", call=0, applied=1, returned=2)
    h.read("n2", 12, sent=11)
    assert contradicted(h) == 0


def test_a_write_without_an_answer_may_land_late() -> None:
    """E17: n3's create never heard an answer; it may be what n2 reads after n1's release."""
    h, held = begun()
    h.write("n3", Op.ACQUIRE, sent=5, outcome=Outcome.AMBIGUOUS, content=held.version, owner="o3")
    h.released(held, call=10, applied=11)
    h.read("n2", 22, sent=21, version=held.version)
    assert contradicted(h) == 0


def test_two_writes_at_the_same_time_may_land_in_either_order() -> None:
    """Writes without a condition: the one that was sent first may land last."""
    h = History(is_simulated=False)
    first = h.write("n1", Op.ACQUIRE, sent=0, replied=10, if_version="", owner="o1")
    second = h.write("n2", Op.ACQUIRE, sent=5, replied=8, if_version="", owner="o2")
    for version in (first, second):
        h.read("n3", 22, sent=21, version=version)
    assert contradicted(h) == 0


def test_equal_bytes_may_come_again() -> None:
    """A version names bytes: whoever writes them anew makes the version again, and a reading of it is right."""
    h, held = begun()
    h.released(held, call=10, applied=11)
    h.write("n1", Op.ACQUIRE, sent=20, owner=held.owner, version=held.version)
    h.read("n2", 32, sent=31, version=held.version)
    assert contradicted(h) == 0


def test_what_breaks_after_the_lie_points_to_it() -> None:
    """S5 without conditions: n2 took what the store said was free; the witness names the store's lie."""
    h = History(is_simulated=False)
    h.read("n2", 1, sent=0, version="v0")
    h.write("n1", Op.ACQUIRE, sent=2, applied=3, if_version="v0", owner="o1", valid_until=500)
    h.read("n2", 11, sent=10, version="v0")
    h.write("n2", Op.ACQUIRE, sent=12, applied=13, if_version="", owner="o2", valid_until=500)
    found = h.verdict("S5")
    assert found["verdict"] == "violated"
    assert found["witness"]["after_store_fault"]["clause"] == "C21"


def test_a_run_on_a_store_that_loses_a_write_is_inconclusive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """U13: a server that is sound in its self-test confirms releases and drops them: exit 3, and the store is named."""
    monkeypatch.chdir(tmp_path)
    with serving(Bucket(flaw="lost release", only="table_lock")) as uri:
        assert run(["bench", "contention", "--backend", uri, "--for", "2s", "--contenders", "3"]) == 3
    assert "showed a state that a confirmed write had replaced" in capsys.readouterr().out
    (path,) = tmp_path.glob(".lockref/runs/2*/results.json")
    results = json.loads(path.read_text())
    assert results["answers"][0]["contradicted"] > 0
    assert results["failures"] == []
