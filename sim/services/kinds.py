"""The kinds of services that a scenario may declare, and how each is made: one line for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lockref.clouds.uri import server_statuses
from lockref.errors import ConfigError, did_you_mean, shown
from lockref.grammar import decimal
from lockref.runtime import NS_PER_MS
from sim.services.coordination import CoordinationService
from sim.services.objectstore import ObjectStoreService
from sim.services.service import Service
from sim.services.table import TableService

Make = Callable[[str, Mapping[str, str]], Service]
"""(dialect, options) -> a new service. Raises ConfigError for a dialect or an option that this kind does not know."""


def _object_store(dialect: str, options: Mapping[str, str]) -> Service:
    require_options("object_store", options, known=())
    return ObjectStoreService(server_statuses(dialect or "s3"))


def _table(_dialect: str, options: Mapping[str, str]) -> Service:
    require_options("table", options, known=())
    return TableService()


def _coordination(_dialect: str, options: Mapping[str, str]) -> Service:
    """servers: how many; lag_ms: how late each but the first applies what others wrote; tick_ms: of their clock."""
    require_options("coordination", options, known=("servers", "lag_ms", "tick_ms"))
    servers = _whole("servers", options.get("servers", "1"), least=1, most=9)
    lag_ms = _whole("lag_ms", options.get("lag_ms", "50"), least=0, most=60_000)
    tick_ms = _whole("tick_ms", options.get("tick_ms", "100"), least=1, most=10_000)
    lags_ns = (0,) + (lag_ms * NS_PER_MS,) * (servers - 1)
    return CoordinationService(lags_ns=lags_ns, tick_ns=tick_ms * NS_PER_MS)


SERVICE_KINDS: Mapping[str, Make] = {
    "object_store": _object_store,
    "table": _table,
    "coordination": _coordination,
}
"""By the name of the port that speaks to it (`lockref.ports.PortKind.name`)."""


def make_service(kind: str, *, dialect: str = "", options: Mapping[str, str] | None = None) -> Service:
    """A new service. dialect: whose answers it gives; "" is the kind's usual one.

    Raises ConfigError for an unknown kind, dialect or option.
    """
    make = SERVICE_KINDS.get(kind)
    if make is None:
        expected = ", ".join(SERVICE_KINDS)
        raise ConfigError(f"service kind is {kind!r}; expected one of {expected}.{did_you_mean(kind, SERVICE_KINDS)}")
    return make(dialect, {} if options is None else options)


def _whole(option: str, text: str, *, least: int, most: int) -> int:
    """An option that is a whole number. Raises ConfigError."""
    found = decimal(text)
    if found is None or not least <= found <= most:
        raise ConfigError(f"option {option} is {shown(text)}; expected a whole number from {least} to {most}")
    return found


def require_options(kind: str, options: Mapping[str, str], *, known: tuple[str, ...]) -> None:
    """Raise ConfigError for an option that this kind of service does not know."""
    for option in options:
        if option not in known:
            raise ConfigError(
                f"has the option {option!r}; {kind} knows {', '.join(known) or 'none'}.{did_you_mean(option, known)}"
            )
