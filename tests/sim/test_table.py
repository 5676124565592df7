"""The modelled table: conditions on an item's version, the same faults, the same record."""

from __future__ import annotations

import json

import pyarrow.compute as pc
import pytest

from lockref.dynamodb.table import TABLE, TableClient
from lockref.errors import ConfigError
from lockref.history import Kind
from lockref.lab.contract import OneRecord
from lockref.lab.loading import load_provider
from lockref.lab.recording import content_id
from lockref.stores.port import Outcome
from reports.checks import judge
from reports.checks.summary import Summary
from reports.checks.verdicts import decide
from scenarios.definition.load import load_scenario
from scenarios.run import simulate_many
from sim.faults.answers import Error
from sim.faults.network import LoseReply
from sim.faults.plan import FaultPlan
from sim.faults.stores import CorruptObject, DeleteObject, IgnoreConditions, StaleRead
from sim.services.table import TableService
from tests.sim.lease import decode
from tests.sim.scripted import KEY, MS, TIMEOUT_NS, Scene

APPLIED, FAILED = Outcome.APPLIED, Outcome.PRECONDITION_FAILED


def item(version: int, owner: str = "a", *, is_released: bool = False) -> dict:
    """An item that the plain lease's decoder reads as a lock record."""
    return {"owner": owner, "token": 1, "until": 10**19 // 4, "released": is_released, "version": version}


def ask(plan: FaultPlan, *calls) -> tuple[Scene, list]:
    """What the table answers one client to a sequence of calls, 100 ms apart."""
    scene, answers = Scene(plan), []
    scene.world.add("leases", TableService(), decode=OneRecord(decode))

    def script(node, _store):
        table: TableClient = scene.world.connect(node, "leases", TABLE, timeout_ns=TIMEOUT_NS)
        for number, call in enumerate(calls):
            node.runtime.sleep(max(0, 200 * MS * number - scene.world.kernel.now_ns))
            answers.append(call(table))

    scene.client("n1", script)
    return scene.run(linger_ms=1000), answers


def test_a_lease_in_a_table_holds():
    """S1 to S7: the example's lease stands on a table that the scenario declares, recorded and judged as any lock."""
    scenario = load_scenario("t01-lease-in-a-table")
    batch = simulate_many(scenario, load_provider("docs/examples/table_lease.py:TableLease"), range(1, 13))
    counts = Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs)
    assert set(decide(counts).clauses.values()) <= {"held", "not_applicable"}
    assert decide(counts).safety == "held"
    applied = batch.events.filter(pc.equal(batch.events["kind"].cast("string"), "applied"))
    assert set(applied["task"].to_pylist()) == {"leases"}
    assert all(count[2] for count in total(batch.outcomes).values()), "both faults mattered"


def total(outcomes) -> dict[str, tuple[int, ...]]:
    """Fault counts over all runs."""
    counts = [outcome.fault_counts for outcome in outcomes]
    return {each: tuple(map(sum, zip(*(count[each] for count in counts), strict=True))) for each in counts[0]}


def test_conditions_on_the_version():
    """put, update and delete under a condition take effect or change nothing; without one they always do."""
    _, got = ask(
        FaultPlan(),
        lambda table: table.put(KEY, item(1), 0),
        lambda table: table.put(KEY, item(1, "b"), 0),
        lambda table: table.update(KEY, {"owner": "b", "version": 2}, 1),
        lambda table: table.update(KEY, {"owner": "c", "version": 2}, 1),
        lambda table: table.delete(KEY, 1),
        lambda table: table.get(KEY),
        lambda table: table.delete(KEY, 2),
        lambda table: table.put(KEY, item(4), 3),
        lambda table: table.get(KEY),
        lambda table: table.delete(KEY),
        lambda table: table.update(KEY, {"version": 9}),
    )
    assert [reply.outcome for reply in got] == [
        APPLIED, FAILED, APPLIED, FAILED, FAILED, APPLIED, APPLIED, FAILED, APPLIED, APPLIED, APPLIED,
    ]  # fmt: skip
    assert got[5].body == {**item(2), "owner": "b"}
    assert got[8].body is None
    assert got[10].body == {"version": 9}


