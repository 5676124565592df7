"""docs/delta-bugs.md: each row of its table is what the catalogue expects, and the builds are those that there are."""

from __future__ import annotations

import re

import numpy as np
import pyarrow.compute as pc
import pytest

from lockref.lab.loading import BUILT_IN, load_provider
from reports.checks import judge, measure
from scenarios.batch import simulate_many
from scenarios.definition.load import catalogue, load_scenario, parse_scenario
from tests.docs import ROOT

ROW = re.compile(
    r"\| B[^|]*\| [^|]*\| `(?P<scenario>[\w.-]+)` \| (?P<build>[^|]*) \| (?P<clauses>[^|]*) \| (?P<found>[^|]*) \|"
)
TEXT = (ROOT / "docs" / "delta-bugs.md").read_text(encoding="utf-8")
ROWS = [match.groupdict() for match in ROW.finditer(TEXT)]
GUILTY = [row for row in ROWS if row["clauses"] != "–"]


def build_of(row: dict[str, str]) -> str:
    return "hardened" if row["build"] == "every build" else row["build"].strip("`")


def test_the_table_names_every_shipped_build() -> None:
    """A build without a bug would be listed for nothing."""
    shipped = {name for name in BUILT_IN if name.startswith("dynamodb-")}
    assert len(shipped) == 5
    assert all(f"`{name}`" in TEXT for name in shipped)
    assert {build_of(row) for row in GUILTY} >= shipped
    assert len(ROWS) >= 13


@pytest.mark.parametrize("row", GUILTY, ids=lambda row: f"{row['scenario']} {build_of(row)}")
def test_a_row_is_what_the_catalogue_expects(row: dict[str, str]) -> None:
    """The build is expected to break these clauses, and the corrected lease to hold."""
    expected = load_scenario(row["scenario"]).expect
    corrected = f"{row['scenario']}-identity"
    broken = {clause for clause, said in expected[build_of(row)].items() if said == "violated"}
    assert broken >= set(row["clauses"].split(", "))
    if corrected in [path.stem for path in catalogue()]:
        assert load_scenario(corrected).expect["dynamodb"] == "held"
    elif build_of(row) != "hardened":
        assert expected["dynamodb"] == "held"


@pytest.mark.parametrize("row", GUILTY, ids=lambda row: f"{row['scenario']} {build_of(row)}")
def test_a_bug_is_found_at_the_seed_that_the_table_names(row: dict[str, str]) -> None:
    """The first seed that breaks the first clause."""
    first = int(row["found"].split(";")[0])
    batch = simulate_many(load_scenario(row["scenario"]), load_provider(build_of(row)), range(1, first + 1))
    clause = row["clauses"].split(", ")[0]
    verdicts = judge(batch.events, batch.runs).verdicts.to_pylist()
    broken = {each["run"] for each in verdicts if each["clause"] == clause and each["verdict"] == "violated"}
    assert broken == {first}


FIXED_SLEEPS = """
version: 1
name: fixed-sleeps
about: Writers of one table that come back soon.
clients: 8
duration: 60s
lock: {validity: 20s, renew_every: 5s, poll_every: 1s}
workload: {kind: list, cycles: 1000000, think: 500ms..2s, hold: 20ms..50ms, writes: 1, wait: 20s}
"""


@pytest.mark.parametrize("build", ["dynamodb-lock-0.5", "dynamodb"])
def test_what_fixed_sleeps_cost_is_what_the_page_says(build: str) -> None:
    """B13: looks at fixed times leave the lock idle between a release and the next grant."""
    batch = simulate_many(parse_scenario(FIXED_SLEEPS), load_provider(build), range(1, 6))
    measured = measure(batch.events, batch.runs)
    after_release = measured.handoffs.filter(pc.equal(measured.handoffs["after"], "release"))
    granted = pc.and_(pc.equal(measured.calls["op"], "acquire"), pc.equal(measured.calls["outcome"], "applied"))
    waits_ns = measured.calls.filter(granted)["wait_ns"].to_numpy()
    handoff_ms = np.median(after_release["handoff_ns"].to_numpy()) / 10**6
    assert f"| `{build}` | {len(waits_ns)} | {handoff_ms:.0f} ms | {waits_ns.max() / 10**9:.1f} s |" in TEXT
