"""Faults on processes, clocks, links and objects, struck by time: what they change and what they leave alone."""

from __future__ import annotations

import json

import pytest

from lockref.errors import BudgetExceeded, ConfigError
from lockref.stores.client import OBJECT_STORE
from lockref.words import Kind, Outcome
from sim.faults.clocks import Drift, Freeze, Offset, Slew, Step
from sim.faults.drawing import Shape
from sim.faults.fault import Fault, Trigger
from sim.faults.generators import swarm
from sim.faults.network import Partition
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause, Suspend
from sim.faults.servers import CrashService, FreezeService
from sim.faults.stores import CorruptObject, DeleteObject
from sim.kernel.clocks import WALL_EPOCH_NS
from sim.kernel.kernel import RunEnd
from sim.kernel.streams import stream
from sim.machine import nodes
from tests.sim.scripted import KEY, MS, Scene, body

S = 1000 * MS


def sleeper(scene: Scene, name: str, naps_ms: list[int], *, task: str = "main"):
    """A script that naps and notes when it wakes, with both its clocks."""

    def script(node, _store):
        zero = node.runtime.monotonic_ns()
        for nap in naps_ms:
            node.runtime.sleep(nap * MS)
            mono, wall = node.runtime.monotonic_ns() - zero, node.runtime.wall_ns() - WALL_EPOCH_NS
            scene.note(f"{name}/{task}", mono // MS, wall // MS)

    return script


def run_sleepers(*faults: Fault, naps_ms: list[int] | None = None) -> Scene:
    """n1 and n2 sleep 3 × 1 s."""
    scene = Scene(FaultPlan.of(*faults))
    for name in ("n1", "n2"):
        scene.client(name, sleeper(scene, name, naps_ms or [1000, 1000, 1000]))
    return scene.run()


def of(scene: Scene, name: str) -> list[tuple[int, int, int]]:
    """(mono, wall, true) in milliseconds at each waking of a client's main task."""
    return [entry[1:] for entry in scene.log if entry[0] == f"{name}/main"]


UNDISTURBED = [(1000, 1000, 1000), (2000, 2000, 2000), (3000, 3000, 3000)]


def test_pause_holds_one_process_and_no_other():
    """pause: n1 wakes when the pause is over; its clocks went on, and n2 noticed nothing (U2)."""
    scene = run_sleepers(Pause(id="f", client="n1", at_ns=1500 * MS, for_ns=2 * S))
    assert of(scene, "n1") == [(1000, 1000, 1000), (3500, 3500, 3500), (4500, 4500, 4500)]
    assert of(scene, "n2") == UNDISTURBED
    assert scene.counts() == (1, 1, 1)
    assert scene.world.faults_end_ns == 3500 * MS


def test_pause_that_nobody_notices_did_not_matter():
    """A pause that ends before anything was due fired without mattering."""
    scene = run_sleepers(Pause(id="f", client="n1", at_ns=1100 * MS, for_ns=200 * MS))
    assert of(scene, "n1") == UNDISTURBED
    assert scene.counts() == (1, 1, 0)


@pytest.mark.parametrize(("task", "main_ms", "heartbeat_ms"), [("heartbeat", 2000, 5000), ("main", 5000, 2000)])
def test_pause_of_one_task(task, main_ms, heartbeat_ms):
    """pause of some tasks: a starved heartbeat beside a busy main, and the other way round."""
    scene = Scene(FaultPlan.of(Pause(id="f", client="n1", at_ns=S, for_ns=4 * S, task=task)))

    def script(node, store):
        beat = node.runtime.spawn(lambda: sleeper(scene, "n1", [2000], task="beat")(node, store), name="heartbeat-1")
        sleeper(scene, "n1", [2000])(node, store)
        beat.join()

    scene.client("n1", script)
    scene.run()
    assert {entry[0]: entry[3] for entry in scene.log} == {"n1/main": main_ms, "n1/beat": heartbeat_ms}


def test_whatever_a_lock_calls_its_tasks_they_are_its_heartbeat():
    """A pause of the heartbeat holds what the lock started, by any name, and nothing that the client started."""
    scene = Scene(FaultPlan.of(Pause(id="f", client="n1", at_ns=S, for_ns=4 * S, task="heartbeat")))

    def script(node, store):
        of_lock = node.runtime.spawn(
            lambda: sleeper(scene, "n1", [2000], task="a")(node, store), name="main-a91f-renew"
        )
        of_client = node.process.client_runtime.spawn(
            lambda: sleeper(scene, "n1", [2000], task="b")(node, store), name="heartbeat"
        )
        of_lock.join()
        of_client.join()

    scene.client("n1", script)
    scene.run()
    assert {entry[0]: entry[3] for entry in scene.log} == {"n1/a": 5000, "n1/b": 2000}
    assert scene.counts() == (1, 1, 1)


def test_task_started_during_its_pause_is_held_too():
    """A heartbeat spawned while heartbeats are starved starves with them."""
    scene = Scene(FaultPlan.of(Pause(id="f", client="n1", at_ns=0, for_ns=4 * S, task="heartbeat")))

    def script(node, _store):
        node.runtime.sleep(S)
        node.runtime.spawn(lambda: scene.note("beat"), name="heartbeat").join()

    scene.client("n1", script)
    scene.run()
    assert scene.log == [("beat", 4000)]


def test_crash_ends_all_tasks_without_letting_them_act():
    """crash: no `finally` of a dead process reaches the store; daemons die with it."""
    scene = Scene(FaultPlan.of(Crash(id="f", client="n1", at_ns=500 * MS)))

    def script(node, store):
        def heartbeat():
            while True:
                node.runtime.sleep(100 * MS)
                scene.note("beat")

        node.runtime.spawn(heartbeat, name="heartbeat")
        try:
            node.runtime.sleep(S)
        finally:
            store.put(KEY, body("late"))

    node = scene.client("n1", script)
    scene.run(2000)
    assert [entry[1] for entry in scene.log] == [100, 200, 300, 400]
    assert scene.rows(Kind.SENT) == []
    assert scene.store.past(KEY).body is None
    assert not node.is_up


def test_restart_has_a_new_identity_and_the_old_machine():
    """crash with restart_after: new process id and entropy, same clock, same work (E3)."""
    scene = Scene(FaultPlan.of(Crash(id="f", client="n1", at_ns=500 * MS, restart_after_ns=S)))

    def script(node, store):
        runtime = node.runtime
        scene.note(runtime.process_id(), runtime.token_bytes(8), runtime.monotonic_ns() - scene.world.kernel.now_ns)
        runtime.sleep(2 * S)
        scene.note("alive", store.put(KEY, body("n1")).outcome)

    node = scene.client("n1", script)
    scene.run()
    first, second, alive = scene.log
    assert (first[3], second[3], alive[2]) == (0, 1500, 3520)
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert first[2] == second[2]
    assert node.is_up
    assert scene.rows(Kind.SENT)[0]["node"] == "n1"


def test_two_crashes_of_one_process_give_it_one_successor():
    """A second crash of a dead process may hasten its restart; the later of the two restarts kills nobody."""
    scene = Scene(
        FaultPlan.of(
            Crash(id="f1", client="n1", at_ns=500 * MS, restart_after_ns=3 * S),
            Crash(id="f2", client="n1", at_ns=600 * MS, restart_after_ns=400 * MS),
        )
    )

    def script(node, _store):
        node.runtime.sleep(5 * S)
        scene.note("alive")

    scene.client("n1", script)
    scene.run()
    assert scene.log == [("alive", 6000)]


def test_messages_of_the_dead_still_land():
    """A request in flight when its sender crashes is applied."""
    scene = Scene(FaultPlan.of(Crash(id="f", client="n1", at_ns=5 * MS)))
    scene.client("n1", lambda _node, store: store.put_if_absent(KEY, body("a")))
    scene.run(linger_ms=100)
    assert scene.store.past(KEY).body == body("a")


def test_drift_changes_rate_and_timers_of_one_node():
    """drift: at +25 % a local second lasts 0.8 s; afterwards the rate is as before."""
    scene = run_sleepers(Drift(id="f", client="n1", at_ns=0, rate_ppm=250_000, for_ns=1600 * MS))
    assert of(scene, "n1") == [(1000, 1000, 800), (2000, 2000, 1600), (3000, 3000, 2600)]
    assert of(scene, "n2") == UNDISTURBED


def test_drift_moves_a_timer_that_is_running():
    """A timer is solved again when the map changes under it."""
    scene = run_sleepers(Drift(id="f", client="n1", at_ns=500 * MS, rate_ppm=-500_000))
    assert of(scene, "n1")[0] == (1000, 1000, 1500)


@pytest.mark.parametrize("kind", [Step, Offset])
def test_wall_shift_moves_the_wall_only(kind):
    """step, offset: the wall jumps, monotonic time and timers do not (E31, U12)."""
    scene = run_sleepers(kind(id="f", client="n1", at_ns=1500 * MS, by_ns=-700 * MS))
    assert of(scene, "n1") == [(1000, 1000, 1000), (2000, 1300, 2000), (3000, 2300, 3000)]
    assert of(scene, "n2") == UNDISTURBED
    assert [json.loads(row["detail"])["change"] for row in scene.rows(Kind.CLOCK)] == ["step"]


def test_offset_for_a_while_is_taken_back():
    """offset with for_ns: the wall returns to what it would have shown."""
    scene = run_sleepers(Offset(id="f", client="n1", at_ns=0, by_ns=300 * MS, for_ns=1500 * MS))
    assert of(scene, "n1") == [(1000, 1300, 1000), (2000, 2000, 2000), (3000, 3000, 3000)]


def test_initial_clock_faults_precede_every_task():
    """A clock that is wrong at instant 0 is wrong for the first reading."""
    scene = run_sleepers(Offset(id="f", client="n1", at_ns=0, by_ns=5 * S), naps_ms=[0])
    assert of(scene, "n1") == [(0, 5000, 0)]


def test_freeze_stops_clocks_and_timers_but_not_tasks():
    """freeze: a timer waits for the window; a reply does not; the wall catches up in one step."""
    scene = Scene(FaultPlan.of(Freeze(id="f", client="n1", at_ns=500 * MS, for_ns=2 * S)))

    def asker(node, store):
        node.runtime.sleep(490 * MS)
        zero = node.runtime.wall_ns()
        store.read(KEY)
        scene.note("reply", (node.runtime.wall_ns() - zero) // MS)

    scene.client("n1", lambda node, store: (asker(node, store), sleeper(scene, "n1", [1000])(node, store)))
    scene.run()
    # The request left at 490 ms: its reply is there at 510 ms, when the clock still shows 500 ms.
    assert scene.log == [("reply", 10, 510), ("n1/main", 1000, 3500, 3500)]
    assert scene.counts() == (1, 1, 1)


def test_suspend_is_pause_and_freeze():
    """suspend: nothing runs, monotonic time stands still, the wall catches up (H1)."""
    scene = run_sleepers(Suspend(id="f", client="n1", at_ns=500 * MS, for_ns=2 * S))
    assert of(scene, "n1") == [(1000, 3000, 3000), (2000, 4000, 4000), (3000, 5000, 5000)]
    assert of(scene, "n2") == UNDISTURBED
    assert scene.counts() == (1, 1, 1)


def reach(scene: Scene, name: str, at_ms: int) -> None:
    """Let a client write at an instant and note the answer; services and clients are named in the test."""

    def script(node, store):
        node.runtime.sleep(at_ms * MS)
        scene.note(name, store.put(name, body(name)).outcome)

    scene.client(name, script)


@pytest.mark.parametrize(
    ("groups", "one_way", "n1_applied", "n1_outcome"),
    [
        ((("n1",), ("store",)), False, False, Outcome.AMBIGUOUS),
        ((("n1",), ("store",)), True, False, Outcome.AMBIGUOUS),
        ((("store",), ("n1",)), True, True, Outcome.AMBIGUOUS),
        ((("n1",), ("resource",)), False, True, Outcome.APPLIED),
        ((("n1", "n2"), ("store", "resource")), False, False, Outcome.AMBIGUOUS),
    ],
)
def test_partitions_by_group_and_direction(groups, one_way, n1_applied, n1_outcome):
    """partition: full, either one way, of one service only; one way from the store means applied and unheard."""
    scene = Scene(FaultPlan.of(Partition(id="f", groups=groups, one_way=one_way, at_ns=0, for_ns=S)))
    reach(scene, "n1", 100)
    reach(scene, "n2", 100)
    scene.run(linger_ms=100)
    outcomes = {entry[0]: entry[1] for entry in scene.log}
    assert outcomes["n1"] is n1_outcome
    assert outcomes["n2"] is (Outcome.AMBIGUOUS if "n2" in groups[0] else Outcome.APPLIED)
    assert (scene.store.past("n1").body is not None) == n1_applied


def test_partition_heals_by_itself():
    """After its window a partition lets messages pass again."""
    scene = Scene(FaultPlan.of(Partition(id="f", groups=(("n1",), ("store",)), at_ns=0, for_ns=S)))
    reach(scene, "n1", 1001)
    scene.run()
    assert scene.log == [("n1", Outcome.APPLIED, 1021)]
    phases = [json.loads(row["detail"])["phase"] for row in scene.rows(Kind.FAULT)]
    assert phases == ["begin", "end"]
    assert scene.counts() == (1, 1, 0)


@pytest.mark.parametrize("key", [None, KEY])
def test_operator_deletes_the_lock_record(key):
    """delete_object: the record is gone, recorded as the operator's; other objects stay (U9, E23)."""
    scene = Scene(FaultPlan.of(DeleteObject(id="f", at_ns=500 * MS, key=key)))

    def script(node, store):
        store.put(KEY, body("a"))
        store.put("data.bin", b"\x00")
        node.runtime.sleep(S)
        scene.note(store.read(KEY).is_absent)

    scene.client("n1", script)
    scene.run()
    assert scene.log[0][0] is True
    assert scene.store.present_keys() == ["data.bin"]
    assert [(row["node"], row["op"]) for row in scene.rows(Kind.APPLIED)][-1] == ("operator", "delete")


def test_operator_corrupts_the_lock_record():
    """corrupt_object: the bytes are what the plan says, under a new version (D6, E25)."""
    scene = Scene(FaultPlan.of(CorruptObject(id="f", at_ns=500 * MS, body=b"\xff{")))
    seen = []

    def script(node, store):
        first = store.put(KEY, body("a"))
        node.runtime.sleep(S)
        read = store.read(KEY)
        seen.append((read.body, read.version != first.version))

    scene.client("n1", script)
    scene.run()
    assert seen == [(b"\xff{", True)]
    assert scene.counts() == (1, 1, 1)


def test_plan_for_strangers_is_refused():
    """A plan that names a client which is not there is a ConfigError before anything runs."""
    scene = Scene(FaultPlan.of(Pause(id="f", client="n7", at_ns=0, for_ns=1)))
    scene.client("n1", lambda _node, _store: None)
    with pytest.raises(ConfigError, match=r"'n7'; this world has n1"):
        scene.run()


def test_fault_rows_name_id_kind_and_phase():
    """Contract: FAULT rows carry the target as node, and id, kind and phase as detail."""
    scene = run_sleepers(Pause(id="long-gc", client="n1", at_ns=S, for_ns=S))
    rows = [(row["node"], json.loads(row["detail"]), row["at_ns"]) for row in scene.rows(Kind.FAULT)]
    assert rows == [
        ("n1", {"id": "long-gc", "kind": "pause", "phase": "begin"}, S),
        ("n1", {"id": "long-gc", "kind": "pause", "phase": "end"}, 2 * S),
    ]


def test_pause_at_the_very_beginning():
    """A fault of instant 0 strikes before any task: the first step is held, and the pause mattered."""
    scene = run_sleepers(Pause(id="f", client="n1", at_ns=0, for_ns=2 * S), naps_ms=[1000])
    assert of(scene, "n1") == [(1000, 3000, 3000)]
    assert of(scene, "n2") == [(1000, 1000, 1000)]
    assert scene.counts() == (1, 1, 1)


def test_crash_at_the_very_beginning():
    """A process that crashes at instant 0 never does anything; its successor does."""
    scene = run_sleepers(Crash(id="f", client="n1", at_ns=0, restart_after_ns=2 * S), naps_ms=[1000])
    assert of(scene, "n1") == [(1000, 3000, 3000)]


def test_overlapping_pauses_last_to_the_later_end():
    """Two pauses of one process are one, up to the later end."""
    scene = run_sleepers(
        Pause(id="f", client="n1", at_ns=500 * MS, for_ns=3 * S),
        Pause(id="g", client="n1", at_ns=700 * MS, for_ns=S),
        naps_ms=[1000],
    )
    assert of(scene, "n1") == [(3500, 3500, 3500)]


def test_clock_change_leaves_a_wait_without_timeout_alone():
    """Only timers hang on clocks: a task that waits for an event is not woken by a drift."""
    scene = Scene(FaultPlan.of(Drift(id="f", client="n1", at_ns=2 * S, rate_ppm=1000)))

    def script(node, _store):
        event = node.runtime.event()
        node.runtime.spawn(lambda: (node.runtime.sleep(5 * S), event.set()), name="setter")
        node.runtime.sleep(S)
        scene.note(event.wait())

    scene.client("n1", script)
    scene.run()
    assert scene.log[0][0] is True
    assert scene.log[0][1] > 4900


def test_spinning_on_a_clock_is_found(monkeypatch):
    """A lock that waits by reading its clock would never end: the bound on readings says so."""
    monkeypatch.setattr(nodes, "CLOCK_READINGS_MAX", 1000)
    scene = Scene()

    def script(node, _store):
        while node.runtime.monotonic_ns() >= 0:
            pass

    scene.client("n1", script)
    with pytest.raises(BudgetExceeded, match="'n1/main' read its clocks 1000 times"):
        scene.run()


def test_crash_during_a_pause_does_not_wait_for_its_end():
    """A paused process that crashes is gone at once."""
    scene = Scene(
        FaultPlan.of(
            Pause(id="f", client="n1", at_ns=500 * MS, for_ns=20 * S),
            Crash(id="g", client="n1", at_ns=2 * S),
        )
    )
    node = scene.client("n1", sleeper(scene, "n1", [1000]))

    def look():
        scene.world.kernel.wait(3 * S)
        scene.note([task.is_alive() for task in node.process.tasks])

    scene.world.observe(look, is_awaited=True)
    scene.run()
    assert scene.log == [([False], 3000)]


def test_dead_process_starts_nothing():
    """A `finally` block of a crashed process cannot spawn a task that outlives it."""
    crash = Crash(id="f", client="n1", when=Trigger(client="n1", op="acquire", cut="c0"))
    scene = Scene(FaultPlan.of(crash))

    def script(node, store):
        try:
            store.put(KEY, body("a"))
        finally:
            node.runtime.spawn(lambda: scene.note("zombie"), name="zombie")

    scene.client("n1", script)
    scene.world.observe(lambda: scene.world.kernel.wait(5 * S), is_awaited=True)
    scene.run()
    assert scene.log == []


def test_overlapping_drifts_add_up_and_end_in_any_order():
    """Two drifts of one clock: their rates add while both last, and nothing of either remains."""
    scene = Scene(
        FaultPlan.of(
            Drift(id="f", client="n1", at_ns=0, rate_ppm=100_000, for_ns=10 * S),
            Drift(id="g", client="n1", at_ns=5 * S, rate_ppm=200_000, for_ns=10 * S),
        )
    )
    node = scene.client("n1", lambda node, _store: node.runtime.sleep(60 * S))
    rates = []

    def look():
        for _ in range(4):
            scene.world.kernel.wait(4 * S)
            rates.append(node.clock.rate_ppm)

    scene.world.observe(look)
    scene.run()
    assert rates == [100_000, 300_000, 200_000, 0]


def test_errors_of_the_dead_are_not_heard():
    """A `finally` block that fails while a crashed process is unwound does not end the run."""
    scene = Scene(FaultPlan.of(Crash(id="f", client="n1", at_ns=500 * MS)))

    def script(node, _store):
        try:
            node.runtime.sleep(S)
        finally:
            node.runtime.mutex().release()

    scene.client("n1", script)
    scene.client("n2", sleeper(scene, "n2", [1000]))
    scene.run()
    assert of(scene, "n2") == [(1000, 1000, 1000)]


def test_unfinished_tasks_write_nothing_when_the_run_is_over():
    """The end of a run is no event: `finally` blocks of unfinished clients leave no row and no request."""
    scene = Scene()

    def script(node, store):
        try:
            node.runtime.sleep(100 * S)
        finally:
            store.put(KEY, body("late"))

    node = scene.client("n1", script)
    scene.run(until_ms=1000)
    assert len(scene.world.recorder) == 0
    assert scene.store.present_keys() == []
    assert node.is_up, "it did not crash"


def test_pause_ends_when_it_says_although_the_clock_changes():
    """pause at c4: neither the timeout of the request that was answered nor a clock change moves its end."""
    scene = Scene(
        FaultPlan.of(
            Pause(id="f", client="n1", for_ns=2 * S, when=Trigger(client="n1", op="read", cut="c4")),
            Drift(id="g", client="n1", at_ns=S, rate_ppm=1000),
        )
    )

    def script(node, _store):
        store = scene.world.connect(node, "store", OBJECT_STORE, timeout_ns=10 * S)
        store.read(KEY)
        scene.note("read")

    scene.client("n1", script)
    assert scene.run().log == [("read", 2020)]


def test_pause_ends_with_its_process():
    """A process that is started after a crash is not held by the pause of the one before."""
    scene = Scene(
        FaultPlan.of(
            Pause(id="f", client="n1", at_ns=S, for_ns=20 * S),
            Crash(id="g", client="n1", at_ns=2 * S, restart_after_ns=S),
        )
    )
    scene.client("n1", sleeper(scene, "n1", [1500]))
    scene.run()
    assert [entry[-1] for entry in scene.log] == [4500]


def test_shorter_pause_shortens_no_longer_one():
    """Pauses overlap: each task, one that begins meanwhile too, waits for the latest end that holds it."""
    scene = Scene(
        FaultPlan.of(
            Pause(id="f", client="n1", at_ns=S, for_ns=4 * S),
            Pause(id="g", client="n1", at_ns=2 * S, for_ns=S),
            Pause(id="h", client="n1", at_ns=2 * S, for_ns=S // 2, task="main"),
        )
    )
    node = scene.client("n1", sleeper(scene, "n1", [2200]))
    scene.world.kernel.call_at(2500 * MS, lambda: node.start(lambda: scene.note("late"), name="late"))
    scene.run()
    assert sorted(entry[-1] for entry in scene.log) == [5000, 5000]


def test_run_ends_after_a_restarted_client():
    """A client that restarts is waited for once: when it has ended, so has the run."""
    scene = Scene(FaultPlan.of(Crash(id="f", client="n1", at_ns=S, restart_after_ns=S)))
    scene.client("n1", sleeper(scene, "n1", [2000]))
    scene.run()
    assert scene.world.end is RunEnd.FINISHED
    assert scene.world.kernel.now_ns == 4 * S


def test_suspended_machine_hears_no_answer():
    """suspend: an answer that arrives meanwhile waits until the machine wakes (H1)."""
    scene = Scene(FaultPlan.of(Suspend(id="f", client="n1", at_ns=5 * MS, for_ns=3 * S)))
    scene.client("n1", lambda _node, store: scene.note(store.read(KEY).outcome))
    assert scene.run().log == [(Outcome.APPLIED, 3005)]


@pytest.mark.parametrize(("by_ms", "waking_ms"), [(100, 909), (-100, 1100)])
def test_slew_brings_both_clocks_there_without_a_jump(by_ms, waking_ms):
    """slew: at 10 % a clock needs 1 s for 100 ms; only until then every second is a tenth off (U12)."""
    scene = run_sleepers(Slew(id="f", client="n1", at_ns=0, by_ns=by_ms * MS, rate_ppm=100_000))
    first, _, third = of(scene, "n1")
    assert first[0] == 1000
    assert abs(first[2] - waking_ms) <= 12
    mono, wall, true = third
    assert (round(wall - true), mono) == (by_ms, 3000)
    assert of(scene, "n2") == UNDISTURBED
    assert scene.counts() == (1, 1, 1)
    assert scene.world.faults_end_ns == S


def test_a_slew_shorter_than_its_shift_stops_at_the_healing():
    """heal_at ends a slew: what the clock has gained by then, it keeps."""
    scene = Scene(FaultPlan.of(Slew(id="f", client="n1", at_ns=0, by_ns=S, rate_ppm=100_000), heal_ns=S))
    scene.client("n1", sleeper(scene, "n1", [1100, 1100]))
    scene.run()
    assert [wall - true for _, wall, true in of(scene, "n1")] == [100, 100]


def test_swarms_draw_slews_within_the_envelope():
    """A scenario names the kind; what it shifts comes off the same allowance as offsets and steps."""
    shape = Shape(
        clients=("n1", "n2"), duration_ns=30 * S, validity_ns=10 * S, drift_bound_ns=S // 2, kinds=("slew", "step")
    )
    drawn = [fault for seed in range(200) for fault in swarm(stream(seed, "faults"), shape).faults]
    slews = [fault for fault in drawn if fault.kind == "slew"]
    assert {fault.rate_ppm for fault in slews} == {1000}
    assert max(abs(fault.by_ns) for fault in slews) <= S // 4
    assert {form for fault in slews for form in fault.forms()} == {"slew forward", "slew back"}


def test_a_state_fault_at_the_instant_of_healing_does_not_strike():
    """`heal_at` comes first: a fault of that very instant does not strike."""
    scene = Scene(FaultPlan.of(Step(id="f", client="n1", at_ns=S, by_ns=S), heal_ns=S))
    scene.client("n1", lambda node, _store: node.runtime.sleep(3 * S))
    scene.run()
    assert scene.counts() == (0, 0, 0)


def test_every_partition_that_stops_a_message_counts_it():
    """Two partitions that stop the same message have both mattered."""
    both = [Partition(id=name, groups=(("n1",), ("store",)), at_ns=0, for_ns=S) for name in "fg"]
    scene = Scene(FaultPlan.of(*both))
    scene.client("n1", lambda _node, store: store.read(KEY))
    scene.run()
    assert scene.counts("f")[2] == scene.counts("g")[2] >= 1


def test_a_drift_ends_with_the_healing():
    """A drift that would last longer ends at `heal_at`."""
    scene = Scene(FaultPlan.of(Drift(id="f", client="n1", at_ns=0, for_ns=10 * S, rate_ppm=500_000), heal_ns=S))
    scene.client("n1", lambda node, _store: node.runtime.sleep(20 * S))
    scene.run()
    assert [row["at_ns"] for row in scene.rows(Kind.CLOCK)] == [0, S]


def test_a_frozen_service_does_late_what_arrives_meanwhile():
    """freeze_service: a request waits for its end and is applied then, whether its client still waits or not (S7)."""
    scene = Scene(FaultPlan.of(FreezeService(id="f", at_ns=1 * S, for_ns=2 * S)))

    def writer(node, store):
        node.runtime.sleep(1500 * MS)
        assert store.put("k", b"late").outcome is not Outcome.PRECONDITION_FAILED

    scene.client("n1", writer)
    scene.run(linger_ms=5000)
    (applied,) = scene.rows(Kind.APPLIED)
    assert applied["at_ns"] == 3 * S
    assert scene.counts() == (1, 1, 1)


def test_a_killed_server_refuses_until_it_is_back_and_keeps_what_it_had():
    """crash_service: nothing is applied meanwhile, its client hears a reset, and what was applied before is there."""
    scene = Scene(FaultPlan.of(CrashService(id="f", at_ns=1 * S, restart_after_ns=2 * S)))
    heard = []

    def writer(node, store):
        store.put("k", b"before")
        node.runtime.sleep(1500 * MS)
        asked_ns = node.runtime.monotonic_ns()
        heard.append(store.put("k", b"lost").outcome)
        heard.append(node.runtime.monotonic_ns() - asked_ns < 1 * S)
        node.runtime.sleep(2 * S)
        heard.append(store.read("k").body)

    scene.client("n1", writer)
    scene.run(linger_ms=5000)
    assert heard == [Outcome.AMBIGUOUS, True, b"before"]
    assert len(scene.rows(Kind.APPLIED)) == 1
    assert scene.counts() == (1, 1, 1)
