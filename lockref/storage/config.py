"""Settings of the storage lock, read from Hudi's property names.

Where is the lock object of this table, and how long is a lease? The checks and
their order are Hudi's, and so is the wording, so that a person who knows one
message finds the other. Values may be numbers or numeric text: every option
that passes through Spark arrives as text, which Hudi's own S3 client cannot
digest (D15, H18).

Source: RFC-91 "Configurations"; Hudi 1.2.0 `StorageBasedLockConfig`,
`StorageLockClient`, `LockConfiguration`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit

from lockref.errors import ConfigError, did_you_mean
from lockref.frozen import filled_by_slots
from lockref.locks.values import LeaseTerms
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S

BASE_PATH: Final = "hoodie.base.path"
VALIDITY: Final = "hoodie.write.lock.storage.validity.timeout.secs"
RENEW_INTERVAL: Final = "hoodie.write.lock.storage.renew.interval.secs"
HEARTBEAT_POLL: Final = "hoodie.write.lock.storage.heartbeat.poll.secs"
"""The RFC's name for the renew interval; Hudi keeps it as an alternative (apache/hudi#13968)."""
_STORAGE: Final = "hoodie.write.lock.storage."
_STORAGE_KEYS: Final = (VALIDITY, RENEW_INTERVAL, HEARTBEAT_POLL)
WAIT_TIME: Final = "hoodie.write.lock.wait_time_ms"
CLIENT_RETRIES: Final = "hoodie.write.lock.client.num_retries"
CLIENT_RETRY_WAIT: Final = "hoodie.write.lock.client.wait_time_ms_between_retry"

LOCKS_FOLDER: Final = ".hoodie/.locks"
LOCK_FILE_NAME: Final = "table_lock.json"

RFC91_LOCK_KEY: Final = f"table/{LOCKS_FOLDER}/{LOCK_FILE_NAME}"
"""The key of the lock of RFC-91 in the laboratory, for a table called `table`."""
CLOUD_OF_SCHEME: Final[Mapping[str, str]] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "abfs": "azure",
    "abfss": "azure",
    "wasb": "azure",
    "wasbs": "azure",
}
"""Schemes for which Hudi has a lock client, and whose service each names. `s3` and `s3a` name the same object.

Hudi knows no `s3n`: a table below such a path cannot have this lock at all.
"""

DRIFT_BUFFER_NS: Final = 500 * NS_PER_MS
"""β: how far wall clocks may differ. Fixed in RFC-91 and in Hudi."""

VALIDITY_PER_RENEWAL: Final = 10
"""How many renewals RFC-91 wants a validity to have room for."""

_TOO_SHORT: Final = f"{VALIDITY} should be greater than or equal to 10x {RENEW_INTERVAL}"
_LONG_MAX = 2**63 - 1
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_SLASHES = re.compile(r"/{2,}")
_NOT_IN_A_URI = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]|%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFileLocation:
    """The place of a lock object: `bucket` is the URI's authority, `key` is percent-decoded."""

    scheme: str
    bucket: str
    key: str

    @property
    def folder(self) -> str:
        """Key of the folder of the lock object, without a slash at its end."""
        return self.key.rpartition("/")[0]


def locks_folder(base_path: str) -> str:
    """URI of a table's lock folder; repeated and trailing slashes collapse."""
    scheme, separator, rest = base_path.partition("://")
    if not separator:
        scheme, rest = "", base_path
    return f"{scheme}{separator}{_SLASHES.sub('/', f'{rest}/{LOCKS_FOLDER}')}"


def split_lock_uri(uri: str) -> LockFileLocation:
    """Bucket and key of a lock object's URI. Raises ConfigError in Hudi's words."""
    if bad := _NOT_IN_A_URI.search(uri):
        raise ConfigError(f"{uri!r} is no URI: character {bad[0]!r} at {bad.start()}; write it percent-encoded")
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise ConfigError(f"{uri!r} is no URI: {error}") from None
    if parts.query or parts.fragment:
        # Hudi takes the path alone, and would use the table's own folder as its lock object.
        raise ConfigError(f"{uri!r} has a query or a fragment; write '?' as %3F and '#' as %23")
    if not parts.netloc:
        raise ConfigError(f"{uri!r}: URI does not contain a valid bucket name.")
    key = unquote(parts.path).removeprefix("/")
    if not key:
        raise ConfigError(f"{uri!r}: URI does not contain a valid path.")
    return LockFileLocation(scheme=parts.scheme, bucket=parts.netloc, key=key)


def lock_file_location(base_path: str) -> LockFileLocation:
    """The place of the lock object of the table at `base_path`. Any scheme is accepted here: see `check_scheme`."""
    return split_lock_uri(f"{locks_folder(base_path)}/{LOCK_FILE_NAME}")


