"""A lease in one znode: its store over the modelled ZooKeeper, and what a znode says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lockref.coordination.lease import CODEC, decode_state
from lockref.coordination.port import SYNC
from lockref.coordination.znode_store import ZNODES, ZnodeStore, key_of, path_of
from lockref.coordination.znodes import is_path
from lockref.delta.record import LeaseItem
from lockref.errors import CorruptRecord
from lockref.ports import TIMED_OUT
from lockref.runtime import NS_PER_S
from lockref.stores.port import Version
from lockref.words import Outcome
from sim.faults.network import Partition
from sim.faults.plan import EMPTY_PLAN, FaultPlan
from sim.services.coordination import CoordinationService
from sim.world import World

KEY = "lake/orders/lock.json"


def played(script: Callable[[ZnodeStore, CoordinationService, Any], None], plan: FaultPlan = EMPTY_PLAN) -> None:
    """Run a script on a node with a store."""
    world = World(seed=1, plan=plan)
    service = CoordinationService()
    world.add("zk", service, decode=lambda _key, _body: ())
    node = world.node("n1")
    ended: list[bool] = []

    def work() -> None:
        store = world.connect(node, "zk", ZNODES, timeout_ns=3 * NS_PER_S)
        script(store, service, node.process.runtime)
        ended.append(True)

    node.start(work)
    world.run(until_ns=600 * NS_PER_S)
    assert ended, "the script did not come to its end"


def made(store: ZnodeStore, body: bytes = b"1") -> Version:
    written = store.put_if_absent(KEY, body)
    assert written.outcome is Outcome.APPLIED
    assert written.version is not None
    return written.version


def test_writes_are_conditional() -> None:
    """Nothing is there; it is created once; a version is good for one write."""

    def script(store: ZnodeStore, _service: Any, _runtime: Any) -> None:
        assert (store.read(KEY).body, store.read(KEY).version) == (None, None)
        missing = store.put_if_version(KEY, b"0", Version("1.0"))
        assert (missing.outcome, missing.missing) == (Outcome.PRECONDITION_FAILED, True)
        first = made(store)
        again = store.put_if_absent(KEY, b"2")
        assert (again.outcome, again.missing) == (Outcome.PRECONDITION_FAILED, False)
        second = store.put_if_version(KEY, b"2", first)
        assert second.outcome is Outcome.APPLIED
        assert store.put_if_version(KEY, b"3", first).outcome is Outcome.PRECONDITION_FAILED
        found = store.read(KEY)
        assert (found.body, found.version) == (b"2", second.version)

    played(script)


def test_a_session_that_has_ended_is_replaced() -> None:
    """What is stored does not end with it, and nobody who asks notices."""

    def script(store: ZnodeStore, service: CoordinationService, runtime: Any) -> None:
        version = made(store)
        assert service.tamper("expire_session", "n1") == 1
        second = store.put_if_version(KEY, b"2", version)
        assert second.outcome is Outcome.APPLIED
        runtime.sleep(100 * NS_PER_S)  # Silent for longer than a session lasts.
        assert store.read(KEY).version == second.version

    played(script)


def test_without_an_answer_nothing_is_known_but_that_no_request_left() -> None:
    """Cut off with a session: unknown. Cut off without one: the write was never sent, and is no riddle for later."""

    def script(store: ZnodeStore, _service: Any, runtime: Any) -> None:
        version = made(store)
        runtime.sleep(10 * NS_PER_S)
        assert store.put_if_version(KEY, b"2", version).outcome is Outcome.AMBIGUOUS
        store._session = 0
        assert store.put_if_version(KEY, b"2", version).outcome is Outcome.THROTTLED
        assert store.read(KEY).outcome is Outcome.THROTTLED

    cut = Partition(id="p", groups=(("n1",), ("zk",)), at_ns=5 * NS_PER_S, for_ns=500 * NS_PER_S)
    played(script, FaultPlan.of(cut))


def test_a_znode_that_was_made_anew_is_another_one() -> None:
    """ZooKeeper compares data versions, which begin again: the answer tells that it was another znode."""

    def script(store: ZnodeStore, service: CoordinationService, _runtime: Any) -> None:
        version = made(store)
        assert service.tamper("delete", path_of(KEY)) == 1
        other = made(store, b"another")
        assert other != version
        answer = store.put_if_version(KEY, b"2", version)
        assert answer.outcome is Outcome.PRECONDITION_FAILED
        assert "made anew" in answer.reason

    played(script)


@pytest.mark.parametrize("key", ["a", "a/b/c.json", "s3://lake/orders", "%2F", "ä ö", ".", ".."])
def test_every_key_has_a_znode_of_its_own(key: str) -> None:
    """A slash in a key makes no folder."""
    path = path_of(key)
    assert is_path(path)
    assert path.count("/") == 2
    assert key_of(path) == key


def test_a_record_is_plain_json() -> None:
    """Text and whole numbers, without a table's types; values of strangers survive."""
    record = LeaseItem(name="me", incarnation="1", nonce="n", duration_s=10, token=3, mark=1000, data="{}")
    body = CODEC.serialize(record)
    assert json.loads(body)["generation"] == 3
    assert json.loads(body)["ownerName"] == "me"
    assert CODEC.parse(body) == record
    strange = json.dumps({**json.loads(body), "by": {"an": ["operator"]}, "is": True}).encode()
    assert json.loads(CODEC.serialize(CODEC.parse(strange))) == json.loads(strange)
    (view,) = decode_state(path_of(KEY), body)
    assert (view.lock, view.owner, view.token) == (KEY, "me/1", 3)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"ownerName": "me"}', b"null"])
def test_what_is_no_record_is_no_free_lock(body: bytes) -> None:
    """HJ1: empty and unparsable data is an error that names the lock, and says nothing to a check."""
    with pytest.raises(CorruptRecord, match=r"znode lake/orders/lock\.json"):
        CODEC.parse(body, where=KEY)
    assert decode_state(path_of(KEY), body) == []
    assert decode_state("/elsewhere", body) == []


def test_a_read_sees_what_others_were_told_before_it() -> None:
    """T4, Z12: also through a server that lags; a contender that counts from an old state takes a lease that lives."""
    world = World(seed=1)
    world.add("zk", CoordinationService(lags_ns=(0, 5 * NS_PER_S)), decode=lambda _key, _body: ())
    leading, lagging = (world.connect(world.node(name), "zk", ZNODES, timeout_ns=3 * NS_PER_S) for name in ("n1", "n2"))
    found: list[object] = []

    def work() -> None:
        version = made(leading)
        found.append(lagging.read(KEY).body)
        assert leading.put_if_version(KEY, b"2", version).outcome is Outcome.APPLIED
        found.append(lagging.read(KEY).body)

    world.node("n1").start(work)
    world.run(until_ns=60 * NS_PER_S)
    assert found == [b"1", b"2"]


def test_a_read_that_could_not_catch_up_tells_nothing() -> None:
    """T4, Z12: what a server says that may lag is no answer."""

    def script(store: ZnodeStore, _service: Any, _runtime: Any) -> None:
        made(store)
        send = store._send
        store._send = lambda verb, *rest: TIMED_OUT if verb == SYNC else send(verb, *rest)  # type: ignore[method-assign]
        found = store.read(KEY)
        assert (found.outcome, found.body, found.version) == (Outcome.AMBIGUOUS, None, None)

    played(script)
