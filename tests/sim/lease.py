"""A plain lease lock for testing the simulator, about as small as one can be.

It is honest but not hardened: create or replace by condition, heartbeat, wall
clock. Tests of the simulator look at what the world did to it, not at it.
"""

from __future__ import annotations

import json

from lockref.errors import LockError
from lockref.lab.contract import OneRecord
from lockref.ports import Reply, Request
from lockref.provider import RecordView
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime, WallNs
from lockref.stores.client import OBJECT_STORE
from lockref.stores.port import ObjectStore, Version
from lockref.words import Kind, Op, Outcome
from scenarios.workloads.resource import RESOURCE, Write
from sim.faults.plan import EMPTY_PLAN, FaultPlan
from sim.kernel.exploring import Ties
from sim.kernel.kernel import Budget, Schedule
from sim.machine.network import NetworkModel
from sim.machine.nodes import Node
from sim.services.resource import ResourceService
from sim.world import World

KEY = "lock.json"
VALIDITY_NS = 10 * NS_PER_S
RENEW_NS = 1 * NS_PER_S
POLL_NS = 500 * NS_PER_MS
TIMEOUT_NS = 300 * NS_PER_MS


def decode(body: bytes) -> RecordView | None:
    """Owner, expiry and release flag; None for anything else."""
    try:
        record = json.loads(body)
        return RecordView(
            owner=record["owner"],
            token=record["token"],
            valid_until_ns=WallNs(record["until"]),
            is_released=record["released"],
        )
    except (ValueError, KeyError, TypeError):
        return None


class PlainLease:
    """One client's handle."""

    def __init__(self, runtime: Runtime, store: ObjectStore) -> None:
        self.runtime = runtime
        self.store = store
        self.owner = runtime.token_bytes(6).hex()
        self.token = 0
        self.version: Version | None = None
        self.until = 0
        self._mutex = runtime.mutex()
        self._stop = runtime.event()

    def _body(self, *, is_released: bool = False) -> bytes:
        self.until = self.runtime.wall_ns() + VALIDITY_NS
        return json.dumps(
            {"owner": self.owner, "token": self.token, "until": self.until, "released": is_released}
        ).encode()

    def try_lock(self) -> bool:
        seen = self.store.read(KEY)
        if seen.outcome is not Outcome.APPLIED:
            return False
        view = decode(seen.body) if seen.body is not None else None
        if view is not None and not view.is_released and (view.valid_until_ns or 0) > self.runtime.wall_ns():
            return False
        self.token = (view.token or 0) + 1 if view else 1
        body = self._body()
        reply = (
            self.store.put_if_absent(KEY, body)
            if seen.version is None
            else self.store.put_if_version(KEY, body, seen.version)
        )
        if reply.outcome is not Outcome.APPLIED:
            return False
        self.version = reply.version
        self._stop = self.runtime.event()
        stop = self._stop
        self.runtime.spawn(lambda: self._heartbeat(stop), name="heartbeat")
        return True

    def _heartbeat(self, stop: object) -> None:
        while not self._stop.wait(RENEW_NS):
            with self._mutex:
                if self._stop is not stop or self.version is None:
                    return
                reply = self.store.put_if_version(KEY, self._body(), self.version)
                if reply.outcome is Outcome.APPLIED:
                    self.version = reply.version
                elif reply.outcome is Outcome.PRECONDITION_FAILED:
                    self.version = None
                    return

    def unlock(self) -> None:
        with self._mutex:
            self._stop.set()
            if self.version is not None:
                self.store.put_if_version(KEY, self._body(is_released=True), self.version)
                self.version = None

    def holds(self) -> bool:
        return self.version is not None and self.runtime.wall_ns() < self.until


def client(world: World, node: Node, *, cycles: int, hold_ns: int) -> None:
    """A client's life: lock, two protected writes, unlock, again."""
    runtime, journal = node.runtime, node.journal
    lease = PlainLease(runtime, world.connect(node, "store", OBJECT_STORE, timeout_ns=TIMEOUT_NS))
    resource = world.connect(node, RESOURCE.name, RESOURCE, timeout_ns=TIMEOUT_NS)
    for _ in range(cycles):
        call = journal.next_number()
        journal.record(Kind.CALL, journal.stamp(), node.name, KEY, Op.ACQUIRE, request=call)
        while not lease.try_lock():
            runtime.sleep(POLL_NS + runtime.random.randrange(POLL_NS))
        journal.record(
            Kind.RETURN, journal.stamp(), node.name, KEY, Op.ACQUIRE, Outcome.APPLIED, request=call, token=lease.token,
            owner=lease.owner,
        )  # fmt: skip
        for _ in range(2):
            if not lease.holds():
                break
            try:
                resource.write(
                    Write(
                        node=node.name,
                        task="main",
                        tenure=call,
                        attempt=0,
                        based_on="",
                        token=lease.token,
                        owner=lease.owner,
                    )
                )
            except LockError as error:
                told = type(error).__name__
                journal.record(Kind.DISBELIEVED, journal.stamp(), node.name, KEY, request=call, detail=told)
            runtime.sleep(hold_ns // 2)
        lease.unlock()


def _resource(world: World) -> ResourceService:
    """A resource that takes every write and only writes it down."""

    def apply(request: Request) -> Reply:
        write = request.condition
        assert isinstance(write, Write)
        world.recorder.event(
            Kind.EFFECT, (world.kernel.now_ns, 0, 0, ""), write.node, op=Op.WRITE, request=write.tenure,
            token=write.token, owner=write.owner,
        )  # fmt: skip
        return Reply(Outcome.APPLIED, version="")

    return ResourceService(apply)


def lease_world(
    seed: int,
    *,
    plan: FaultPlan = EMPTY_PLAN,
    clients: int = 3,
    cycles: int = 2,
    hold_ns: int = NS_PER_S,
    dialect: str = "s3",
    network: NetworkModel | None = None,
    schedule: Schedule | None = None,
    substrate: str = "greenlet",
    budget: Budget | None = None,
    ties: Ties | None = None,
) -> World:
    """A world with `clients` plain leases, ready to run."""
    world = World(
        seed=seed,
        plan=plan,
        network=network,
        schedule=schedule,
        substrate=substrate,
        budget=budget,
        ties=ties,
    )
    world.object_store(decode=OneRecord(decode), dialect=dialect)
    world.add(RESOURCE.name, _resource(world), decode=None)
    for number in range(1, clients + 1):
        node = world.node(f"n{number}")
        node.start(lambda node=node: client(world, node, cycles=cycles, hold_ns=hold_ns))
    return world
