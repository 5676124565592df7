"""What the lease costs in DynamoDB's capacity units, as docs/delta.md says it.

A consistent read costs one read unit for each 4 kB begun, a write one write unit for each 1 kB begun, whether its
condition holds or not. A row of ours is smaller than both, so that requests are units; a refused request costs nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

from lockref.delta.record import NOTHING_TO_FINISH, LeaseItem
from lockref.dynamodb import item
from lockref.dynamodb.table import KEY, item_bytes, text
from lockref.lab.loading import load_provider
from scenarios.definition.load import parse_scenario
from scenarios.run import simulate_many
from tests.docs import ROOT

DEFAULTS = "lock: {validity: 20s, renew_every: 5s, poll_every: 1s}"
"""dynamodb_lock's lease and poll, and the heartbeat of a quarter of the lease."""

HOUR = f"""
version: 1
name: an-hour
about: One client holds the lock for an hour while another waits for it.
clients: 2
duration: 3700s
{DEFAULTS}
workload:
  {{cycles: 1, start: 1s, hold: 3600s, writes: 0, wait: 3650s, clients: {{n1: {{start: 0s}}, n2: {{hold: 0s}}}}}}
must_happen: [grant]
"""

CYCLES = f"""
version: 1
name: a-hundred-cycles
about: One client locks and unlocks a hundred times, alone.
clients: 1
duration: 3700s
{DEFAULTS}
workload: {{cycles: 100, start: 0s, think: 10s, hold: 1s, writes: 0, wait: 10s}}
must_happen: [grant]
"""


@cache
def units(scenario: str) -> tuple[dict[str, tuple[int, int]], int]:
    """Read and write units of each client, and how many grants there were."""
    batch = simulate_many(parse_scenario(scenario), load_provider("dynamodb"), [1])
    counts: Counter[tuple[str, str]] = Counter()
    rows = batch.events.select(["node", "kind", "op", "outcome"]).to_pylist()
    for row in rows:
        if row["kind"] == "sent":
            counts[row["node"], "read" if row["op"] == "read" else "write"] += 1
        assert row["outcome"] != "throttled"
    grants = sum(row["kind"] == "applied" and (row["op"], row["outcome"]) == ("acquire", "applied") for row in rows)
    nodes = sorted({node for node, _ in counts})
    return {node: (counts[node, "read"], counts[node, "write"]) for node in nodes}, grants


def documented(what: str) -> list[int]:
    """The numbers of that row in docs/delta.md."""
    found = re.search(rf"^\| {re.escape(what)} \|(.*)\|$", (ROOT / "docs/delta.md").read_text("utf-8"), re.MULTILINE)
    assert found is not None, f"docs/delta.md has no row {what!r}"
    return [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", found[1])]


def test_a_row_is_smaller_than_a_write_unit():
    """Else requests would not be units: with long names and numbers there is room left in 1 kB."""
    record = LeaseItem(
        name="n" * 64, nonce="v" * 32, incarnation="i" * 16, duration_s=20, token=2**40, mark=2**40,
        data=NOTHING_TO_FINISH,
    )  # fmt: skip
    assert item_bytes({KEY: text("s" * 300), **item.attributes(record)}) <= 1024


def test_a_table_that_is_free_costs_two_writes_a_grant():
    """One write takes the lock and one gives it back; a client that was the last to write need not read."""
    spent, grants = units(CYCLES)
    assert [*spent["n1"], grants] == documented("a hundred cycles of one client: read units, write units, grants")


@pytest.mark.parametrize(
    ("what", "client"), [("an hour of holding", "n1"), ("an hour of waiting for it", "n2")], ids=["holder", "waiter"]
)
def test_an_hour_costs_what_the_document_says(what: str, client: str):
    """A holder writes with every heartbeat; a waiter reads with every poll, and writes only when it takes the lock."""
    spent, _ = units(HOUR)
    assert list(spent[client]) == documented(f"{what}: read units, write units")
