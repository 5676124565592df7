"""When a fault is over: by itself, by the healing of its plan, and what the run is told about it."""

from __future__ import annotations

import json

import pytest

from lockref.words import Kind
from sim.faults.answers import Error, GhostWrite, HiddenRetry
from sim.faults.clocks import Drift, Freeze, Offset, Slew, Step
from sim.faults.fault import Fault, Trigger
from sim.faults.network import Delay, Duplicate, LoseReply, LoseRequest, Partition, ReorderReplies
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause, Suspend
from sim.faults.stores import DeleteObject
from sim.kernel.clocks import WALL_EPOCH_NS
from tests.sim.scripted import KEY, MS, Scene, body

S = 1000 * MS


def two_writes(*faults: Fault, heal_ns: int | None = None) -> Scene:
    """n1 writes at 0 and at 1 s, undisturbed; the run goes on for 20 s after."""
    scene = Scene(FaultPlan.of(*faults, heal_ns=heal_ns))

    def script(node, store):
        store.put_if_absent(KEY, body("a"))
        node.runtime.sleep(max(0, S - scene.world.kernel.now_ns))
        store.put(KEY, body("b"))

    scene.client("n1", script)
    return scene.run(linger_ms=20_000)


@pytest.mark.parametrize(
    ("faults", "heal_ms", "end_ms"),
    [
        ([LoseRequest(id="f")], None, None),
        ([LoseRequest(id="f", client="n1", service="x", op="read")], None, None),
        ([LoseRequest(id="f")], 5000, 5000),
        ([LoseRequest(id="f", nth=9)], None, 0),
        ([LoseRequest(id="f", times=1)], None, 0),
        ([LoseRequest(id="f", when=Trigger(client="n1", nth=9))], None, 0),
        ([LoseRequest(id="f", at_ns=2 * S, for_ns=3 * S)], None, 5000),
        ([LoseRequest(id="f", at_ns=2 * S, for_ns=3 * S)], 4000, 4000),
        ([LoseRequest(id="f", for_ns=3 * S), LoseReply(id="g", for_ns=2 * S)], None, 3000),
        ([LoseRequest(id="f", for_ns=3 * S), LoseReply(id="g")], None, None),
        ([Delay(id="f", nth=1, by_ns=5 * S)], None, 5000),
        ([Delay(id="f", nth=1, by_ns=5 * S)], 2000, 5000),
        ([Duplicate(id="f", nth=1, gap_ns=5 * S)], None, 5000),
        ([HiddenRetry(id="f", nth=1, gap_ns=50 * MS)], None, 50),
        ([GhostWrite(id="f", nth=1, by_ns=5 * S)], None, 5000),
        ([ReorderReplies(id="f", nth=1, within_ns=20 * MS)], None, 50),
        ([Error(id="f", nth=1, status=503, cut="c2")], None, 10),
        ([Step(id="f", client="n1", at_ns=700 * MS, by_ns=-S)], None, 700),
        ([Pause(id="f", client="n1", at_ns=700 * MS, for_ns=S)], None, 1700),
        ([Pause(id="f", client="n1", at_ns=0, for_ns=3 * S), Step(id="g", client="n1", at_ns=S, by_ns=1)], None, 3000),
        ([Pause(id="f", client="n1", at_ns=700 * MS, for_ns=S)], 900, 900),
        ([Pause(id="f", client="n1", at_ns=700 * MS, for_ns=S)], 9000, 9000),
    ],
)  # fmt: skip
def test_after_that_instant_nothing_disturbs(faults: list[Fault], heal_ms: int | None, end_ms: int | None) -> None:
    """The end of disturbance, from which liveness counts: the latest of lengths, windows, consequences and healing."""
    scene = two_writes(*faults, heal_ns=None if heal_ms is None else heal_ms * MS)
    assert scene.world.faults_end_ns == (None if end_ms is None else end_ms * MS)


