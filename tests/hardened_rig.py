"""A machine whose time stands still until told, and a store that answers as scripted.

`ManualRuntime` runs nothing by itself: spawned tasks are kept, sleeping moves
the clocks. `ScriptedStore` is a real store in memory; before each request it
takes the next rule of the script, which may lose the request, lose the reply,
refuse, or let time pass on either side of the effect.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lockref.locks.heartbeat import Heartbeat
from lockref.locks.tenure import Tenure
from lockref.provider import LockEvent
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, WallNs
from lockref.storage import lockfile
from lockref.storage.config import StorageLockConfig
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.words import Outcome

KEY = "table/.hoodie/.locks/table_lock.json"
FENCE_KEY = "table/.hoodie/.locks/table_lock.fence.json"
WALL_START_MS = 1_700_000_000_000
CONFIG = StorageLockConfig(base_path="s3://bucket/table", validity_ns=10 * NS_PER_S, renew_interval_ns=NS_PER_S)
BELIEVABLE_NS = CONFIG.validity_ns - CONFIG.drift_bound_ns
REQUEST_TIMEOUT_NS = NS_PER_S // 3


@dataclass(eq=False)
class ManualTask:
    name: str
    work: Callable[[], None] = lambda: None
    is_running: bool = True

    def is_alive(self) -> bool:
        return self.is_running

    def join(self, timeout_ns: int | None = None) -> bool:
        return not self.is_running


class ManualMutex:
    def __init__(self) -> None:
        self.is_locked = False

    def acquire(self, timeout_ns: int | None = None) -> bool:
        assert not self.is_locked, "one task waits for itself"
        self.is_locked = True
        return True

    def release(self) -> None:
        self.is_locked = False

    def __enter__(self) -> ManualMutex:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class ManualEvent:
    def __init__(self, runtime: ManualRuntime) -> None:
        self._runtime = runtime
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_ns: int | None = None) -> bool:
        if not self._is_set:
            self._runtime.sleep(timeout_ns or 0)
        return self._is_set


class ManualRuntime:
    """Both clocks move only by `advance`, which `sleep` and waiting call."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.wall = WALL_START_MS * NS_PER_MS
        self.mono = 5_000_000_000_000
        self.tasks: list[ManualTask] = []
        self.me = ManualTask("main")
        self.pid = 100
        self.ended: list[int] = []
        self.can_spawn = True
        self.mutexes: list[ManualMutex] = []
        self.on_advance: Callable[[], None] | None = None

    def advance(self, ns: int) -> None:
        self.wall += ns
        self.mono += ns
        if self.on_advance is not None:
            self.on_advance()

    def wall_ns(self) -> WallNs:
        return WallNs(self.wall)

    def monotonic_ns(self) -> MonoNs:
        return MonoNs(self.mono)

    def sleep(self, duration_ns: int) -> None:
        assert not any(mutex.is_locked for mutex in self.mutexes), "H11: waited while holding a mutex"
        self.advance(duration_ns)

    def spawn(self, work: Callable[[], None], *, name: str) -> ManualTask:
        if not self.can_spawn:
            raise RuntimeError("can't start new thread")
        task = ManualTask(name, work)
        self.tasks.append(task)
        return task

    def run(self, name: str) -> None:
        """Run the kept tasks whose name contains `name`, as themselves."""
        chosen = [task for task in self.tasks if name in task.name]
        for task in chosen:
            self.tasks.remove(task)
            before, self.me = self.me, task
            try:
                task.work()
            finally:
                self.me = before
                task.is_running = False

    def mutex(self) -> ManualMutex:
        mutex = ManualMutex()
        self.mutexes.append(mutex)
        return mutex

    def event(self) -> ManualEvent:
        return ManualEvent(self)

    def token_bytes(self, count: int) -> bytes:
        return self.random.randbytes(count)

    def current_task(self) -> ManualTask:
        return self.me

    def process_id(self) -> int:
        return self.pid

    def process_mark(self) -> str:
        return f"machine:{self.pid}"

    def has_ended(self, mark: str) -> bool:
        return mark in [f"machine:{number}" for number in self.ended]