def check_scheme(scheme: str) -> None:
    """Raise ConfigError unless Hudi has a lock client for `scheme`."""
    if scheme not in CLOUD_OF_SCHEME:
        raise ConfigError(
            f"No implementation of StorageLock supports this scheme: {scheme or 'null'}; "
            f"use one of {', '.join(sorted(CLOUD_OF_SCHEME))}"
        )


VALIDITY_NS_MAX: Final = 365 * 86_400 * NS_PER_S
"""A year. Beyond it records, timers and Hudi's own numbers overflow one after the other."""


def timing_faults(*, validity_ns: int, renew_interval_ns: int, drift_bound_ns: int, margin_ns: int) -> list[str]:
    """The demands of RFC-91 that these terms do not meet, in words; empty if they meet all."""
    faults = []
    if validity_ns < VALIDITY_PER_RENEWAL * renew_interval_ns:
        faults.append(
            f"{_TOO_SHORT}; the validity is {validity_ns / NS_PER_S:g} s, "
            f"the renewal interval {renew_interval_ns / NS_PER_S:g} s"
        )
    for name, bound_ns in (("drift bound", drift_bound_ns), ("margin", margin_ns)):
        if bound_ns < DRIFT_BUFFER_NS:
            faults.append(
                f"the {name} is {bound_ns / NS_PER_MS:g} ms; RFC-91 demands at least "
                f"{DRIFT_BUFFER_NS / NS_PER_MS:g} ms, by which the wall clocks of two machines may differ"
            )
    return faults


@filled_by_slots
@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLockConfig:
    """The configuration of a storage lock. Durations in nanoseconds; defaults are Hudi's.

    validity_ns: how long a lease lasts from the moment before it was written.
    renew_interval_ns: how often a holder renews.
    wait_time_ns: how long one timed attempt waits.
    client_retries, client_retry_wait_ns: `LockManager` repeats timed attempts.
    poll_interval_ns: how often a waiter looks; fixed at 1 s in Hudi.
    drift_bound_ns: β, fixed at 500 ms in Hudi.
    margin_ns: by how much a holder stops before its record says; default: the drift bound.
    unsafe: for the laboratory only. Allows a timing that RFC-91 forbids; whoever
        sets it must say so beside every verdict.

    Errors: ConfigError for a timing that RFC-91 forbids: a validity of fewer than ten
        renewals, a drift bound or margin below 500 ms.
    """

    base_path: str
    validity_ns: int = 300 * NS_PER_S
    renew_interval_ns: int = 30 * NS_PER_S
    wait_time_ns: int = 60 * NS_PER_S
    client_retries: int = 50
    client_retry_wait_ns: int = 5 * NS_PER_S
    poll_interval_ns: int = 1 * NS_PER_S
    drift_bound_ns: int = DRIFT_BUFFER_NS
    margin_ns: int | None = None
    unsafe: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.validity_ns <= VALIDITY_NS_MAX:
            raise ConfigError(
                f"the validity is {self.validity_ns / NS_PER_S:g} s; expected more than 0 and at most a year"
            )
        if not self.unsafe and (faults := self.timing_faults):
            raise ConfigError(faults[0])

    @property
    def timing_faults(self) -> list[str]:
        """See `timing_faults`; empty unless `unsafe`."""
        return timing_faults(
            validity_ns=self.validity_ns,
            renew_interval_ns=self.renew_interval_ns,
            drift_bound_ns=self.drift_bound_ns,
            margin_ns=self.stop_margin_ns,
        )

    @property
    def stop_margin_ns(self) -> int:
        """M: by how much a holder stops before its record says."""
        return self.drift_bound_ns if self.margin_ns is None else self.margin_ns

    @property
    def location(self) -> LockFileLocation:
        return lock_file_location(self.base_path)

    def terms(self, request_timeout_ns: int | None = None) -> LeaseTerms:
        """The timing as the lock uses it. request_timeout_ns: of one request; default r/3, at most 5 s (H18)."""
        return _terms(
            self.validity_ns, self.renew_interval_ns, self.stop_margin_ns, self.drift_bound_ns, request_timeout_ns
        )

    @classmethod
    def from_properties(cls, properties: Mapping[str, object], *, ignores_unknown: bool = False) -> StorageLockConfig:
        """Read Hudi's properties. Checks in Hudi's order.

        Properties of other parts of Hudi are left alone.

        ignores_unknown: take no notice of a `hoodie.write.lock.storage.` key that Hudi does not
            know, as Hudi does. Otherwise it is refused: a misspelt validity would silently be 300 s.
        Errors: ConfigError.
        """
        base_path = properties.get(BASE_PATH)
        if base_path is None:
            raise ConfigError(f"{BASE_PATH} does not exist!{_given_instead(BASE_PATH, properties)}")
        if not ignores_unknown:
            _refuse_unknown(properties)
        validity_s = whole_number(properties, VALIDITY, default=300)
        renew_interval_s = whole_number(properties, RENEW_INTERVAL, HEARTBEAT_POLL, default=30)
        # Hudi's own checks, in its order and words; the constructor has the rest.
        if validity_s < VALIDITY_PER_RENEWAL * renew_interval_s:
            raise ConfigError(_TOO_SHORT)
        if validity_s < 10:
            raise ConfigError(f"{VALIDITY} should be greater than or equal to 10 seconds.")
        if renew_interval_s < 1:
            raise ConfigError(f"{RENEW_INTERVAL} should be greater than or equal to 1 second.")
        return cls(
            base_path=str(base_path),
            validity_ns=validity_s * NS_PER_S,
            renew_interval_ns=renew_interval_s * NS_PER_S,
            wait_time_ns=whole_number(properties, WAIT_TIME, default=60_000) * NS_PER_MS,
            client_retries=whole_number(properties, CLIENT_RETRIES, default=50),
            client_retry_wait_ns=whole_number(properties, CLIENT_RETRY_WAIT, default=5_000) * NS_PER_MS,
        )

    @classmethod
    def from_settings(cls, settings: LockSettings, *, margin_ns: int | None = None) -> StorageLockConfig:
        """The timing that the laboratory asks for. Raises ConfigError as the constructor does."""
        return _of_laboratory(
            settings.validity_ns,
            settings.renew_interval_ns,
            settings.poll_interval_ns,
            settings.drift_bound_ns,
            margin_ns,
            settings.unsafe,
        )


