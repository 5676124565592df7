"""The three cloud clients of Hudi: how each of them maps a store's answers.

Hudi's provider never sees a status code: its client folds every answer into
LockGetResult or LockUpsertResult, or throws. The three clients disagree, and
the disagreements decide what the lock does (D7, D8, U9). Here they are tables,
one per dialect; "memory" behaves like S3.

Source: Hudi 1.2.0 `StorageLockClient`; `S3StorageLockClient`,
`GCSStorageLockClient`, `AzureStorageLockClient` as described in RFC-91 notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from lockref.errors import LockError, OutcomeUnknown, StoreRejected
from lockref.storage.config import split_lock_uri
from lockref.storage.lockfile import LockFile, parse_strictly_as_hudi, serialize
from lockref.stores.port import ObjectStore, ReadReply, Version, WriteReply
from lockref.words import Outcome


class LockGetResult(IntEnum):
    """Answer to a read; the numbers are Hudi's codes."""

    NOT_EXISTS = 0
    SUCCESS = 1
    UNKNOWN_ERROR = 2


class LockUpsertResult(IntEnum):
    """Answer to a conditional write; the numbers are Hudi's codes."""

    SUCCESS = 0
    ACQUIRED_BY_OTHERS = 1
    UNKNOWN_ERROR = 2
    THROTTLED = 3


# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_OUTCOME_APPLIED: Final = Outcome.APPLIED
_READ_FOUND: Final = LockGetResult.SUCCESS
_WRITE_LANDED: Final = LockUpsertResult.SUCCESS


class IllegalVersion(LockError):
    """The store took the write and named no version, so nothing can be built on it (Hudi: IllegalArgumentException)."""


@dataclass(slots=True, unsafe_hash=True)
class StorageLockFile:
    """A lock object as read or written: its content and the version that holds it.

    Not frozen, as the content is not: a frozen dataclass takes twice as long to make. Nobody changes one.
    """

    data: LockFile
    version: Version

    def __post_init__(self) -> None:
        if not self.version:
            raise IllegalVersion("VersionId must not be null or empty.")


class StorageLockClient(Protocol):
    """Conditional writes on one lock object, and plain access to the objects beside it."""

    def read_current_lock_file(self) -> tuple[LockGetResult, StorageLockFile | None]: ...

    def try_upsert_lock_file(
        self, new: LockFile, previous: StorageLockFile | None
    ) -> tuple[LockUpsertResult, StorageLockFile | None]:
        """Write `new` over `previous`, or create it where that is None."""
        ...

    def read_object(self, path: str, check_exists_first: bool) -> str | None:
        """Text of another object; None if it is absent or unreadable."""
        ...

    def write_object(self, path: str, content: str) -> bool:
        """Replace another object unconditionally; False if that failed."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One of Hudi's clients: its mapping of HTTP statuses. Statuses in no table raise.

    read, write: exact statuses; a server error (5xx) is always unknown.
    other_rejections: what a write makes of any other 4xx; None raises.
    silence_on_create, silence_on_update: no response at all; None raises.
    missing_status, throttled_status: the status to assume where a store gives none.
    """

    read: Mapping[int, LockGetResult]
    write: Mapping[int, LockUpsertResult]
    other_rejections: LockUpsertResult | None
    silence_on_create: LockUpsertResult | None
    silence_on_update: LockUpsertResult | None
    missing_status: int
    throttled_status: int
    tolerates_no_version: bool = False


_READ = {404: LockGetResult.NOT_EXISTS, 429: LockGetResult.UNKNOWN_ERROR}
_WRITE = {412: LockUpsertResult.ACQUIRED_BY_OTHERS, 429: LockUpsertResult.THROTTLED}
_UNKNOWN = LockUpsertResult.UNKNOWN_ERROR

S3: Final = Dialect(
    read={**_READ, 409: LockGetResult.UNKNOWN_ERROR},
    write={**_WRITE, 409: _UNKNOWN},
    other_rejections=_UNKNOWN,
    silence_on_create=None,
    silence_on_update=_UNKNOWN,
    # `If-Match` on a missing key: 404, hence unknown, hence "healthy" (U9).
    missing_status=404,
    # S3 throttles with 503 SlowDown, which never takes the THROTTLED path.
    throttled_status=503,
)
GCS: Final = Dialect(
    read=_READ,
    write=_WRITE,
    other_rejections=None,
    silence_on_create=None,
    silence_on_update=None,
    missing_status=412,
    throttled_status=429,
)
AZURE: Final = Dialect(
    read=_READ,
    write={**_WRITE, 409: _UNKNOWN},
    other_rejections=_UNKNOWN,
    # Only an HttpResponseException of a create is thrown on; silence is another exception.
    silence_on_create=_UNKNOWN,
    silence_on_update=_UNKNOWN,
    missing_status=412,
    throttled_status=429,
    tolerates_no_version=True,
)
DIALECTS: Final[Mapping[str, Dialect]] = {"s3": S3, "memory": S3, "gcs": GCS, "azure": AZURE}


