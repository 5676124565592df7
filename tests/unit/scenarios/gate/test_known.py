"""`--known`: a file that says where it is wrong, and what a gate makes of accepted failures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from lockref.errors import ConfigError
from scenarios.gate.known import KnownFailure, accept, load_known

TODAY = date(2027, 3, 1)
ENTRY = "{provider: hudi, cause: S4:stale-token:stopped, reason: one writer until March, expires: 2027-03-31}"

PLACE = "{}/known.yaml:3:5: S4:stale-token:stopped"


@dataclass(frozen=True)
class Found:
    cause: str
    is_shrunk: bool = True


STALE = Found("S4:stale-token:stopped")
OVERLAP = Found("S3:two-clients:stopped")


def known(tmp_path: Path, *entries: str) -> tuple[KnownFailure, ...]:
    path = tmp_path / "known.yaml"
    path.write_text("\n".join(["version: 1", "known:", *(f"  - {entry}" for entry in entries)]) + "\n")
    return load_known(path)


def test_an_accepted_failure_is_told_with_its_reason(tmp_path: Path) -> None:
    """The clause and the cause are those of the entry; others stop the gate as before."""
    found = accept(known(tmp_path, ENTRY), [OVERLAP, STALE], lock={"hudi"}, today=TODAY, is_whole=True)
    assert found.accepted == {1: "accepted until 2027-03-31: one writer until March"}
    assert found.notes == ()


@pytest.mark.parametrize(
    ("cause", "accepted"),
    [
        ("S4", {0, 2, 3}),
        ("S4:stale-token", {0, 3}),
        ("S4:stale-token:stopped", {0}),
        ("S4:stale", set()),
        ("S4:stale-token:stopped+late", {3}),
    ],
)
def test_the_first_parts_of_a_cause_accept_all_that_begin_so(tmp_path: Path, cause: str, accepted: set[int]) -> None:
    """A part is compared whole."""
    causes = [STALE, OVERLAP, Found("S4:lost-update:stopped"), Found("S4:stale-token:stopped+late")]
    (entry,) = known(tmp_path, f"{{cause: '{cause}', reason: r, expires: 2027-03-31}}")
    found = accept([entry], causes, lock={"any"}, today=TODAY, is_whole=True)
    assert set(found.accepted) == accepted
    assert entry.may_be("S4:stale-token") is (cause != "S4:stale")
    assert not entry.may_be("S3:two-clients")


@pytest.mark.parametrize(
    ("cause", "found", "is_accepted"),
    [
        ("S4:stale-token:stopped", "S4:stale-token:clock+stopped", True),
        ("S4:stale-token:no-fault", "S4:stale-token:clock", True),
        ("S4:stale-token:late", "S4:stale-token:clock+stopped", False),
        ("S4:lost-update:stopped", "S4:stale-token:clock+stopped", False),
        ("S4:stale-token:clock+late", "S4:stale-token:clock", False),
    ],
)
def test_a_failure_that_was_not_shrunk_may_have_more_faults(
    tmp_path: Path, cause: str, found: str, is_accepted: bool
) -> None:
    """A slow machine has less time to shrink, and must not be stopped by what a fast one accepts."""
    entries = known(tmp_path, f"{{cause: '{cause}', reason: r, expires: 2027-03-31}}")
    larger = accept(entries, [Found(found, is_shrunk=False)], lock={"any"}, today=TODAY, is_whole=True)
    assert bool(larger.accepted) is is_accepted
    assert not accept(entries, [Found(found)], lock={"any"}, today=TODAY, is_whole=True).accepted


@pytest.mark.parametrize(("day", "is_accepted"), [(date(2027, 3, 31), True), (date(2027, 4, 1), False)])
def test_the_last_day_is_the_last_one(tmp_path: Path, day: date, is_accepted: bool) -> None:
    """On the day after, the failure counts again, and the note says why."""
    found = accept(known(tmp_path, ENTRY), [STALE], lock={"hudi"}, today=day, is_whole=True)
    assert bool(found.accepted) is is_accepted
    told = (
        f"{tmp_path}/known.yaml:3:5: S4:stale-token:stopped was accepted until 2027-03-31 and counts again: one writer"
    )
    assert [note.startswith(told) for note in found.notes] == [True] * (not is_accepted)


def test_a_vanished_failure_is_told_where_everything_ran(tmp_path: Path) -> None:
    """An entry that matches nothing would accept the next failure of its kind; after a part nobody knows."""
    entries = known(tmp_path, ENTRY)
    gone = accept(entries, [OVERLAP], lock={"hudi"}, today=TODAY, is_whole=True)
    assert gone.notes == (
        f"{tmp_path}/known.yaml:3:5: S4:stale-token:stopped was not found any more: remove the entry",
    )
    partly = accept(entries, [OVERLAP], lock={"hudi"}, today=TODAY, is_whole=False)
    assert [note.endswith("not looked for in all scenarios: keep the entry") for note in partly.notes] == [True] * len(
        gone.notes
    )


def test_a_failure_that_needs_less_than_the_accepted_one_is_told_beside_it(tmp_path: Path) -> None:
    """It is not accepted, because it strikes more often; and the entry is not simply gone."""
    found = accept(
        known(tmp_path, ENTRY), [Found("S4:stale-token:no-fault")], lock={"hudi"}, today=TODAY, is_whole=True
    )
    assert found.accepted == {}
    assert found.notes == (
        f"{tmp_path}/known.yaml:3:5: S4:stale-token:stopped was not found, but S4:stale-token:no-fault, which needs "
        "less: accept that, if you mean it",
    )


def test_an_entry_of_another_lock_is_about_nothing_here(tmp_path: Path) -> None:
    """One file may serve several gates."""
    found = accept(known(tmp_path, ENTRY), [STALE], lock={"my_lock.py:MyLock", "MyLock"}, today=TODAY, is_whole=True)
    assert (found.accepted, found.notes) == ({}, ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"known\.yaml:1:1: document is empty"),
        ("version: 2\nknown: []", r"known\.yaml:1:10: version: expected 1"),
        ("version: true\nknown: []", r"known\.yaml:1:10: version: expected 1"),
        ("known: []", r"known\.yaml:1:1: version: expected 1"),
        ("version: 1", r"known\.yaml:1:1: known: expected a list"),
        ("version: 1\nknwon: []", r"known\.yaml:2:1: knwon: is no key here\. Did you mean 'known'\?"),
        ("version: 1\nknown: [S4]", r"known\.yaml:2:9: known\.0: expected a mapping"),
        ("version: 1\nknown:\n  - {cause: S4, expires: 2027-03-31}", r":3:5: known\.0\.reason: is missing"),
        ("version: 1\nknown:\n  - {cause: S4, reason: r}", r":3:5: known\.0\.expires: is missing"),
        ("version: 1\nknown:\n  - {reason: r, expires: 2027-03-31}", r":3:5: known\.0\.cause: is missing"),
        ("version: 1\nknown:\n  - {cause: S44, reason: r, expires: 2027-03-31}", r":3:13: known\.0\.cause: is 'S44'"),
        ("version: 1\nknown:\n  - {cause: S4, reason: '', expires: 2027-03-31}", r":3:25: known\.0\.reason: is ''"),
        ("version: 1\nknown:\n  - {cause: S4, reason: r, expires: soon}", r":3:37: known\.0\.expires: is 'soon'"),
        (
            "version: 1\nknown:\n  - {cause: S4, reason: r, expires: 20270331}",
            r":3:37: known\.0\.expires: is 20270331",
        ),
        ("version: 1\nknown:\n  - {cause: S4, reason: r, expires: 2027-02-30}", r":3:37: .*is '2027-02-30'"),
        (
            "version: 1\nknown:\n  - {cause: S4, reasn: r}",
            r":3:17: known\.0\.reasn: is no key here\. Did you mean 'reason'",
        ),
        (f"version: 1\nknown:\n  - {ENTRY}\n  - {ENTRY}", r":4:5: known\.1: is the failure of line 3 once more"),
        ("version: 1\nversion: 1", r":2:1: version: appears a second time"),
        ("version: [", "is not YAML"),
    ],
)
def test_a_bad_file_says_where_it_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    """Line and column of the first thing that is wrong, with the path of keys."""
    path = tmp_path / "known.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        load_known(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        load_known(tmp_path / "absent.yaml")
