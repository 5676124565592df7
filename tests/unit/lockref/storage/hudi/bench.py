"""A bench for Hudi's parts: virtual time, and a client, a store and a heartbeat that can be told what to answer.

    bench = Bench()
    provider = bench.provider()
    assert bench.run(provider.try_lock) is True

Work runs as tasks of the simulator's kernel; nothing waits on wall time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from lockref.errors import LockError, LockrefError
from lockref.provider import LockContext, LockEvent, LockEventKind, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, WallNs
from lockref.storage.hudi.client import LockGetResult, LockUpsertResult, ObjectStoreLockClient, StorageLockFile
from lockref.storage.hudi.java_threads import JavaThread, JavaThreads
from lockref.storage.hudi.lock_manager import HudiLock
from lockref.storage.hudi.provider import StorageBasedLockProvider
from lockref.storage.lockfile import LockFile, parse, serialize
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ObjectStore, ReadReply, StoreCapabilities, Version, WriteReply
from sim.kernel.kernel import Budget, Kernel, RunEnd, Task
from sim.kernel.sync import SimEvent, SimMutex

EPOCH_NS = 1_700_000_000 * NS_PER_S
KEY = "table/.hoodie/.locks/table_lock.json"
FOLDER = "table/.hoodie/.locks"
SWITCH = f"{FOLDER}/audit_enabled.json"


class Broken(LockError):
    """What a client on the bench raises when told to."""


class BenchRuntime:
    """A Runtime on the kernel's time. `skew_ns` is added to the wall clock, so that it can be stepped."""

    def __init__(self, kernel: Kernel, seed: int = 0) -> None:
        self._kernel = kernel
        self.random = random.Random(seed)
        self.skew_ns = 0

    def wall_ns(self) -> WallNs:
        return WallNs(EPOCH_NS + self._kernel.now_ns + self.skew_ns)

    def monotonic_ns(self) -> MonoNs:
        return MonoNs(self._kernel.now_ns)

    def sleep(self, duration_ns: int) -> None:
        self._kernel.wait(max(0, duration_ns))

    def spawn(self, work: Callable[[], None], *, name: str) -> Task:
        return self._kernel.spawn(work, name=name, is_daemon=True)

    def mutex(self) -> SimMutex:
        return SimMutex(self._kernel)

    def event(self) -> SimEvent:
        return SimEvent(self._kernel)

    def token_bytes(self, count: int) -> bytes:
        return self.random.randbytes(count)

    def current_task(self) -> Task:
        return self._kernel.current

    def process_id(self) -> int:
        return 1


class ToldStore:
    """A memory store with a dialect, whose next answers can be told.

    replies: for each request to come, a reply that replaces it, or None; a
    reply in a tuple is given after the request has landed.
    """

    def __init__(self, dialect: str) -> None:
        self._store = MemoryStore()
        self.capabilities = StoreCapabilities(dialect=dialect, versions_repeat=False, conditional_delete=True)
        self.replies: list[Any] = []
        self.before_reply: Callable[[], None] = lambda: None

    def _answer(self, send: Callable[[], Any]) -> Any:
        told = self.replies.pop(0) if self.replies else None
        reply = send() if told is None or isinstance(told, tuple) else told
        self.before_reply()
        return told[0] if isinstance(told, tuple) else reply

    def read(self, key: str) -> ReadReply:
        return self._answer(lambda: self._store.read(key))

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._answer(lambda: self._store.put_if_absent(key, body))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._answer(lambda: self._store.put_if_version(key, body, version))

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._store.put(key, body)

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        return self._store.delete(key, version)

    def peek(self, key: str) -> bytes | None:
        """What is stored, untouched by what was told."""
        return self._store.read(key).body

    def close(self) -> None:
        self._store.close()


class BenchClient:
    """Hudi's client over a memory store, with answers to come that replace or follow the real ones.

    writes: for each write to come, a result that replaces it; "applied X" lets
    it land and answers X (a lost reply); an exception is raised; None is no
    interference. reads: results or exceptions, likewise. delay_ns: how long
    each write takes before it lands.
    """

    def __init__(self, runtime: BenchRuntime, store: ObjectStore) -> None:
        self._runtime = runtime
        self._client = ObjectStoreLockClient(store, KEY)
        self.store = store
        self.writes: list[Any] = []
        self.reads: list[Any] = []
        self.other_reads: list[Any] = []
        self.before_reply_ns: list[int] = []
        self.delays_ns: list[int] = []
        self.written: list[LockFile] = []
        self.log: list[str] = []
        self.close_error: LockError | None = None

    def read_current_lock_file(self) -> tuple[LockGetResult, StorageLockFile | None]:
        self.log.append("read")
        answer = self.reads.pop(0) if self.reads else None
        if isinstance(answer, LockError):
            raise answer
        if answer is not None:
            return answer, None
        return self._client.read_current_lock_file()

    def try_upsert_lock_file(
        self, new: LockFile, previous: StorageLockFile | None
    ) -> tuple[LockUpsertResult, StorageLockFile | None]:
        self.log.append("write")
        self.written.append(new)
        if self.delays_ns:
            self._runtime.sleep(self.delays_ns.pop(0))
        answer = self.writes.pop(0) if self.writes else None
        if isinstance(answer, LockError):
            raise answer
        if answer is None or isinstance(answer, tuple):
            landed = self._client.try_upsert_lock_file(new, previous)
            if self.before_reply_ns:
                self._runtime.sleep(self.before_reply_ns.pop(0))
            return landed if answer is None else (answer[1], None)
        return answer, None

    def read_object(self, path: str, check_exists_first: bool) -> str | None:
        self.log.append("switch")
        answer = self.other_reads.pop(0) if self.other_reads else None
        if isinstance(answer, LockError):
            raise answer
        return self._client.read_object(path, check_exists_first)

    def write_object(self, path: str, content: str) -> bool:
        self.log.append("audit")
        return self._client.write_object(path, content)

    def close(self) -> None:
        self.log.append("close")
        if self.close_error is not None:
            raise self.close_error