def test_of_two_who_write_at_one_instant_the_second_is_too_late():
    """Conditions: what took effect at this very instant is there; two puts on "none" never both succeed."""
    scene, answers = Scene(), []
    scene.world.add("leases", TableService(), decode=OneRecord(decode))

    def script(node, _store):
        table: TableClient = scene.world.connect(node, "leases", TABLE, timeout_ns=TIMEOUT_NS)
        answers.append(table.put(KEY, item(1, node.name), 0))

    scene.client("n1", script)
    scene.client("n2", script)
    scene.run()
    assert [row["at_ns"] for row in scene.rows(Kind.APPLIED)] == [10 * MS, 10 * MS]
    assert [reply.outcome for reply in answers] == [APPLIED, FAILED]
    assert [reply.missing for reply in answers] == [False, False]


def test_the_answers_of_a_table():
    """DynamoDB: 400 for a failed condition; each answer has the version that it made or found, and the whole item."""
    scene, got = ask(
        FaultPlan(),
        lambda table: table.update(KEY, {"a": 1, "version": 2}, 1),
        lambda table: table.put(KEY, {"a": 1, "b": 1, "version": 1}),
        lambda table: table.update(KEY, {"a": 2, "version": 2}, 1),
        lambda table: table.get(KEY),
        lambda table: table.put("other", {"version": 1}),
        lambda table: table.delete(KEY),
        lambda table: table.get(KEY),
    )
    whole = {"a": 2, "b": 1, "version": 2}
    assert [(reply.status, reply.version, reply.missing) for reply in got] == [
        (400, None, True), (200, "1", False), (200, "2", False), (200, "2", False), (200, "1", False),
        (200, None, False), (200, None, False),
    ]  # fmt: skip
    assert [got[2].body, got[3].body, got[6].body] == [whole, whole, None]
    assert [row["op"] for row in scene.rows(Kind.APPLIED)] == ["write"] * 4 + ["delete"]
    leases = scene.world.services["leases"]
    assert leases.present_keys() == ["other"]
    assert leases.past("other").version == "1"
    assert leases.tamper("delete", KEY) == 0
    assert leases.tamper("put", "another", body=b'{"version": 3}') == 1
    assert leases.present_keys() == ["another", "other"]


def test_an_update_of_one_attribute_is_on_record_with_the_whole_item():
    """Truth: what stands in the table afterwards, not what was sent; else nobody could read the lock in it."""
    scene, got = ask(
        FaultPlan(), lambda table: table.put(KEY, item(1)), lambda table: table.update(KEY, {"version": 2})
    )
    row = scene.rows(Kind.APPLIED)[1]
    assert (row["owner"], row["content"]) == ("a", content_id(json.dumps(item(2)).encode()))
    assert got[1].body == item(2)


def test_what_an_operator_does_to_an_item_is_on_record():
    """U9: overwritten and deleted items are told apart, with the version and the bytes of what was written."""
    bytes_put = json.dumps(item(5, "x")).encode()
    faults = (
        CorruptObject(id="f", service="leases", at_ns=300 * MS, body=bytes_put),
        DeleteObject(id="d", service="leases", at_ns=500 * MS),
    )
    nap = lambda table: table.get("other")  # noqa: E731
    scene, _ = ask(FaultPlan.of(*faults), lambda table: table.put(KEY, item(1)), nap, nap, nap)
    rows = [(row["node"], row["op"], row["version"], row["content"], row["owner"]) for row in scene.rows(Kind.APPLIED)]
    assert rows[1:] == [
        ("operator", "write", "5", content_id(bytes_put), "x"),
        ("operator", "delete", None, None, None),
    ]


