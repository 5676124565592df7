"""The list prices of requests, read from a file: `prices.yaml` beside this module, or a user's own.

A price is data with its source, and with its date where the source tells one. Nothing here asks a cloud what it
costs today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from lockref.errors import ConfigError, did_you_mean, quote
from lockref.located_yaml import Places, at, parse, read_text

PRICES: Final = Path(__file__).parent / "prices.yaml"
CLOUDS: Final = ("s3", "gs", "az", "dynamodb")
"""The services that a price may be about."""

PRICE_MAX: Final = 1_000.0
_VERSION: Final = 1
_TEXTS: Final = ("service", "source")
_AMOUNTS: Final = ("read", "write", "delete")
_NEEDED: Final = (*_TEXTS, *_AMOUNTS, "charges_refused")
_KEYS: Final = (*_NEEDED, "date")
_DOCUMENT: Final = "list of prices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The list price of one service's requests.

    service: which offer it is. day: on which the source had it; None if the source tells none. source: where it stands.
    read, write, delete: US dollars for 1,000 requests of that kind. charges_refused: a request that failed its
    condition is billed, too.
    """

    service: str
    day: date | None
    source: str
    read: float
    write: float
    delete: float
    charges_refused: bool

    def facts(self) -> dict[str, Any]:
        """For a document."""
        return {**asdict(self), "day": None if self.day is None else self.day.isoformat()}


def load_prices(path: Path = PRICES) -> Mapping[str, Price]:
    """The prices of a file, by cloud. Raises ConfigError with the place of the first thing that is wrong."""
    value, places = parse(
        read_text(path, document=_DOCUMENT), file=str(path), document=_DOCUMENT, beginning=f"version: {_VERSION}"
    )
    form = _Form(places)
    form.refuse_strange_keys((), value, ("version", "prices"))
    if type(value.get("version")) is not int or value["version"] != _VERSION:
        raise form.refused(("version",), f"expected {_VERSION}")
    entries = value.get("prices")
    if not isinstance(entries, dict):
        raise form.refused(("prices",), f"expected the prices of {', '.join(CLOUDS)}")
    form.refuse_strange_keys(("prices",), entries, CLOUDS)
    return {cloud: form.price(("prices", cloud), entry) for cloud, entry in entries.items()}


class _Form:
    """The form of the file, with the places of everything in it."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def price(self, path: tuple[str, ...], entry: object) -> Price:
        """The price of one cloud. Raises ConfigError for anything that is none."""
        if not isinstance(entry, dict):
            raise self.refused(path, f"expected a mapping with {', '.join(_KEYS)}")
        self.refuse_strange_keys(path, entry, _KEYS)
        for key in _NEEDED:
            if key not in entry:
                raise ConfigError(at((*path, key), "is missing"), location=self._places.of(path, key=False))
        if not isinstance(entry["charges_refused"], bool):
            raise self.refused(
                (*path, "charges_refused"), f"is {quote(entry['charges_refused'])}; expected true or false"
            )
        texts = {key: self._text((*path, key), entry[key]) for key in _TEXTS}
        amounts = {key: self._amount((*path, key), entry[key]) for key in _AMOUNTS}
        return Price(
            service=texts["service"],
            day=self._day((*path, "date"), entry["date"]) if "date" in entry else None,
            source=texts["source"],
            read=amounts["read"],
            write=amounts["write"],
            delete=amounts["delete"],
            charges_refused=entry["charges_refused"],
        )

    def refuse_strange_keys(self, path: tuple[str, ...], entry: Mapping[str, object], keys: tuple[str, ...]) -> None:
        """Raise ConfigError for a key that is none of these."""
        for key in entry:
            if key not in keys:
                where = self._places.of((*path, key), key=True)
                raise ConfigError(at((*path, key), f"is no key here.{did_you_mean(key, keys)}"), location=where)

    def refused(self, path: tuple[str, ...], what: str) -> ConfigError:
        """The complaint about one place."""
        return ConfigError(at(path, what), location=self._places.of(path, key=False))

    def _text(self, path: tuple[str, ...], value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.refused(path, f"is {quote(value)}; expected text")
        return " ".join(value.split())

    def _amount(self, path: tuple[str, ...], value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= PRICE_MAX:
            raise self.refused(
                path, f"is {quote(value)}; expected US dollars for 1,000 requests, 0 to {PRICE_MAX:,.0f}"
            )
        return float(value)

    def _day(self, path: tuple[str, ...], value: object) -> date:
        try:
            return date.fromisoformat(str(value))
        except ValueError:
            raise self.refused(path, f"is {quote(value)}; expected a day such as 2025-07-01") from None
