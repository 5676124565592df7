"""DL1 to DL5 on histories by hand: what landed in a Delta log, against what its writers were told."""

from __future__ import annotations

import pytest

from lockref.history import QUEUED
from lockref.words import Kind, Op, Outcome
from tests.histories import History, verdict

ALL = ("DL1", "DL2", "DL3", "DL4", "DL5")
TABLE = "s3://lake/orders"


class Ledger(History):
    """A run in which writers commit. Without a lock: `request` of what lands is left out."""

    def lands(self, identity: str, version: int, at: int, *, node: str = "n1", table: str = TABLE) -> None:
        self.event(
            Kind.EFFECT, at, node, lock=table, op=Op.COMMIT, outcome=Outcome.APPLIED, version=str(version),
            content=identity, attempt=1,
        )  # fmt: skip

    def commits(
        self, identity: str, at: int, *, told: Outcome = Outcome.APPLIED, version: int | None = None, node: str = "n1",
        table: str = TABLE, said: str = "",
    ) -> None:  # fmt: skip
        """The call just before `at`, and what the writer is told at `at`."""
        request = self.number()
        common = {"lock": table, "op": Op.COMMIT, "request": request, "content": identity}
        self.event(Kind.CALL, at - 1, node, **common, detail=said)
        place = "" if version is None else str(version)
        self.event(Kind.RETURN, at, node, **common, outcome=told, version=place)

    def done(self, identity: str, version: int, at: int, **who: str) -> None:
        """A commit that went well."""
        self.lands(identity, version, at - 1, **who)
        self.commits(identity, at, version=version, **who)

    def broken(self) -> dict[str, int]:
        """The clauses that broke, each with the number of its violations."""
        judged = self.judged()
        found = {clause: verdict(judged, clause) for clause in ALL}
        assert {row["verdict"] for row in found.values()} <= {"held", "violated"}
        return {clause: row["count"] for clause, row in found.items() if row["verdict"] == "violated"}

    def told_of(self, clause: str) -> str:
        return str(self.verdict(clause)["witness"]["text"])


def test_a_log_that_keeps_its_word():
    """Two writers take turns, and one of them gives up: nothing is wrong."""
    history = Ledger()
    history.done("a", 0, 10)
    history.done("b", 1, 20, node="n2")
    history.commits("c", 30, told=Outcome.PRECONDITION_FAILED)
    history.commits("d", 40, told=Outcome.AMBIGUOUS)
    history.done("e", 2, 50)
    assert history.broken() == {}


def test_runs_without_commits_are_not_asked():
    """not_applicable, whatever else is in the run; effects of other resources are none of its business."""
    history = Ledger()
    held = history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1)
    history.effect(held, at=5, op=Op.COMMIT)
    judged = history.judged()
    assert {verdict(judged, clause)["verdict"] for clause in ALL} == {"not_applicable"}


def test_an_overwritten_commit_is_lost():
    """W16: both wrote version 2 and both were told so; the first one's data is gone."""
    history = Ledger()
    for version in (0, 1):
        history.done(f"c{version}", version, 10 + 10 * version)
    history.lands("alpha", 2, 30, node="n1")
    history.lands("bravo", 2, 31, node="n2")
    history.commits("alpha", 32, version=2, node="n1")
    history.commits("bravo", 33, version=2, node="n2")
    assert history.broken() == {"DL1": 1, "DL4": 1}
    assert history.told_of("DL1") == "a commit that was acknowledged as version 2 is in no version"
    assert history.told_of("DL4") == "version 2 was overwritten by another commit"
    assert [entry["identity"] for entry in history.verdict("DL4")["witness"]["entries"]] == ["alpha", "bravo"]


def test_a_copy_of_the_same_commit_overwrites_nothing():
    """The helping log store may copy an entry twice."""
    history = Ledger()
    history.lands("a", 0, 5)
    history.lands("a", 0, 7, node="n2")
    history.commits("a", 10, version=0)
    assert history.broken() == {}


def test_a_commit_in_two_versions():
    """W19: the writer was told of version 1 and stands in version 0 as well."""
    history = Ledger()
    history.lands("a", 0, 5)
    history.lands("a", 1, 9)
    history.commits("a", 10, version=1)
    assert history.broken() == {"DL1": 1}
    assert history.told_of("DL1") == "a commit that was acknowledged as version 1 is in versions 0, 1"
    assert history.verdict("DL1")["witness"]["kind"] == "duplicate"


def test_a_commit_in_another_version_than_its_writer_was_told():
    history = Ledger()
    history.lands("a", 0, 5)
    history.commits("a", 10, version=3)
    assert history.broken() == {"DL1": 1}
    assert history.verdict("DL1")["witness"]["kind"] == "elsewhere"


@pytest.mark.parametrize(("said", "broken"), [(QUEUED, {}), ("", {"DL1": 1})], ids=["queue", "writer"])
def test_only_a_queue_may_confirm_a_commit_without_its_version(said: str, broken: dict[str, int]) -> None:
    history = Ledger()
    history.lands("a", 0, 5)
    history.commits("a", 10, said=said)
    assert history.broken() == broken
    if broken:
        text = "a commit that was acknowledged is in version 0, and its writer was told none"
        assert history.told_of("DL1") == text


