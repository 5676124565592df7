"""Hudi's own lock classes, called from Python.

Hudi's provider is used as released, over a lock client written in Python: its cloud clients are not part of the bundle,
so say "Hudi's provider over a client of ours", never "Hudi's S3 client". The provider's clock and its sleep between
throttled releases are package-private methods; a subclass made at run time (javassist, same package) turns them over to
the caller.

What Java holds of Python leads to a `HudiOriginal` by a weak reference only: a circle through both languages would
never be collected.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar

from lockref.errors import CorruptRecord, LockError
from lockref.originals.jars import Jar
from lockref.originals.jvm import java, leave_with_thread, start_jvm
from lockref.runtime import NS_PER_MS, ThreadRuntime
from lockref.storage.hudi.client import LockGetResult, LockUpsertResult, StorageLockClient, StorageLockFile
from lockref.storage.hudi.heartbeat import HeartbeatManager
from lockref.storage.hudi.provider import HoodieLockException, HoodieReleaseFailed, LockState
from lockref.storage.lockfile import NULL_RECORD, LockFile
from lockref.stores.port import Version

BUNDLE: Final = Jar(
    group="org.apache.hudi",
    artifact="hudi-spark3.5-bundle_2.12",
    version="1.2.0",
    sha256="cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
)

_BESIDE: Final = ("slf4j-api-*", "jackson-core-2*", "jackson-databind-2*", "jackson-annotations-2*", "javassist-*")
"""What Hudi's classes need, and what makes a subclass of one at run time: jars of pyspark."""

LOCK: Final = "org.apache.hudi.client.transaction.lock"
"""The package of Hudi's lock."""

_FINDING: Final = ThreadRuntime().mutex()
"""A class can be made once: two threads that look for Hudi's at once must not both make the subclass."""

_Method = TypeVar("_Method", bound=Callable[..., Any])
_STATE = re.compile(r"lock state ([A-Z_]+)")
_THREAD = re.compile(r", Thread .*?, (?=Storage based lock state)")


def start_hudi() -> None:
    """Start the JVM of this process with Hudi's bundle. Raises CapabilityMissing, as `start_jvm` does."""
    start_jvm([BUNDLE], beside=_BESIDE)
    with _FINDING:
        _hudi()


def parse_with_jackson(body: bytes, *, where: str = "the lock object") -> LockFile:
    """The record that Hudi's own reader reads from `body`. Raises CorruptRecord with the reader's message."""
    jpype = java()
    stream = jpype.JClass("java.io.ByteArrayInputStream")(jpype.JArray(jpype.JByte)(body))
    try:
        read = jpype.JClass(f"{LOCK}.models.StorageLockFile").createFromStream(stream, "v")
    except jpype.JException as error:
        raise CorruptRecord(f"reading {where}: {error.getMessage()}") from error
    return _lock_file(read).data


