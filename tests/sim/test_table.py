"""The modelled table: typed attributes, conditions on any of them, the same faults, the same record."""

from __future__ import annotations

import json

import pyarrow.compute as pc
import pytest

from lockref.dynamodb.item import decode_state
from lockref.dynamodb.table import (
    ITEM_BYTES_MAX,
    KEY,
    TABLE,
    VERSION,
    Condition,
    Merge,
    TableClient,
    absent,
    changes_of,
    equals,
    exists,
    flag,
    item_bytes,
    number,
    text,
    to_bytes,
    updated,
)
from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from lockref.lab.recording import content_id
from lockref.words import IF_ABSENT, Kind, Outcome
from reports.checks import judge
from reports.checks.summary import Summary
from reports.checks.verdicts import decide
from scenarios.definition.load import load_scenario
from scenarios.run import simulate_many
from sim.faults.answers import Error
from sim.faults.network import LoseReply
from sim.faults.plan import FaultPlan
from sim.faults.stores import CorruptObject, DeleteObject, ExpireItems, IgnoreConditions, StaleRead
from sim.kernel.clocks import WALL_EPOCH_NS
from sim.services.table import TableService
from tests.sim.scripted import MS, TIMEOUT_NS, Scene

ROW = "s3://bucket/table"
EPOCH_S = WALL_EPOCH_NS // 10**9
APPLIED, FAILED = Outcome.APPLIED, Outcome.PRECONDITION_FAILED


def row(version: str, owner: str = "a", *, is_released: bool = False, generation: int = 1) -> dict:
    """The attributes of a lease, without its key."""
    released = {"isReleased": text("1")} if is_released else {}
    return {
        VERSION: text(version),
        "ownerName": text(owner),
        "leaseDuration": text("10"),
        "generation": number(generation),
        **released,
    }


def whole(version: str, **how) -> dict:
    """The same as the table holds it."""
    return {KEY: text(ROW), **row(version, **how)}


def at(version: str):
    """The condition that the item has this version."""
    return equals(VERSION, text(version))


def ask(plan: FaultPlan, *calls, lag_ns: int = 0) -> tuple[Scene, list]:
    """What the table answers one client to a sequence of calls, 200 ms apart."""
    scene, answers = Scene(plan), []
    scene.world.add("leases", TableService(lag_ns=lag_ns), decode=decode_state)

    def script(node, _store):
        table: TableClient = scene.world.connect(node, "leases", TABLE, timeout_ns=TIMEOUT_NS)
        for count, call in enumerate(calls):
            node.runtime.sleep(max(0, 200 * MS * count - scene.world.kernel.now_ns))
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
    mattered = [outcome.fault_counts for outcome in batch.outcomes]
    assert all(sum(counts[fault][2] for counts in mattered) for fault in mattered[0]), "both faults mattered"


def test_conditions_on_the_version():
    """put and delete under a condition take effect or change nothing; without one they always do."""
    _, got = ask(
        FaultPlan(),
        lambda table: table.put(ROW, row("1"), absent(KEY)),
        lambda table: table.put(ROW, row("2", "b"), absent(KEY)),
        lambda table: table.put(ROW, row("2", "b"), at("1")),
        lambda table: table.put(ROW, row("3", "c"), at("1")),
        lambda table: table.delete(ROW, at("1")),
        lambda table: table.get(ROW),
        lambda table: table.delete(ROW, at("2")),
        lambda table: table.put(ROW, row("4"), at("3")),
        lambda table: table.get(ROW),
        lambda table: table.delete(ROW),
    )
    assert [reply.outcome for reply in got] == [
        APPLIED, FAILED, APPLIED, FAILED, FAILED, APPLIED, APPLIED, FAILED, APPLIED, APPLIED,
    ]  # fmt: skip
    assert [reply.missing for reply in got] == [False] * 7 + [True] + [False] * 2
    assert got[5].item() == whole("2", owner="b")
    assert got[8].item() is None


