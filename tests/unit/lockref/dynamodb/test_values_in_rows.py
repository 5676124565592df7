"""Bodies whose attributes are none of a table's: each reader finds nothing there, and none raises."""

from __future__ import annotations

import json

import pytest

from lockref.dynamodb.objects import item_body
from lockref.dynamodb.shipped.java_client import OWNER, JavaClient
from lockref.dynamodb.shipped.row_lock import number_in, version_in, words_in
from lockref.dynamodb.table import VERSION, value_in

ODD = [True, None, 5, "x", [], ["S"], {}, {"N": "7"}]


@pytest.mark.parametrize("value", ODD)
def test_what_is_no_attribute_has_no_value(value: object) -> None:
    """A damaged row ended `check` with an error of Python's where its version was `true`."""
    row = {"a": value, VERSION: value, "bytes": value}
    assert value_in(row, "a", "S") is None
    assert (words_in(row, "a"), version_in(row)) == (None, "")
    assert number_in(row, "a") == (7 if value == {"N": "7"} else None)
    assert json.loads(item_body(row)) == row


def test_a_row_without_a_version_of_its_kind_is_a_row() -> None:
    row = {OWNER: {"S": "n1"}, "leaseDuration": {"S": "20000"}, VERSION: True}
    [view] = JavaClient.decode_state("k", json.dumps(row).encode())
    assert (view.owner, view.nonce) == ("n1", "")