class Parser(Protocol):
    """Reads a lock object's bytes, or raises CorruptRecord."""

    def __call__(self, body: bytes, *, where: str) -> LockFile: ...


class ObjectStoreLockClient:
    """Hudi's client over any ObjectStore, in the dialect that the store speaks.

    key: of the lock object. close: what to do at the end; stores may be shared.
    parse: the reader of lock objects; Hudi's own where Java is at hand.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        *,
        close: Callable[[], None] = lambda: None,
        parse: Parser = parse_strictly_as_hudi,
    ) -> None:
        self._store = store
        self._key = key
        self._close = close
        self._parse = parse
        # A dialect nobody described (a local folder) gets S3's table.
        self._dialect = DIALECTS.get(store.capabilities.dialect, S3)

    def read_current_lock_file(self) -> tuple[LockGetResult, StorageLockFile | None]:
        """Raises CorruptRecord, StoreRejected, or OutcomeUnknown where Hudi's client lets its SDK's exception out."""
        reply = self._store.read(self._key)
        if reply.body is not None:
            data = self._parse(reply.body, where=self._key)
            return _READ_FOUND, StorageLockFile(data, reply.version or Version(""))
        status = self._status(reply, is_missing=reply.is_absent)
        if status is None:
            raise OutcomeUnknown(f"reading {self._key} got no answer ({reply.reason or 'network'})")
        if status >= 500:
            return LockGetResult.UNKNOWN_ERROR, None
        result = self._dialect.read.get(status)
        if result is None:
            raise StoreRejected(f"reading {self._key} was answered {status} ({reply.reason})")
        return result, None

    def try_upsert_lock_file(
        self, new: LockFile, previous: StorageLockFile | None
    ) -> tuple[LockUpsertResult, StorageLockFile | None]:
        """Raises StoreRejected, OutcomeUnknown or IllegalVersion where Hudi's client throws."""
        body = serialize(new)
        if previous is None:
            reply = self._store.put_if_absent(self._key, body)
        else:
            reply = self._store.put_if_version(self._key, body, previous.version)
        if reply.outcome is _OUTCOME_APPLIED:
            if not reply.version and self._dialect.tolerates_no_version:
                return LockUpsertResult.UNKNOWN_ERROR, None
            return _WRITE_LANDED, StorageLockFile(new, reply.version or Version(""))
        return self._failure(reply, is_create=previous is None), None

    def _failure(self, reply: WriteReply, *, is_create: bool) -> LockUpsertResult:
        dialect = self._dialect
        status = self._status(reply, is_missing=reply.missing)
        if status is None:
            silence = dialect.silence_on_create if is_create else dialect.silence_on_update
            if silence is None:
                raise OutcomeUnknown(
                    f"writing {self._key} got no answer ({reply.reason or 'network'}); it may have landed"
                )
            return silence
        if status >= 500:
            return LockUpsertResult.UNKNOWN_ERROR
        result = dialect.write.get(status, dialect.other_rejections)
        if result is None:
            raise StoreRejected(f"writing {self._key} was answered {status} ({reply.reason})")
        return result

    def _status(self, reply: ReadReply | WriteReply, *, is_missing: bool) -> int | None:
        """The HTTP status of a failure; stores without HTTP get what the dialect would have said."""
        if isinstance(reply, ReadReply) and is_missing:
            return 404
        if reply.status is not None:
            return reply.status
        match reply.outcome:
            case Outcome.PRECONDITION_FAILED:
                return self._dialect.missing_status if is_missing else 412
            case Outcome.CONFLICT:
                return 409
            case Outcome.THROTTLED:
                return self._dialect.throttled_status
            case Outcome.REJECTED:
                return 403
        return None

    def read_object(self, path: str, check_exists_first: bool) -> str | None:
        # One read answers both questions; the port has no cheaper one.
        del check_exists_first
        body = self._store.read(_key_of(path)).body
        return None if body is None else body.decode("utf-8", "replace")

    def write_object(self, path: str, content: str) -> bool:
        return self._store.put(_key_of(path), content.encode()).outcome is Outcome.APPLIED

    def close(self) -> None:
        self._close()


def _key_of(path: str) -> str:
    """Hudi names other objects by their URI; a store knows them by their key."""
    return split_lock_uri(path).key if "://" in path else path