@pytest.mark.parametrize(
    ("clauses", "is_met"),
    [
        ((exists("isReleased"),), False),
        ((absent("isReleased"),), True),
        ((equals("leaseDuration", text("10")),), True),
        ((equals("leaseDuration", number(10)),), False),
        ((at("1"), equals("ownerName", text("a"))), True),
        ((at("1"), equals("ownerName", text("b"))), False),
        ((exists(KEY), at("1")), True),
    ],
    ids=["exists", "absent", "text", "number for text (B1)", "both", "one of two", "the key"],
)
def test_conditions_on_any_attribute(clauses, is_met):
    """All clauses must hold; a number and a string of the same digits are two values (B1)."""
    _, got = ask(FaultPlan(), lambda table: table.put(ROW, row("1")), lambda table: table.put(ROW, row("2"), *clauses))
    assert (got[1].outcome is APPLIED) is is_met


def test_a_condition_reads_as_the_version_that_it_names():
    """History: what a condition is compared by is the version that it pins, "absent", or nothing."""
    assert Condition([equals("ownerName", text("a")), at("7")]) == "7"
    assert Condition([absent(KEY)]) == IF_ABSENT
    assert Condition([exists("isReleased")]) == ""


def test_an_absent_attribute_is_no_absent_item():
    """A history compares the condition with what was there: only the absence of the key says that nothing was."""
    assert (Condition([absent("isReleased")]), Condition([absent(KEY)])) == ("", IF_ABSENT)


def test_a_merge_removes_what_is_its_writers_and_no_longer_there():
    """B9: what others have written beside it stays."""
    changes = changes_of(Merge({KEY: text("k"), "a": number(1)}, own=("a", "b")))
    present = {KEY: text("k"), "a": number(7), "b": number(8), "c": number(9)}
    assert updated("k", present, changes) == {KEY: text("k"), "a": number(1), "c": number(9)}


def test_a_sum_keeps_38_digits():
    """As DynamoDB's; Python's own context keeps 28."""
    changes = {"SET": {}, "REMOVE": [], "ADD": {"n": number(1)}}
    assert updated("k", {KEY: text("k"), "n": number(10**37)}, changes)["n"] == number(10**37 + 1)


def test_of_two_who_write_at_one_instant_the_second_is_too_late():
    """Conditions: what took effect at this very instant is there; two puts on "none" never both succeed."""
    scene, answers = Scene(), []
    scene.world.add("leases", TableService(), decode=decode_state)

    def script(node, _store):
        table: TableClient = scene.world.connect(node, "leases", TABLE, timeout_ns=TIMEOUT_NS)
        answers.append(table.put(ROW, row(node.name), absent(KEY)))

    scene.client("n1", script)
    scene.client("n2", script)
    scene.run()
    assert [each["at_ns"] for each in scene.rows(Kind.APPLIED)] == [10 * MS, 10 * MS]
    assert [reply.outcome for reply in answers] == [APPLIED, FAILED]


def test_an_update_changes_some_attributes():
    """UpdateItem: SET, REMOVE and ADD; it makes an item where there is none, and is on record with the whole item."""
    scene, got = ask(
        FaultPlan(),
        lambda table: table.put(ROW, {**row("1"), "data": text("x")}),
        lambda table: table.update(
            ROW, at("1"), put={VERSION: text("2")}, remove=["data"], add={"generation": number(2)}
        ),
        lambda table: table.update("other", put={"a": flag(True)}, add={"count": number(3)}),
        lambda table: table.get("other"),
        lambda table: table.update(ROW, at("1"), put={VERSION: text("3")}),
    )
    changed = whole("2", generation=3)
    assert (got[1].item(), got[1].version) == (changed, "2")
    assert got[3].item() == {KEY: text("other"), "a": flag(True), "count": number(3)}
    assert got[4].outcome is FAILED
    written = scene.rows(Kind.APPLIED)[1]
    assert (written["owner"], written["token"]) == ("a", 3)
    assert written["content"] == content_id(to_bytes(changed))


@pytest.mark.parametrize(
    ("before", "added", "after"),
    [("1.5", "1", "2.5"), ("1e3", "2", "1002"), ("0.1", "0.2", "0.3"), ("-1", "1E+2", "99")],
)
def test_a_number_may_have_a_fraction_or_an_exponent(before, added, after):
    """ADD is exact in decimal digits, as DynamoDB's is."""
    _, got = ask(
        FaultPlan(),
        lambda table: table.put(ROW, {**row("1"), "n": {"N": before}}),
        lambda table: table.update(ROW, at("1"), add={"n": {"N": added}}),
    )
    assert got[1].item()["n"] == {"N": after}


