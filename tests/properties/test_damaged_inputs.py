"""Files and objects after damage: a reader gives its typed error or a right value, never another error, and ends.

`READERS` is the registry. Whoever adds a format that somebody else may have written adds its reader here.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockref.cli.main import run
from lockref.clouds.calls import DELETE, LIST, PUT, READ, Call, HttpReply, Place
from lockref.clouds.uri import CLOUDS
from lockref.coordination import lease as znode_lease
from lockref.delta.record import LeaseItem
from lockref.delta.renaming import PendingRename
from lockref.dynamodb import item
from lockref.dynamodb.shipped.java_client import JavaClient
from lockref.errors import HistoryUnreadable, LockrefError
from lockref.helix.cluster.cluster_file import parse_cluster
from lockref.helix.records import views
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.shipped.stored_record import parsed
from lockref.history import Kind, Recorder
from lockref.lab.lock_rows import lock_columns
from lockref.lab.spool import SpoolRecorder, begin_spool
from lockref.located_yaml import read_text
from lockref.locks.fence import FenceMark
from lockref.locks.values import Refusal, Reserved, Stored
from lockref.runtime import ThreadRuntime
from lockref.storage import audit, lockfile
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.stores.probe import fingerprint
from lockref.words import Op, Outcome
from reports.account import judged_history
from reports.comparison.comparison import compare
from reports.comparison.subjects import fingerprint_subject
from reports.formats.fingerprint import markdown as fingerprint_markdown
from reports.formats.fingerprint import terminal_lines
from reports.history_files import SPOOL, write_history, write_json_lines
from reports.html.fingerprint import page_of
from scenarios.campaigns.identity import FILE as CAMPAIGN
from scenarios.campaigns.identity import read_identity
from scenarios.campaigns.places import FolderPlace
from scenarios.definition.draw import draw_scenario
from scenarios.definition.fault_plan import draw_plan
from scenarios.definition.load import CATALOGUE, load_scenario, parse_scenario
from scenarios.failures.stored_failures import load_failure
from scenarios.injection.observer import Direction
from scenarios.runs import note_killed, prune, status_of, unfinished_runs
from scenarios.wire.decoders import load_decoder
from scenarios.wire.reading.dialect import dialect_of
from scenarios.wire.recorder import WireRecorder
from scenarios.wire.tap import Tap
from scenarios.workloads.delta.log_files import Commit, parse_commit
from sim.explore.replay import Failure, ProviderUsed
from tests.damage import BYTE_DAMAGES, damaged_bytes
from tests.histories import History, tables

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Reader:
    """One format. files: a whole one, by name in its folder. read: raises LockrefError alone; gets that folder."""

    files: Callable[[Path], None]
    read: Callable[[Path], object]


def in_one(body: bytes, read: Callable[[bytes], object]) -> Reader:
    """A format of one object, read from its bytes."""
    return Reader(
        files=lambda folder: (folder / "object").write_bytes(body) and None,
        read=lambda folder: read((folder / "object").read_bytes()),
    )


def histories() -> History:
    history = History(run={"scenario": "s", "provider": "p"})
    a = history.granted("n1", call=0, applied=1, returned=2, token=7)
    history.believes(a, 2, 5)
    history.effect(a, at=4)
    history.released(a, call=6, applied=7)
    return history


def parquet(folder: Path) -> None:
    write_history(folder, *tables(histories(), histories()))


def json_lines(folder: Path) -> None:
    write_json_lines(folder, *tables(histories(), histories()))


def recording(folder: Path) -> None:
    begin_spool(folder / SPOOL)
    recorder = SpoolRecorder(folder / SPOOL, 0)
    for number in range(40):
        recorder.event(
            Kind.SENT, (1_000 + number, 1_000 + number, 1_000 + number, "main"), "n1", "lock", Op.ACQUIRE, 0,
            request=number + 1, attempt=0, if_version="absent", content=f"c{number}", owner="o",
        )  # fmt: skip


def failure(folder: Path) -> None:
    scenario = load_scenario("e03")
    Failure(
        id="LK-AAAAAA", clause="S1", scenario=scenario.model_dump(mode="json", by_alias=True),
        provider=ProviderUsed(name="hudi"), seed=1, plan=draw_plan(scenario, draw_scenario(scenario, 1), 1),
        schedule=((3, 1),), digest="0", faults=("a pause",),
    ).save(folder / "failure.json")  # fmt: skip


def campaign(folder: Path) -> None:
    about = {
        "format": "lockref.campaign/3", "scenario": "a", "provider": "b", "lockref": "0", "commit": "", "seeds": [0, 9],
        "chunk_seeds": 50, "keep": 3, "keep_failures": 0, "compare_every": 0, "scenario_hash": "a", "lock_hash": "b",
        "code_hash": "c",
    }  # fmt: skip
    (folder / CAMPAIGN).write_text(json.dumps(about))


def run_folder(folder: Path) -> None:
    run = folder / "runs" / "20260101T000000-sim"
    run.mkdir(parents=True)
    about = {"status": "running", "arguments": {}, "number": 7, "host": "h", "pid": 1, "process_started": 5}
    (run / "run.json").write_text(json.dumps(about))


def looked_at(folder: Path) -> object:
    """All that reads another run's folder: killed ones are noted, unfinished ones found, the oldest removed."""
    runs = folder / "runs"
    found = [note_killed(runs), unfinished_runs("sim", {}, home=folder)]
    prune(runs, keep=folder)
    return [*found, [status_of(path) for path in runs.iterdir()]]


