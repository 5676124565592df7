"""Truth from the store's own record and truth from the chain of versions: one run, read both ways, one verdict.

A simulated run knows when each write took effect. Without those rows it reads
like a run on a real server, where only senders speak. What the judge then
finds must not be worse: lost replies, ghost writes, hidden resends and stale
reads are no violations of the lock.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from reports.checks import judge
from reports.checks.facts.surroundings.integrity import renumbered
from scenarios.definition.load import load_scenario
from scenarios.worlds.simulated import run_simulated

Verdicts = dict[tuple[int, str], str]

BOUNDED_BY_ROOM = {"S5", "S7", "L1", "L2", "L3", "L5"}
"""Clauses with an allowance in a real run: instants are known as intervals there, and calls get a second more."""


HIDDEN_BY_HOLES = {"L1", "L2", "L3", "L4", "L6"}
"""Clauses that are open where a hole may hide the grant or the release that they ask about."""


def read_both_ways(scenario: str, provider: str, seeds: range) -> tuple[Verdicts, Verdicts]:
    """The verdicts by run and clause, with the store's record and without."""
    spec, what = load_provider(provider), load_scenario(scenario)
    outcomes = [run_simulated(what, spec, seed) for seed in seeds]
    events = to_table([outcome.recorder for outcome in outcomes], list(seeds))
    rows = [outcome.run_row for outcome in outcomes]
    # Another record of the same run, with a key of its own: nothing is missing in it.
    unseen = renumbered(events.filter(pc.not_equal(events["kind"].cast(pa.string()), "applied")))
    real = runs_table({**row, "world": "real", "event_count": None, "digest": None} for row in rows)
    told, heard = (
        {
            (row["run"], row["clause"]): row["verdict"]
            for row in judge(table, runs).verdicts.to_pylist()
            if not_touch(row)
        }
        for table, runs in ((events, runs_table(rows)), (unseen, real))
    )
    return told, heard


def not_touch(row: dict[str, Any]) -> bool:
    """False for beliefs that share one instant only: in a real run nothing orders them, so S3 differs there."""
    if (row["clause"], row["verdict"]) != ("S3", "violated"):
        return True
    begin, end = json.loads(row["witness"])["overlap_ns"]
    return bool(begin != end)


@pytest.mark.parametrize(
    ("scenario", "provider", "seeds"),
    [
        ("swarm", "hardened", range(1, 60)),
        ("swarm", "hardened", range(125, 126)),
        ("e17", "hardened", range(1, 7)),
        ("e30", "hardened", range(1, 4)),
        ("e08", "hudi", range(1, 7)),
        ("e12", "hudi", range(1, 7)),
        ("u04", "hudi", range(1, 7)),
    ],
)
def test_both_readings_of_a_run_agree(scenario, provider, seeds):
    """S1 to L6: without the store's record nothing is worse, and what needs no room for doubt is the same."""
    told, heard = read_both_ways(scenario, provider, seeds)
    differing = {key: (told[key], heard[key]) for key in told if told[key] != heard[key]}
    assert {key: pair for key, pair in differing.items() if pair[1] != "held" or key[1] not in BOUNDED_BY_ROOM} == {}


@pytest.mark.parametrize("scenario", ["h15", "u09"])
def test_a_deletion_by_hand_leaves_a_real_run_undecided(scenario):
    """S1, S7, H15: nobody tells of an operator's deletion on a real server: a hole, and nobody is blamed or praised."""
    told, heard = read_both_ways(scenario, "hardened", range(1, 4))
    undecided = {clause for key, verdict in heard.items() if verdict != told[key] for clause in [key[1]]}
    # What broke stays broken: U9's tokens are reused in both readings.
    broken = {clause for (_, clause), verdict in told.items() if verdict == "violated"}
    assert undecided - HIDDEN_BY_HOLES == {"S1", "S2", "S5", "S6", "S7"} - broken
    assert {verdict for (_, clause), verdict in heard.items() if clause in undecided} == {"inconclusive"}
