"""The one reader of JSON that somebody else wrote, and every reader that stands on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lockref.coordination import lease as znode_lease
from lockref.delta.record import MARK, LeaseItem
from lockref.delta.renaming import PendingRename
from lockref.dynamodb.item import decode_state, parse, serialize
from lockref.dynamodb.shipped.java_client import JavaClient
from lockref.dynamodb.shipped.row_lock import number_in
from lockref.errors import ConfigError, CorruptRecord, HistoryUnreadable
from lockref.grammar import decimal
from lockref.helix.records import views
from lockref.helix.records.zn_record import ZNRecord
from lockref.lab.lock_rows import lock_columns
from lockref.lab.spool import begin_spool, read_spool
from lockref.storage import audit
from lockref.stores.memory import MemoryStore
from lockref.stores.probe import fingerprint
from lockref.strict_json import LEVELS_MAX, NotJson, is_whole, read_json, read_object
from lockref.words import detail
from scenarios.campaigns.identity import read_identity
from scenarios.campaigns.places import FolderPlace
from scenarios.campaigns.run_folders import seeds_in
from scenarios.runs import unfinished_runs
from scenarios.workloads.delta.log_files import Log, checkpoint_key, entry_key, last_checkpoint_key, parse_commit

DEEP = '{"a":' * 100_000
DEEP_BUT_WHOLE = '{"a":' * 400 + "1" + "}" * 400
HOSTILE = {
    "deep": DEEP,
    "deep, and whole": DEEP_BUT_WHOLE,
    "deep lists": "[" * 100_000,
    "no number": '{"a": NaN}',
    "infinity": '{"a": -Infinity}',
    "too large": '{"a": 1e999}',
    "many digits": '{"a": %s}' % ("9" * 5000),
    "half a character": '{"a": "\\ud800"}',
    "half a character as a name": '{"\\udc00": 1}',
    "halves apart": '{"a": "\\ud800 \\udc00"}',
    "two values": "{} {}",
    "cut off": '{"a": "',
    "a control character": '{"a": "\n"}',
    "nothing": "",
    "NUL": "\0",
    "UTF-16": "{}".encode("utf-16").decode("latin-1"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", [str.encode, str], ids=["bytes", "text"])
def test_what_is_no_json_is_one_error(name: str, form: Callable[[str], str | bytes]) -> None:
    """A ValueError of one class, never a RecursionError or an infinity."""
    with pytest.raises(NotJson):
        read_json(form(HOSTILE[name]))


def test_the_error_names_the_place() -> None:
    with pytest.raises(NotJson) as told:
        read_json('{"a": 1,\n "b": }')
    assert (told.value.line, told.value.column) == (2, 7)
    with pytest.raises(NotJson, match=f"deeper than {LEVELS_MAX} levels, at line 2, column {LEVELS_MAX}"):
        read_json("[\n" + "[" * LEVELS_MAX + "]" * LEVELS_MAX + "]")
    with pytest.raises(NotJson, match="no UTF-8 at byte 2"):
        read_json(b'{"\xff": 1}')


def test_odd_documents_that_are_json_are_read() -> None:
    """Brackets in strings are no nesting, many objects side by side are not deep, and a pair of surrogates is one
    character."""
    wide = json.dumps([{"a": "[" * 500 + '\\"'}] * 300)
    assert read_json(wide) == json.loads(wide)
    assert read_json("[" * LEVELS_MAX + "]" * LEVELS_MAX)
    assert read_json(b'\xef\xbb\xbf{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}
    assert read_json('{"a": 1, "a": 2}') == {"a": 2}
    assert read_json("1e308") == 1e308


def test_the_depth_that_is_read_is_the_same_for_every_caller() -> None:
    """Python's own bound is what the caller has left of its stack."""
    text = "[" * LEVELS_MAX + "]" * LEVELS_MAX

    def below(levels: int) -> object:
        return read_json(text) if levels == 0 else below(levels - 1)

    assert below(0) == below(sys.getrecursionlimit() // 2)


def test_a_name_twice_is_refused_where_the_format_is_ours() -> None:
    with pytest.raises(NotJson, match="'a' stands twice"):
        read_object('{"b": {"a": 1, "a": 2}}', unique_names=True)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 2**63, -(2**63) - 1])
def test_a_whole_number_is_one(value: object) -> None:
    assert not is_whole(value)
    assert is_whole(0)


def test_a_long_decimal_has_a_bound() -> None:
    assert decimal(str(2**62), most=2**62) == 2**62
    assert decimal(str(2**62 + 1), most=2**62) is None
    assert decimal("9" * 5000, most=10**6000) is None


def ascii_id(words: str) -> str:
    return ascii(words[:4])


ROW = LeaseItem(name="n1", nonce="v", duration_s=20)
LONG = "9" * 5000


def audit_line(**changed: object) -> bytes:
    plain = {
        "transactionStartTime": 5, "lockHeld": True, "state": "START", "lockExpiration": 7, "ownerId": "o",
        "timestamp": 5,
    } | changed  # fmt: skip
    return json.dumps(plain).encode()


