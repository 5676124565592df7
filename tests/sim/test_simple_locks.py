"""`lockref gate` passes locks as strangers write them, and stops the same locks with one part wrong, for few causes."""

from __future__ import annotations

import pytest

from lockref.cli.main import run
from lockref.lab.loading import load_provider
from reports.formats.gate_result import GateResult
from scenarios.gate.abilities import ask
from scenarios.gate.demands import Ability
from tests.sim.simple_locks import SOUND, unsound

PLACE = "tests.sim.simple_locks."
WHERE_IT_SHOWS = "a09 or h02 or e01 or u02 or loss-found"
"""One scenario at least in which each of the mistakes shows."""

SHOWS_LATER = {unsound.RenewsFromTheAnswer, unsound.PutsOverALapsedRow}
"""Mistakes that the first seed does not show."""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gate(folder, lock: str, *more: str) -> tuple[int, GateResult]:
    """The exit code and the account of a gate."""
    code = run(["-q", "gate", "--provider", f"{PLACE}{lock}", "--jobs", "1", *more])
    text = (folder / ".lockref/runs/latest/gate.json").read_text(encoding="utf-8")
    return code, GateResult.model_validate_json(text)


# What each of these demands came about only under other locks, so a simple one was left inconclusive.
ONLY_OTHERS_REACH = "h01 or h03 or hj02 or m22 or u01 or u05 or u08 or b04 or d06 or w18-late-copy"

ALIKE = {"marked:MarkedLock", "spinning:SpinningLock"}
"""Locks whose records lapse as LapsingLock's do: they are asked in the long lane, and in the whole catalogue there."""


@pytest.mark.parametrize(
    "lock", [pytest.param(lock, marks=pytest.mark.long if lock in ALIKE else ()) for lock in SOUND]
)
def test_a_simple_lock_is_green_where_only_another_kind_reaches_what_is_demanded(lock, own_folder):
    """It holds by what remains, or the scenario does not apply; either way the reason is told."""
    code, found = gate(own_folder, lock, "--seeds", "1..2", "-k", ONLY_OTHERS_REACH)
    assert {each.name: (each.outcome, each.reason) for each in found.scenarios if each.exit_code} == {}
    assert code == 0
    assert not [each for each in found.scenarios if each.outcome == "not_applicable" and not each.reason]


@pytest.mark.long
@pytest.mark.parametrize("lock", SOUND)
def test_a_simple_lock_turns_the_gate_green(lock, own_folder):
    """The whole catalogue, with as many seeds as a gate deals out."""
    code, found = gate(own_folder, lock)
    assert {each.name: (each.outcome, each.reason) for each in found.scenarios if each.exit_code} == {}
    assert (code, found.groups) == (0, ())


