"""A simulated store whose one object tells of several locks: the rows of what took effect, and the judge's view."""

from __future__ import annotations

from lockref.history import runs_table, to_table
from lockref.stores.client import OBJECT_STORE
from lockref.stores.port import Version
from lockref.words import Kind
from reports.checks.judgement import judge
from sim.world import World
from tests.unit.lockref.lab.test_several_locks import KEY, MINE, OTHERS, body, decode

TIMEOUT_NS = 10**9


def test_what_took_effect_is_a_row_for_each_lock() -> None:
    """At the store as at the clients; an operator's deletion ends every lock of the object."""
    world = World(seed=1)
    world.object_store(decode=decode)
    node = world.node("n1")

    def work() -> None:
        store = world.connect(node, "store", OBJECT_STORE, timeout_ns=TIMEOUT_NS)
        made = store.put_if_absent(KEY, body(a=MINE, b=OTHERS)).version
        store.put_if_version(KEY, body(b=OTHERS), Version(str(made)))
        store.put_if_absent(KEY, body(a=MINE, b=OTHERS))
        assert world.services["store"].tamper("delete") == 1

    node.start(work)
    world.run(10**10)
    table = to_table([world.recorder])
    applied = [row for row in table.to_pylist() if row["kind"] == Kind.APPLIED.name.lower()]
    assert [(row["node"], row["lock"], row["op"], row["outcome"]) for row in applied] == [
        ("n1", "a", "acquire", "applied"),
        ("n1", "b", "acquire", "applied"),
        ("n1", "b", "write", "applied"),
        ("n1", "a", "release", "applied"),
        ("n1", "a", "acquire", "precondition_failed"),
        ("n1", "b", "write", "precondition_failed"),
        ("operator", "b", "delete", "applied"),
    ]
    assert [row["detail"] for row in applied[:2]] == [None, '{"duration_ns":9000}']
    runs = runs_table(
        [{"run": 0, "scenario": "x", "provider": "x", "world": "simulated", "end_ns": world.kernel.now_ns}]
    )
    verdicts = {row["clause"]: row["verdict"] for row in judge(table, runs).verdicts.to_pylist()}
    assert verdicts["S1"] == "held"