@pytest.mark.parametrize("name", HOSTILE)
def test_every_reader_of_a_stranger_s_json_has_its_own_error(name: str, tmp_path: Path) -> None:
    """Rows, znodes, log entries, audit files, a pending rename, run folders, checkpoints, fingerprints, recordings."""
    body = HOSTILE[name].encode()
    with pytest.raises(CorruptRecord, match="row t1"):
        parse(body, where="t1")
    with pytest.raises(CorruptRecord):
        PendingRename.from_data(HOSTILE[name])
    with pytest.raises(ConfigError, match=r"5_o\.jsonl"):
        audit.parse_file("5_o.jsonl", audit_line() + b"\n" + (body or b"x"))
    with pytest.raises(ConfigError, match="/znode"):
        ZNRecord.from_json(body, "/znode")
    assert decode_state("t1", body) == []
    assert JavaClient.decode_state("t1", body) == []
    assert views.decode_state("/C/INSTANCES/i/CURRENTSTATES/s/r", body) == ()
    assert znode_lease.decode_state("/leases/t1", body) == []
    with pytest.raises(CorruptRecord, match="znode t1"):
        znode_lease.CODEC.parse(body, where="t1")
    assert parse_commit(body) is None
    store = MemoryStore()
    store.put(f"locks/{audit.SWITCH_NAME}", body)
    assert audit.is_enabled(store, "locks") is False
    folder = tmp_path / "runs" / "20260101-000000-sim"
    (folder / "chunks" / "chunks").mkdir(parents=True)
    (folder / "run.json").write_bytes(body)
    assert unfinished_runs("sim", {}, home=tmp_path) == []
    (folder / "chunks" / "chunks" / "chunk-000000.json").write_bytes(body)
    (folder / "chunks" / "campaign.json").write_bytes(body)
    assert seeds_in(folder) == 0
    with pytest.raises(ConfigError, match=r"campaign\.json"):
        read_identity(FolderPlace(folder / "chunks"))
    (tmp_path / "store.json").write_bytes(body)
    with pytest.raises(ConfigError, match=r"store\.json"):
        fingerprint.load(tmp_path / "store.json")
    begin_spool(tmp_path / "spool")
    (tmp_path / "spool" / "spool.json").write_bytes(body)
    with pytest.raises(HistoryUnreadable):
        read_spool(tmp_path / "spool")


@pytest.mark.parametrize("words", [LONG, "٥", "²", "1.5", "-1", "1_0", " 1"], ids=ascii_id)
def test_numbers_of_a_row_are_ascii_digits(words: str) -> None:
    """`int` raises over 5,000 digits, and reads digits of other scripts."""
    plain = json.loads(serialize(ROW))
    for attribute, value in (("leaseDuration", {"S": words}), ("leaseDuration", {"N": words}), (MARK, {"N": words})):
        with pytest.raises(CorruptRecord, match=attribute):
            parse(json.dumps({**plain, attribute: value}).encode(), where="t1")
    assert JavaClient.decode_state("t1", json.dumps({**plain, "leaseDuration": {"S": words}}).encode()) == []
    assert number_in({"leaseDuration": {"N": words}}, "leaseDuration") is None


def test_an_end_in_the_far_future_is_shown_as_a_history_can_hold_it() -> None:
    """Epoch seconds of eighteen digits are more nanoseconds than 64 bits."""
    plain = json.loads(serialize(ROW)) | {"leaseDuration": {"N": "9" * 18}}
    [view] = decode_state("t1", json.dumps(plain).encode())
    assert lock_columns(view)[2] == 2**63 - 1
    [view] = JavaClient.decode_state("t1", json.dumps(plain | {"leaseDuration": {"S": "9" * 18}}).encode())
    assert lock_columns(view)[3] == detail(duration_ns=2**63 - 1)


@pytest.mark.parametrize("stamp", [float(2**70), "x", True, None, [5], 2**63])
def test_a_stamp_that_is_none_makes_an_audit_file_unreadable(stamp: object) -> None:
    with pytest.raises(ConfigError, match=r"5_o\.jsonl"):
        audit.parse_file("5_o.jsonl", audit_line(timestamp=stamp))
    assert audit.parse_file("5_o.jsonl", audit_line(timestamp="12")).started_ms == 12


def test_a_line_of_an_audit_file_ends_at_a_line_feed_alone() -> None:
    """An owner may have a character at which `splitlines` breaks a text."""
    owner = "a\u2028b\x85"
    body = json.dumps(json.loads(audit_line(ownerId=owner)), ensure_ascii=False).encode()
    assert audit.parse_file("5_o.jsonl", body).owner == owner


@pytest.mark.parametrize(
    "newest", [b"x", b"{}", b'{"version": "3"}', b'{"version": -1}', b'{"version": 1e999}', b'{"version": true}']
)
def test_a_damaged_last_checkpoint_is_no_hint(newest: bytes) -> None:
    """A writer whose hint cannot be read loads the log from its first entry, as the protocol says."""
    store = MemoryStore()
    for version in range(3):
        store.put(entry_key("t", version), b"{}")
    store.put(checkpoint_key("t", 1), b"1")
    store.put(last_checkpoint_key("t"), newest)
    assert Log(store, "t").load().version == 2


@pytest.mark.parametrize("field", ["txnId", "node", "attempt", "token"])
def test_an_entry_with_a_field_of_another_type_is_none_of_ours(field: str) -> None:
    info = {"txnId": "i", "node": "n1", "task": "t", "tenure": 1, "attempt": 1, "token": None, "owner": "o"}
    assert parse_commit(json.dumps({"commitInfo": info}).encode()) is not None
    assert parse_commit(json.dumps({"commitInfo": {**info, field: ["x"]}}).encode()) is None
