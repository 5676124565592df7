"""Helix's record as bytes: plain, compressed where it would not fit, and refused where that does not help."""

from __future__ import annotations

import gzip

import pytest

from lockref.errors import ConfigError
from lockref.helix.records import zn_record
from lockref.helix.records.zn_record import RECORD_BYTES_MAX, RecordTooLarge, ZNRecord, is_compressed

ENTRY = {"CURRENT_STATE": "LOCKED", "PREVIOUS_STATE": "RELEASED", "START_TIME": "1700000000000", "FENCING_TOKEN": "1"}


def of(count: int) -> ZNRecord:
    return ZNRecord("lock-group", maps={f"lock-group_{number}": ENTRY for number in range(count)})


@pytest.mark.parametrize(("count", "is_plain"), [(7_000, True), (9_000, False), (100_000, False)])
def test_a_record_that_does_not_fit_is_compressed(count: int, is_plain: bool):
    """As Helix' ZNRecordSerializer does above 1,024,000 bytes; either form is read, and fits into a znode."""
    body = of(count).to_json()
    assert is_compressed(body) != is_plain
    assert len(body) <= RECORD_BYTES_MAX
    assert ZNRecord.from_json(body, "/x") == of(count)
    assert body == of(count).to_json()


def test_what_others_have_compressed_is_read():
    """Whatever their level, and below the limit, too."""
    assert ZNRecord.from_json(gzip.compress(of(3).to_json(), 1), "/x") == of(3)


def test_a_record_that_does_not_fit_at_all_is_refused():
    """With how many entries it has."""
    words = r"'lock-group' with 100 entries takes \d+ bytes, compressed; there is room for 200"
    with pytest.raises(RecordTooLarge, match=words):
        of(100).to_json(200)


@pytest.mark.parametrize("damage", [lambda body: body[:-9], lambda body: body[:2], lambda body: body[:20] + b"?" * 40])
def test_what_is_badly_compressed_is_no_record(damage):
    """Cut off, or changed on the way."""
    with pytest.raises(ConfigError, match="/x holds no Helix record"):
        ZNRecord.from_json(damage(gzip.compress(of(50).to_json())), "/x")


def test_what_would_fill_the_memory_is_no_record(monkeypatch: pytest.MonkeyPatch):
    """A few bytes may stand for any number."""
    monkeypatch.setattr(zn_record, "_INFLATED_BYTES_MAX", 1000)
    with pytest.raises(ConfigError, match="holds no Helix record"):
        ZNRecord.from_json(gzip.compress(of(50).to_json()), "/x")
