"""The progress line of a campaign of seeds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockref.cli.console import Console
    from scenarios.campaign import CampaignResult
    from scenarios.definition.schema import Scenario


def seed_progress(console: Console, scenario: Scenario, seeds: int) -> Callable[[CampaignResult], None]:
    """A function that shows how far a campaign of `seeds` seeds has come."""
    began = time.monotonic()

    def show(result: CampaignResult) -> None:
        tally = result.tally
        rate = (tally.runs - result.resumed) / max(time.monotonic() - began, 1e-9)
        console.progress(
            f"{scenario.name}: {tally.runs:,} of {seeds:,} seeds, {rate:,.0f}/s, "
            f"{len(tally.findings)} distinct failures"
        )

    return show