AUDIT = b"".join(
    json.dumps(
        {
            "transactionStartTime": 5,
            "lockHeld": True,
            "state": state,
            "lockExpiration": 7,
            "ownerId": "o",
            "timestamp": 5,
        }
    ).encode()
    + b"\n"
    for state in ("START", "RENEW", "END")
)
ZNODE = (
    b'{"id":"r","simpleFields":{"REPLICAS":"1","STATE_MODEL_DEF_REF":"m"},'
    b'"mapFields":{"l":{"CURRENT_STATE":"LOCKED","FENCING_TOKEN":"7"}},"listFields":{"l":["i"]}}'
)
ROW = item.serialize(LeaseItem(name="n1", nonce="v", duration_s=20, data='{"source":"a","destination":"b"}'))
ZNODE_LEASE = znode_lease.CODEC.serialize(LeaseItem(name="n1", nonce="v", duration_s=20, token=3, mark=1000))
LOCK_FILE = b'{"expired":false,"validUntil":5,"owner":"o","nonce":"n","fence":3,"fenceMark":3}'
COMMIT = Commit(identity="i", node="n1", task="t", tenure=1, attempt=1, token=3, owner="o").to_bytes()
DECODERS = ("auto", "hudi", "json:owner=$.owner,until_ms=$.validUntil,token=$.fence", "exists:*")


def decoded(body: bytes) -> object:
    """What every decoder of the wire sees in an object."""
    return [[lock_columns(view) for view in load_decoder(name)("k", body)] for name in DECODERS]


def seen(body: bytes) -> object:
    """What the checks see of a row, by the product's reader and by the shipped Java client's."""
    views = [*item.decode_state("k", body), *JavaClient.decode_state("k", body)]
    return [lock_columns(view) for view in views]


def seen_in_a_znode(body: bytes) -> object:
    """What the checks see of a lease in a znode."""
    return [lock_columns(view) for view in znode_lease.decode_state("/leases/k", body)]


FENCE = b'{"mark":1000,"nonce":"n"}'
FINGERPRINT_OF_A_STORE = ROOT / "tests" / "data" / "fingerprint_of_moto.json"


class OneObject:
    """A store that shows these bytes to whoever reads."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def read(self, _key: str) -> ReadReply:
        return ReadReply(outcome=Outcome.APPLIED, body=self.body, version=Version('"1"'))

    def put_if_version(self, _key: str, _body: bytes, _version: Version) -> WriteReply:
        return WriteReply(outcome=Outcome.APPLIED, version=Version('"2"'))

    def put_if_absent(self, _key: str, _body: bytes) -> WriteReply:
        return WriteReply(outcome=Outcome.PRECONDITION_FAILED)


def fenced(body: bytes) -> object:
    """What token a grant gets where the fence object holds this: a number or none, and no error in a lock's call."""
    told: list[str] = []
    mark = FenceMark[Any](OneObject(body), "x.json", new_nonce=lambda: "n", on_void=told.append)  # type: ignore[arg-type]
    # The first attempt is to make the object, and finds that there is one.
    answers = [mark.reserve(Stored(None, None), seen=0, is_over=lambda: False) for _ in range(2)]
    reserved = answers[1]
    assert answers[0] is Refusal.LOST_RACE
    assert isinstance(reserved, Reserved)
    assert reserved.token is None or (0 < reserved.token <= 2**63 - 1 and not told)
    return reserved