def test_what_took_effect_is_on_record():
    """Truth: an update is recorded with the whole item that it made, its condition and its version."""
    scene, _ = ask(
        FaultPlan(), lambda table: table.put(KEY, item(1), 0), lambda table: table.update(KEY, item(2), 1),
        lambda table: table.update(KEY, {**item(3), "released": True}, 2),
    )  # fmt: skip
    rows = scene.rows(Kind.APPLIED)
    assert [(row["op"], row["if_version"], row["version"], row["owner"]) for row in rows] == [
        ("acquire", "absent", "1", "a"), ("renew", "1", "2", "a"), ("release", "2", "3", "a"),
    ]  # fmt: skip
    assert {row["task"] for row in rows} == {"leases"}


@pytest.mark.parametrize(
    ("fault", "outcome", "counts"),
    [
        (LoseReply(id="f", service="leases", nth=2), Outcome.AMBIGUOUS, (1, 1, 1)),
        (Error(id="f", service="leases", op="renew", status=503, cut="c2"), Outcome.AMBIGUOUS, (1, 1, 1)),
        (Error(id="f", service="leases", op="renew", status=429), Outcome.THROTTLED, (1, 1, 1)),
        (LoseReply(id="f", service="store", nth=2), FAILED, (0, 0, 0)),
        (IgnoreConditions(id="f", service="leases"), APPLIED, (2, 1, 1)),
    ],
    ids=["reply lost", "503 after", "429 before", "other service", "condition ignored"],
)
def test_faults_strike_a_table_too(fault, outcome, counts):
    """A fault that names the table strikes it as it would a store, here a renewal under a stale condition."""
    plan = FaultPlan.of(fault)
    scene, got = ask(plan, lambda table: table.put(KEY, item(1), 0), lambda table: table.update(KEY, item(2), 7))
    assert got[1].outcome is outcome
    assert scene.counts() == counts


def test_a_stale_read_shows_an_old_item():
    """stale_read: the state of 300 ms ago, although reads are linearizable."""
    plan = FaultPlan.of(StaleRead(id="f", service="leases", lag_ns=300 * MS))
    _, got = ask(
        plan, lambda table: table.put(KEY, item(1)), lambda table: table.put(KEY, item(2)), lambda table: table.get(KEY)
    )
    assert got[2].body == item(1)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (DeleteObject(id="f", service="leases", at_ns=500 * MS), None),
        (CorruptObject(id="f", service="leases", at_ns=500 * MS, body=b'{"version": 5}'), {"version": 5}),
    ],
    ids=["deleted", "overwritten"],
)  # fmt: skip
def test_an_operator_reaches_into_a_table(fault, found):
    """delete_object, corrupt_object: every lock record of the service that the fault names, on record as nobody's."""
    calls = [lambda table: table.put(KEY, item(1)), lambda table: table.put("other", {"version": 1})]
    scene, got = ask(FaultPlan.of(fault), *calls, lambda table: table.get("other"), lambda table: table.get(KEY))
    assert (got[2].body, got[3].body) == ({"version": 1}, found)
    assert [row["node"] for row in scene.rows(Kind.APPLIED)] == ["n1", "n1", "operator"]
    assert scene.counts() == (1, 1, 1)


def test_what_is_no_item_cannot_be_put_into_a_table():
    """corrupt_object with no JSON object: a table holds items, so the plan is wrong; the message says what it holds."""
    plan = FaultPlan.of(CorruptObject(id="f", service="leases", at_ns=100 * MS, body=b"{"))
    with pytest.raises(ConfigError, match="a table holds items; expected a JSON object"):
        ask(plan, lambda table: table.put(KEY, item(1)), lambda table: table.get(KEY))


def test_a_table_knows_two_acts():
    """The message names what there is."""
    scene, _ = ask(FaultPlan())
    with pytest.raises(ConfigError, match="'expire'; this service knows put, delete"):
        scene.world.services["leases"].tamper("expire", KEY)
