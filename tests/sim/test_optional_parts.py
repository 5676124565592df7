"""A part that docs/the-lock.md calls optional may be absent in any client, beside Hudi and beside the whole lock."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lockref.lab.loading import load_provider
from lockref.locks.fence import BLOCK
from lockref.locks.unfenced import WithinTheMark
from lockref.locks.values import UNFENCED, Reserved, Stored
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version
from scenarios.campaign import run_campaign
from scenarios.definition.load import load_scenario
from tests.docs import ROOT

FLEET = """\
version: 1
name: fleet
about: The whole lock, one without a part, and Hudi take turns on one object.
clients: 3
duration: 60s
workload: {kind: register, cycles: 8, hold: 200ms..1s, writes: 2, wait: 20s, think: 100ms..2s}
providers: {n2: "tests.sim.partial_locks:NAME", n3: hudi}
"""
ALONE = "\n".join(line for line in FLEET.splitlines() if "providers" not in line)
PARTIAL = ("WithoutFence", "WithoutReturning", "WithoutLearning", "Bare")


def broken(text: str, provider: str, tmp_path: Path) -> tuple[set[str], int]:
    """The clauses that break, and the number of grants."""
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    result = run_campaign(load_scenario(str(file)), load_provider(provider), range(1, 9), keep_runs=0)
    return {finding.clause for finding in result.summary.findings}, result.summary.reach["grant"][1]


@pytest.mark.parametrize("name", PARTIAL)
def test_a_part_may_be_absent_beside_the_whole_lock_and_hudi(name: str, tmp_path: Path) -> None:
    """S1 to S7, L1 to L6: nobody is harmed by who does not know a part."""
    clauses, grants = broken(FLEET.replace("NAME", name), "hardened", tmp_path)
    assert grants > 8 * 3 * 4
    assert clauses == set()


@pytest.mark.parametrize("name", PARTIAL)
def test_a_fleet_may_lack_a_part(name: str, tmp_path: Path) -> None:
    """The same, where nobody has it."""
    clauses, grants = broken(ALONE, f"tests.sim.partial_locks:{name}", tmp_path)
    assert grants > 8 * 3 * 4
    assert clauses == set()


def test_who_counts_by_the_record_alone_gives_old_tokens(tmp_path: Path) -> None:
    """S2: token 1 after token 3, once Hudi has dropped the field: so the fleet above can find it."""
    clauses, _grants = broken(FLEET.replace("NAME", "CountsByTheRecord"), "hardened", tmp_path)
    assert "S2" in clauses


@pytest.mark.parametrize(
    ("record", "reserved"),
    [
        (None, UNFENCED),
        (LockFile("hudi", 1, expired=True), UNFENCED),
        (LockFile("a", 1, expired=True, nonce="x", fence=3), UNFENCED),
        (LockFile("a", 1, expired=True, nonce="x", fence=3, mark=BLOCK), Reserved(4, BLOCK)),
        (LockFile("a", 1, expired=True, nonce="x", fence=BLOCK - 1, mark=BLOCK), Reserved(BLOCK, BLOCK)),
        (LockFile("a", 1, expired=True, nonce="x", fence=BLOCK, mark=BLOCK), UNFENCED),
    ],
)
def test_only_what_the_record_vouches_for_is_a_token(record: LockFile | None, reserved: Reserved) -> None:
    """H21: up to the mark that the record carries, and nothing without it."""
    stored = Stored(None if record is None else Version("1"), record)
    assert WithinTheMark().reserve(stored, seen=0, is_over=lambda: False) == reserved


def test_every_part_that_is_called_optional_is_left_out_here() -> None:
    """A part that the page adds to its list must be left out in this test, too."""
    page = (ROOT / "docs" / "the-lock.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"Optional, and safe to leave out of a first port: (.*?)\n\n", page, re.DOTALL)
    algorithm = set(re.findall(r"`(lockref/locks/\w+\.py)`", told.partition("Outside the core")[0]))
    left_out = set(re.findall(r"`(lockref/locks/\w+\.py)`", (ROOT / "tests/sim/partial_locks.py").read_text()))
    assert algorithm - left_out == {
        "lockref/locks/waiting.py",  # The one that takes the place of the adaptive one.
        "lockref/locks/unfenced.py",  # The one that takes the place of the fence.
        "lockref/locks/notices.py",  # It only tells.
    }
