"""Helix' lock as an application uses it: one lock object for the life of the process, asked until it says yes.

The class keeps no belief of its own: `isCurrentOwner` asks the server. So a holder believes from the yes of `tryLock`
to its `unlock`, or to the end of the clean-up that a pre-emption asks of it. The class has no heartbeat, either: the
lease is as long as it was asked for. A process that ends gives nothing back.
"""

from __future__ import annotations

from typing import Final, Self
from urllib.parse import unquote

from lockref.coordination.session import COORDINATION, Session
from lockref.coordination.znode_store import path_of
from lockref.errors import ConfigError, LockError, LockLost, LockNotHeld, quote
from lockref.grammar import decimal
from lockref.helix.shipped.data_accessor import DataAccessor
from lockref.helix.shipped.lock_info import NOBODY, LockInfo
from lockref.helix.shipped.nonblocking_lock import (
    WAITING_FOR_EVER_MS,
    HelixException,
    LockConfig,
    LockScope,
    NonblockingLock,
)
from lockref.helix.shipped.stored_record import LONG_MAX, parsed
from lockref.locks.values import LeaseTerms
from lockref.provider import Grant, LockContext, LockEvent, LockEventKind, LockSettings, LockView
from lockref.runtime import NS_PER_MS, NS_PER_S, WallNs
from lockref.stores.port import Version

CLUSTER: Final = "locks"
_FOLDER: Final = LockScope.RESOURCE.path((CLUSTER, ""))

PRIORITY, WAITING_MS, CLEANUP_MS = "priority", "waiting_ms", "cleanup_ms"
CLEANUP_TAKES_MS, IS_FORCEFUL, HAS_LISTENER = "cleanup_takes_ms", "forceful", "listener"
_NUMBERS: Final = {PRIORITY: 0, WAITING_MS: WAITING_FOR_EVER_MS, CLEANUP_MS: 0, CLEANUP_TAKES_MS: 0}
_SWITCHES: Final = {IS_FORCEFUL: False, HAS_LISTENER: True}


def lock_path(key: str) -> str:
    """The znode of a key: the lock of a resource of that name, whatever characters it has."""
    return _FOLDER + path_of(key).rpartition("/")[2]


def decode_state(key: str, body: bytes) -> list[LockView]:
    """The lock that a znode describes; an empty list for a body that is no record with an owner field.

    A `StateDecoder`.
    """
    record = parsed(body)
    if not key.startswith(_FOLDER) or record is None or not record.simple or "OWNER" not in record.simple:
        return []
    info = LockInfo.of(record)
    return [
        LockView(
            lock=unquote(key.removeprefix(_FOLDER)),
            owner=info.owner,
            valid_until_ns=WallNs(min(info.timeout_ms * NS_PER_MS, LONG_MAX)) if info.timeout_ms >= 0 else None,
            is_released=info.owner == NOBODY,
        )
    ]