class BenchHeartbeat:
    """A heartbeat manager that does as told and renews only when asked to."""

    def __init__(self) -> None:
        self.is_active = False
        self.starts = True
        self.stops = True
        self.log: list[str] = []
        self.close_error: LockError | None = None

    def start_heartbeat_for_thread(self, _thread: JavaThread) -> bool:
        self.log.append("start")
        self.is_active = self.starts
        return self.starts

    def stop_heartbeat(self, _may_interrupt: bool) -> bool:
        self.log.append("stop")
        if self.stops:
            self.is_active = False
        return self.stops

    def has_active_heartbeat(self) -> bool:
        return self.is_active

    def close(self) -> None:
        self.log.append("close")
        if self.close_error is not None:
            raise self.close_error


class Bench:
    """One store and one kernel, and what is made on them."""

    def __init__(self, *, validity_s: int = 10, renew_s: int = 1, dialect: str = "memory") -> None:
        self.kernel = Kernel(budget=Budget(events_max=500_000))
        self.store = ToldStore(dialect)
        self.validity_s, self.renew_s = validity_s, renew_s
        self.events: list[LockEvent] = []
        self.logged: list[str] = []
        self._made = 0

    def runtime(self, skew_ms: int = 0) -> BenchRuntime:
        self._made += 1
        runtime = BenchRuntime(self.kernel, self._made)
        runtime.skew_ns = skew_ms * NS_PER_MS
        return runtime

    def provider(
        self,
        *,
        owner: str = "me",
        heartbeat: BenchHeartbeat | None = None,
        runtime: BenchRuntime | None = None,
        **options: Any,
    ) -> StorageBasedLockProvider:
        """A provider; with `heartbeat` it never renews by itself. Its client is `provider._client`."""
        runtime = runtime or self.runtime()
        options.setdefault("threads", JavaThreads(runtime))
        return StorageBasedLockProvider(
            owner,
            lock_file_path=KEY,
            validity_ns=self.validity_s * NS_PER_S,
            renew_interval_ns=self.renew_s * NS_PER_S,
            client=BenchClient(runtime, self.store),
            runtime=runtime,
            heartbeat=None if heartbeat is None else lambda _owner, _interval, _renew: heartbeat,
            listener=self.events.append,
            log=self.logged.append,
            **options,
        )

    def lock(self, runtime: BenchRuntime | None = None, *, of: type[HudiLock] = HudiLock) -> HudiLock:
        """Hudi's lock as the laboratory gets it. of: a class in its place."""
        return of(
            LockContext(
                runtime=runtime or self.runtime(),
                open_store=lambda _timeout_ns: self.store,
                settings=LockSettings(
                    key=KEY, validity_ns=self.validity_s * NS_PER_S, renew_interval_ns=self.renew_s * NS_PER_S
                ),
                listener=self.events.append,
            )
        )

    def run(self, *works: Callable[[], Any], until_s: int = 100_000) -> Any:
        """Run each work as a task, all at once, to the end. The result of the last one."""
        results: list[Any] = [None] * len(works)
        errors: list[Exception] = []

        def task(number: int, work: Callable[[], Any]) -> Callable[[], None]:
            def body() -> None:
                try:
                    results[number] = work()
                except (LockrefError, AssertionError) as error:
                    errors.append(error)

            return body

        for number, work in enumerate(works):
            self.kernel.spawn(task(number, work), name=f"main{number}")
        until_ns = self.kernel.now_ns + until_s * NS_PER_S
        assert self.kernel.run(until_ns, linger_ns=0) is RunEnd.FINISHED, self.kernel.stuck
        if errors:
            raise errors[0]
        return results[-1]

    def sleep(self, seconds: float) -> None:
        """From inside a work."""
        self.kernel.wait(round(seconds * NS_PER_S))

    @property
    def now_ms(self) -> int:
        return (EPOCH_NS + self.kernel.now_ns) // NS_PER_MS

    @property
    def record(self) -> LockFile:
        body = self.store.peek(KEY)
        assert body is not None, "there is no lock object"
        return parse(body)

    def put(self, owner: str, *, for_ms: int, expired: bool = False) -> None:
        """Write the lock object behind everybody's back."""
        self.store.put(KEY, serialize(LockFile(owner, self.now_ms + for_ms, expired)))

    def metrics(self) -> list[str]:
        return [event.name for event in self.events if event.kind is LockEventKind.METRIC]
