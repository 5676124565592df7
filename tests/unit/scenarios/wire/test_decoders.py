"""Lock objects in use, read."""

from __future__ import annotations

import json

import pytest

from lockref.errors import ConfigError
from lockref.storage.lockfile import LockFile, serialize
from scenarios.wire.decoders import instant_ns, load_decoder

TFLOCK = {"ID": "8f2c", "Operation": "OperationTypeApply", "Info": "", "Who": "a@b", "Version": "1.12.6",
          "Created": "2026-11-23T17:00:00.5Z", "Path": "s3/state"}  # fmt: skip
LEASE = {"generation": 3, "expires_at": "2026-11-23T17:00:30.123456789Z", "owner": "host:7"}
GCS = {"metadata": {"lock_owner": "a", "expires_sec": "20"}, "updated": "2026-11-23T17:00:00.250Z"}
AT_NS = 1_795_453_200 * 10**9


def view(name: str, record: object):
    [found] = load_decoder(name)("k", json.dumps(record).encode())
    return found


@pytest.mark.parametrize("name", ["auto", "opentofu", "terraform"])
def test_a_tflock_is_owned_by_its_id_and_never_ends(name):
    """OpenTofu's and Terraform's lock: deleted on unlock, no lease."""
    found = view(name, TFLOCK)
    assert (found.owner, found.token, found.valid_until_ns, found.is_released) == ("8f2c", None, None, False)


@pytest.mark.parametrize("name", ["auto", "litestream"])
def test_a_litestream_lease_has_a_generation_and_an_end(name):
    """To the nanosecond, on the writer's clock."""
    found = view(name, LEASE)
    assert (found.owner, found.token, found.valid_until_ns) == ("host:7", 3, AT_NS + 30_123_456_789)


def test_a_record_with_more_in_it_is_no_litestream_lease():
    """`auto` tells records apart by their shape: the strictest decoder must not take what is another's."""
    body = json.dumps({**LEASE, "holder": "x"}).encode()
    assert load_decoder("litestream")("k", body) == ()


@pytest.mark.parametrize("name", ["auto", "s3-locks"])
def test_s3_locks_names_no_owner_and_is_free_at_0(name):
    """Its record is an end in epoch seconds."""
    assert view(name, {"expires_at": 1_795_453_200.5}).valid_until_ns == AT_NS + 500_000_000
    assert view(name, {"expires_at": 0}).is_released
    long_ago = view(name, {"expires_at": -1})
    assert (long_ago.is_released, long_ago.valid_until_ns) == (False, -(10**9))


@pytest.mark.parametrize("name", ["auto", "gcslock"])
def test_gcslock_counts_from_when_the_server_stored_it(name):
    """Owner and seconds are metadata, the beginning is the server's stamp; before the answer nobody knows it."""
    assert view(name, GCS).valid_until_ns == AT_NS + 20_250_000_000
    assert view(name, {"metadata": GCS["metadata"], "updated": None}).valid_until_ns is None


@pytest.mark.parametrize("name", ["auto", "hudi", "lockref"])
def test_a_lock_file_is_read_as_everywhere(name):
    """RFC-91's record, Hudi's and ours."""
    body = serialize(LockFile("me", 5, False, "n", 7, None))
    [found] = load_decoder(name)("k", body)
    assert (found.owner, found.token, found.valid_until_ns) == ("me", 7, 5_000_000)


def test_paths_reach_into_any_json():
    """The generic decoder: owner, token, end and release by path."""
    record = {"lock": {"holders": [{"id": 5}]}, "gen": "12", "end": 1_795_453_200, "free": True}
    found = view("json:owner=$.lock.holders[0].id,token=$.gen,until_s=$.end,released=$.free", record)
    assert (found.owner, found.token, found.valid_until_ns, found.is_released) == ("5", 12, AT_NS, True)
    assert view("json:until_ms=$.end", {"end": 1_795_453_200_005}).valid_until_ns == AT_NS + 5_000_000
    assert view("json:until=$.t", {"t": "2026-11-23T18:00:00+01:00"}).valid_until_ns == AT_NS
    assert view("json:owner=$['a b'],duration_s=$.ttl", {"a b": "x", "ttl": 2.5}).duration_ns == 2_500_000_000


def test_a_record_of_a_lock_has_every_field_that_was_named():
    """Half of it is another object. An end at the epoch is no end, and `true` is no number."""
    assert load_decoder("json:owner=$.o,token=$.t")("k", b'{"o": "me"}') == ()
    assert view("json:owner=$.o,until_s=$.end", {"o": "me", "end": 0}).valid_until_ns is None
    assert view("json:owner=$.o,token=$.t", {"o": "me", "t": True}).token is None


@pytest.mark.parametrize("nobody", ["", None])
def test_a_record_that_names_nobody_is_released(nobody):
    """`{"owner": "", "end": 0}` gives the lock back; with an end that lies ahead it is held by whoever wrote it."""
    reference = "json:owner=$.owner,until_s=$.end,token=$.gen"
    assert view(reference, {"owner": nobody, "end": 0, "gen": 3}).is_released
    assert view(reference, {"owner": nobody, "end": None, "gen": 3}).token == 3
    assert not view(reference, {"owner": "", "end": 1_795_453_200, "gen": 3}).is_released


def test_a_lock_may_be_no_more_than_an_object():
    """Whatever it holds, and if it is empty: it is held while it is there."""
    decode = load_decoder("exists:locks/*")
    assert len(decode("bucket/locks/x", b"")) == 1
    assert not decode("bucket/state/x", b"")


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b'{"expires_at": "soon"}', b"\xff", b'{"ID": 1}'])
def test_what_is_no_record_says_nothing(body):
    """An object that is no lock is left alone, by every decoder."""
    for name in ("auto", "opentofu", "litestream", "s3-locks", "gcslock", "hudi", "json:owner=$.owner"):
        assert tuple(load_decoder(name)("k", body)) == ()


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("opentofuu", "Did you mean 'opentofu'"),
        ("exists:", "names no keys"),
        ("json:", "a field ''"),
        ("json:ownr=$.a", "Did you mean 'owner'"),
        ("json:owner=a.b", r"such as \$\.lock"),
        ("json:owner=$.a[", "path for owner"),
        ("json:released=$.a", "no field that tells"),
        ("nowhere.py:Decoder", "nowhere.py"),
    ],
)
def test_a_decoder_that_cannot_be_is_refused(reference, words):
    """In one line, with what is accepted."""
    with pytest.raises(ConfigError, match=words):
        load_decoder(reference)


def test_a_file_may_hold_the_decoder(tmp_path):
    """A function of key and bytes, held to its promise."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from lockref.provider import LockView\n"
        "def decode(key, body):\n    return [LockView(owner=body.decode())] if key.endswith('.lck') else []\n"
        "def wrong(key, body):\n    return ['x']\n"
    )
    decode = load_decoder(f"{path}:decode")
    assert decode("a.lck", b"me")[0].owner == "me"
    assert not decode("a", b"me")
    with pytest.raises(ConfigError, match="wrong"):
        load_decoder(f"{path}:wrong")("a", b"")


def test_times_are_read_to_the_nanosecond():
    """As Go writes them, and with a zone or without."""
    assert instant_ns("2026-11-23T17:00:00.000000001Z") == AT_NS + 1
    assert instant_ns("2026-11-23T17:00:00") == AT_NS
    assert instant_ns("tomorrow") is None
