"""What a real run records of a Delta log: rows of clients, and what is settled from the log once the run is over."""

from __future__ import annotations

import pytest

from lockref.dynamodb.table import KEY, VERSION, absent, equals, flag, number, text
from lockref.errors import LockrefError
from lockref.history import Recorder, one_run, runs_table, to_table
from lockref.runtime import NS_PER_S
from lockref.stores.client import OBJECT_STORE, StoreChannel
from lockref.stores.memory import MemoryStore
from lockref.stores.port import WriteReply
from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks import judge
from reports.checks.facts.case import open_case
from reports.checks.measures.commits import commit_figures
from reports.checks.spec import VIOLATED
from scenarios.workloads.delta.landings import SETTLED, LandingChannel, settle
from scenarios.workloads.delta.log_files import Commit, Log, entry_key
from scenarios.workloads.delta.log_rows import LogRows

TABLE = "lake/orders"


class Run:
    """A run written by hand: calls, answers, puts into a log in memory, at the instants that a test says."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.store = MemoryStore()
        self.now_ns = 0
        channel = LandingChannel(StoreChannel(self.store), self.recorder, lambda: self.now_ns, client="n1")
        self.recorded = OBJECT_STORE.over(channel, NS_PER_S)

    def event(
        self, kind: Kind, identity: str, outcome: Outcome = Outcome.NONE, version: str = "", attempt: int = 1
    ) -> None:
        self.now_ns += 1
        self.recorder.event(
            kind, (self.now_ns, ABSENT, ABSENT, "main"), identity, TABLE, Op.COMMIT, outcome, request=self.now_ns,
            attempt=attempt if kind is Kind.RETURN else ABSENT, version=version, content=identity,
        )  # fmt: skip

    def call(self, identity: str) -> None:
        self.event(Kind.CALL, identity)

    def acknowledge(self, identity: str, version: int) -> None:
        self.event(Kind.RETURN, identity, Outcome.APPLIED, str(version))

    def put(self, identity: str, version: int, *, is_recorded: bool = True) -> None:
        self.now_ns += 1
        store = self.recorded if is_recorded else self.store
        store.put(entry_key(TABLE, version), Commit(identity=identity, node=identity, task="main").to_bytes())

    def settle(self) -> list[tuple[str, str, str]]:
        """Settle; then version, identity and author of every landing, in the order of the record."""
        settle(self.recorder, to_table([self.recorder]), [Log(self.store, TABLE)])
        rows = to_table([self.recorder]).sort_by("at_ns").to_pylist()
        return [(row["version"], row["content"], row["detail"]) for row in rows if row["kind"] == "effect"]

    def figures(self):
        """Of the record as a run hands it over: in the order of time. And the clauses that broke."""
        events, runs = one_run([to_table([self.recorder])]), runs_table([])
        case = open_case(events, runs)
        verdicts = judge(events, runs).verdicts.to_pylist()
        broken = {row["clause"] for row in verdicts if row["verdict"] == VIOLATED}
        return commit_figures(case.events, case.commits), broken


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.mark.parametrize("lands", [True, False])
def test_a_put_without_an_answer_is_written_down_only_where_the_log_has_it(run, lands):
    """Whether it landed is read from the log once the run is over; an entry that is not there has never landed."""

    class Silent(MemoryStore):
        def put(self, key, body):
            if lands:
                super().put(key, body)
            return WriteReply(outcome=Outcome.AMBIGUOUS, reason="no answer")

    run.store = Silent()
    channel = LandingChannel(StoreChannel(run.store), run.recorder, lambda: run.now_ns, client="n1")
    run.recorded = OBJECT_STORE.over(channel, NS_PER_S)
    run.call("a")
    run.put("a", 0)
    assert [row["kind"] for row in to_table([run.recorder]).to_pylist()] == ["call"]
    assert run.settle() == ([("0", "a", SETTLED)] if lands else [])


def test_an_entry_is_written_down_for_the_instant_before_its_request(run):
    """Whoever reads it and writes the next version has seen it on its way before that."""

    class Slow(MemoryStore):
        def put(self, key, body):
            run.now_ns += 100
            return super().put(key, body)

    channel = LandingChannel(StoreChannel(Slow()), run.recorder, lambda: run.now_ns, client="n1")
    run.recorded = OBJECT_STORE.over(channel, NS_PER_S)
    run.put("a", 0)
    [row] = to_table([run.recorder]).to_pylist()
    assert (row["at_ns"], run.now_ns) == (1, 101)


def test_a_put_that_landed_without_an_answer_is_recorded_from_the_log(run):
    """It lies between its neighbours, so that no gap is read out of a lost answer (DL3)."""
    run.call("a")
    run.put("a", 0)
    run.acknowledge("a", 0)
    run.call("b")
    run.put("b", 1, is_recorded=False)
    run.call("c")
    run.put("c", 2)
    run.acknowledge("c", 2)
    assert run.settle() == [("0", "a", "n1"), ("1", "b", SETTLED), ("2", "c", "n1")]
    _, broken = run.figures()
    assert not broken


def test_a_commit_that_was_called_before_the_version_below_it_landed_comes_after_it(run):
    run.call("b")
    run.call("a")
    run.put("a", 0)
    run.put("b", 1, is_recorded=False)
    assert run.settle() == [("0", "a", "n1"), ("1", "b", SETTLED)]


def test_the_entry_that_stands_is_the_last_one_recorded(run):
    """Two unconditional puts of one version, told of in the wrong order: the log says who was overwritten (DL4)."""
    for identity in ("a", "b"):
        run.call(identity)
    run.put("b", 0)
    run.put("a", 0, is_recorded=False)
    run.acknowledge("a", 0)
    run.acknowledge("b", 0)
    assert run.settle() == [("0", "b", "n1"), ("0", "a", SETTLED)]
    figures, broken = run.figures()
    assert (figures.acknowledged, figures.lost, figures.twice) == (2, 1, 0)
    assert {"DL1", "DL4"} <= broken


def test_a_commit_in_two_versions_is_counted(run):
    run.call("a")
    run.put("a", 0)
    run.put("a", 1)
    run.acknowledge("a", 1)
    assert len(run.settle()) == 2
    figures, broken = run.figures()
    assert (figures.lost, figures.twice, figures.landed) == (0, 1, 0)
    assert "DL1" in broken


def test_a_refused_commit_that_landed_is_counted(run):
    """DL5; and the time of a commit runs from its call to its answer."""
    run.call("a")
    run.put("a", 0)
    run.event(Kind.RETURN, "a", Outcome.REJECTED)
    run.call("b")
    run.put("b", 1)
    run.acknowledge("b", 1)
    figures, broken = run.figures()
    assert (figures.refused, figures.landed, figures.unknown) == (1, 1, 0)
    assert figures.lasted_ns.tolist() == [2]
    assert broken == {"DL5"}


def test_versions_that_were_taken_are_counted(run):
    """A commit that gives up after three taken versions tried three in vain; one that lands third tried two."""
    for identity, outcome, attempts in (("a", Outcome.PRECONDITION_FAILED, 3), ("b", Outcome.REJECTED, 1)):
        run.call(identity)
        run.event(Kind.RETURN, identity, outcome, attempt=attempts)
    run.call("c")
    run.put("c", 0)
    run.event(Kind.RETURN, "c", Outcome.APPLIED, "0", attempt=3)
    figures, _ = run.figures()
    assert (figures.acknowledged, figures.refused, figures.taken) == (1, 2, 5)


def test_an_entry_of_nobody_in_the_run_ends_it(run):
    run.put("stranger", 0, is_recorded=False)
    with pytest.raises(LockrefError, match="version 0 of lake/orders was written by nobody of this run"):
        run.settle()


def test_what_failed_or_is_no_entry_lands_nowhere(run):
    run.call("a")
    run.put("a", 0)
    key = entry_key(TABLE, 0)
    assert run.recorded.put_if_absent(key, b"x").outcome is Outcome.PRECONDITION_FAILED
    run.recorded.put(f"{TABLE}/_delta_log/.tmp/{0:020}.b", b"x")
    assert run.recorded.read(key).body is not None
    assert [row[1] for row in run.settle()] == ["a"]


# ---- rows as Delta Lake has them ----

ROWS = LogRows("s3://bucket/", lambda: 1_700_000_000 * NS_PER_S)
THEIRS = {
    "tablePath": text("s3://bucket/lake/orders"),
    "fileName": text(f"{7:020}.json"),
    "tempPath": text("_commit_1.json.tmp"),
    "complete": text("false"),
}


def test_a_row_of_delta_lake_is_read_and_written_back_as_it_was():
    kept = ROWS.as_kept(THEIRS)
    assert kept[KEY] == text(entry_key(TABLE, 7))
    assert kept["tempPath"] == text("lake/orders/_delta_log/_commit_1.json.tmp")
    assert kept["complete"] == flag(False)
    assert ROWS.as_sent(kept) == THEIRS


def test_a_row_expires_a_day_after_it_was_completed_and_not_before():
    """B16: the time of expiry is set with `complete`, never with the commit."""
    kept = ROWS.as_kept(THEIRS)
    done = ROWS.as_sent({**kept, "complete": flag(True)})
    assert done == {**THEIRS, "complete": text("true"), "expireTime": number(1_700_086_400)}
    assert ROWS.as_sent(ROWS.as_kept({**done, "expireTime": number(5)}))["expireTime"] == number(5)


def test_conditions_are_about_attributes_that_the_table_has():
    kept = ROWS.as_kept(THEIRS)
    assert ROWS.clause(absent(KEY)) == absent("fileName")
    assert ROWS.clause(equals(VERSION, kept[VERSION])) == equals("tempPath", THEIRS["tempPath"])


@pytest.mark.parametrize("name", ["tablePath", "fileName", "tempPath", "complete"])
def test_a_row_without_what_every_row_has_is_refused(name):
    row = {key: value for key, value in THEIRS.items() if key != name}
    with pytest.raises(LockrefError, match=f"has no text {name}"):
        ROWS.as_kept(row)


def test_a_coalesced_entry_is_recorded_and_settled_item_by_item():
    """One that was recorded is not settled again; of one that nobody heard of there is a row for each item."""
    run = Run()
    for identity in "abcd":
        run.call(identity)
    for version, items, store in ((0, ("a", "b"), run.recorded), (1, ("c", "d"), run.store)):
        run.now_ns += 1
        entry = Commit(identity=items[0], node="n1", task="main", items=items, position=2 * version + 1)
        store.put(entry_key(TABLE, version), entry.to_bytes())
    assert run.settle() == [("0", "a", "n1"), ("0", "b", "n1"), ("1", "c", SETTLED), ("1", "d", SETTLED)]
