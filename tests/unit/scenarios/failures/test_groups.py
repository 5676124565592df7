"""The failures of one command: each kind is shown once, and every failure keeps its line."""

from __future__ import annotations

from reports.formats.results import Failure, Results
from reports.formats.terminal import BLOCKS_MAX, result_lines
from scenarios.failures.groups import NAMED_MAX, FailureGroups

OVERLAP = ("S3", "overlap", ("pause",))


def failure(identity: str, scenario: str = "a", **fields: object) -> Failure:
    values: dict[str, object] = {"id": identity, "clause": "S3", "message": "m", "run": 1, "seed": 1}
    return Failure.model_validate({**values, "scenario": scenario, "block": f"block of {identity}", **fields})


def test_a_kind_is_shown_once_and_named_afterwards() -> None:
    """The second scenario with the same clause, way and faults repeats the block of the first one."""
    groups = FailureGroups()
    groups.note("LK-1", OVERLAP)
    groups.note("LK-2", OVERLAP)
    groups.note("LK-3", ("S3", "overlap", ("offset",)))
    assert groups.repeats([failure("LK-1")], blocks_max=3) == {}
    assert groups.repeats([failure("LK-2", "b"), failure("LK-3", "b")], blocks_max=3) == {"LK-2": "LK-1"}
    assert list(groups.lines()) == ["✗ S3   LK-1 of a: 1 scenario shows it too: b"]


def test_a_failure_that_another_one_stands_for_is_of_its_kind() -> None:
    """It was not shrunk, so its own plan still has faults that the failure does not need."""
    groups = FailureGroups()
    groups.note("LK-1", OVERLAP)
    groups.note("LK-2", ("S3", "overlap", ("offset", "pause")), alike="LK-1")
    groups.repeats([failure("LK-1")], blocks_max=3)
    assert groups.repeats([failure("LK-2", "b")], blocks_max=3) == {"LK-2": "LK-1"}


def test_a_block_that_was_not_shown_stands_for_nothing() -> None:
    """The fourth failure of a scenario is counted only; the next scenario shows its kind in full."""
    groups = FailureGroups()
    for number in range(4):
        groups.note(f"LK-{number}", ("S3", "overlap", (f"fault-{number}",)))
    groups.note("LK-9", ("S3", "overlap", ("fault-3",)))
    assert groups.repeats([failure(f"LK-{number}") for number in range(4)], blocks_max=3) == {}
    assert groups.repeats([failure("LK-9", "b")], blocks_max=3) == {}


def test_a_failure_without_a_kind_repeats_nothing() -> None:
    """What does not come again from its seed is stored under no id, and is shown in full."""
    groups = FailureGroups()
    assert groups.repeats([failure("S3-1")], blocks_max=3) == {}
    assert groups.repeats([failure("S3-1", "b")], blocks_max=3) == {}


def test_a_summary_line_names_few_scenarios() -> None:
    groups = FailureGroups()
    for number in range(NAMED_MAX + 3):
        groups.note(f"LK-{number}", OVERLAP)
        groups.repeats([failure(f"LK-{number}", f"s{number}")], blocks_max=3)
    (line,) = groups.lines()
    assert f"{NAMED_MAX + 2} scenarios show it too: s1, s2" in line
    assert line.endswith(f"s{NAMED_MAX} and 2 more")


def test_one_name_more_than_a_line_has_is_counted() -> None:
    groups = FailureGroups()
    for number in range(NAMED_MAX + 2):
        groups.note(f"LK-{number}", OVERLAP)
        groups.repeats([failure(f"LK-{number}", f"s{number}")], blocks_max=3)
    (line,) = groups.lines()
    assert line.endswith(f"s{NAMED_MAX} and 1 more")


def test_a_scenario_is_no_other_scenario_of_its_own_kind() -> None:
    """Two seeds of one scenario break in one way: the second repeats the block, and no line says that others do."""
    groups = FailureGroups()
    for identity in ("LK-1", "LK-2"):
        groups.note(identity, OVERLAP)
    groups.repeats([failure("LK-1")], blocks_max=3)
    assert groups.repeats([failure("LK-2")], blocks_max=3) == {"LK-2": "LK-1"}
    assert list(groups.lines()) == []


def test_the_kind_that_most_scenarios_show_comes_first() -> None:
    groups = FailureGroups()
    rare = ("S3", "overlap", ("offset",))
    for scenario in "abcde":
        groups.note(f"LK-{scenario}", rare if scenario < "c" else OVERLAP)
        groups.repeats([failure(f"LK-{scenario}", scenario)], blocks_max=3)
    assert [line.partition(":")[0] for line in groups.lines()] == ["✗ S3   LK-c of c", "✗ S3   LK-a of a"]


def lines_of(failures: list[Failure], repeats: dict[str, str]) -> list[str]:
    results = Results(title="t", verdict="violated", statement="s", runs=1, failures=failures)
    return [line for text, _ in result_lines(results, repeats) for line in text.split("\n")]


def test_a_repeated_failure_keeps_its_replay_line() -> None:
    lines = lines_of([failure("LK-2", replay="lockref replay LK-2")], {"LK-2": "LK-1"})
    assert "  ✗ S3   LK-2   seed 1   as in LK-1   lockref replay LK-2" in lines
    assert "block of LK-2" not in lines


def test_repeated_failures_take_no_place_of_a_block() -> None:
    """Only blocks count against the limit of blocks."""
    failures = [failure(f"LK-{number}") for number in range(BLOCKS_MAX + 1)]
    assert f"block of LK-{BLOCKS_MAX}" in lines_of(failures, {"LK-0": "LK-9"})
    assert f"block of LK-{BLOCKS_MAX}" not in lines_of(failures, {})


def test_the_line_of_a_seed_is_said_once() -> None:
    """Of clauses that break in one run the first one has the line that repeats the run, and the others name it."""
    first, second = ("from seed", "lockref sim a --seed 1"), ("from seed", "lockref sim a --seed 2")
    failures = [failure(f"LK-{number}", notes=[note]) for number, note in enumerate([first, first, second])]
    failures = [each.model_copy(update={"block": "\n".join(map(" ".join, each.notes))}) for each in failures]
    lines = [line for line in lines_of(failures, {}) if "from seed" in line]
    assert lines == [
        "from seed lockref sim a --seed 1", "  from seed  as of S3 above", "from seed lockref sim a --seed 2",
    ]  # fmt: skip


def test_failures_without_a_block_have_a_line_each() -> None:
    """A clause that stands behind the last block is named, too; beyond some lines they are counted."""
    failures = [failure(f"LK-{number}", replay=f"lockref replay LK-{number}") for number in range(BLOCKS_MAX + 8)]
    lines = lines_of(failures, {})
    assert "+8 more distinct failures:" in lines
    assert f"  ✗ S3   LK-{BLOCKS_MAX}   seed 1   lockref replay LK-{BLOCKS_MAX}" in lines
    assert lines[-1] == "  and 2 more: see results.json in the folder of this run"
    assert "more:" not in lines_of(failures[: BLOCKS_MAX + 6], {})[-1]