@pytest.mark.parametrize(
    ("fault", "write_ms"),
    [
        (Pause(id="f", client="n1", at_ns=500 * MS, for_ns=5 * S), 1000),
        (Suspend(id="f", client="n1", at_ns=500 * MS, for_ns=5 * S), 1400),
        (Crash(id="f", client="n1", at_ns=500 * MS, restart_after_ns=5 * S), 1000),
        (Freeze(id="f", client="n1", at_ns=500 * MS, for_ns=5 * S), 1400),
        (Drift(id="f", client="n1", at_ns=500 * MS, for_ns=5 * S, rate_ppm=1000), 1000),
        (Offset(id="f", client="n1", at_ns=500 * MS, for_ns=5 * S, by_ns=S), 1000),
        (Slew(id="f", client="n1", at_ns=500 * MS, by_ns=10 * MS), 1000),
        (Partition(id="f", at_ns=500 * MS, for_ns=5 * S, groups=(("n1",), ("store",))), 1000),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)  # fmt: skip
def test_healing_cuts_a_state_fault_short(fault: Fault, write_ms: int) -> None:
    """A plan that heals at 900 ms: whatever lasts ends there, on record.

    The write of 1 s is on time; a clock that stood still for 400 ms wakes its client as much later, and not 5 s later.
    """
    scene = two_writes(fault, heal_ns=900 * MS)
    rows = [(json.loads(row["detail"])["phase"], row["at_ns"] // MS) for row in scene.rows(Kind.FAULT)]
    assert rows == [("begin", 500), ("end", 900)]
    sent_ms = [row["at_ns"] / MS for row in scene.rows(Kind.SENT)]
    assert sent_ms[-1] == pytest.approx(write_ms, abs=1)


def test_a_trigger_at_the_instant_of_healing_strikes_no_more() -> None:
    """Healed means from that instant on: the request that is made then is spared."""
    when = Trigger(client="n1", nth=2, cut="c0")
    for heal_ms, fired in ((1000, 0), (1001, 1)):
        scene = two_writes(Pause(id="f", when=when, client="n1", for_ns=S), heal_ns=heal_ms * MS)
        assert scene.counts()[1] == fired


def test_fault_rows_show_the_clocks_of_their_node() -> None:
    """A FAULT row is read by the clocks of the node it is about, after what it changed there was taken back."""
    offset = Offset(id="o", client="n1", at_ns=500 * MS, for_ns=100 * MS, by_ns=7 * S)
    scene = two_writes(Step(id="s", client="n1", at_ns=100 * MS, by_ns=S), offset, DeleteObject(id="d", at_ns=800 * MS))
    node = scene.world.nodes["n1"]
    mono_ns = [row["mono_ns"] - node.clock.mono_ns(row["at_ns"]) for row in scene.rows(Kind.FAULT)[:3]]
    wall_ms = [(row["wall_ns"] - row["at_ns"] - WALL_EPOCH_NS) // MS for row in scene.rows(Kind.FAULT)]
    assert mono_ns == [0, 0, 0]
    # The step is told before it moves the clock; so is the beginning of the offset, and its end after it.
    assert wall_ms == [0, 1000, 1000, 0]
    assert [row["node"] for row in scene.rows(Kind.FAULT)] == ["n1", "n1", "n1", "store"]


def test_clock_rows_say_what_changed() -> None:
    """CLOCK: every change of a clock with both its readings just after; the audit of beliefs rests on them."""
    scene = two_writes(
        Step(id="s", client="n1", at_ns=100 * MS, by_ns=S),
        Drift(id="d", client="n1", at_ns=200 * MS, for_ns=100 * MS, rate_ppm=1000),
        Freeze(id="f", client="n1", at_ns=400 * MS, for_ns=100 * MS),
    )
    rows = scene.rows(Kind.CLOCK)
    assert [json.loads(row["detail"]) for row in rows] == [
        {"change": "step", "by_ns": S},
        {"change": "rate", "rate_ppm": 1000},
        {"change": "rate", "rate_ppm": 0},
        {"change": "freeze", "for_ns": 100 * MS},
    ]
    assert [(row["wall_ns"] - row["at_ns"] - WALL_EPOCH_NS) // 1000 for row in rows] == [
        1_000_000, 1_000_000, 1_000_100, 1_000_100,
    ]  # fmt: skip


def test_rate_errors_that_add_up_to_a_standstill_stop_before() -> None:
    """drift: two of −60 % at a time leave a clock that hardly moves, and no clock that runs back."""
    slow = [
        Drift(id=name, client="n1", at_ns=0, for_ns=length * MS, rate_ppm=-600_000)
        for name, length in (("f", 500), ("g", 900))
    ]
    rates = [json.loads(row["detail"])["rate_ppm"] for row in two_writes(*slow).rows(Kind.CLOCK)]
    assert rates == [-600_000, -999_999, -600_000, 0]
