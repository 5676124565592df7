"""`make docs`: a picture for each clause, drawn from a run that breaks it.

`docs/explanation/clauses/s3.yaml` is a whole scenario: small, with its seed pinned. Its `expect` names the lock that is
run and the clause that breaks. The run is explained as `lockref explain` does it; its diagram becomes `s3.svg` beside
the scenario, and its paragraph stands in docs/explanation/clauses.md, below the picture.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from lockref.lab.loading import ProviderSpec, load_provider
from reports.checks.spec import CLAUSES
from reports.explanation.explain import Subject, explain_run
from reports.explanation.explanation import Explanation
from reports.figures.space_time import description
from reports.html.explanation import explanation_picture
from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario
from scenarios.failures.failure_store import JudgedRun
from scenarios.failures.told_faults import told_faults
from scenarios.worlds.simulated import run_simulated
from tests.docs import ROOT

PAGE: Final = ROOT / "docs" / "explanation" / "clauses.md"
FOLDER: Final = PAGE.with_suffix("")
NOT_DRAWN: Final = frozenset({"DL3"})
"""No writer of ours, with any fault, leaves a gap in a log: docs/explanation/clauses.md says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClausePicture:
    """A scenario of the folder, run. text: what docs/explanation/clauses.md says of it. svg: its picture."""

    clause: str
    scenario: Path
    svg: str
    text: str


def main() -> None:
    """Draw the pictures anew, and put what they show into the page."""
    page = PAGE.read_text(encoding="utf-8")
    for clause in (clause for clause in CLAUSES if clause not in NOT_DRAWN):
        drawn = picture_of(clause)
        drawn.scenario.with_suffix(".svg").write_text(drawn.svg, encoding="utf-8")
        place = re.compile(rf"(<!-- clause {clause} -->\n).*?(<!-- end -->)", re.DOTALL)
        assert place.search(page), f"{PAGE.name} has no place for {clause}"
        page = place.sub(lambda found, text=drawn.text: found[1] + text + found[2], page)
    PAGE.write_text(page, encoding="utf-8")


@cache
def picture_of(clause: str) -> ClausePicture:
    """The picture of a clause, from the scenario that is named after it."""
    path = FOLDER / f"{clause.lower()}.yaml"
    scenario = load_scenario(str(path))
    [(lock, broken)] = scenario.expect.items()
    assert list(broken) == [clause], f"{path.name}: `expect` names the lock and {clause} alone"
    spec = load_provider(lock)
    explanation = _explained(scenario, spec, clause)
    svg = explanation_picture(explanation, has_legend=False)
    return ClausePicture(clause=clause, scenario=path, svg=svg, text=_text(explanation, path, lock))


def _explained(scenario: Scenario, spec: ProviderSpec, clause: str) -> Explanation:
    assert scenario.seed is not None, f"{scenario.name} pins its seed"
    outcome = run_simulated(scenario, spec, scenario.seed)
    judged = JudgedRun(outcome)
    assert clause in judged.broken, f"{scenario.name} breaks {sorted(judged.broken)}, and not {clause}"
    shown = judged.shown_under(clause)
    return explain_run(
        Subject(id="", scenario=scenario.name, provider=spec.name, seed=scenario.seed),
        events=shown.events,
        grants=shown.grants,
        run=dict(outcome.run_row),
        finding=shown.finding,
        faults=told_faults(outcome.plan, {}, outcome.fault_counts),
    )


def _text(explanation: Explanation, path: Path, lock: str) -> str:
    place = f"clauses/{path.stem}.svg"
    said = description(explanation.diagram).replace("[", "(").replace("]", ")")
    return (
        f"*{CLAUSES[explanation.clause]}*\n\n"
        f"![{said}]({place})\n\n"
        f"{textwrap.fill(explanation.paragraph, 130)}\n\n"
        f"The run: [{path.name}](clauses/{path.name}) with the lock `{lock}`.\n"
    )


if __name__ == "__main__":
    main()
