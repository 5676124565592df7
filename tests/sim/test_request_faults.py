"""Faults on requests: each does what it says to the requests it names, and to no other."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from lockref.clouds.uri import server_statuses
from lockref.errors import ConfigError
from lockref.lab.contract import OneRecord
from lockref.stores.client import OBJECT_STORE
from lockref.words import Kind, Outcome
from sim.faults.answers import Error, GhostWrite, HiddenRetry
from sim.faults.fault import Fault, Trigger
from sim.faults.network import Delay, Duplicate, LoseReply, LoseRequest, ReorderReplies
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause
from sim.faults.stores import IgnoreConditions, StaleRead
from sim.kernel.streams import derive
from sim.machine.network import NetworkModel
from sim.services.objectstore import ObjectStoreService
from tests.sim.lease import decode
from tests.sim.scripted import KEY, LATENCY_NS, MS, TIMEOUT_NS, Scene, body


def two_writes(*faults: Fault, network: NetworkModel | None = None) -> Scene:
    """n1 writes "a", then replaces it by "b" on the version it knows; n2 reads at 1 s."""
    scene = Scene(FaultPlan.of(*faults), **({} if network is None else {"network": network}))

    def writer(_node, store):
        first = store.put_if_absent(KEY, body("a"))
        scene.note("first", first.outcome, first.status)
        second = store.put(KEY, body("b"))
        scene.note("second", second.outcome, second.status)

    def reader(node, store):
        node.runtime.sleep(1000 * MS)
        scene.note("read", store.read(KEY).body)

    scene.client("n1", writer)
    scene.client("n2", reader)
    return scene.run(linger_ms=60_000)


UNDISTURBED = [
    ("first", Outcome.APPLIED, 200, 20),
    ("second", Outcome.APPLIED, 200, 40),
    ("read", body("b"), 1020),
]


def test_undisturbed():
    """Without faults: the reference for what follows."""
    assert two_writes().log == UNDISTURBED


def test_lost_request_never_arrives():
    """lose_request: not applied, a timeout for the caller (E15); the other requests pass."""
    scene = two_writes(LoseRequest(id="f", client="n1", nth=1))
    assert scene.log[0] == ("first", Outcome.AMBIGUOUS, None, 100)
    assert [row["owner"] for row in scene.rows(Kind.APPLIED)] == ["b"]
    assert scene.counts() == (1, 1, 1)


def test_lost_reply_was_applied():
    """lose_reply: applied, a timeout for the caller (E11)."""
    scene = two_writes(LoseReply(id="f", client="n1", nth=1))
    assert scene.log[0] == ("first", Outcome.AMBIGUOUS, None, 100)
    assert [row["owner"] for row in scene.rows(Kind.APPLIED)] == ["a", "b"]
    assert scene.counts() == (1, 1, 1)


def test_delay_of_request_and_of_reply():
    """delay: the way out or the way back takes longer, the instant of effect follows."""
    out = two_writes(Delay(id="f", client="n1", nth=1, by_ns=30 * MS))
    back = two_writes(Delay(id="f", client="n1", nth=1, by_ns=30 * MS, direction="reply"))
    assert out.log[0] == back.log[0] == ("first", Outcome.APPLIED, 200, 50)
    assert [scene.rows(Kind.APPLIED)[0]["at_ns"] // MS for scene in (out, back)] == [40, 10]


def test_duplicate_is_applied_twice_and_heard_once():
    """duplicate: the second copy meets the state of its own time."""
    scene = two_writes(Duplicate(id="f", client="n1", nth=2, gap_ns=200 * MS))
    assert scene.log == UNDISTURBED
    rows = [(row["owner"], row["attempt"], row["outcome"]) for row in scene.rows(Kind.APPLIED)]
    assert rows == [("a", 0, "applied"), ("b", 0, "applied"), ("b", 1, "applied")]
    assert scene.counts() == (1, 1, 1)


def test_duplicate_create_is_refused_by_its_condition():
    """A7: a duplicate of a conditional write is harmless; it fired and did not matter."""
    scene = two_writes(Duplicate(id="f", client="n1", nth=1, gap_ns=200 * MS))
    assert scene.log == UNDISTURBED
    assert scene.rows(Kind.APPLIED)[2]["outcome"] == "precondition_failed"
    assert scene.counts() == (1, 1, 0)


def test_ghost_write_lands_long_after_its_caller_gave_up():
    """ghost_write: E30, A7."""
    scene = two_writes(GhostWrite(id="f", client="n1", nth=2, by_ns=5000 * MS))
    assert scene.log[1] == ("second", Outcome.AMBIGUOUS, None, 120)
    assert scene.log[2] == ("read", body("a"), 1020)
    assert scene.rows(Kind.APPLIED)[1]["at_ns"] == 5030 * MS
    assert scene.store.past(KEY).body == body("b")
    assert scene.counts() == (1, 1, 1)


def test_stale_read_answers_from_the_past():
    """stale_read: the state of `lag` ago, never one that did not exist (A8)."""
    for lag_ms, seen in ((985, body("a")), (2000, None), (1, body("b"))):
        scene = two_writes(StaleRead(id="f", lag_ns=lag_ms * MS))
        assert scene.log[2] == ("read", seen, 1020)
        assert scene.counts() == (1, 1, int(seen != body("b")))


def test_hidden_retry_meets_its_own_write():
    """hidden_retry: applied, and the caller hears a 412 that its own write caused (A2, E17)."""
    scene = two_writes(HiddenRetry(id="f", client="n1", nth=1, gap_ns=5 * MS))
    assert scene.log[0] == ("first", Outcome.PRECONDITION_FAILED, 412, 25)
    assert [row["outcome"] for row in scene.rows(Kind.APPLIED)][:2] == ["applied", "precondition_failed"]
    assert scene.counts() == (1, 1, 1)


def test_ignored_condition_writes_over():
    """ignore_conditions: a create over a present object succeeds (M16, U13); kept conditions do not count."""
    scene = Scene(FaultPlan.of(IgnoreConditions(id="f", client="n2")))

    def create(name):
        def script(node, store):
            node.runtime.sleep(0 if name == "n1" else 500 * MS)
            scene.note(name, store.put_if_absent(KEY, body(name)).outcome)

        return script

    scene.client("n1", create("n1"))
    scene.client("n2", create("n2"))
    scene.run()
    assert [entry[1] for entry in scene.log] == [Outcome.APPLIED, Outcome.APPLIED]
    assert scene.store.past(KEY).body == body("n2")
    assert scene.counts() == (1, 1, 1)


def test_window_opens_and_closes():
    """A filter strikes requests that are sent inside its window, and no others."""
    scene = two_writes(Error(id="f", status=503, at_ns=15 * MS, for_ns=100 * MS))
    assert [entry[1] for entry in scene.log[:2]] == [Outcome.APPLIED, Outcome.AMBIGUOUS]
    assert scene.log[2][1] == body("a")
    assert scene.world.faults_end_ns == 115 * MS


def test_filter_by_operation_and_client():
    """A filter that nobody passes leaves the run as it was, and says so in its counts."""
    scene = two_writes(LoseRequest(id="f", client="n2", op="renew"))
    assert scene.log == UNDISTURBED
    assert scene.counts() == (0, 0, 0)
    assert scene.world.faults_end_ns is None


def test_times_bounds_how_often():
    """E16: `nth: 1, times: 2` strikes the first two that pass and then stops."""
    scene = Scene(FaultPlan.of(Error(id="f", status=429, nth=1, times=2)))

    def script(_node, store):
        for _ in range(4):
            scene.note(store.put(KEY, body("a")).status)

    scene.client("n1", script)
    scene.run()
    assert [entry[0] for entry in scene.log] == [429, 429, 200, 200]
    assert scene.counts() == (2, 2, 2)


def test_probability_is_drawn_per_request_and_keyed():
    """Half of many requests are struck, the same ones in every run."""

    def struck() -> list[int | None]:
        scene = Scene(FaultPlan.of(Error(id="f", status=500, probability=0.5)))
        statuses: list[int | None] = []

        def script(_node, store):
            statuses.extend(store.put(KEY, body("a")).status for _ in range(200))

        scene.client("n1", script)
        scene.run()
        return statuses

    statuses = struck()
    assert 70 <= statuses.count(500) <= 130
    assert struck() == statuses


def test_faults_do_not_move_the_draws_of_other_requests():
    """Latencies are keyed by client and request number: a fault on one leaves the others' instants alone."""
    network = NetworkModel(latency_ns=(1 * MS, 9 * MS))
    plain = two_writes(network=network)
    disturbed = two_writes(LoseReply(id="f", client="n1", nth=2), network=network)
    assert [row["at_ns"] for row in plain.rows(Kind.APPLIED)] == [row["at_ns"] for row in disturbed.rows(Kind.APPLIED)]
    assert plain.log[2] == disturbed.log[2]