class HudiOriginal:
    """Hudi's `StorageBasedLockProvider`, with the names and errors of our baseline.

    client: asked from whichever thread Hudi asks from.
    heartbeat: replaces Hudi's heartbeat manager; None keeps it.
    now_ms, sleep: replace wall clock and throttle sleep (whole seconds; True:
        interrupted); None keeps Hudi's.
    thread_name: what Hudi's messages call the calling thread; None keeps the name that Java gave it.
    Errors: HoodieLockException, and LockError with the name of any other exception of Java's.
    """

    def __init__(
        self,
        owner_id: str,
        properties: Mapping[str, object],
        *,
        client: StorageLockClient,
        heartbeat: Callable[[str, int, Callable[[], bool]], HeartbeatManager] | None = None,
        now_ms: Callable[[], int] | None = None,
        sleep: Callable[[int], bool] = lambda _seconds: False,
        thread_name: Callable[[], str] | None = None,
    ) -> None:
        start_hudi()
        self.client = client
        self.now_ms = now_ms
        self.sleep = sleep
        self.heartbeat: HeartbeatManager | None = None
        self._new_heartbeat = heartbeat
        self._thread_name = thread_name
        leave_with_thread()
        jpype, hudi = java(), _hudi()
        typed = hudi.properties()
        for key, value in properties.items():
            typed.setProperty(key, str(value))
        callbacks = hudi.asked(weakref.proxy(self))
        arguments = [
            jpype.JString(owner_id),
            typed,
            hudi.own_heartbeat if heartbeat is None else _loader(callbacks.load_heartbeat),
            _loader(lambda _owner, _path, _properties: callbacks),
            hudi.logger,
            None,
        ]
        constructor = hudi.constructor if now_ms is None else hudi.virtual_constructor
        try:
            self._provider = constructor.newInstance(jpype.JArray(jpype.JObject)(arguments))
        except jpype.JException as error:
            cause = error.getCause()
            raise self._translated(cause if cause is not None else error) from error
        if now_ms is not None:
            hudi.clock.set(self._provider, callbacks)
            hudi.sleeper.set(self._provider, callbacks)

    def beat(self, owner_id: str, interval_ns: int, renew: Callable[[], bool]) -> None:
        """Make the heartbeat manager. Called by Hudi's constructor."""
        assert self._new_heartbeat is not None, "Hudi's own manager is made by Hudi"
        self.heartbeat = self._new_heartbeat(owner_id, interval_ns, renew)

    def try_lock(self) -> bool:
        return bool(self.call(self._provider.tryLock))

    def try_lock_for(self, timeout_ns: int) -> bool:
        """`tryLock(time, unit)`: it waits on the machine's clock, whatever `now_ms` says."""
        unit = java().JClass("java.util.concurrent.TimeUnit").NANOSECONDS
        return bool(self.call(lambda: self._provider.tryLock(timeout_ns, unit)))

    def unlock(self) -> None:
        self.call(self._provider.unlock)

    def close(self) -> None:
        self.call(self._provider.close)

    def renew_lock(self) -> bool:
        return bool(self._invoke("renewLock"))

    def run_shutdown_hook(self) -> None:
        self._invoke("shutdown", java().JBoolean(True))

    def remove_shutdown_hook(self) -> None:
        """Nothing of this provider runs at the end of the JVM."""
        self._invoke("tryRemoveShutdownHook")

    def get_lock(self) -> StorageLockFile | None:
        lock = self._provider.getLock()
        return None if lock is None else _lock_file(lock)

    def look_at_lock(self) -> StorageLockFile | None:
        """`getLock` without its monitor: for observers, who must never wait."""
        lock = _hudi().lock.get(self._provider)
        return None if lock is None else _lock_file(lock)

    def call(self, call: Callable[[], Any]) -> Any:
        """One call of Java, with its exception translated."""
        leave_with_thread()
        try:
            return call()
        except java().JException as error:
            raise self._translated(error) from error

    def _invoke(self, name: str, *arguments: object) -> Any:
        """Call a method that Java's access rules hide."""
        jpype = java()
        method = _hidden_method(name, len(arguments))
        try:
            return method.invoke(self._provider, jpype.JArray(jpype.JObject)(list(arguments)))
        except jpype.JException as error:
            cause = error.getCause()
            if cause is not None and cause.getClass().getSimpleName() == "PyExceptionProxy":
                # A Python client raised: thrown once more without the wrapping, JPype restores its exception.
                supplier = jpype.JProxy("java.util.function.Supplier", dict={"get": lambda: cause})
                jpype.JClass("java.util.Optional").empty().orElseThrow(supplier)
            raise self._translated(cause if cause is not None else error) from error

    def _translated(self, error: Any) -> LockError:
        """A Java exception as the baseline would have raised it."""
        name, message = str(error.getClass().getSimpleName()), str(error.getMessage())
        if name == "HoodieLockException":
            if self._thread_name is not None:
                message = _THREAD.sub(f", Thread {self._thread_name()}, ", message)
            found = _STATE.search(message)
            state = LockState(found[1]) if found else None
            kind = HoodieReleaseFailed if state is LockState.FAILED_TO_RELEASE else HoodieLockException
            return kind(message, state=state)
        if name == "HoodieIOException" or message == NULL_RECORD:
            return CorruptRecord(message)
        return LockError(f"{name}: {message}")


def clear_interrupt() -> bool:
    """Java's `Thread.interrupted()` of the calling thread: True if a heartbeat had failed (D10, U7)."""
    return bool(java().JClass("java.lang.Thread").interrupted())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hudi:
    """Hudi's classes and ours over them, found once; `virtual_constructor` makes a provider whose clock is a field."""

    properties: Any
    logger: Any
    own_heartbeat: Any
    constructor: Any
    virtual_constructor: Any
    clock: Any
    sleeper: Any
    lock: Any
    asked: Any


@cache
def _hudi() -> _Hudi:
    jpype = java()
    base = jpype.JClass(f"{LOCK}.StorageBasedLockProvider").class_
    virtual = _virtual_class(base)
    lock = base.getDeclaredField("currentLockObj")
    lock.setAccessible(True)
    return _Hudi(
        properties=jpype.JClass("org.apache.hudi.common.config.TypedProperties"),
        logger=jpype.JClass("org.slf4j.LoggerFactory").getLogger("hudi"),
        own_heartbeat=_loader(jpype.JClass(f"{LOCK}.models.LockProviderHeartbeatManager")),
        constructor=_constructor(base),
        virtual_constructor=_constructor(virtual),
        clock=virtual.getField("clock"),
        sleeper=virtual.getField("sleeper"),
        lock=lock,
        asked=_asked_class(),
    )


def _constructor(java_class: Any) -> Any:
    """The package-private constructor that takes a client and a heartbeat manager."""
    found = next(each for each in java_class.getDeclaredConstructors() if each.getParameterCount() == 6)
    found.setAccessible(True)
    return found


