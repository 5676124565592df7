"""The lock object's bytes and its lenient reader. The strict reader's rows are in tests/conformance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockref.errors import CorruptRecord
from lockref.provider import RecordView
from lockref.storage.lockfile import (
    BODY_BYTES_MAX,
    NOT_A_RECORD,
    NULL_RECORD,
    OPENINGS_MAX,
    LockFile,
    decode,
    parse,
    parse_strictly_as_hudi,
    serialize,
)

OWNER = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
SOUND = b'{"expired":false,"validUntil":12,"owner":"a"}'
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
RECORDS = st.builds(
    LockFile,
    owner=st.none() | TEXT,
    valid_until_ms=st.integers(-(2**63), 2**63 - 1),
    expired=st.booleans(),
    nonce=st.none() | TEXT,
    fence=st.none() | st.integers(0, 2**63 - 1),
)


@pytest.mark.parametrize(
    ("expired", "expected"),
    [
        (False, b'{"expired":false,"validUntil":1700000000000,"owner":"3f2504e0-4f89-41d3-9a0c-0305e82c3301"}'),
        (True, b'{"expired":true,"validUntil":1700000000000,"owner":"3f2504e0-4f89-41d3-9a0c-0305e82c3301"}'),
    ],
)
def test_bytes_are_those_of_hudi(expired, expected):
    """Section 1, body: field order, no spaces, no newline; 91 bytes held, 90 released."""
    body = serialize(LockFile(OWNER, 1_700_000_000_000, expired))
    assert body == expected
    assert len(body) == (90 if expired else 91)


def test_nonce_and_fence_are_written_only_when_present():
    """H21, H22: extra fields follow Hudi's three."""
    assert serialize(LockFile("a", 1, False, nonce="n", fence=0)) == (
        b'{"expired":false,"validUntil":1,"owner":"a","nonce":"n","fence":0}'
    )


@given(RECORDS)
def test_every_record_survives_the_round_trip(record):
    """What is written is read back, nonce and fence included."""
    assert parse(serialize(record)) == record


NUMBERS = st.sampled_from(
    [b"0", b"7", b"007", b"-1", b"+1", b"1.0", b"1e3", b"null", b'"5"', b"999999999999999999"]
) | (st.integers(0, 2**70).map(lambda number: str(number).encode()))
WORDS = st.sampled_from(
    [b'"a"', b'""', b"null", b"7", b"true", b'"a\\u0041"', b'"{["', b'"\x7f"', b'"\xc3\xa9"', b'"\xff"', b'"a\tb"']
)
NEARLY_PLAIN = st.builds(
    lambda expired, until, owner, extras: (
        b'{"expired":%b,"validUntil":%b,"owner":%b%b}' % (expired, until, owner, b"".join(extras))
    ),
    st.sampled_from([b"true", b"false", b"TRUE", b"1", b"null"]),
    NUMBERS,
    WORDS,
    st.lists(
        st.builds(lambda word: b',"nonce":' + word, WORDS)
        | st.builds(
            lambda name, number: b',"%b":%b' % (name, number), st.sampled_from([b"fence", b"fenceMark"]), NUMBERS
        ),
        max_size=3,
    ),
)


def _read_by(read, body):
    try:
        return read(body)
    except CorruptRecord:
        return None


@pytest.mark.parametrize("read", [parse, parse_strictly_as_hudi])
@given(body=NEARLY_PLAIN | RECORDS.map(serialize))
def test_the_shortcut_reads_what_the_json_reader_reads(read, body):
    """A space in front changes nothing for JSON, and keeps the reader from its shortcut."""
    assert _read_by(read, body) == _read_by(read, b" " + body)


@given(RECORDS)
def test_hudi_reads_our_records_and_sees_three_fields(record):
    """E26: extra fields do not disturb Hudi."""
    expected = LockFile(record.owner, record.valid_until_ms, record.expired)
    assert parse_strictly_as_hudi(serialize(record)) == expected


@given(st.binary(max_size=200) | TEXT.map(str.encode) | st.just(SOUND).flatmap(
    lambda body: st.builds(lambda at, byte: body[:at] + bytes([byte]) + body[at + 1 :],
                           st.integers(0, len(body) - 1), st.integers(0, 255))))  # fmt: skip
