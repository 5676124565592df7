"""docs/helix.md: each hazard of Helix has a row with a scenario that shows it, or with the test that decides it."""

from __future__ import annotations

import re

import pytest

from scenarios.definition.load import catalogue, load_scenario
from tests.docs import ROOT

HAZARDS = [f"Z{number}" for number in range(1, 21)]
WITHOUT_A_RUN = {"Z6", "Z15", "Z16", "Z17"}
"""Of the pipeline or the cluster file alone: nothing of them is in a history."""

_ROW = re.compile(r"^\| (Z\d+(?:, Z\d+)*) \|(.*)\|$", re.MULTILINE)
TEXT = (ROOT / "docs" / "helix.md").read_text(encoding="utf-8")
ROWS = {hazard: match[2].split("|") for match in _ROW.finditer(TEXT) for hazard in match[1].split(", ")}


def named(cell: str) -> list[str]:
    return re.findall(r"`([\w./-]+)`", cell)


@pytest.mark.parametrize("hazard", HAZARDS)
def test_a_hazard_has_a_scenario_or_a_test(hazard: str) -> None:
    """The scenario of its row has its id; what the row says the recipe breaks is what the catalogue expects of it."""
    _, _, run, broken, decided = ROWS[hazard]
    assert (hazard in WITHOUT_A_RUN) == (not named(run))
    for name in named(run):
        scenario = load_scenario(name)
        assert hazard in scenario.ids
    expected = {
        clause
        for name in named(run)
        for clause, verdict in dict(load_scenario(name).expect.get("helix-recipe", {})).items()
        if verdict == "violated"
    }
    assert set(re.findall(r"[SL]\d", broken)) == expected
    tests = [name for name in named(decided) if name.startswith("tests/")]
    assert all((ROOT / name).is_file() for name in tests)
    assert tests or named(run)


def test_every_hazard_has_one_row() -> None:
    """A new one in the catalogue is not overlooked here."""
    assert set(ROWS) == set(HAZARDS)
    ids = {each for name in catalogue() for each in load_scenario(name).ids if re.fullmatch(r"Z\d+", each)}
    assert ids == set(HAZARDS) - WITHOUT_A_RUN