def probed(body: bytes) -> object:
    """A fingerprint as every reader takes it: a lock that opens, a comparison, the terminal, Markdown and the page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.json")
        path.write_bytes(body)
        found = fingerprint.load(path)
        shown = [terminal_lines(found), fingerprint_markdown([found]), page_of([found])]
        return [*shown, compare([fingerprint_subject(found, path)] * 2)]


def message(head: str, body: bytes = b"") -> bytes:
    """A message with its length."""
    return f"{head}\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


S3_TALK = (
    message("PUT /b/k HTTP/1.1\r\nIf-None-Match: *", b"{}"),
    message('HTTP/1.1 200 OK\r\nETag: "e1"'),
    message("POST /b?delete HTTP/1.1", b"<Delete><Object><Key>k</Key></Object></Delete>"),
    message("HTTP/1.1 200 OK", b"<DeleteResult><Deleted><Key>k</Key></Deleted></DeleteResult>"),
)
GCS_TALK = (
    message(
        "POST /upload/storage/v1/b/b/o?uploadType=multipart&ifGenerationMatch=0 HTTP/1.1\r\n"
        "Content-Type: multipart/related; boundary=x",
        b'--x\r\n\r\n{"name":"k"}\r\n--x\r\nContent-Type: text/plain\r\n\r\n{"owner":"o"}\r\n--x--',
    ),
    message("HTTP/1.1 200 OK\r\nContent-Type: application/json", b'{"generation":"7","name":"k","x":1}'),
    message("GET /storage/v1/b/b/o/k HTTP/1.1"),
    message("HTTP/1.1 404 NF", b'{"error":{"code":404,"errors":[{"reason":"notFound"}]}}'),
)
AZURE_TALK = (
    message('PUT /b/k HTTP/1.1\r\nx-ms-blob-type: BlockBlob\r\nIf-Match: "0x1"', b"{}"),
    message("HTTP/1.1 412 P\r\nx-ms-error-code: ConditionNotMet"),
    message("GET /b/k HTTP/1.1"),
    message('HTTP/1.1 200 OK\r\nETag: "0x2"', b"{}"),
)


def on_the_wire(scheme: str, talk: tuple[bytes, ...]) -> Reader:
    """A conversation of a foreign client: what it asked and what it heard, each damaged as a whole."""
    lengths = [len(part) for part in talk]

    def read(folder: Path) -> object:
        bodies = [(folder / f"{number}").read_bytes() for number in range(len(lengths))]
        tap = Tap("n1", WireRecorder(Recorder(), dialect_of(scheme, "b"), load_decoder("auto"), protects=("state/*",),
                                     runtime=ThreadRuntime(), clock_offsets_ns={}))  # fmt: skip
        tap.opened(1, 1)
        for number, body in enumerate(bodies):
            tap.forwarded(1, Direction.REPLY if number % 2 else Direction.REQUEST, body, 2 + number)
        tap.closed(1, 9)
        return tap

    return Reader(
        lambda folder: [(folder / f"{number}").write_bytes(part) for number, part in enumerate(talk)] and None, read
    )


def answered(scheme: str, body: bytes) -> object:
    """An answer to each call of ours, with every status that a cloud gives."""
    cloud = CLOUDS[scheme]
    assert cloud.protocol is not None
    place = Place(origin="http://h", container="b", key_attribute="key")
    return [
        cloud.protocol[1].answer_to(
            place, Call(verb=verb, key="k"), HttpReply(status=status, headers=dict(headers), body=body)
        )
        for verb in (READ, PUT, DELETE, LIST)
        for status in (200, 204, 400, 404, 412, 503)
        for headers in ({}, {"etag": '"e"', "x-goog-generation": "7"})
    ]


XML = (
    b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Contents><Key>k</Key><ETag>"e"</ETag><Size>1</Size>'
    b"</Contents><Code>NoSuchKey</Code><Message>m</Message></ListBucketResult>"
)
LISTED = b'{"items":[{"name":"k","generation":"7"}],"error":{"code":404,"errors":[{"reason":"x"}]}}'
BLOBS = b"<EnumerationResults><Blobs><Blob><Name>k</Name></Blob></Blobs><Code>BlobNotFound</Code></EnumerationResults>"
ITEMS = b'{"Item":{"key":{"S":"k"},"n":{"N":"7"}},"Items":[],"__type":"x#ConditionalCheckFailedException"}'

READERS: dict[str, Reader] = {
    "a fence object": in_one(FENCE, fenced),
    "a store's fingerprint": in_one(FINGERPRINT_OF_A_STORE.read_bytes(), probed),
    "S3's wire": on_the_wire("s3", S3_TALK),
    "Google's wire": on_the_wire("gs", GCS_TALK),
    "Azure's wire": on_the_wire("az", AZURE_TALK),
    "S3's answer": in_one(XML, lambda body: answered("s3", body)),
    "Google's answer": in_one(LISTED, lambda body: answered("gs", body)),
    "Azure's answer": in_one(BLOBS, lambda body: answered("az", body)),
    "DynamoDB's answer": in_one(ITEMS, lambda body: answered("dynamodb", body)),
    "a history in Parquet": Reader(parquet, judged_history),
    "a history in JSON lines": Reader(json_lines, judged_history),
    "a recording": Reader(recording, judged_history),
    "a stored failure": Reader(failure, lambda folder: load_failure(folder / "failure.json")),
    "a campaign's identity": Reader(campaign, lambda folder: read_identity(FolderPlace(folder))),
    "a run folder": Reader(run_folder, looked_at),
    "a scenario": in_one(
        (CATALOGUE / "e03-killed-holder.yaml").read_bytes(), lambda body: load_text(body, parse_scenario)
    ),
    "a scenario with many faults": in_one(
        (CATALOGUE / "swarm.yaml").read_bytes(), lambda body: load_text(body, parse_scenario)
    ),
    "a cluster file": in_one(
        (ROOT / "docs/examples/lock-manager.yaml").read_bytes(), lambda body: load_text(body, parse_cluster)
    ),
    "a row": in_one(ROW, lambda body: item.parse(body, where="k")),
    "a row as the checks see it": in_one(ROW, seen),
    "a lease in a znode": in_one(ZNODE_LEASE, lambda body: znode_lease.CODEC.parse(body, where="k")),
    "a lease in a znode as the checks see it": in_one(ZNODE_LEASE, seen_in_a_znode),
    "a pending rename": in_one(
        b'{"source": "a", "destination": "b"}', lambda body: PendingRename.from_data(body.decode("utf-8", "replace"))
    ),
    "a lock object": in_one(LOCK_FILE, lambda body: lockfile.parse(body, where="k")),
    "a lock object on the wire": in_one(LOCK_FILE, decoded),
    "a znode": in_one(ZNODE, lambda body: ZNRecord.from_json(body, "/znode")),
    "a znode as Helix reads it": in_one(ZNODE, parsed),
    "a current state": in_one(
        ZNODE,
        lambda body: [lock_columns(view) for view in views.decode_state("/C/INSTANCES/i/CURRENTSTATES/s/r", body)],
    ),
    "an audit file": in_one(AUDIT, lambda body: audit.parse_file("5_o.jsonl", body)),
    "a log entry": in_one(COMMIT, parse_commit),
}


def load_text(body: bytes, parse: Callable[..., object]) -> object:
    """As a command reads a file of text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.yaml")
        path.write_bytes(body)
        return parse(read_text(path, document="file"), file="file.yaml")


