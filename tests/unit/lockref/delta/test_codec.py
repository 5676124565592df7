"""The record of Delta's lease as bytes: what is read of it, and what is no record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockref.coordination import lease as znodes
from lockref.dynamodb.item import decode_state, parse
from lockref.errors import CorruptRecord
from lockref.runtime import NS_PER_S

TEN_YEARS_S = 10 * 365 * 86_400


def row(**attributes: Any) -> bytes:
    item = {"ownerName": {"S": "other"}, "recordVersionNumber": {"S": "v1"}, "leaseDuration": {"S": "10"}, **attributes}
    return json.dumps(item).encode()


@pytest.mark.parametrize("value", [{"S": "1"}, {"S": "0"}, {"BOOL": False}, {"NULL": True}])
def test_a_mark_counts_because_it_is_there(value: dict[str, Any]) -> None:
    """T9, isNonAcquirable: an operator or another program may give it any value and type."""
    assert parse(row()).is_acquirable
    assert not parse(row()).is_released
    assert parse(row(isReleased=value)).is_released
    assert not parse(row(isNonAcquirable=value)).is_acquirable


@pytest.mark.parametrize(
    "attributes",
    [
        {"recordVersionNumber": {"S": ""}},
        {"ownerName": {"S": ""}},
        {"ownerName": {"S": "other", "N": "1"}},
        {"leaseDuration": {"S": str(TEN_YEARS_S + 1)}},
        {"generation": {"N": str(2**62 + 1)}},
        {"generationMark": {"N": "-1"}},
        {"data": {"N": "1"}},
    ],
)
def test_what_nobody_can_mean_is_no_record(attributes: dict[str, Any]) -> None:
    """D6: whoever locked over it would take somebody's lease. The error names the attribute."""
    with pytest.raises(CorruptRecord, match=next(iter(attributes))):
        parse(row(**attributes))
    assert decode_state("key", row(**attributes)) == []


def test_what_is_remembered_of_a_row_is_its_own() -> None:
    """A codec remembers the records of the last rows, and of no row the name under which it was read."""
    body = row(data={"N": "1"})
    for where in ("first", "second"):
        with pytest.raises(CorruptRecord, match=f"row {where} has data"):
            parse(body, where=where)
    assert [parse(row(generation={"N": str(number)})).token for number in (1, 2, 1)] == [1, 2, 1]
    assert znodes.CODEC.parse(b'{"ownerName":"o","recordVersionNumber":"v","leaseDuration":"10"}').name == "o"
    with pytest.raises(CorruptRecord, match="ownerName"):
        parse(b'{"ownerName":"o","recordVersionNumber":"v","leaseDuration":"10"}')


def test_the_largest_values_are_read() -> None:
    """Ten years, and tokens of 62 bits."""
    found = parse(row(leaseDuration={"S": str(TEN_YEARS_S)}, generation={"N": str(2**62)}))
    assert (found.duration_s, found.token) == (TEN_YEARS_S, 2**62)


def test_the_checks_see_owner_token_duration_and_release() -> None:
    """A duration is no instant (T1); a row of 0.6 tells an instant, and no duration (B1)."""
    (ours,) = decode_state("key", row(incarnation={"S": "i"}, generation={"N": "3"}, isReleased={"S": "1"}))
    assert (ours.owner, ours.token, ours.nonce, ours.is_released) == ("other/i", 3, "v1", True)
    assert (ours.duration_ns, ours.valid_until_ns) == (10 * NS_PER_S, None)
    (theirs,) = decode_state("key", row(leaseDuration={"N": "1795309390"}))
    assert (theirs.duration_ns, theirs.valid_until_ns, theirs.is_released) == (None, 1795309390 * NS_PER_S, False)
