"""Locks that were written against interface version 1 of the provider protocol run as they did then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lockref.lab.loading import load_provider
from scenarios.definition.load import parse_scenario
from scenarios.worlds.simulated import run_simulated

ROOT = Path(__file__).parents[2]
KEY_THEN = "table/.hoodie/.locks/table_lock.json"
SCENARIO = """
version: 1
name: interface-1
duration: 30s
workload: {kind: register, cycles: 2, hold: 3s, writes: 3, wait: 60s}
faults:
  - {kind: pause, client: n1, for: 12s, when: {client: n1, cut: c4, nth: 3}}
  - {kind: lose_reply, client: n2, probability: 0.2, at: 0s, for: 10s}
"""


@pytest.mark.parametrize(
    ("lock", "digests"),
    [
        (
            "docs/examples/lease_lock.py:LeaseLock",
            ("23f50251c327a92633f5d4a08f4ad100", "03c779943f0f514ee281d39332f12179"),
        ),
        (
            "tests/sim/interface_1_locks/plain_lock.py:PlainLock",
            ("b753b84aa43a66f3e631b596b7c0b7ff", "ebc64efb1a86a54af7f9dcea50b1a155"),
        ),
        (
            "tests/sim/interface_1_locks/flag_lock.py:TerraformLike",
            ("51428e51ecd64aa5ffc948bc337b342b", "ef4cec8d25bafc45a14edc3601925860"),
        ),
    ],
)
def test_a_lock_of_interface_1_runs_as_it_did(lock: str, digests: tuple[str, ...]) -> None:
    """Same requests, same rows, same digests as on the day when they were written.

    But for two things: the row of a call that the end of the run cut short says so now, and a lock that names no key
    has a default of its own, where it had that of RFC-91's locks.
    """
    spec = replace(load_provider(str(ROOT / lock)), default_lock_key=KEY_THEN)
    outcomes = [run_simulated(parse_scenario(SCENARIO), spec, seed) for seed in (1, 2)]
    assert tuple(outcome.digest for outcome in outcomes) == digests