@pytest.mark.parametrize(("words", "is_over"), [("1.5", True), ("1e3", True), ("1e12", False)])
def test_the_second_at_which_an_item_may_go_is_any_number(words, is_over):
    """Time to live: a fraction and an exponent are numbers of epoch seconds like any other."""
    scene = Scene(FaultPlan())
    leases = scene.world.add("leases", TableService(), decode=decode_state)
    leases.tamper("put", ROW, body=to_bytes({**whole("1"), "ends": {"N": words}}))
    assert leases.tamper("expire", ROW, attribute="ends") == int(is_over)


@pytest.mark.parametrize("value", [text("1"), {"N": "one"}, {"N": "1e126"}, {"N": "NaN"}])
def test_what_is_no_number_cannot_be_added_to(value):
    """DynamoDB answers a ValidationException, and nothing is written."""
    _, got = ask(
        FaultPlan(),
        lambda table: table.put(ROW, {**row("1"), "n": value}),
        lambda table: table.update(ROW, at("1"), add={"n": number(1)}),
        lambda table: table.get(ROW),
    )
    assert (got[1].outcome, got[1].status) == (Outcome.REJECTED, 400)
    assert "ValidationException" in got[1].reason
    assert got[2].item()["n"] == value


def test_an_item_has_a_largest_size():
    """400 kB, names counted too: the table refuses for good, and nothing is written."""
    room = ITEM_BYTES_MAX - item_bytes({**whole("1"), "data": text("")})
    _, got = ask(
        FaultPlan(),
        lambda table: table.put(ROW, {**row("1"), "data": text("x" * (room + 1))}),
        lambda table: table.get(ROW),
        lambda table: table.put(ROW, {**row("1"), "data": text("x" * room)}),
    )
    assert [reply.outcome for reply in got] == [Outcome.REJECTED, APPLIED, APPLIED]
    assert got[1].item() is None


def test_only_consistent_reads_are_sure_to_be_fresh():
    """A read that is not strongly consistent shows the state of some time ago."""
    calls = [lambda table: table.put(ROW, row("1")), lambda table: table.put(ROW, row("2"))]
    _, got = ask(
        FaultPlan(), *calls, lambda table: table.get(ROW, is_consistent=False), lambda table: table.get(ROW),
        lag_ns=300 * MS,
    )  # fmt: skip
    assert [reply.version for reply in got[2:]] == ["1", "2"]


def test_what_an_operator_does_to_an_item_is_on_record():
    """U9: overwritten and deleted items are told apart, with the version and the bytes of what was written."""
    bytes_put = to_bytes(whole("5", owner="x"))
    faults = (
        CorruptObject(id="f", service="leases", at_ns=300 * MS, body=bytes_put),
        DeleteObject(id="d", service="leases", at_ns=500 * MS),
    )
    nap = lambda table: table.get("other")  # noqa: E731
    scene, _ = ask(FaultPlan.of(*faults), lambda table: table.put(ROW, row("1")), nap, nap, nap)
    rows = [
        tuple(each[name] for name in ("node", "op", "version", "content", "owner")) for each in scene.rows(Kind.APPLIED)
    ]
    assert rows[1:] == [
        ("operator", "write", "5", content_id(bytes_put), "x"),
        ("operator", "delete", None, None, None),
    ]


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[1]", b'{"expired":false}'], ids=str)
def test_bytes_that_are_no_item_become_one(body):
    """D6, H17: a table holds items only, so what an operator puts there is an item of bytes, and no lock record."""
    plan = FaultPlan.of(CorruptObject(id="f", service="leases", at_ns=100 * MS, body=body))
    scene, got = ask(plan, lambda table: table.put(ROW, row("1")), lambda table: table.get(ROW))
    assert set(got[1].item()) == {KEY, "bytes"}
    assert got[1].version is None
    assert scene.rows(Kind.APPLIED)[1]["owner"] is None


