"""Our build of helix-lock plays the scripts of `lock_scripts`, on the modelled ZooKeeper or on a real one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from lockref.coordination.port import Failure, Stat, is_failure
from lockref.coordination.session import Session
from lockref.coordination.znodes import parent_of
from lockref.errors import ConfigError, CorruptRecord, LockError, StoreRejected
from lockref.helix.shipped.data_accessor import DataAccessor
from lockref.helix.shipped.nonblocking_lock import HelixException, LockConfig, NonblockingLock
from lockref.runtime import NS_PER_MS, NS_PER_S, Event, Runtime
from tests.evidence.helix.lock_scripts import Script, Trace, comparable

THROWN: Final = {
    HelixException: "HelixException",
    ConfigError: "IllegalArgumentException",
    CorruptRecord: "NullPointerException",
    StoreRejected: "IllegalStateException",
}
"""What the original throws in the place of each error of ours."""

_INSTANT: Final = re.compile(r"@(-?[0-9]+)")

Place = tuple[Session, Runtime]
"""A session that is not started yet, and the runtime of whoever has it."""


@dataclass(slots=True)
class Subject:
    """One lock object, and what its latest attempt has come to."""

    lock: NonblockingLock
    accessor: DataAccessor
    runtime: Runtime
    cleanups: list[int] = field(default_factory=list)
    _told: dict[str, Any] | None = None
    _ended: Event | None = None

    def begin(self) -> None:
        """Try to lock, in a task: it may wait."""
        ended = self._ended = self.runtime.event()
        self._told = None

        def attempt() -> None:
            self._told = told(self.lock.try_lock)
            ended.set()

        self.runtime.spawn(attempt, name="attempt")

    def await_rest(self) -> None:
        """Wait until the attempt is answered, or waits for an owner to clean up."""
        while self._told is None and not self.lock.is_waiting:
            self.runtime.sleep(10 * NS_PER_MS)

    def so_far(self) -> dict[str, Any]:
        return {"answer": "pending"} if self._told is None else self._told

    def end(self) -> dict[str, Any]:
        assert self._ended is not None, "an attempt that ends has begun"
        self._ended.wait(60 * NS_PER_S)
        assert self._told is not None, "no script waits so long"
        return self._told

    def call(self, call: str) -> dict[str, Any]:
        calls: dict[str, Callable[[], Any]] = {
            "unlock": self.lock.unlock,
            "owner": self.lock.is_current_owner,
            "info": self._info,
            "close": self._close,
        }
        return told(calls[call])

    def _info(self) -> list[Any]:
        info = self.lock.current_info()
        return list(info._replace(requestor=info.waiting))

    def _close(self) -> bool:
        self.lock.close()
        return True


def told(call: Callable[[], Any]) -> dict[str, Any]:
    """What a call answers, or throws, as the driver of the original says it."""
    try:
        return {"answer": call()}
    except (LockError, ConfigError) as error:
        return {"error": THROWN[type(error)], "text": str(error)}


def made(place: Place, path: str, settings: dict[str, Any]) -> Subject:
    """A lock object with the settings of a script."""
    session, runtime = place
    cleanups: list[int] = []

    def cleaned_up() -> None:
        cleanups.append(1)
        runtime.sleep(settings["cleanup"] * NS_PER_MS)

    config = LockConfig(
        user=settings["user"],
        lease_ms=settings["lease_ms"],
        message=settings["message"],
        priority=settings["priority"],
        waiting_ms=settings["waiting_ms"],
        cleanup_ms=settings["cleanup_ms"],
        is_forceful=settings["is_forceful"],
        on_cleanup=None if settings["cleanup"] is None else cleaned_up,
    )
    accessor = DataAccessor(session, runtime)
    return Subject(NonblockingLock(accessor, runtime, path, config), accessor, runtime, cleanups)


def played(script: Script, path: str, *, operator: Place, places: list[Place]) -> Trace:
    """What came of a script. operator: a session that is started; places: one for each lock object."""
    session, runtime = operator
    since_ms = runtime.wall_ns() // NS_PER_MS
    subjects = [
        made(place, path, settings)
        for place, settings in zip(places[: len(script["locks"])], script["locks"], strict=True)
    ]
    trace: Trace = []
    try:
        for step in script["steps"]:
            seen = _taken(step, path, session, runtime, subjects)
            if step[0] == "try":
                subjects[step[1]].await_rest()
            _settle(session, path, runtime, script["settle_ms"])
            if step[0] == "try":
                seen = subjects[step[1]].so_far()
            trace.append({**seen, **_look(session, path)})
    finally:
        for subject in subjects:
            subject.accessor.close()
    return comparable(trace, since_ms)


def _taken(step: list[Any], path: str, session: Session, runtime: Runtime, subjects: list[Subject]) -> dict[str, Any]:
    what: str = step[0]
    if what == "put":
        now_ms = runtime.wall_ns() // NS_PER_MS
        _put(session, path, _INSTANT.sub(lambda found: str(now_ms + int(found.group(1))), step[1]).encode())
    elif what == "delete":
        session.delete(path)
    elif what == "sleep":
        runtime.sleep(step[1] * NS_PER_MS)
    elif what == "try":
        subjects[step[1]].begin()
    else:
        subject: Subject = subjects[step[1]]
        return subject.end() if what == "end" else subject.call(what)
    return {}


def _put(session: Session, path: str, body: bytes) -> None:
    if session.set(path, body).missing and is_failure(session.create(path, body), Failure.NO_NODE):
        _put(session, parent_of(path), b"")
        _put(session, path, body)


def _settle(session: Session, path: str, runtime: Runtime, settle_ms: int) -> None:
    """Wait until nobody has written for so long."""
    known, since_ns = None, runtime.monotonic_ns()
    while runtime.monotonic_ns() - since_ns < settle_ms * NS_PER_MS:
        stat = session.exists(path).version
        if stat != known:
            known, since_ns = stat, runtime.monotonic_ns()
        runtime.sleep(settle_ms * NS_PER_MS // 10)


def _look(session: Session, path: str) -> dict[str, Any]:
    found = session.get(path)
    stat = found.version
    if found.body is None:
        return {"body": None, "version": -1}
    assert isinstance(stat, Stat), "a znode that is there has a version"
    return {"body": found.body.decode(), "version": stat.version}