@cache
def _hidden_method(name: str, parameters: int) -> Any:
    base = java().JClass(f"{LOCK}.StorageBasedLockProvider").class_
    found = next(m for m in base.getDeclaredMethods() if m.getName() == name and m.getParameterCount() == parameters)
    found.setAccessible(True)
    return found


def _virtual_class(base: Any) -> Any:
    """A subclass of Hudi's provider whose clock and throttle sleep are fields."""
    jpype = java()
    pool = jpype.JClass("javassist.ClassPool")(True)
    # Whichever thread asks: only the one that started the JVM finds classes by its context.
    pool.appendClassPath(jpype.JClass("javassist.ClassClassPath")(base))
    new_field = jpype.JClass("javassist.CtField")
    new_method = jpype.JClass("javassist.CtNewMethod")
    made = pool.makeClass(f"{LOCK}.VirtualTimeLockProvider", pool.get(f"{LOCK}.StorageBasedLockProvider"))
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
    return made.toClass(base)


def _lock_file(found: Any) -> StorageLockFile:
    return StorageLockFile(_lock_data(found, found.getValidUntilMs), Version(str(found.getVersionId())))


def _lock_data(found: Any, valid_until_ms: Callable[[], Any]) -> LockFile:
    owner = found.getOwner()
    return LockFile(None if owner is None else str(owner), int(valid_until_ms()), bool(found.isExpired()))


def _asked_class() -> Any:
    """The class of what Hudi asks: its lock client, its clock and its sleep, over one `HudiOriginal`."""
    jpype = java()
    override: Callable[[_Method], _Method] = jpype.JOverride
    pair = jpype.JClass("org.apache.hudi.common.util.collection.Pair")
    option = jpype.JClass("org.apache.hudi.common.util.Option")
    get_results = {each: jpype.JClass(f"{LOCK}.models.LockGetResult").valueOf(each.name) for each in LockGetResult}
    upsert_result = jpype.JClass(f"{LOCK}.models.LockUpsertResult")
    upsert_results = {each: upsert_result.valueOf(each.name) for each in LockUpsertResult}
    java_data = jpype.JClass(f"{LOCK}.models.StorageLockData")
    java_file = jpype.JClass(f"{LOCK}.models.StorageLockFile")
    beats = _heartbeat_class()

    def optional(file: StorageLockFile | None) -> Any:
        if file is None:
            return option.empty()
        data = file.data
        return option.of(java_file(java_data(data.expired, data.valid_until_ms, data.owner), file.version))

    @jpype.JImplements(
        f"{LOCK}.StorageLockClient", "java.util.function.LongSupplier", "java.util.function.LongPredicate"
    )
    class Asked:
        def __init__(self, original: HudiOriginal) -> None:
            self.original = original

        def load_heartbeat(self, owner: Any, interval_ms: Any, renew: Any) -> Any:
            original = self.original
            original.beat(str(owner), int(interval_ms) * NS_PER_MS, lambda: bool(original.call(renew.get)))
            return beats(original)

        @override
        def getAsLong(self) -> int:  # noqa: N802
            now_ms = self.original.now_ms
            assert now_ms is not None, "Hudi's own clock asks nobody"
            return now_ms()

        @override
        def test(self, seconds: Any) -> bool:
            return self.original.sleep(int(seconds))

        @override
        def readCurrentLockFile(self) -> Any:  # noqa: N802
            result, file = self.original.client.read_current_lock_file()
            return pair.of(get_results[LockGetResult(result)], optional(file))

        @override
        def tryUpsertLockFile(self, new: Any, previous: Any) -> Any:  # noqa: N802
            before = _lock_file(previous.get()) if previous.isPresent() else None
            result, file = self.original.client.try_upsert_lock_file(_lock_data(new, new.getValidUntil), before)
            return pair.of(upsert_results[LockUpsertResult(result)], optional(file))

        @override
        def readObject(self, path: Any, check_exists_first: Any) -> Any:  # noqa: N802
            text = self.original.client.read_object(str(path), bool(check_exists_first))
            return option.empty() if text is None else option.of(jpype.JString(text))

        @override
        def writeObject(self, path: Any, content: Any) -> Any:  # noqa: N802
            return self.original.client.write_object(str(path), str(content))

        @override
        def close(self) -> None:
            self.original.client.close()

    return Asked


def _heartbeat_class() -> Any:
    """The class of a heartbeat manager of Hudi's that asks the one of a `HudiOriginal`."""
    jpype = java()
    override: Callable[[_Method], _Method] = jpype.JOverride

    @jpype.JImplements(f"{LOCK}.models.HeartbeatManager")
    class Beats:
        def __init__(self, original: HudiOriginal) -> None:
            self.original = original

        @property
        def manager(self) -> HeartbeatManager:
            manager = self.original.heartbeat
            assert manager is not None, "the constructor made it"
            return manager

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

    return Beats


def _loader(load: Callable[[Any, Any, Any], Any]) -> Any:
    return java().JProxy("org.apache.hudi.common.util.Functions$Function3", dict={"apply": load})