@pytest.mark.parametrize("told", [Outcome.AMBIGUOUS, None], ids=["unknown", "never told"])
def test_a_commit_that_nobody_acknowledged_may_be_there_once(told):
    """DL2: once is right, twice is not."""
    history = Ledger()
    history.lands("a", 0, 5)
    if told is not None:
        history.commits("a", 10, told=told)
    else:
        history.done("b", 1, 10)
    assert history.broken() == {}
    history.lands("a", 1 if told is not None else 2, 20)
    assert history.broken() == {"DL2": 1}
    assert "never acknowledged is in versions 0, " in history.told_of("DL2")


def test_an_acknowledgement_without_a_version_needs_an_entry_too():
    """Whatever the writer was told, its commit has to stand somewhere."""
    history = Ledger()
    history.done("a", 0, 10)
    history.commits("b", 20)
    assert history.broken() == {"DL1": 1}


def test_a_gap_is_found_where_it_begins():
    """DL3: version 2 without version 1; that version 1 comes later mends nothing for those who read in between."""
    history = Ledger()
    history.done("a", 0, 10)
    history.done("c", 2, 20)
    history.done("d", 3, 30)
    history.done("b", 1, 40)
    assert history.broken() == {"DL3": 1}
    assert history.told_of("DL3") == "version 2 was written and version 1 is not there"


def test_a_log_begins_with_version_0():
    history = Ledger()
    history.done("a", 1, 10)
    assert history.broken() == {"DL3": 1}


@pytest.mark.parametrize("told", [Outcome.PRECONDITION_FAILED, Outcome.REJECTED])
@pytest.mark.parametrize("lands_at", [5, 20], ids=["before", "afterwards"])
def test_an_error_about_a_commit_that_landed(told, lands_at):
    """DL5, B11: whoever hears of an error commits again."""
    history = Ledger()
    history.lands("a", 0, lands_at)
    history.commits("a", 10, told=told)
    assert history.broken() == {"DL5": 1}
    assert history.verdict("DL5")["at_ns"] == max(10, lands_at)


def test_an_error_about_a_commit_that_was_overwritten_is_wrong_as_well():
    """DL5: it had landed."""
    history = Ledger()
    history.lands("a", 0, 5)
    history.lands("b", 0, 7)
    history.commits("a", 10, told=Outcome.REJECTED)
    assert set(history.broken()) == {"DL4", "DL5"}


def test_tables_do_not_mix():
    """Version 0 of each table is its own, and an identity stands in one version of one table."""
    history = Ledger()
    for number, table in enumerate(("t1", "t2", "t3")):
        history.done(f"{table}-0", 0, 10 * (number + 1), table=table)
        history.done(f"{table}-1", 1, 100 * (number + 1), table=table)
    assert history.broken() == {}
    for version in range(2, 6):
        history.done(f"t1-{version}", version, 400 + 10 * version, table="t1")
    # Version 5 of the first table fills no gap of the second.
    history.lands("late", 3, 600, table="t2")
    assert history.broken() == {"DL3": 1}


def test_a_commit_without_a_lock_is_no_effect_of_a_grant():
    """S4 asks for the grant behind each protected write; whoever asked no lock has none."""
    history = Ledger()
    held = history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1)
    history.effect(held, at=4)
    history.done("a", 0, 10, node="n2")
    judged = history.judged()
    assert verdict(judged, "S4")["verdict"] == "held"
    assert verdict(judged, "DL1")["verdict"] == "held"


# ---- coalesced entries: several commits in one version, in rows of one put ----


def test_commits_of_one_entry_replace_nothing():
    """Three commits in version 0 and two in version 1, put at one instant each: nothing is wrong."""
    history = Ledger()
    for version, identities in enumerate(("abc", "de")):
        for identity in identities:
            history.lands(identity, version, 10 + version)
    for at, (identity, version) in enumerate({"a": 0, "b": 0, "c": 0, "d": 1, "e": 1}.items()):
        history.commits(identity, 20 + 2 * at, version=version)
    assert history.broken() == {}


def test_a_copy_of_a_coalesced_entry_changes_nothing_and_another_one_overwrites_it():
    """The same rows once more, even at the same instant, are a copy. One that lacks a commit has lost it."""
    for second_at in (10, 11):
        history = Ledger()
        for at in (10, second_at):
            for identity in "ab":
                history.lands(identity, 0, at)
        history.commits("a", 20, version=0)
        history.commits("b", 22, version=0)
        assert history.broken() == {}
    history = Ledger()
    for identity in "ab":
        history.lands(identity, 0, 10)
    history.lands("a", 0, 11)
    history.commits("a", 20, version=0)
    history.commits("b", 22, version=0)
    assert history.broken() == {"DL1": 1, "DL4": 1}
    assert history.told_of("DL1") == "a commit that was acknowledged as version 0 is in no version"
    history = Ledger()
    for at, identities in ((10, "ab"), (11, "abc")):
        for identity in identities:
            history.lands(identity, 0, at)
    assert history.broken() == {"DL4": 1}


def test_a_commit_that_two_entries_hold_is_twice_there_and_one_without_a_version_may_be_anywhere():
    """A queue confirms without a word about the version: lost and twice are seen all the same."""
    history = Ledger()
    for version, identities in enumerate(("ab", "bc")):
        for identity in identities:
            history.lands(identity, version, 10 + version)
    for at, identity in enumerate("abd"):
        history.commits(identity, 20 + 2 * at, said=QUEUED)
    assert history.broken() == {"DL1": 2}
    assert history.told_of("DL1") == "a commit that was acknowledged is in versions 0, 1"
