"""Hudi's own lock classes inside this Python process, through JPype.

Hudi's provider is used as released, over a lock client written in Python: its
cloud clients are not part of the bundle, so say "Hudi's provider over a client
of ours", never "Hudi's S3 client". The provider's clock and its sleep between
throttled releases are package-private methods; a subclass made at run time
(javassist, same package) turns them over to the caller, and the original then
lives in virtual time.

One process can have one JVM, and a provider that is never closed keeps the
process from ending (D12): run it in a child process and close what you open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from lockref.errors import CapabilityMissing, CorruptRecord, LockError
from lockref.java import search_java
from lockref.runtime import ThreadRuntime
from lockref.storage.hudi.client import LockGetResult, LockUpsertResult, StorageLockClient, StorageLockFile
from lockref.storage.hudi.heartbeat import HeartbeatManager
from lockref.storage.hudi.provider import HoodieLockException, HoodieReleaseFailed, LockState
from lockref.storage.lockfile import NULL_RECORD, LockFile
from lockref.stores.port import Version
from tests.evidence.peers.jars import Jar, bundled, fetch

BUNDLE: Final = Jar(
    group="org.apache.hudi",
    artifact="hudi-spark3.5-bundle_2.12",
    version="1.2.0",
    sha256="cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
)

_Method = TypeVar("_Method", bound=Callable[..., Any])

_LOCK = "org.apache.hudi.client.transaction.lock"
_STATE = re.compile(r"lock state ([A-Z_]+)")


_STARTING: Final = ThreadRuntime().mutex()
"""Two threads that start the JVM at once bring the process down: whether it runs is asked under this."""


def start_jvm() -> None:
    """Start the JVM of this process, once, whichever thread comes first.

    Raises CapabilityMissing: no JPype, no Java, no jar.
    """
    try:
        import jpype
    except ImportError as error:
        raise CapabilityMissing("driving Hudi's Java classes needs jpype1, which `make setup` installs") from error
    with _STARTING:
        if not jpype.isJVMStarted():
            _start(jpype)


def _start(jpype: Any) -> None:
    search = search_java()
    if search.home is None:
        raise CapabilityMissing(search.reason)
    libraries = sorted(search.home.path.rglob("libjvm.*"))
    if not libraries:
        raise CapabilityMissing(f"{search.home} has no libjvm: install a full runtime")
    patterns = ("slf4j-api-*", "jackson-core-2*", "jackson-databind-2*", "jackson-annotations-2*", "javassist-*")
    class_path = [fetch(BUNDLE, java=search.home), *(bundled(f"{pattern}.jar") for pattern in patterns)]
    jpype.startJVM(
        "-Dslf4j.internal.verbosity=ERROR",
        "-Xmx256m",
        jvmpath=str(libraries[-1]),
        classpath=[str(path) for path in class_path],
        convertStrings=False,
    )


def parse_with_jackson(body: bytes, *, where: str = "the lock object") -> LockFile:
    """The record that Hudi's own reader reads from `body`. Raises CorruptRecord with the reader's message."""
    jpype = _jpype()
    stream = jpype.JClass("java.io.ByteArrayInputStream")(jpype.JArray(jpype.JByte)(body))
    try:
        read = jpype.JClass(f"{_LOCK}.models.StorageLockFile").createFromStream(stream, "v")
    except jpype.JException as error:
        raise CorruptRecord(f"reading {where}: {error.getMessage()}") from error
    return _lock_file(read).data


def serialize_with_jackson(record: LockFile) -> bytes:
    """The bytes that Hudi's own writer makes."""
    return bytes(_jpype().JClass(f"{_LOCK}.models.StorageLockFile").toByteArray(_java_data(record)))


def lock_folder_of(base_path: str) -> str:
    """Hudi's own answer to: where is the lock folder of this table?"""
    return str(_jpype().JClass(f"{_LOCK}.StorageLockClient").getLockFolderPath(base_path))


def bucket_and_key_of(uri: str) -> tuple[str, str]:
    """Hudi's own answer to: which bucket and key does this URI name? Raises LockError with its message."""
    jpype = _jpype()
    try:
        pair = jpype.JClass(f"{_LOCK}.StorageLockClient").parseBucketAndPath(uri)
    except jpype.JException as error:
        raise LockError(str(error.getMessage())) from error
    return str(pair.getLeft()), str(pair.getRight())


