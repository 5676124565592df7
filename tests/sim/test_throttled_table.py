"""A hot partition: DynamoDB refuses what is beyond its capacity, and the lease slows down without losing its safety."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict

import pytest
from pydantic import ValidationError

from lockref.dynamodb.item import decode_state
from lockref.dynamodb.table import KEY, TABLE, VERSION, TableClient, absent, equals, text
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S
from lockref.words import Outcome
from reports.checks import judge
from reports.checks.summary import Summary
from reports.checks.verdicts import decide
from scenarios.definition.load import load_scenario
from scenarios.run import simulate_many
from sim.faults.answers import Throttle
from sim.faults.plan import FaultPlan
from sim.services.table import TableService
from tests.sim.scripted import MS, TIMEOUT_NS, Scene

ROW = "s3://bucket/table"
APPLIED, THROTTLED = Outcome.APPLIED, Outcome.THROTTLED
FROM_NS, UNTIL_NS = 5 * NS_PER_S, 25 * NS_PER_S
"""When the scenario's partition is hot."""


def ask(plan: FaultPlan, *calls, every_ms: int, clients: int = 1) -> tuple[Scene, list]:
    """What the table answers the clients, who take turns, one call every `every_ms`."""
    scene, answers = Scene(plan), []
    scene.world.add("leases", TableService(), decode=decode_state)

    def script(number):
        def run(node, _store):
            table: TableClient = scene.world.connect(node, "leases", TABLE, timeout_ns=TIMEOUT_NS)
            for count, call in enumerate(calls):
                if count % clients == number:
                    node.runtime.sleep(max(0, every_ms * MS * count - scene.world.kernel.now_ns))
                    answers.append(call(table))

        return run

    for number in range(clients):
        scene.client(f"n{number + 1}", script(number))
    return scene.run(linger_ms=1000), answers


def get(table: TableClient):
    return table.get(ROW)


def put(table: TableClient):
    return table.put(ROW, {VERSION: text("1")})


def outcomes(answers) -> str:
    """One letter for each answer."""
    return "".join({APPLIED: "a", THROTTLED: "t"}[reply.outcome] for reply in answers)


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ThrottlingException"])
def test_a_refusal_is_dynamodbs_own_and_nothing_is_applied(code):
    """A5: status, code and outcome come from the one table of answers, and the item stays as it was."""
    _, got = ask(
        FaultPlan.of(Throttle(id="f", service="leases", writes=1, code=code)),
        lambda table: table.put(ROW, {VERSION: text("1")}, absent(KEY)),
        lambda table: table.put(ROW, {VERSION: text("2")}, equals(VERSION, text("1"))),
        get,
        every_ms=100,
    )
    assert outcomes(got) == "ata"
    assert (got[1].status, got[1].reason) == (400, f"400 {code}: too many requests; slow down")
    assert got[2].version == "1"


def test_what_a_second_has_is_shared_by_all_clients_and_comes_back():
    """Two reads a second, one asked every 220 ms by two clients in turn: a second's worth is saved, the rest comes."""
    _, got = ask(FaultPlan.of(Throttle(id="f", service="leases", reads=2)), *[get] * 10, every_ms=220, clients=2)
    assert outcomes(got) == "aatatatatt"


def test_reads_and_writes_and_keys_have_capacity_of_their_own():
    """A partition that refuses reads still takes writes, and another key has another partition."""

    def get_other(table):
        return table.get("other")

    plan = FaultPlan.of(Throttle(id="f", service="leases", reads=1))
    assert outcomes(ask(plan, get, get, put, put, get_other, get_other, every_ms=10)[1]) == "ataaat"
    plan = FaultPlan.of(Throttle(id="f", service="leases", reads=1, writes=1, key=ROW))
    scene, got = ask(plan, get, get, put, put, get_other, get_other, every_ms=10)
    assert outcomes(got) == "atataa"
    assert scene.counts() == (6, 2, 2)


def test_a_limit_of_nothing_is_refused():
    """Bad input: a plan that throttles neither reads nor writes would seem to test something."""
    with pytest.raises(ValidationError, match="limits nothing"):
        Throttle(id="f", service="leases")


def test_a_hot_partition_slows_everybody_down_and_the_lease_holds():
    """B17, T13: safety holds; who is refused waits longer from refusal to refusal, and no two wait alike."""
    batch = simulate_many(load_scenario("b17-hot-partition"), load_provider("dynamodb"), range(1, 9))
    counts = Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs)
    assert decide(counts).safety == "held"
    assert all(counted["throttle-1"][2] > 0 for counted in (outcome.fault_counts for outcome in batch.outcomes))

    asked = batch.events.select(["run", "node", "at_ns", "kind", "op", "outcome"]).to_pylist()
    by_client = defaultdict(list)
    for row in asked:
        if row["kind"] in ("sent", "replied") and FROM_NS <= row["at_ns"] < UNTIL_NS:
            by_client[row["run"], row["node"]].append(row)
    seconds = (UNTIL_NS - FROM_NS) // NS_PER_S
    requests = [sum(row["kind"] == "sent" for row in rows) for rows in by_client.values()]
    assert max(requests) <= 4 * seconds, "nobody storms a partition that refuses"
    assert statistics.mean(requests) <= 2 * seconds
    pauses = defaultdict(list)  # By how many refusals of reads in a row went before.
    for rows in by_client.values():
        refusals = 0
        for before, after in itertools.pairwise(rows):
            if before["kind"] != "replied" or before["op"] != "read":
                continue
            refusals = refusals + 1 if before["outcome"] == "throttled" else 0
            if refusals and (after["kind"], after["op"]) == ("sent", "read"):
                pauses[refusals].append(after["at_ns"] - before["at_ns"])
    first, fifth = pauses[1], pauses[5]
    assert statistics.median(fifth) > 4 * statistics.median(first), "the pause grows"
    below_the_poll = [pause for pause in first if pause < NS_PER_S]
    assert len(set(below_the_poll)) > 0.9 * len(below_the_poll) > 50, "the pause is jittered"
    assert max(map(max, pauses.values())) <= 2 * NS_PER_S, "the pause is bounded"
