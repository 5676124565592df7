"""The worlds that come with the searches: small, and nothing goes wrong in them."""

from __future__ import annotations

from functools import cache
from typing import Final

from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario

SMALL: Final = "small-world"


@cache
def small_world() -> Scenario:
    """Two clients and three turns: each kind of request, and few of each. It is taken where nobody names another."""
    return load_scenario(SMALL)
