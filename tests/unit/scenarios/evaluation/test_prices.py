"""The list of prices: read with its source and any date, and refused with the place of what is wrong."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from lockref.errors import ConfigError
from scenarios.evaluation.prices import CLOUDS, PRICES, load_prices

GOOD = PRICES.read_text()


def test_each_cloud_has_a_price_with_its_source() -> None:
    prices = load_prices()
    assert set(prices) == set(CLOUDS)
    for price in prices.values():
        assert price.source.startswith("https://")
        assert price.read < price.write


def test_a_price_without_a_date_is_not_given_one() -> None:
    """A day is told only where the source has one."""
    prices = load_prices()
    assert prices["dynamodb"].day == date(2025, 7, 1)
    assert prices["s3"].day is None
    assert prices["s3"].facts()["day"] is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 1", "version: 2", "version: expected 1"),
        ("  s3:", "  s4:", "prices.s4: is no key here"),
        ("    read: 0.0004\n", "", "prices.s3.read: is missing"),
        ("read: 0.0004", "read: -1", "expected US dollars"),
        ("read: 0.0004", "read: free", "expected US dollars"),
        ("date: 2025-07-01", "date: July", "expected a day"),
        ("charges_refused: true", "charges_refused: 1", "expected true or false"),
        ("service: Amazon S3 Standard, us-east-1", "service: ''", "expected text"),
        ("delete: 0\n", "delete: 0\n    list: 1\n", "prices.s3.list: is no key here"),
    ],
)
def test_a_list_of_prices_that_is_none(old: str, new: str, said: str, tmp_path: Path) -> None:
    """The message has file, line and column, and says what was expected."""
    path = tmp_path / "prices.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as error:
        load_prices(path)
    assert said in str(error.value)
    assert error.value.location is not None
    assert error.value.location.line is not None