def test_no_bytes_at_all_make_a_reader_fail_otherwise_than_by_its_error(body):
    """D6, H17: damage is a CorruptRecord; `decode` answers None for exactly those bodies."""
    try:
        record = parse(body)
    except CorruptRecord:
        record = None
    view = decode(body)
    assert (view is None) == (record is None)
    refused = ""
    try:
        parse_strictly_as_hudi(body)
    except CorruptRecord as error:
        refused = str(error)
    assert not refused or NOT_A_RECORD in refused or NULL_RECORD in refused


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1700000000000", 1_700_000_000_000),
        ('"1700000000000"', 1_700_000_000_000),
        ('"20260101"', 20_260_101),
        ('"2023-11-14T22:13:20Z"', 1_700_000_000_000),
        ('"2023-11-14T22:13:20.001"', 1_700_000_000_001),
        ('"2023-11-15T00:13:20+02:00"', 1_700_000_000_000),
    ],
)
def test_expiration_of_the_rfc_text_is_read(value, expected):
    """Section 2: RFC-91 says `expiration`, "a UTC timestamp"; Hudi refuses it."""
    body = f'{{"expired":false,"expiration":{value},"owner":"a"}}'.encode()
    assert parse(body).valid_until_ms == expected
    with pytest.raises(CorruptRecord, match=NOT_A_RECORD):
        parse_strictly_as_hudi(body)


def test_valid_until_goes_before_expiration():
    """A record with both names means what Hudi reads in it."""
    assert parse(b'{"expiration":5,"expired":false,"validUntil":7,"owner":"a"}').valid_until_ms == 7


@pytest.mark.parametrize(
    "extra",
    ['"fence":-1', '"fence":1.5', '"fence":"1"', '"fence":null', '"fence":9223372036854775808', '"nonce":1',
     '"nonce":null', '"nonce":"\\ud800"', '"expiration":"soon"', '"expiration":"2023-99-99"'],
)  # fmt: skip
def test_unsound_fields_of_ours_are_refused(extra):
    """H21: a fence that cannot be read must not restart at zero; Hudi reads over it."""
    body = f'{{"expired":false,"validUntil":1,"owner":"a",{extra}}}'.encode()
    with pytest.raises(CorruptRecord):
        parse(body)
    assert parse_strictly_as_hudi(body) == LockFile("a", 1, False)


def test_an_owner_that_is_no_text_is_refused():
    """Half a character can be in no history or log; Hudi accepts it."""
    body = b'{"expired":false,"validUntil":1,"owner":"\\ud800"}'
    with pytest.raises(CorruptRecord, match="not Unicode text"):
        parse(body)
    assert parse_strictly_as_hudi(body).owner == "\ud800"


@pytest.mark.parametrize("read", [parse, parse_strictly_as_hudi])
def test_bodies_beyond_the_bounds_are_refused(read):
    """Nothing unbounded: a body's size and its brackets are limited, with room for every real record."""
    padded = SOUND[:-1] + b" " * (BODY_BYTES_MAX - len(SOUND)) + b"}"
    assert read(padded).owner == "a"
    with pytest.raises(CorruptRecord, match=str(BODY_BYTES_MAX)):
        read(padded + b" ")
    nested = SOUND[:-1] + b',"x":' + b"[" * (OPENINGS_MAX - 1) + b"]" * (OPENINGS_MAX - 1) + b"}"
    assert read(nested).owner == "a"
    with pytest.raises(CorruptRecord, match="brackets"):
        read(nested + b"[")
    with pytest.raises(CorruptRecord):
        read(b'{"expired":false,"validUntil":' + b"9" * 5000 + b',"owner":"a"}')


def test_the_error_names_the_object_and_the_next_step():
    """Section 6 of the style: what was done, the values, what to do now."""
    with pytest.raises(CorruptRecord, match=r"reading t/lock\.json found no lock record .*; 2 bytes.*repaired"):
        parse(b"[]", where="t/lock.json")
    with pytest.raises(CorruptRecord, match=r"reading t/lock\.json: Data must not be null\.$"):
        parse_strictly_as_hudi(b"null", where="t/lock.json")


def test_decode_gives_the_checks_their_view():
    """Contract of RecordDecoder: nanoseconds, owner as text, token and nonce where there are any."""
    assert decode(serialize(LockFile("a", 12, True, nonce="n", fence=3))) == RecordView(
        owner="a", token=3, valid_until_ns=12_000_000, is_released=True, nonce="n"
    )
    assert decode(serialize(LockFile(None, 1, False))) == RecordView(owner="", valid_until_ns=1_000_000)


@pytest.mark.parametrize("valid_until_ms", [2**63 - 1, -(2**63)])
def test_decode_keeps_times_within_a_history_column(valid_until_ms):
    """Nonsense times are clamped to 64 bits of nanoseconds, and never become the mark for "no value"."""
    view = decode(serialize(LockFile("a", valid_until_ms, False)))
    assert abs(view.valid_until_ns) == 2**63 - 1
    assert (view.valid_until_ns > 0) == (valid_until_ms > 0)