Rule = Callable[["ScriptedStore", Callable[[], Any], bool], Any]
"""(store, perform the request, is it a read) -> the reply."""


def ok(_store: ScriptedStore, perform: Callable[[], Any], _is_read: bool) -> Any:
    return perform()


def lose_request(store: ScriptedStore, _perform: Callable[[], Any], is_read: bool) -> Any:
    store.runtime.advance(store.timeout_ns)
    return (ReadReply if is_read else WriteReply)(outcome=Outcome.AMBIGUOUS, reason="timeout")


def lose_reply(store: ScriptedStore, perform: Callable[[], Any], is_read: bool) -> Any:
    perform()
    return lose_request(store, perform, is_read)


def hidden_retry(_store: ScriptedStore, perform: Callable[[], Any], _is_read: bool) -> Any:
    perform()
    return perform()


def answer(outcome: Outcome, status: int) -> Rule:
    return lambda _store, _perform, is_read: (ReadReply if is_read else WriteReply)(outcome=outcome, status=status)


def late_reply(ns: int) -> Rule:
    def rule(store: ScriptedStore, perform: Callable[[], Any], _is_read: bool) -> Any:
        reply = perform()
        store.runtime.advance(ns)
        return reply

    return rule


def late_request(ns: int) -> Rule:
    def rule(store: ScriptedStore, perform: Callable[[], Any], _is_read: bool) -> Any:
        store.runtime.advance(ns)
        return perform()

    return rule


def stale(body: bytes | None, version: str | None) -> Rule:
    return lambda *_: ReadReply(
        outcome=Outcome.APPLIED, body=body, version=None if version is None else Version(version)
    )


conflict = answer(Outcome.CONFLICT, 409)
throttle = answer(Outcome.THROTTLED, 429)
error_503 = answer(Outcome.AMBIGUOUS, 503)
refuse = answer(Outcome.REJECTED, 403)


class ScriptedStore(MemoryStore):
    """A store whose next answers are scripted; without a script it is exact and instantaneous.

    `script`, `rule_for_all` and `log` are about the lock object; the fence object has its own.
    """

    def __init__(self, runtime: ManualRuntime, timeout_ns: int = REQUEST_TIMEOUT_NS) -> None:
        super().__init__(runtime=runtime)
        self.runtime = runtime
        self.timeout_ns = timeout_ns
        self.script: list[Rule] = []
        self.rule_for_all: Rule = ok
        self.log: list[str] = []
        self.fence_script: list[Rule] = []
        self.fence_rule_for_all: Rule = ok
        self.fence_log: list[str] = []
        self.before: Callable[[str], None] | None = None

    def _do(self, key: str, name: str, perform: Callable[[], Any]) -> Any:
        assert not any(mutex.is_locked for mutex in self.runtime.mutexes), "H11: I/O while holding a mutex"
        if key == FENCE_KEY:
            self.fence_log.append(name)
            rule = self.fence_script.pop(0) if self.fence_script else self.fence_rule_for_all
            return rule(self, perform, name == "read")
        self.log.append(name)
        if self.before is not None:
            self.before(name)
        rule = self.script.pop(0) if self.script else self.rule_for_all
        return rule(self, perform, name == "read")

    def read(self, key: str) -> ReadReply:
        return self._do(key, "read", lambda: MemoryStore.read(self, key))

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._do(key, "create", lambda: MemoryStore.put_if_absent(self, key, body))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        name = "release" if b'"expired":true' in body else "replace"
        return self._do(key, name, lambda: MemoryStore.put_if_version(self, key, body, version))

    # What a test looks at or plants, past the script.

    def record(self) -> LockFile:
        body = MemoryStore.read(self, KEY).body
        assert body is not None, "there is no lock object"
        return lockfile.parse(body)

    def version(self) -> Version:
        version = MemoryStore.read(self, KEY).version
        assert version is not None, "there is no lock object"
        return version

    def plant(self, record: LockFile | bytes) -> Version:
        body = record if isinstance(record, bytes) else lockfile.serialize(record)
        version = MemoryStore.put(self, KEY, body).version
        assert version is not None
        return version