class HelixNonblockingLock:
    """One process's lock object. See `LockProvider`.

    context.settings: `validity_ns` is the lease. options: `priority`, `waiting_ms` (how long to wait for the owner's
    clean-up), `cleanup_ms` (how long an owner may clean up), `cleanup_takes_ms` (how long it does), `forceful` (true:
    take the lock when the waiting is over), `listener` (false: nobody hears of a pre-emption). An option with the name
    of a client behind it, such as `priority.n2`, is of that client alone. Raises ConfigError for any other value.
    """

    stands_on = COORDINATION.name
    record_format = "helix-lock"
    default_lock_key = "table"
    decode_state = staticmethod(decode_state)

    def __init__(self, context: LockContext) -> None:
        settings = context.settings
        self._runtime = context.runtime
        self._listener = context.listener
        self._key = settings.key
        self._poll_ns = settings.poll_interval_ns
        self._session: Session = context.open(
            COORDINATION, timeout_ns=LeaseTerms.default_request_timeout_ns(settings.renew_interval_ns)
        )
        self._accessor = DataAccessor(self._session, context.runtime)
        numbers, switches = _options(settings, self._session.client)
        self._cleanup_takes_ns = numbers[CLEANUP_TAKES_MS] * NS_PER_MS
        config = LockConfig(
            user=settings.options.get("owner_name") or context.runtime.token_bytes(8).hex(),
            lease_ms=settings.validity_ns // NS_PER_MS,
            priority=numbers[PRIORITY],
            waiting_ms=numbers[WAITING_MS],
            cleanup_ms=numbers[CLEANUP_MS],
            is_forceful=switches[IS_FORCEFUL],
            on_cleanup=self._cleaned_up if switches[HAS_LISTENER] else None,
        )
        self.lock_object = NonblockingLock(self._accessor, context.runtime, lock_path(settings.key), config)
        self._is_held = False
        self._is_preempted = False

    @classmethod
    def from_context(cls, context: LockContext) -> Self:
        return cls(context)

    @property
    def grant(self) -> Grant | None:
        """From memory. No token and no deadline: the class has neither."""
        if not self._is_held:
            return None
        written = self._accessor.written
        return Grant(owner=self.lock_object.config.user, version=None if written is None else Version(str(written)))

    def holds(self) -> bool:
        return self._is_held

    def try_lock(self) -> bool:
        """One call of `tryLock`, which waits where this client has the higher priority."""
        self._is_preempted = False
        try:
            is_granted = self.lock_object.try_lock()
        except HelixException:
            # To its caller this is a no, whatever the record says by now (HJ4).
            is_granted = False
        # The owner may be told to give way before it has heard that it has the lock.
        self._is_held = is_granted and not self._is_preempted
        if self._is_held:
            self._report(LockEventKind.GRANTED)
        return self._is_held

    def lock(self, timeout_s: float) -> bool:
        """Ask again and again: the class has no call that waits for an owner of the same priority."""
        until_ns = self._runtime.monotonic_ns() + round(timeout_s * NS_PER_S)
        while True:
            if self.try_lock():
                return True
            if self._runtime.monotonic_ns() + self._poll_ns > until_ns:
                return False
            self._runtime.sleep(self._poll_ns)

    def unlock(self) -> None:
        """Raises LockNotHeld, LockLost after a pre-emption, LockError where another has the lock by now."""
        if not self._is_held:
            if self._is_preempted:
                self._is_preempted = False
                raise LockLost(f"{self._key}: a higher priority has taken the lock", reason="pre-empted")
            raise LockNotHeld(f"releasing {self._key}: nothing is held")
        self._is_held = False
        if not self.lock_object.unlock():
            raise LockError(f"releasing {self._key}: another has the lock by now")
        self._report(LockEventKind.RELEASED)

    def close(self) -> None:
        """End the connection. What is held stays locked until its lease ends.

        The class refuses to close while it holds, and a process that ends all the same gives nothing back.
        """
        self._is_held = False
        self._accessor.close()

    def _cleaned_up(self) -> None:
        """The listener of a well-behaved application: it cleans up, and works no more."""
        if self._cleanup_takes_ns:
            self._runtime.sleep(self._cleanup_takes_ns)
        self._is_preempted = True
        if self._is_held:
            self._is_held = False
            self._report(LockEventKind.LOST, "pre-empted")

    def _report(self, kind: LockEventKind, reason: str = "") -> None:
        self._listener(LockEvent(kind=kind, grant=self.grant, reason=reason))


def _options(settings: LockSettings, client: str) -> tuple[dict[str, int], dict[str, bool]]:
    """The options of one client: whole numbers, and yes or no."""
    told = settings.options

    def text(name: str, otherwise: str) -> str:
        return told.get(f"{name}.{client}", told.get(name, otherwise))

    numbers: dict[str, int] = {}
    for name, default in _NUMBERS.items():
        found = text(name, str(default))
        number = decimal(found)
        if number is None:
            raise ConfigError(f"option {name} is {quote(found)}; expected a whole number, such as {default}")
        numbers[name] = number
    switches: dict[str, bool] = {}
    for name, is_on in _SWITCHES.items():
        found = text(name, str(is_on).lower())
        if found not in ("true", "false"):
            raise ConfigError(f"option {name} is {found!r}; expected true or false")
        switches[name] = found == "true"
    return numbers, switches
