"""Settings of the DynamoDB lease, by the names that delta-rs' dynamodb_lock gave them.

Unknown names that begin like ours are refused: a misspelt lease would silently be the default one. Settings that
contradict each other are refused as well (T11), as client-go's leader election does: the lease must be longer than the
time in which a holder may renew it, and that longer than a few renewals.

Source: delta-incubator/dynamodb-lock-rs, src/lib.rs (`DynamoDbOptions`); kubernetes/client-go, tools/leaderelection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from lockref.errors import ConfigError, did_you_mean, quote
from lockref.grammar import decimal
from lockref.locks.values import LeaseTerms
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S

PREFIX: Final = "DYNAMO_LOCK_"
TABLE_NAME: Final = "DYNAMO_LOCK_TABLE_NAME"
PARTITION_KEY_VALUE: Final = "DYNAMO_LOCK_PARTITION_KEY_VALUE"
OWNER_NAME: Final = "DYNAMO_LOCK_OWNER_NAME"
LEASE_DURATION: Final = "DYNAMO_LOCK_LEASE_DURATION"
REFRESH_PERIOD_MILLIS: Final = "DYNAMO_LOCK_REFRESH_PERIOD_MILLIS"
ADDITIONAL_TIME_TO_WAIT_MILLIS: Final = "DYNAMO_LOCK_ADDITIONAL_TIME_TO_WAIT_MILLIS"
NAMES: Final = (
    TABLE_NAME, PARTITION_KEY_VALUE, OWNER_NAME, LEASE_DURATION, REFRESH_PERIOD_MILLIS, ADDITIONAL_TIME_TO_WAIT_MILLIS,
)  # fmt: skip

DEFAULT_TABLE_NAME: Final = "delta_rs_lock_table"
DEFAULT_LEASE_S: Final = 20
DEFAULT_REFRESH_PERIOD_MS: Final = 1000
DEFAULT_ADDITIONAL_WAIT_MS: Final = 1000
"""The defaults of dynamodb_lock up to 0.6.0; version 0.6.1 has ten seconds for both periods."""

RENEWALS_PER_LEASE: Final = 4
"""How often a lease is renewed where nobody says otherwise."""

RATE_RATIO_PPM: Final = 1_100_000
"""ρ where nobody says otherwise: one clock runs at most a tenth faster than another. Quartz stays below 0.1 %."""

LEASE_S_MAX: Final = 365 * 86_400
"""A year. dynamodb_lock 0.6.1 takes a longer lease for an epoch second."""

_MILLIS_MAX: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOptions:
    """The settings of a lock. Durations in nanoseconds.

    key: names the lock; None: the caller names it, one for each Delta table (D3). owner_name: None for a random one.
    lease_ns: L. renew_interval_ns: how often a holder renews. margin_ns: how much earlier than its lease it stops (T6).
    poll_interval_ns: the longest pause between two looks of a waiter. additional_wait_ns: how long it waits beyond a
    lease that nobody renews, where the caller names no time. rate_ratio_ppm: ρ in millionths (T5).
    request_timeout_ns: of each request.

    Raises ConfigError for settings that contradict each other (T11).
    """

    table_name: str = DEFAULT_TABLE_NAME
    key: str | None = None
    owner_name: str | None = None
    lease_ns: int = DEFAULT_LEASE_S * NS_PER_S
    poll_interval_ns: int = DEFAULT_REFRESH_PERIOD_MS * NS_PER_MS
    additional_wait_ns: int = DEFAULT_ADDITIONAL_WAIT_MS * NS_PER_MS
    renew_interval_ns: int
    margin_ns: int
    rate_ratio_ppm: int = RATE_RATIO_PPM
    request_timeout_ns: int

    def __post_init__(self) -> None:
        if self.rate_ratio_ppm < 10**6:
            raise ConfigError(
                f"the ratio of clock rates is {self.rate_ratio_ppm / 10**6:g}; expected at least 1: a waiter may not "
                "count faster than the holder"
            )
        renew_deadline_ns = self.lease_ns - self.margin_ns
        if not self.lease_ns > renew_deadline_ns > 1.2 * self.renew_interval_ns:
            raise ConfigError(
                f"a lease of {self.lease_ns / NS_PER_S:g} s that must be renewed within "
                f"{renew_deadline_ns / NS_PER_S:g} s and is renewed every {self.renew_interval_ns / NS_PER_S:g} s: "
                "the first must be longer than the second, and that more than 1.2 times the third (T11)"
            )
        if not 0 < self.poll_interval_ns <= self.lease_ns:
            raise ConfigError(
                f"{REFRESH_PERIOD_MILLIS} is {self.poll_interval_ns // NS_PER_MS}; expected more than 0 and at most "
                f"the lease, {self.lease_ns // NS_PER_MS} ms"
            )

    def terms(self) -> LeaseTerms:
        """The terms of the lease: its length, and the room for clock error.

        No wall clock is read, so none needs room.
        """
        return LeaseTerms(
            validity_ns=self.lease_ns,
            renew_interval_ns=self.renew_interval_ns,
            margin_ns=self.margin_ns,
            buffer_ns=0,
            request_timeout_ns=self.request_timeout_ns,
        )

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """From delta-rs' names, as storage options or environment variables give them; other names are left alone.

        Raises ConfigError, which names the option, for one that is misspelt or no number.
        """
        for name in properties:
            if name.startswith(PREFIX) and name not in NAMES:
                raise ConfigError(
                    f"{name} is no option of the lock; expected {', '.join(NAMES)}.{did_you_mean(name, NAMES)}"
                )
        lease_ns = _whole(properties, LEASE_DURATION, DEFAULT_LEASE_S, 1, LEASE_S_MAX) * NS_PER_S
        poll_ms = _whole(properties, REFRESH_PERIOD_MILLIS, DEFAULT_REFRESH_PERIOD_MS, 1, _MILLIS_MAX)
        additional_ms = _whole(properties, ADDITIONAL_TIME_TO_WAIT_MILLIS, DEFAULT_ADDITIONAL_WAIT_MS, 0, _MILLIS_MAX)
        renew_interval_ns = lease_ns // RENEWALS_PER_LEASE
        return cls(
            table_name=_text(properties, TABLE_NAME) or DEFAULT_TABLE_NAME,
            key=_text(properties, PARTITION_KEY_VALUE),
            owner_name=_text(properties, OWNER_NAME),
            lease_ns=lease_ns,
            poll_interval_ns=poll_ms * NS_PER_MS,
            additional_wait_ns=additional_ms * NS_PER_MS,
            renew_interval_ns=renew_interval_ns,
            margin_ns=lease_ns // 10,
            request_timeout_ns=LeaseTerms.default_request_timeout_ns(renew_interval_ns),
        )

    @classmethod
    def from_settings(cls, settings: LockSettings) -> Self:
        """The timing that the laboratory asks for.

        Options: `owner_name`, `margin_ms`, `request_timeout_ms`, `rate_ratio_percent`. Raises ConfigError.
        """
        told = settings.options
        renew_interval_ns = settings.renew_interval_ns
        timeout_ms = _whole(told, "request_timeout_ms", 0, 0, _MILLIS_MAX)
        return cls(
            key=settings.key,
            owner_name=_text(told, "owner_name"),
            lease_ns=settings.validity_ns,
            poll_interval_ns=settings.poll_interval_ns,
            renew_interval_ns=renew_interval_ns,
            margin_ns=_whole(told, "margin_ms", settings.drift_bound_ns // NS_PER_MS, 1, _MILLIS_MAX) * NS_PER_MS,
            rate_ratio_ppm=_whole(told, "rate_ratio_percent", RATE_RATIO_PPM // 10**4, 100, 10**6) * 10**4,
            request_timeout_ns=timeout_ms * NS_PER_MS or LeaseTerms.default_request_timeout_ns(renew_interval_ns),
        )


def _text(properties: Mapping[str, object], name: str) -> str | None:
    value = properties.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} is {value!r}; expected text that is not empty")
    return value


def _whole(properties: Mapping[str, object], name: str, default: int, low: int, high: int) -> int:
    value = properties.get(name, default)
    found = None if isinstance(value, bool) else decimal(str(value).strip())
    if found is None or not low <= found <= high:
        raise ConfigError(f"{name} is {quote(value)}; expected a whole number from {low} to {high}")
    return found