@dataclass
class Rig:
    """A lock on a manual machine, its store and what it told its listener."""

    cls: type[StorageLock] = StorageLock
    config: StorageLockConfig = CONFIG
    seed: int = 1
    runtime: ManualRuntime = field(init=False)
    store: ScriptedStore = field(init=False)
    lock: Any = field(init=False)
    events: list[LockEvent] = field(default_factory=list)
    losses: list[Any] = field(default_factory=list)
    _heartbeats: dict[Tenure[LockFile], Heartbeat[LockFile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runtime = ManualRuntime(self.seed)
        self.store = ScriptedStore(self.runtime)
        self.lock = self.another(self.seed)

    def another(self, _seed: int = 0, **more: Any) -> Any:
        """One more client on the same machine and store."""
        options = {"listener": self.events.append, "on_loss": self.losses.append, **more}
        lock = self.cls(self.store, config=self.config, runtime=self.runtime, **options)
        make_heartbeat = lock.client.new_heartbeat

        def make_and_keep(tenure: Tenure[LockFile], **parts: Any) -> Heartbeat[LockFile]:
            heartbeat = self._heartbeats[tenure] = make_heartbeat(tenure, **parts)
            return heartbeat

        lock.client.new_heartbeat = make_and_keep
        return lock

    def twin(self) -> Any:
        """Another client with the owner id of `lock`, as after a copied disk."""
        owner = bytes.fromhex(self.lock.owner.replace("-", ""))
        self.runtime.token_bytes = lambda _count: owner  # type: ignore[method-assign]
        try:
            return self.another()
        finally:
            del self.runtime.token_bytes

    # What lies inside the lock. Tests ask here, so that its parts can be arranged anew in one place.

    def tenure(self, lock: Any = None) -> Any:
        """The present grant."""
        return (lock or self.lock).tenure

    def heartbeat(self, lock: Any = None) -> Any:
        """What keeps the present grant: `renew()` is one tick."""
        return self._heartbeats[self.tenure(lock)]

    def renew(self, lock: Any = None) -> Any:
        """One tick of the heartbeat: the instant of the next one, None if there is to be none."""
        return self.heartbeat(lock).renew()

    def start_renewing(self) -> int:
        """Run the watchdog until it has started the renewing task. Returns the monotonic instant of the start.

        The test runs that task itself, by `runtime.run("renewal")`.
        """
        spawn, stopped, started_ns = self.runtime.spawn, self.tenure().stopped, []

        def spawn_and_stop(work: Callable[[], None], *, name: str) -> ManualTask:
            started_ns.append(self.runtime.mono)
            stopped.set()
            return spawn(work, name=name)

        self.runtime.spawn = spawn_and_stop  # type: ignore[method-assign]
        try:
            self.runtime.run("watchdog")
        finally:
            self.runtime.spawn = spawn  # type: ignore[method-assign]
        stopped.clear()
        (started_at_ns,) = started_ns
        return started_at_ns

    def be_courteous(self, duration_ns: int) -> None:
        """Let `lock` step back for so long after each of its releases, whatever it has learned of others."""
        self.lock.client.waiting.begin = lambda _now_ns: duration_ns

    def live(self, owner: str | None = "somebody", *, for_ms: int = 10_000, fence: int | None = None) -> LockFile:
        """A live record of somebody else."""
        now_ms = self.runtime.wall // NS_PER_MS
        return LockFile(owner, now_ms + for_ms, expired=False, nonce=None if fence is None else "x", fence=fence)

    def names(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]