@cache
def whole(name: str) -> dict[str, bytes]:
    """The files of a whole one, by path."""
    with tempfile.TemporaryDirectory() as folder:
        READERS[name].files(Path(folder))
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        }


def try_one(name: str, kind: str, seed: int, folder: Path) -> None:
    """Damage one file of a whole one, and read."""
    files = whole(name)
    struck = sorted(path for path, body in files.items() if body)[seed % len(files)]
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(damaged_bytes(kind, seed, body) if path == struck else body)
    told = None
    try:
        READERS[name].read(folder)
    except LockrefError as error:
        told = error
    if told is not None:
        assert type(told) is not LockrefError
        assert str(told).encode()


@pytest.mark.parametrize("name", READERS)
def test_a_whole_one_is_read(name: str, tmp_path: Path) -> None:
    """Damage is tried on what would be read."""
    for path, body in whole(name).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(body)
    assert READERS[name].read(tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_damage_gives_the_typed_error_or_a_right_value(name: str, tmp_path: Path) -> None:
    """Two samples of every kind of damage."""
    for kind in BYTE_DAMAGES:
        for seed in range(2):
            try_one(name, kind, seed, tmp_path)


def test_a_column_whose_name_is_no_text_is_damage(tmp_path: Path) -> None:
    """Parquet's reader decodes a name when somebody asks for it, which was outside of what caught its errors."""
    parquet(tmp_path)
    path = tmp_path / "events.parquet"
    body = path.read_bytes()
    # The name stands in the footer twice: in the columns' own part, and in the copy of Arrow's schema.
    path.write_bytes(body.replace(b"if_version", b"if_vers\xffon"))
    with pytest.raises(HistoryUnreadable, match="no readable Parquet file"):
        judged_history(tmp_path)


@pytest.mark.parametrize("name", ["claims", "must_happen"])
def test_a_list_that_holds_no_word_is_damage(name: str, tmp_path: Path) -> None:
    """A null among a lock's claims reached the clauses, which take each for a word."""
    parquet(tmp_path)
    path = tmp_path / "runs.parquet"
    runs = pq.read_table(path)
    words = pa.array([["fair", None]] * runs.num_rows, pa.list_(pa.string()))
    pq.write_table(runs.set_column(runs.column_names.index(name), name, words), path)
    with pytest.raises(HistoryUnreadable, match=f"{name} is .*expected a list of words"):
        judged_history(tmp_path)


def stored_failure(folder: Path) -> tuple[Path, dict[str, Any]]:
    """A file of a failure that was found, and its document."""
    failure(folder)
    path = folder / "failure.json"
    return path, json.loads(path.read_bytes())


ALTERATIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no faults": lambda told: told["plan"].update(faults=[]),
    "a fault of nobody": lambda told: told["plan"]["faults"][0].update(client="n99"),
    "a fault of no service": lambda told: told["plan"]["faults"].append(
        {"kind": "freeze_service", "id": "x", "at_ns": 1, "for_ns": 1, "service": "nowhere"}
    ),
    "a fault twice": lambda told: told["plan"]["faults"].append(told["plan"]["faults"][0]),
    "a key that no znode has": lambda told: told["plan"]["faults"].append(
        {"kind": "corrupt_object", "id": "x", "at_ns": 1_000_000_000, "key": "a\x00b", "service": "store"}
    ),
    "hands on the resource": lambda told: told["plan"]["faults"].append(
        {"kind": "delete_object", "id": "x", "at_ns": 1_000_000_000, "key": "list", "service": "resource"}
    ),
    "hands on the resource's records": lambda told: told["plan"]["faults"].append(
        {"kind": "corrupt_object", "id": "x", "at_ns": 1_000_000_000, "service": "resource"}
    ),
    "another digest": lambda told: told.update(digest="f" * 64),
    "another clause": lambda told: told.update(clause="S6"),
    "no clause": lambda told: told.update(clause="Z9"),
    "another seed": lambda told: told.update(seed=2**62),
    "a negative seed": lambda told: told.update(seed=-1),
    "a decision that nobody takes": lambda told: told.update(schedule=[[10**9, 7], [3, 10**9]]),
    "a decision twice": lambda told: told.update(schedule=[[3, 1], [3, 0]]),
    "a negative decision": lambda told: told.update(schedule=[[-3, -1]]),
    "fewer clients": lambda told: told["scenario"].update(clients=1),
    "another workload": lambda told: told["scenario"]["workload"].update(kind="delta_log"),
    "no time": lambda told: told["scenario"].update(duration="0s"),
    "no scenario": lambda told: told.update(scenario={}),
    "a lock of another service": lambda told: told["provider"].update(name="helix"),
    "a lock of nobody": lambda told: told["provider"].update(name="nobody"),
    "heals before it begins": lambda told: told["plan"].update(heal_ns=0),
}
"""What somebody may have done to a failure's document, by name. Each leaves JSON of the same form."""


@pytest.mark.parametrize("name", ALTERATIONS)
@pytest.mark.parametrize(
    "lock", ["hudi", *(pytest.param(lock, marks=pytest.mark.long) for lock in ("dynamodb", "helix"))]
)
def test_an_altered_failure_is_replayed_or_refused_in_a_sentence(
    name: str, lock: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is FIXED, FAILED, not applicable or unreadable, and never a defect of ours."""
    path, document = stored_failure(tmp_path)
    document["provider"]["name"] = lock
    ALTERATIONS[name](document)
    path.write_text(json.dumps(document))
    assert run(["replay", str(path)]) in (0, 1, 2)
    out, err = capsys.readouterr()
    assert "assert" not in out + err
    assert out or err.startswith("lockref: ")


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", BYTE_DAMAGES)
def test_much_damage(name: str, kind: str, tmp_path: Path) -> None:
    for seed in range(2, 60):
        try_one(name, kind, seed, tmp_path)