def test_network_loss_and_duplication_without_a_plan():
    """The network model alone loses and doubles messages at its rates."""
    network = NetworkModel(latency_ns=(LATENCY_NS, LATENCY_NS), loss=0.2, duplication=0.3)
    scene = Scene(network=network)
    outcomes = []

    def script(_node, store):
        outcomes.extend(store.put(KEY, body("a")).outcome for _ in range(300))

    scene.client("n1", script)
    scene.run(600_000, linger_ms=1000)
    lost = outcomes.count(Outcome.AMBIGUOUS)
    assert 60 <= lost <= 160, "0.36 of 300 round trips, give or take"
    attempts = [row["attempt"] for row in scene.rows(Kind.APPLIED)]
    assert 40 <= attempts.count(1) <= 110, "0.3 of 240 arrivals, give or take"
    assert scene.world.faults_end_ns is None


def test_healing_ends_windows_and_losses():
    """After heal_ns nothing disturbs: endless faults stop, the network loses nothing, the end is known."""
    plan = FaultPlan.of(LoseRequest(id="f"), heal_ns=2000 * MS)
    scene = Scene(plan, network=NetworkModel(latency_ns=(LATENCY_NS, LATENCY_NS), loss=0.9))

    def script(node, store):
        while scene.world.kernel.now_ns < 4000 * MS:
            scene.note(store.put(KEY, body("a")).outcome)

    scene.client("n1", script)
    scene.run()
    before = [entry for entry in scene.log if entry[1] <= 2000]
    after = [entry for entry in scene.log if entry[1] > 2100]
    assert {entry[0] for entry in before} == {Outcome.AMBIGUOUS}
    assert {entry[0] for entry in after} == {Outcome.APPLIED}
    assert len(after) > 50
    assert scene.world.faults_end_ns == 2000 * MS