@pytest.mark.parametrize(("lock", "clauses"), unsound.UNSOUND.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_one_part_that_is_wrong_is_one_cause(lock, clauses, own_folder):
    """And two are two: none hides behind the other, and none is told twice."""
    seeds = "1..3" if lock in SHOWS_LATER else "1..1"
    code, found = gate(own_folder, f"unsound:{lock.__name__}", "--seeds", seeds, "-k", WHERE_IT_SHOWS)
    assert (code, [group.clause for group in found.groups if group.clause not in clauses]) == (1, [])
    assert {group.clause for group in found.groups} == clauses
    assert len(found.groups) == len(clauses)


def test_two_mistakes_that_break_one_clause_are_two_causes(own_folder):
    """The one that needs no fault does not take the other for its own."""
    _, found = gate(own_folder, "unsound:TwoOfOneKind", "--seeds", "1..3", "-k", "u02 or loss-found or h15")
    needs = {frozenset(group.faults) & {"delete_object", "corrupt_object"} for group in found.groups}
    assert {group.clause for group in found.groups} == {"S3"}
    assert len(needs) == len(found.groups) == 2


def test_a_lock_that_renews_only_later_is_held_to_what_strikes_renewals(own_folder):
    """Its renewals were seen when it was asked: where none is struck, the gate is open and not green."""
    code, found = gate(own_folder, "unsound:RenewsOnlyLater", "--seeds", "1..2", "-k", "(h15 or e13) and not demo")
    assert (code, {each.outcome for each in found.scenarios}) == (3, {"inconclusive"})


def test_a_crash_of_the_lock_is_told_once_with_the_record_that_it_met(own_folder):
    """A step that takes every object for a record ends several scenarios: one line, exit 2."""
    code, found = gate(own_folder, "lapsing:CrashesOnAnEmptyRecord", "--seeds", "1..1", "-k", "d06 or h17 or e08")
    assert (code, len(found.crashes)) == (2, 1)
    assert found.crashes[0].scenarios == ("d06-empty-record", "h17-unreadable-record")
    assert found.crashes[0].step == "CrashesOnAnEmptyRecord.parse"
    assert "raised KeyError: 'name'" in found.crashes[0].sentence
    told = "table/lock held no record of this lock (raise CorruptRecord): b''"
    assert found.crashes[0].sentence.endswith(told)


def test_a_mutex_for_a_heartbeat_is_no_promise_to_several_tasks():
    """The interface promises calls of one task; what was not tried is said, with the word that asks for it."""
    found = ask(load_provider(f"{PLACE}renewing:HeartbeatLock")).findings[Ability.TASKS]
    assert (found.has, "--declare several-tasks" in found.evidence) == (False, True)
    assert ask(load_provider("hardened")).findings[Ability.TASKS].has


def test_a_lock_without_a_lease_is_declared_as_such(own_folder):
    """Undeclared it is red where a dead holder keeps it, and the screen names the word; declared it is green."""
    asked = ("marker:SaysNothingOfItself", "--seeds", "1..2", "-k", "b01 or a06")
    code, found = gate(own_folder, *asked)
    assert code == 4
    assert "--declare no-lease" in found.notes[0]
    code, found = gate(own_folder, *asked, "--declare", "no-lease")
    assert (code, [note for note in found.notes if "declare" in note]) == (0, [])


OWN = """\
version: 1
name: mine
clients: 2
duration: 60s
workload: {cycles: 1, start: 500ms, hold: 3s, wait: 40s, clients: {n1: {start: 0s, think: 0s, hold: 14s, writes: 56}}}
faults:
  - {kind: FAULT}
must_happen: [contention, "fault:KIND"]
"""


@pytest.mark.parametrize(
    ("fault", "outcome", "code"),
    [
        ("pause, client: n1, at: 3s, for: 14s", "held", 0),
        ("error, status: 503, op: release, nth: 7", "inconclusive", 3),
    ],
)
def test_a_file_of_ones_own_runs_beside_the_catalogue(fault, outcome, code, own_folder):
    """Of it all that it demands has to come about: a plan that never strikes is a mistake in the plan."""
    text = OWN.replace("FAULT", fault).replace("KIND", fault.split(",")[0])
    (own_folder / "mine.lock.yaml").write_text(text, encoding="utf-8")
    more = ("mine.lock.yaml", "--seeds", "1..2", "-k", "mine or e01")
    told, found = gate(own_folder, "lapsing:LapsingLock", *more)
    own = found.scenarios[-1]
    assert (told, own.outcome, own.source) == (code, outcome, "mine.lock.yaml")
    assert len(found.scenarios) == 2
    _, alone = gate(own_folder, "lapsing:LapsingLock", "mine.lock.yaml", "--seeds", "1..2", "--only-mine")
    assert [each.name for each in alone.scenarios] == ["mine"]


def test_the_files_are_refused_that_say_nothing_new(own_folder, capsys):
    """A name stands for one scenario; those of the catalogue run by themselves."""
    text = OWN.replace("mine", "e01-empty-store").replace("FAULT", "crash, client: n1, at: 1s")
    (own_folder / "a.yaml").write_text(text.replace("KIND", "crash"), encoding="utf-8")
    for asked, told in (
        (["a.yaml"], "give it another name"),
        (["e01"], "is in the catalogue"),
        (["--only-mine"], "name at least one scenario file"),
    ):
        assert run(["-q", "gate", "--provider", f"{PLACE}row:RowLock", *asked]) == 2
        assert told in capsys.readouterr().err