class HudiOriginal:
    """Hudi's `StorageBasedLockProvider`, with the names and errors of our baseline.

    client: asked from whichever thread Hudi asks from.
    heartbeat: replaces Hudi's heartbeat manager; None keeps it.
    now_ms, sleep: replace wall clock and throttle sleep (whole seconds; True:
        interrupted); None keeps Hudi's.
    """

    def __init__(
        self,
        owner_id: str,
        properties: Mapping[str, object],
        *,
        client: StorageLockClient,
        heartbeat: Callable[[str, int, Callable[[], bool]], HeartbeatManager] | None = None,
        now_ms: Callable[[], int] | None = None,
        sleep: Callable[[int], bool] | None = None,
    ) -> None:
        start_jvm()
        jpype = _jpype()
        typed = jpype.JClass("org.apache.hudi.common.config.TypedProperties")()
        for key, value in properties.items():
            typed.setProperty(key, str(value))
        is_virtual = now_ms is not None
        java_class = _virtual_class() if is_virtual else jpype.JClass(f"{_LOCK}.StorageBasedLockProvider").class_
        constructor = next(c for c in java_class.getDeclaredConstructors() if c.getParameterCount() == 6)
        constructor.setAccessible(True)
        logger = jpype.JClass("org.slf4j.LoggerFactory").getLogger("hudi")
        arguments = [
            jpype.JString(owner_id),
            typed,
            _heartbeat_loader(heartbeat),
            _client_loader(client),
            logger,
            None,
        ]
        self._class = java_class
        try:
            self._provider = constructor.newInstance(jpype.JArray(jpype.JObject)(arguments))
        except jpype.JException as error:
            cause = error.getCause()
            raise _translated(cause if cause is not None else error) from error
        if now_ms is not None:
            self._set("clock", _clock(now_ms))
            self._set("sleeper", _sleeper(sleep or (lambda _seconds: False)))

    def _set(self, name: str, value: object) -> None:
        self._class.getField(name).set(self._provider, value)

    def _invoke(self, name: str, *arguments: object) -> Any:
        """Call a method of the base class that Java's access rules hide."""
        jpype = _jpype()
        base = jpype.JClass(f"{_LOCK}.StorageBasedLockProvider").class_
        method = next(
            m for m in base.getDeclaredMethods() if m.getName() == name and m.getParameterCount() == len(arguments)
        )
        method.setAccessible(True)
        try:
            return method.invoke(self._provider, jpype.JArray(jpype.JObject)(list(arguments)))
        except jpype.JException as error:
            cause = error.getCause()
            if cause is not None and cause.getClass().getSimpleName() == "PyExceptionProxy":
                # A Python client raised: thrown once more without the wrapping, JPype restores its exception.
                jpype.JClass("java.util.Optional").empty().orElseThrow(_supplier(lambda: cause))
            raise _translated(cause if cause is not None else error) from error

    def try_lock(self) -> bool:
        return bool(self._call(self._provider.tryLock))

    def try_lock_for(self, timeout_ns: int) -> bool:
        unit = _jpype().JClass("java.util.concurrent.TimeUnit").NANOSECONDS
        return bool(self._call(lambda: self._provider.tryLock(timeout_ns, unit)))

    def unlock(self) -> None:
        self._call(self._provider.unlock)

    def close(self) -> None:
        self._call(self._provider.close)

    def renew_lock(self) -> bool:
        return bool(self._invoke("renewLock"))

    def run_shutdown_hook(self) -> None:
        jpype = _jpype()
        self._invoke("shutdown", jpype.JBoolean(True))

    def get_lock(self) -> StorageLockFile | None:
        lock = self._provider.getLock()
        return None if lock is None else _lock_file(lock)

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except _jpype().JException as error:
            raise _translated(error) from error


