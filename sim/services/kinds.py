"""The kinds of simulated service: the simulator's half of `lockref.services.SERVICES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lockref.clouds.s3.cloud import S3
from lockref.clouds.uri import server_statuses
from lockref.coordination.session import COORDINATION
from lockref.dynamodb.table import TABLE
from lockref.errors import ConfigError, did_you_mean, quote
from lockref.grammar import decimal
from lockref.runtime import NS_PER_MS
from lockref.services import entry_of
from lockref.stores.client import OBJECT_STORE
from sim.services.coordination import CoordinationService
from sim.services.objectstore import ObjectStoreService
from sim.services.service import Service
from sim.services.table import TableService

Make = Callable[[str, Mapping[str, str]], Service]
"""(dialect, options) -> a new service. Raises ConfigError for a dialect or an option that this kind does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One kind in the simulator.

    make: see `Make`. has_dialects: it answers as one of several services does, which a scenario's `store` says.
    """

    make: Make
    has_dialects: bool = False


def _object_store(dialect: str, options: Mapping[str, str]) -> Service:
    require_options(OBJECT_STORE.name, options, known=())
    return ObjectStoreService(server_statuses(dialect or S3.name))


def _table(_dialect: str, options: Mapping[str, str]) -> Service:
    require_options(TABLE.name, options, known=())
    return TableService()


def _coordination(_dialect: str, options: Mapping[str, str]) -> Service:
    """servers: how many; lag_ms: how late each but the first applies what others wrote; tick_ms: of their clock."""
    require_options(COORDINATION.name, options, known=("servers", "lag_ms", "tick_ms"))
    servers = _whole("servers", options.get("servers", "1"), least=1, most=9)
    lag_ms = _whole("lag_ms", options.get("lag_ms", "50"), least=0, most=60_000)
    tick_ms = _whole("tick_ms", options.get("tick_ms", "100"), least=1, most=10_000)
    lags_ns = (0,) + (lag_ms * NS_PER_MS,) * (servers - 1)
    return CoordinationService(lags_ns=lags_ns, tick_ns=tick_ms * NS_PER_MS)


SIMULATED: Final[dict[str, Simulated]] = {
    OBJECT_STORE.name: Simulated(make=_object_store, has_dialects=True),
    TABLE.name: Simulated(make=_table),
    COORDINATION.name: Simulated(make=_coordination),
}
"""Every kind that a scenario may declare, by the name of its port."""


def make_service(kind: str, *, dialect: str = "", options: Mapping[str, str] | None = None) -> Service:
    """A new service. dialect: whose answers it gives; "" is the kind's usual one.

    Raises ConfigError for an unknown kind, dialect or option.
    """
    return entry_of(kind, SIMULATED).make(dialect, {} if options is None else options)


def _whole(option: str, text: str, *, least: int, most: int) -> int:
    """An option that is a whole number. Raises ConfigError."""
    found = decimal(text)
    if found is None or not least <= found <= most:
        raise ConfigError(f"option {option} is {quote(text)}; expected a whole number from {least} to {most}")
    return found


def require_options(kind: str, options: Mapping[str, str], *, known: tuple[str, ...]) -> None:
    """Raise ConfigError for an option that this kind of service does not know."""
    for option in options:
        if option not in known:
            raise ConfigError(
                f"has the option {option!r}; {kind} knows {', '.join(known) or 'none'}.{did_you_mean(option, known)}"
            )
