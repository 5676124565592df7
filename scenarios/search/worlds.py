"""The world in which a search places faults where nobody names one: small, and nothing goes wrong in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario

SMALL: Final = Path(__file__).with_name("small.yaml")


@cache
def small_world() -> Scenario:
    """Two clients and three turns: each kind of request, and few of each."""
    return load_scenario(SMALL)