def test_delay_disturbs_until_it_is_over():
    """faults_end_ns: a message that a fault holds back is a disturbance until it may arrive."""
    scene = two_writes(Delay(id="f", client="n1", nth=2, by_ns=7000 * MS))
    assert scene.world.faults_end_ns == 7020 * MS


def test_ghost_write_is_never_answered():
    """ghost_write: however soon it lands, its author hears nothing of it (E30)."""
    scene = two_writes(GhostWrite(id="f", client="n1", nth=1, by_ns=5 * MS))
    assert scene.log[0] == ("first", Outcome.AMBIGUOUS, None, 100)
    assert scene.rows(Kind.APPLIED)[0]["at_ns"] == 15 * MS


def test_window_is_open_at_its_end():
    """A window from `at` for `for` strikes what is sent at `at`, and not what is sent at its end."""
    assert two_writes(Delay(id="f", client="n1", at_ns=0, for_ns=20 * MS, by_ns=0)).counts() == (1, 1, 0)
    assert two_writes(LoseReply(id="f", client="n1", at_ns=20 * MS, for_ns=1)).log[:2] == [
        UNDISTURBED[0],
        ("second", Outcome.AMBIGUOUS, None, 120),
    ]


def test_duplicate_arrives_its_gap_after_the_first():
    """duplicate: the gap counts from the first arrival."""
    scene = two_writes(Duplicate(id="f", client="n1", nth=1, gap_ns=300 * MS))
    assert [row["at_ns"] // MS for row in scene.rows(Kind.APPLIED)] == [10, 30, 310]


def test_healing_disarms_what_strikes_later():
    """heal_ns: after it no fault begins, timed or triggered, and one under way is over."""
    trigger = Trigger(client="n2", op="read", cut="c0")
    plan = FaultPlan(
        faults=(
            Crash(id="timed", client="n2", at_ns=900 * MS),
            Crash(id="triggered", client="n2", when=trigger),
            Pause(id="cut short", client="n2", at_ns=400 * MS, for_ns=60_000 * MS),
        ),
        heal_ns=800 * MS,
    )
    scene = Scene(plan)

    def reader(node, store):
        node.runtime.sleep(500 * MS)
        scene.note("awake")
        node.runtime.sleep(500 * MS)
        scene.note("read", store.read(KEY).outcome)

    scene.client("n2", reader)
    scene.run()
    assert scene.log == [("awake", 800), ("read", Outcome.APPLIED, 1320)]
    assert {name: fired for name, (_, fired, _) in scene.world.fault_counts.items()} == {
        "timed": 0, "triggered": 0, "cut short": 1,
    }  # fmt: skip


def test_what_was_never_answered_is_not_at_c4():
    """c4 is an answer in the client's hands: a timeout does not come there."""
    scene = two_writes(
        LoseReply(id="f", client="n1", nth=1),
        Crash(id="g", client="n1", when=Trigger(client="n1", op="acquire", cut="c4")),
    )
    assert scene.counts("g")[1] == 0
    assert scene.log[1][0] == "second"


def test_nth_counts_what_passes_whatever_else_strikes_it():
    """A request that another fault of the kind struck is counted all the same: the second is the second."""
    scene = two_writes(Error(id="f1", client="n1", nth=1, status=503), Error(id="f2", client="n1", nth=2, status=429))
    assert [entry[2] for entry in scene.log[:2]] == [503, 429]


def test_of_two_faults_of_a_kind_the_first_strikes():
    """Both let the request through; one answer is given."""
    scene = two_writes(Error(id="f1", client="n1", nth=1, status=503), Error(id="f2", client="n1", nth=1, status=429))
    assert scene.log[0][2] == 503
    assert [entry[1] for entry in scene.world.fault_counts.values()] == [1, 0]


def test_a_trigger_with_a_window_counts_only_what_is_made_in_it():
    """`after` and `before`: the first request from 15 ms on is the second of all; none comes after 1 s."""
    second = Trigger(client="n1", cut="c3", after_ns=15 * MS, before_ns=1000 * MS)
    scene = two_writes(LoseReply(id="f", when=second))
    assert [entry[1] for entry in scene.log[:2]] == [Outcome.APPLIED, Outcome.AMBIGUOUS]
    never = Trigger(client="n1", cut="c3", after_ns=5000 * MS)
    assert two_writes(LoseReply(id="f", when=never)).log == UNDISTURBED


def _three_reads(plan_fault: ReorderReplies) -> Scene:
    """n1 has three reads under way, sent 5 ms apart; n2 reads once meanwhile."""
    scene = Scene(FaultPlan.of(plan_fault))

    def reads(node, store):
        def one(number: int) -> None:
            scene.note(number, store.read(KEY).outcome)

        tasks = []
        for number in range(3):
            tasks.append(node.runtime.spawn(lambda number=number: one(number), name=f"read-{number}"))
            node.runtime.sleep(5 * MS)
        for task in tasks:
            task.join()

    scene.client("n1", reads)
    scene.client("n2", lambda _node, store: scene.note("other", store.read(KEY).outcome))
    return scene.run()


def test_reordered_replies_arrive_last_one_first():
    """reorder_replies: sent 0, 1, 2; they arrive 2, 1, 0; another node's connection keeps its time."""
    scene = _three_reads(ReorderReplies(id="f", client="n1", within_ns=20 * MS))
    assert [entry[0] for entry in scene.log if entry[0] != "other"] == [2, 1, 0]
    assert ("other", Outcome.APPLIED, 20) in scene.log
    assert scene.counts() == (3, 3, 2)


def test_answers_too_far_apart_are_not_reordered():
    """Within 5 ms nothing else leaves: every answer comes late and in order, and nothing has changed."""
    scene = _three_reads(ReorderReplies(id="f", client="n1", within_ns=5 * MS))
    assert [entry[0] for entry in scene.log if entry[0] != "other"] == [0, 1, 2]
    assert scene.counts() == (3, 3, 0)


def test_connections_are_reordered_each_for_itself():
    """Of two nodes, whose answers leave at the same time, neither overtakes the other by this fault."""
    scene = _three_reads(ReorderReplies(id="f", op="read", within_ns=20 * MS))
    assert scene.log[-1][0] in (0, "other")
    assert scene.counts() == (4, 4, 2)


@pytest.mark.parametrize("delay_first", [True, False])
def test_a_reordered_answer_keeps_its_delay(delay_first: bool):
    """What `delay` adds to the way back stays added when `reorder_replies` sets that way anew, in either order."""
    delay = Delay(id="d", client="n1", nth=1, by_ns=3000 * MS, direction="reply")
    reorder = ReorderReplies(id="r", client="n1", within_ns=20 * MS)
    faults = (delay, reorder) if delay_first else (reorder, delay)
    assert two_writes(*faults).log[0][:2] == ("first", Outcome.AMBIGUOUS)


def test_trigger_window_includes_its_begin():
    """A trigger counts a request that is made at the very instant `after`."""
    scene = two_writes(LoseRequest(id="f", when=Trigger(client="n1", cut="c0", after_ns=20 * MS)))
    assert scene.counts()[1] == 1
    assert scene.log[1][0] == "second"
    assert scene.log[1][2] is None


def test_trigger_window_excludes_its_end():
    """A trigger counts no request that is made at the very instant `before`."""
    scene = two_writes(LoseRequest(id="f", when=Trigger(client="n1", cut="c0", nth=2, before_ns=20 * MS)))
    assert scene.counts()[1] == 0


def statuses_of(fault: Error) -> tuple[list[int | None], Scene]:
    scene = Scene(FaultPlan.of(fault))
    statuses: list[int | None] = []

    def script(_node, store):
        for _ in range(40):
            store.read(KEY)
            statuses.append(store.put(KEY, body("a")).status)

    scene.client("n1", script)
    scene.run()
    return statuses, scene


def test_times_counts_what_the_filter_lets_through_whatever_probability_says():
    """`times` counts the requests that the filter lets through, struck or spared by `probability`."""
    statuses, scene = statuses_of(Error(id="f", status=500, probability=0.5, times=20))
    assert scene.counts()[0] == 20
    assert 500 in statuses[:10]
    assert 500 not in statuses[10:]


def test_probability_is_keyed_by_the_clients_request_number():
    """A chance is keyed by the number of the request in its client's life, reads included: stored seeds rely on it."""
    statuses, _ = statuses_of(Error(id="f", status=500, probability=0.5))
    expected = [derive(1, f"fault/f/n1/{2 * n + 2}") < 2**63 for n in range(40)]
    assert [status == 500 for status in statuses] == expected


def test_a_trigger_with_a_window_names_one_request():
    """Of two requests in its window, the first is the one; the second is spared."""
    scene = two_writes(LoseRequest(id="f", when=Trigger(client="n1", after_ns=0)))
    assert [entry[2] for entry in scene.log[:2]] == [None, 200]
    assert scene.counts() == (2, 1, 1)


@pytest.mark.parametrize("window", [{}, {"after_ns": 0}])
@pytest.mark.parametrize("state_fault", [False, True])
def test_a_trigger_counts_requests_to_its_service_and_of_its_kind(window: dict, state_fault: bool):
    """service, op: a trigger with both waits for the first write to the second store, with a window or without."""
    when = Trigger(client="n1", service="second", op="acquire", cut="c0", **window)
    fault = Pause(id="f", when=when, client="n1", for_ns=1000 * MS) if state_fault else LoseRequest(id="f", when=when)
    scene = Scene(FaultPlan.of(fault))
    scene.world.add("second", ObjectStoreService(server_statuses("gcs")), decode=OneRecord(decode))

    def script(node, store):
        second = scene.world.connect(node, "second", OBJECT_STORE, timeout_ns=TIMEOUT_NS)
        for call in (
            lambda: store.read(KEY), lambda: store.put_if_absent(KEY, body("a")), lambda: second.read(KEY),
            lambda: second.put_if_absent(KEY, body("a")),
        ):  # fmt: skip
            begin_ns = scene.world.kernel.now_ns
            call()
            scene.note(scene.world.kernel.now_ns - begin_ns > 2 * LATENCY_NS)

    scene.client("n1", script)
    assert [is_slow for is_slow, _ in scene.run().log] == [False, False, False, True]
    assert scene.counts()[1:] == (1, 1)


def ids_of_rows(scene: Scene) -> list[str]:
    return [json.loads(row["detail"])["id"] for row in scene.rows(Kind.FAULT)]


def test_kinds_act_in_the_order_of_their_rank():
    """rank: whatever the order in the plan, a delay strikes before a duplicate; stored digests depend on it."""
    assert ids_of_rows(two_writes(Duplicate(id="b", nth=1), Delay(id="a", nth=1, by_ns=1))) == ["a", "b"]


def test_what_strikes_a_request_comes_before_what_its_cut_point_begins():
    """c2: a stale read is told before the pause that begins at the same cut point of the same request."""
    when = Trigger(client="n2", op="read", cut="c2")
    pause = Pause(id="a", when=when, client="n1", for_ns=1)
    scene = two_writes(pause, StaleRead(id="b", lag_ns=1000 * MS))
    assert ids_of_rows(scene)[:2] == ["b", "a"]


def test_a_fault_row_names_the_node_of_its_trigger():
    """A request fault with a trigger is about the trigger's client; one that strikes anybody is about nobody."""
    for fault, node in (
        (LoseReply(id="f", when=Trigger(client="n1")), "n1"),
        (LoseReply(id="f", client="n1", nth=1), "n1"),
        (LoseReply(id="f", nth=1), ""),
    ):
        assert two_writes(fault).rows(Kind.FAULT)[0]["node"] == node


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (Pause, {"client": "n1", "for_ns": 1, "at_ns": 0, "when": Trigger(client="n1")}, "exactly one of"),
        (Pause, {"client": "n1", "for_ns": 1}, "exactly one of"),
        (LoseReply, {"when": Trigger(client="n1"), "times": 2}, "do not apply"),
        (LoseReply, {"when": Trigger(client="n1"), "nth": 2}, "do not apply"),
        (LoseReply, {"when": Trigger(client="n1"), "for_ns": 2}, "do not apply"),
        (LoseReply, {"when": Trigger(client="n1"), "at_ns": 2}, "do not apply"),
    ],
)
def test_a_fault_begins_in_one_way(kind: type[Fault], fields: dict, words: str):
    """An instant or a trigger; a trigger names its one request by itself."""
    with pytest.raises(ValidationError, match=words):
        kind(id="f", **fields)


def test_a_trigger_that_names_a_stranger_is_refused():
    """The client of a trigger is a node of the world, as the client of a fault is."""
    with pytest.raises(ConfigError, match="names client 'n9'; this world has n1, n2"):
        two_writes(Pause(id="f", client="n1", for_ns=1, when=Trigger(client="n9")))