class HudiHeartbeatOriginal:
    """Hudi's `LockProviderHeartbeatManager` on a scheduler whose ticks the caller makes.

    schedule: called as the executor's scheduleAtFixedRate would be, with the
        work to run at each tick and what cancels it; may raise to refuse.
    """

    def __init__(
        self,
        owner_id: str,
        renew: Callable[[], bool],
        *,
        schedule: Callable[[Callable[[], None]], Callable[[], None]],
        shutdown: Callable[[], None],
        stop_timeout_ms: int,
    ) -> None:
        start_jvm()
        jpype = _jpype()

        def schedule_at_fixed_rate(work: Any, _initial: Any, _period: Any, _unit: Any) -> Any:
            cancel = schedule(work.run)

            def cancelled(_may_interrupt: Any) -> bool:
                cancel()
                return True

            return jpype.JProxy("java.util.concurrent.ScheduledFuture", dict={"cancel": cancelled})

        executor = jpype.JProxy(
            "java.util.concurrent.ScheduledExecutorService",
            dict={
                "scheduleAtFixedRate": schedule_at_fixed_rate,
                "shutdown": shutdown,
                "awaitTermination": lambda _timeout, _unit: True,
                "shutdownNow": lambda: None,
            },
        )
        java_class = jpype.JClass(f"{_LOCK}.models.LockProviderHeartbeatManager").class_
        constructor = next(c for c in java_class.getDeclaredConstructors() if c.getParameterCount() == 7)
        constructor.setAccessible(True)
        arguments = [
            jpype.JString(owner_id),
            executor,
            jpype.JLong(1000),
            jpype.JLong(stop_timeout_ms),
            _supplier(lambda: jpype.JBoolean(renew())),
            jpype.JClass("java.util.concurrent.Semaphore")(1),
            jpype.JClass("org.slf4j.LoggerFactory").getLogger("hudi"),
        ]
        self._manager = constructor.newInstance(jpype.JArray(jpype.JObject)(arguments))

    def start(self, *, owner_is_alive: bool) -> bool:
        """Start for the calling thread, or for one that never ran."""
        thread = current_java_thread() if owner_is_alive else _jpype().JClass("java.lang.Thread")()
        return bool(self._manager.startHeartbeatForThread(thread))

    def stop(self) -> bool:
        return bool(self._manager.stopHeartbeat(True))

    def is_active(self) -> bool:
        return bool(self._manager.hasActiveHeartbeat())

    def close(self) -> None:
        self._manager.close()


def clear_interrupt() -> bool:
    """Java's `Thread.interrupted()` of the calling thread: True if a heartbeat had failed (D10, U7)."""
    return bool(_jpype().JClass("java.lang.Thread").interrupted())


def current_java_thread() -> Any:
    """The calling thread as Java sees it; `isInterrupted()` may be asked from anywhere."""
    return _jpype().JClass("java.lang.Thread").currentThread()


def _translated(error: Any) -> LockError:
    """A Java exception as the baseline would have raised it."""
    name, message = str(error.getClass().getSimpleName()), str(error.getMessage())
    if name == "HoodieLockException":
        found = _STATE.search(message)
        state = LockState(found[1]) if found else None
        kind = HoodieReleaseFailed if state is LockState.FAILED_TO_RELEASE else HoodieLockException
        return kind(message, state=state)
    if name == "HoodieIOException" or message == NULL_RECORD:
        return CorruptRecord(message)
    return LockError(f"{name}: {message}")


def _jpype() -> Any:
    import jpype

    return jpype


def _java_data(record: LockFile) -> Any:
    return _jpype().JClass(f"{_LOCK}.models.StorageLockData")(record.expired, record.valid_until_ms, record.owner)


def _java_file(file: StorageLockFile) -> Any:
    return _jpype().JClass(f"{_LOCK}.models.StorageLockFile")(_java_data(file.data), file.version)


def _lock_file(java: Any) -> StorageLockFile:
    owner = java.getOwner()
    data = LockFile(None if owner is None else str(owner), int(java.getValidUntilMs()), bool(java.isExpired()))
    return StorageLockFile(data, Version(str(java.getVersionId())))


@cache
def _virtual_class() -> Any:
    """A subclass of Hudi's provider whose clock and throttle sleep are fields."""
    jpype = _jpype()
    pool = jpype.JClass("javassist.ClassPool").getDefault()
    new_field = jpype.JClass("javassist.CtField")
    new_method = jpype.JClass("javassist.CtNewMethod")
    base = f"{_LOCK}.StorageBasedLockProvider"
    made = pool.makeClass(f"{_LOCK}.VirtualTimeLockProvider", pool.get(base))
    made.addField(new_field.make("public java.util.function.LongSupplier clock;", made))
    made.addField(new_field.make("public java.util.function.LongPredicate sleeper;", made))
    made.addMethod(new_method.make("long getCurrentEpochMs() { return clock.getAsLong(); }", made))
    made.addMethod(
        new_method.make(
            "void sleepForThrottleRetry(long seconds) throws InterruptedException {"
            " if (sleeper.test(seconds)) throw new InterruptedException(); }",
            made,
        )
    )
    return made.toClass(jpype.JClass(base).class_)