# Both are remembered, because each client of a simulated batch asks for the same timing in each seed. They are called
# by position, which makes the key of what is remembered in a third of the time.


@lru_cache(maxsize=64)
def _of_laboratory(
    validity_ns: int,
    renew_interval_ns: int,
    poll_interval_ns: int,
    drift_bound_ns: int,
    margin_ns: int | None,
    unsafe: bool,
) -> StorageLockConfig:
    return StorageLockConfig(
        base_path="",
        validity_ns=validity_ns,
        renew_interval_ns=renew_interval_ns,
        poll_interval_ns=poll_interval_ns,
        drift_bound_ns=drift_bound_ns,
        margin_ns=margin_ns,
        unsafe=unsafe,
    )


@lru_cache(maxsize=64)
def _terms(
    validity_ns: int, renew_interval_ns: int, margin_ns: int, buffer_ns: int, request_timeout_ns: int | None
) -> LeaseTerms:
    return LeaseTerms(
        validity_ns=validity_ns,
        renew_interval_ns=renew_interval_ns,
        margin_ns=margin_ns,
        buffer_ns=buffer_ns,
        request_timeout_ns=request_timeout_ns or LeaseTerms.default_request_timeout_ns(renew_interval_ns),
    )


def laboratory_options(settings: LockSettings) -> tuple[int | None, int]:
    """The margin (None: the default) and the request timeout that a scenario's options ask for, in nanoseconds.

    Options: `margin_ms`, `request_timeout_ms`. Raises ConfigError for what is no whole number.
    """
    margin_ns, timeout_ns = (
        whole_number(settings.options, name, default=0) * NS_PER_MS if name in settings.options else None
        for name in ("margin_ms", "request_timeout_ms")
    )
    return margin_ns, timeout_ns or LeaseTerms.default_request_timeout_ns(settings.renew_interval_ns)


def _given_instead(wanted: str, properties: Mapping[str, object]) -> str:
    """The end of a message about a property that is missing: the given one that is perhaps a misspelling of it."""
    near = difflib.get_close_matches(wanted, list(properties), n=1, cutoff=0.6)
    return f" There is {near[0]!r}: is it misspelt?" if near else ""


def _refuse_unknown(properties: Mapping[str, object]) -> None:
    for name in properties:
        if name.startswith(_STORAGE) and name not in _STORAGE_KEYS:
            raise ConfigError(
                f"{name} is no property of Hudi's storage lock; expected one of "
                f"{', '.join(_STORAGE_KEYS)}.{did_you_mean(name, _STORAGE_KEYS)}"
            )


def whole_number(properties: Mapping[str, object], *keys: str, default: int) -> int:
    """The first of `keys` that is set, as a number; the first key is the current name."""
    for key in keys:
        value = properties.get(key)
        if value is None:
            continue
        text = str(value).strip()
        if not _WHOLE_NUMBER.fullmatch(text) or abs(int(text)) > _LONG_MAX:
            raise ConfigError(f"{key} is {value!r}; expected a whole number, as a number or as text")
        return int(text)
    return default
