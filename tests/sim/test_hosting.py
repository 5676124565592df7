"""What a simulated service leaves on record as the truth, where one body tells of several locks and where none does."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lockref.clouds.uri import server_statuses
from lockref.lab.recording import content_id
from lockref.ports import PortKind, Reply, Request
from lockref.provider import LockView
from lockref.runtime import WallNs
from lockref.stores.client import OBJECT_STORE
from lockref.stores.port import ObjectStore, Version
from lockref.words import Kind, Outcome
from sim.faults.plan import EMPTY_PLAN, FaultPlan
from sim.faults.process import Crash
from sim.faults.stores import DeleteObject, IgnoreConditions
from sim.journey import Refusal
from sim.services.objectstore import ObjectStoreService
from sim.services.resource import ResourceService
from tests.sim.scripted import KEY, MS, TIMEOUT_NS, Scene

ANN, BEN = {"owner": "ann", "token": 1, "until": 500}, {"owner": "ben", "token": 7, "for": 9_000}


def decode(_key: str, body: bytes) -> list[LockView]:
    """A JSON object: lock to owner, token, and end or duration."""
    return [
        LockView(
            owner=said["owner"],
            token=said["token"],
            lock=lock,
            valid_until_ns=WallNs(said["until"]) if "until" in said else None,
            duration_ns=said.get("for"),
        )
        for lock, said in json.loads(body).items()
    ]


def body(**locks: dict[str, object]) -> bytes:
    return json.dumps(locks).encode()


def leases(script, plan: FaultPlan = EMPTY_PLAN) -> Scene:
    """n1 and n2 have a store whose bodies tell of several locks; the script has both clients of it."""
    scene = Scene(plan)
    scene.world.add("leases", ObjectStoreService(server_statuses("gcs")), decode=decode)
    clients: list[ObjectStore] = []

    def one(node, _store):
        clients.append(scene.world.connect(node, "leases", OBJECT_STORE, timeout_ns=TIMEOUT_NS))
        if node.name == "n2":
            script(scene, *clients)

    scene.client("n1", one)
    scene.client("n2", one)
    return scene.run()


def told(scene: Scene, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[column] for column in columns) for row in scene.rows(Kind.APPLIED)]


def test_the_truth_has_a_row_for_each_lock_of_a_body() -> None:
    """Owner, token, end or duration of each; what a client carries along is a plain write, and so it is on record."""

    def script(_scene: Scene, mine: ObjectStore, yours: ObjectStore) -> None:
        mine.put_if_absent(KEY, body(a=ANN, b=BEN))
        found = yours.read(KEY)
        yours.put_if_version(KEY, body(a={**ANN, "owner": "cat"}, b=BEN), found.version)

    rows = told(leases(script), "lock", "op", "owner", "token", "valid_until_ns", "detail")
    assert rows == [
        ("a", "acquire", "ann", 1, 500, None),
        ("b", "acquire", "ben", 7, None, '{"duration_ns":9000}'),
        ("a", "acquire", "cat", 1, 500, None),
        ("b", "write", "ben", 7, None, '{"duration_ns":9000}'),
    ]


def test_only_what_took_effect_is_what_stands_in_an_object() -> None:
    """A refused write that leaves a lock out has given nothing back: the deletion after it ends both locks."""

    def script(_scene: Scene, mine: ObjectStore, yours: ObjectStore) -> None:
        mine.put_if_absent(KEY, body(a=ANN, b=BEN))
        yours.put_if_version(KEY, body(a=ANN), Version("another"))
        yours.delete(KEY)

    rows = [row for row in told(leases(script), "outcome", "op", "lock") if row[1] == "delete"]
    assert rows == [("applied", "delete", "a"), ("applied", "delete", "b")]


def test_an_operators_hand_is_on_record_lock_by_lock() -> None:
    """U9: what an operator writes, what it leaves out and what it deletes; with version, bytes and owner."""
    left = body(a={**ANN, "owner": "cat"})

    def script(scene: Scene, mine: ObjectStore, _yours: ObjectStore) -> None:
        mine.put_if_absent(KEY, body(a=ANN, b=BEN))
        service = scene.world.services["leases"]
        service.tamper("put", KEY, body=left)
        scene.note(service.past(KEY).version)
        service.tamper("delete", KEY)

    scene = leases(script)
    [(version, _)] = scene.log
    rows = told(scene, "node", "lock", "op", "owner", "version", "content")[2:]
    assert rows == [
        ("operator", "a", "write", "cat", version, content_id(left)),
        ("operator", "b", "release", "ben", version, content_id(left)),
        ("operator", "a", "delete", None, None, None),
    ]


def test_an_operator_who_names_no_key_changes_every_lock_record() -> None:
    """delete_object: the fault matters once for each object that it deleted, and other objects stay."""

    def script(scene: Scene, mine: ObjectStore, _yours: ObjectStore) -> None:
        mine.put_if_absent(KEY, body(a=ANN))
        mine.put_if_absent("second", body(a=ANN))
        mine.put_if_absent("none", body())
        scene.world.kernel.wait(1000 * MS)
        scene.note(scene.world.services["leases"].present_keys())

    scene = leases(script, FaultPlan.of(DeleteObject(id="f", service="leases", at_ns=500 * MS)))
    assert scene.log[0][0] == ["none"]
    assert scene.counts() == (1, 1, 2)


def test_what_is_overlooked_is_on_record_as_it_was_asked() -> None:
    """ignore_conditions: one row, applied, with the condition that the client had set: so the checks see the lie."""

    def script(scene: Scene, mine: ObjectStore, yours: ObjectStore) -> None:
        mine.put_if_absent(KEY, body(a=ANN))
        scene.note(yours.put_if_version(KEY, body(a=BEN), Version("another")).outcome)

    scene = leases(script, FaultPlan.of(IgnoreConditions(id="f")))
    assert scene.log[0][0] is Outcome.APPLIED
    assert told(scene, "node", "outcome", "if_version") == [("n1", "applied", "absent"), ("n2", "applied", "another")]
    assert scene.counts() == (2, 1, 1)


def test_a_state_is_read_under_its_own_key() -> None:
    """What a body says may depend on where it lies: equal bytes under two keys are read twice."""

    def by_key(key: str, _body: bytes) -> Sequence[LockView]:
        return (LockView(owner=key),)

    scene = Scene()
    hosted = scene.world.add("leases", ObjectStoreService(server_statuses("gcs")), decode=by_key)
    assert [hosted.look(key, b"x")[1][0].owner for key in ("a", "b", "a")] == ["a", "b", "a"]


def resource(scene: Scene) -> list[str]:
    """A protected resource, which writes down its own effects; the keys that it was asked for."""
    asked: list[str] = []

    def handle(request: Request) -> Reply:
        asked.append(request.key)
        return Reply(Outcome.APPLIED, version=str(len(asked)))

    scene.world.add("resource", ResourceService(handle), decode=None)
    return asked


DIRECT = PortKind("direct", lambda channel, _timeout_ns: channel)
"""The port that is no port: the channel itself."""


def test_a_resource_leaves_no_rows_of_its_requests() -> None:
    """Its workload records effects; SENT, APPLIED and REPLIED rows are those of services that hold locks."""
    scene = Scene()
    asked = resource(scene)

    def script(node, _store) -> None:
        channel = scene.world.connect(node, "resource", DIRECT, timeout_ns=TIMEOUT_NS)
        scene.note(channel.send(Request("n1", "resource", "write", "x"), TIMEOUT_NS))

    scene.client("n1", script)
    scene.run()
    assert asked == ["x"]
    assert scene.log[0][0] == Reply(Outcome.APPLIED, version="1")
    assert not scene.rows(Kind.SENT) + scene.rows(Kind.APPLIED)


def test_a_process_that_is_unwound_asks_nothing_more() -> None:
    """crash: what a `finally` would send does not leave, although nothing of it is recorded (E3)."""
    scene = Scene(FaultPlan.of(Crash(id="f", client="n1", at_ns=50 * MS)))
    asked = resource(scene)

    def script(node, _store) -> None:
        channel = scene.world.connect(node, "resource", DIRECT, timeout_ns=TIMEOUT_NS)
        try:
            node.runtime.sleep(1000 * MS)
        finally:
            channel.send(Request("n1", "resource", "write", "x"), TIMEOUT_NS)

    scene.client("n1", script)
    scene.run(linger_ms=1000)
    assert asked == []


def test_a_resource_refuses_in_its_own_words() -> None:
    """One table says what a status means: 500 and 503 leave open whether the write took effect, as no answer does."""
    request = Request("n1", "resource", "write", "x")
    service = ResourceService(lambda _request: Reply(Outcome.APPLIED, version="0"))
    for status in (None, 500, 503):
        refusal: Refusal = (status, "why")
        assert service.refuse(request, refusal) == Reply(Outcome.AMBIGUOUS, status=status, reason="why")
    for status, outcome in ((409, Outcome.CONFLICT), (429, Outcome.THROTTLED), (501, Outcome.REJECTED)):
        assert service.refuse(request, (status, "why")).outcome is outcome