@cache
def _client_class() -> Any:
    """The class of a client of Hudi's that asks one of ours. Made once the JVM runs."""
    jpype = _jpype()
    override: Callable[[_Method], _Method] = jpype.JOverride
    pair = jpype.JClass("org.apache.hudi.common.util.collection.Pair")
    option = jpype.JClass("org.apache.hudi.common.util.Option")
    get_result = jpype.JClass(f"{_LOCK}.models.LockGetResult")
    upsert_result = jpype.JClass(f"{_LOCK}.models.LockUpsertResult")

    def optional(file: StorageLockFile | None) -> Any:
        return option.empty() if file is None else option.of(_java_file(file))

    @jpype.JImplements(f"{_LOCK}.StorageLockClient")
    class Client:
        def __init__(self, client: StorageLockClient) -> None:
            self.client = client

        @override
        def readCurrentLockFile(self) -> Any:  # noqa: N802
            result, file = self.client.read_current_lock_file()
            return pair.of(get_result.valueOf(LockGetResult(result).name), optional(file))

        @override
        def tryUpsertLockFile(self, new: Any, previous: Any) -> Any:  # noqa: N802
            owner = new.getOwner()
            data = LockFile(None if owner is None else str(owner), int(new.getValidUntil()), bool(new.isExpired()))
            before = _lock_file(previous.get()) if previous.isPresent() else None
            result, file = self.client.try_upsert_lock_file(data, before)
            return pair.of(upsert_result.valueOf(LockUpsertResult(result).name), optional(file))

        @override
        def readObject(self, path: Any, check_exists_first: Any) -> Any:  # noqa: N802
            text = self.client.read_object(str(path), bool(check_exists_first))
            return option.empty() if text is None else option.of(jpype.JString(text))

        @override
        def writeObject(self, path: Any, content: Any) -> Any:  # noqa: N802
            return self.client.write_object(str(path), str(content))

        @override
        def close(self) -> None:
            self.client.close()

    return Client


@cache
def _heartbeat_class() -> Any:
    """The class of a heartbeat manager of Hudi's that asks one of ours. Made once the JVM runs."""
    jpype = _jpype()
    override: Callable[[_Method], _Method] = jpype.JOverride

    @jpype.JImplements(f"{_LOCK}.models.HeartbeatManager")
    class Heartbeat:
        def __init__(self, manager: HeartbeatManager) -> None:
            self.manager = manager

        @override
        def startHeartbeatForThread(self, thread: Any) -> Any:  # noqa: N802
            return self.manager.start_heartbeat_for_thread(thread)

        @override
        def stopHeartbeat(self, may_interrupt: Any) -> Any:  # noqa: N802
            return self.manager.stop_heartbeat(bool(may_interrupt))

        @override
        def hasActiveHeartbeat(self) -> Any:  # noqa: N802
            return self.manager.has_active_heartbeat()

        @override
        def close(self) -> None:
            self.manager.close()

    return Heartbeat


def _client_loader(client: StorageLockClient) -> Any:
    make = _client_class()
    return _loader(lambda _owner, _path, _properties: make(client))


def _heartbeat_loader(load: Callable[[str, int, Callable[[], bool]], HeartbeatManager] | None) -> Any:
    """Hudi's own heartbeat manager where `load` is None."""
    if load is None:
        return _loader(_jpype().JClass(f"{_LOCK}.models.LockProviderHeartbeatManager"))
    make = _heartbeat_class()
    return _loader(
        lambda owner, interval_ms, renew: make(
            load(str(owner), int(interval_ms) * 1_000_000, lambda: bool(renew.get()))
        )
    )


def _loader(load: Callable[[Any, Any, Any], Any]) -> Any:
    return _jpype().JProxy("org.apache.hudi.common.util.Functions$Function3", dict={"apply": load})


def _supplier(supply: Callable[[], Any]) -> Any:
    return _jpype().JProxy("java.util.function.Supplier", dict={"get": supply})


def _clock(now_ms: Callable[[], int]) -> Any:
    return _jpype().JProxy("java.util.function.LongSupplier", dict={"getAsLong": now_ms})


def _sleeper(sleep: Callable[[int], bool]) -> Any:
    """sleep: see `HudiOriginal`."""
    return _jpype().JProxy("java.util.function.LongPredicate", dict={"test": lambda seconds: sleep(int(seconds))})