def test_what_took_effect_is_on_record():
    """Truth: acquire, renewal and release are told apart by the row, with condition and version."""
    scene, _ = ask(
        FaultPlan(),
        lambda table: table.put(ROW, row("1"), absent(KEY)),
        lambda table: table.put(ROW, row("2"), at("1")),
        lambda table: table.put(ROW, row("3", is_released=True), at("2")),
    )
    rows = scene.rows(Kind.APPLIED)
    assert [(each["op"], each["if_version"], each["version"], each["owner"]) for each in rows] == [
        ("acquire", "absent", "1", "a"), ("renew", "1", "2", "a"), ("release", "2", "3", "a"),
    ]  # fmt: skip
    assert {each["task"] for each in rows} == {"leases"}
    assert json.loads(rows[0]["detail"]) == {"duration_ns": 10**10}


@pytest.mark.parametrize(
    ("fault", "outcome", "counts"),
    [
        (LoseReply(id="f", service="leases", nth=2), Outcome.AMBIGUOUS, (1, 1, 0)),
        (Error(id="f", service="leases", op="renew", status=503, cut="c2"), Outcome.AMBIGUOUS, (1, 1, 0)),
        (Error(id="f", service="leases", op="renew", status=429), Outcome.THROTTLED, (1, 1, 1)),
        (LoseReply(id="f", service="store", nth=2), FAILED, (0, 0, 0)),
        (IgnoreConditions(id="f", service="leases"), APPLIED, (2, 1, 1)),
    ],
    ids=["reply lost", "503 after", "429 before", "other service", "condition ignored"],
)
def test_faults_strike_a_table_too(fault, outcome, counts):
    """A fault that names the table strikes it as it would a store, here a renewal under a stale condition.

    The lost answer to a write that changed nothing does not matter.
    """
    plan = FaultPlan.of(fault)
    scene, got = ask(
        plan, lambda table: table.put(ROW, row("1"), absent(KEY)), lambda table: table.put(ROW, row("2"), at("7"))
    )
    assert got[1].outcome is outcome
    assert scene.counts() == counts


def test_a_stale_read_shows_an_old_item():
    """stale_read: the state of 300 ms ago, although the read asked for a consistent one."""
    plan = FaultPlan.of(StaleRead(id="f", service="leases", lag_ns=300 * MS))
    calls = [lambda table: table.put(ROW, row("1")), lambda table: table.put(ROW, row("2"))]
    _, got = ask(plan, *calls, lambda table: table.get(ROW))
    assert got[2].item() == whole("1")


def test_an_operator_deletes_every_lock_of_a_table():
    """delete_object without a key: every lock record of the service that the fault names; other items stay."""
    plan = FaultPlan.of(DeleteObject(id="f", service="leases", at_ns=500 * MS))
    calls = [lambda table: table.put(ROW, row("1")), lambda table: table.put("other", {"a": text("1")})]
    scene, got = ask(plan, *calls, lambda table: table.get("other"), lambda table: table.get(ROW))
    assert (got[2].item(), got[3].item()) == ({KEY: text("other"), "a": text("1")}, None)
    assert [each["node"] for each in scene.rows(Kind.APPLIED)] == ["n1", "n1", "operator"]
    assert scene.counts() == (1, 1, 1)


@pytest.mark.parametrize(
    ("ends", "is_deleted"),
    [
        (number(EPOCH_S), True),
        (number(EPOCH_S + 1), False),
        (text(str(EPOCH_S)), False),
        (text("10"), False),
    ],
    ids=["past", "not yet", "past, as text", "a duration"],
)
def test_time_to_live_deletes_rows_whose_number_has_passed(ends, is_deleted):
    """B5, T10: a row goes if the attribute is a number of epoch seconds in the past; a duration as text keeps it."""
    plan = FaultPlan.of(ExpireItems(id="f", service="leases", at_ns=500 * MS))
    calls = [lambda table: table.put(ROW, row("1") | {"leaseDuration": ends}), lambda table: table.get("other")]
    scene, got = ask(plan, *calls, lambda table: table.get("other"), lambda table: table.get(ROW))
    assert (got[3].item() is None) is is_deleted
    assert scene.counts() == (1, 1, int(is_deleted))


def test_a_table_knows_three_acts():
    """The message names what there is."""
    scene, _ = ask(FaultPlan())
    with pytest.raises(ConfigError, match="'burn'; this service knows put, delete, expire"):
        scene.world.services["leases"].tamper("burn", ROW)
