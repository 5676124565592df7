"""RFC-91's two builds on Azure's answers: they hold and break as on S3, but for what its statuses change.

Hudi's client for Azure maps some answers otherwise than its client for S3 (`lockref/storage/hudi/client.py`), so a
scenario of S3 may show something else there. Which ones do, and what, is written down here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.lab.loading import load_provider
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.definition.expectations import surprises
from scenarios.definition.load import catalogue, load_scenario
from scenarios.run import simulate_many

SEEDS = range(1, 5)
DIFFERS = {
    # U9: a renewal of a record that is gone meets 412 and is lost at once, where S3 answers 404 and Hudi goes on.
    ("h15-deleted-while-held", "hudi"): ["S3 is held, expected violated"],
    # D2, E11: a create without an answer is "not got" on Azure, where on S3 it is an exception.
    ("e30-ghost-acquire", "hudi"): ["S7 violated, expected to hold"],
}
QUICK = ("e01-empty-store", "e08-paused-holder", "e30-ghost-acquire", "h15-deleted-while-held")
STORAGE = [path for path in catalogue() if path.stem.startswith(("e", "h"))]


@pytest.mark.parametrize("build", ["hudi", "hardened"])
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.stem in QUICK else [pytest.mark.long], id=path.stem) for path in STORAGE],
)
def test_a_build_holds_and_breaks_on_azure_as_on_s3(path: Path, build: str) -> None:
    """E1 to E35, H1 to H25: what a scenario expects of a build on S3, it shows on Azure too, but for `DIFFERS`."""
    scenario = load_scenario(path)
    store = scenario.store.model_copy(update={"dialect": "azure"})
    batch = simulate_many(scenario.model_copy(update={"store": store}), load_provider(build), SEEDS)
    counts = Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs)
    assert list(surprises(scenario, build, counts)) == DIFFERS.get((path.stem, build), [])
