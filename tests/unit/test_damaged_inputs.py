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

import pytest

from lockref.coordination import lease as znode_lease
from lockref.delta.record import LeaseItem
from lockref.delta.renaming import PendingRename
from lockref.dynamodb import item
from lockref.dynamodb.shipped.java_client import JavaClient
from lockref.errors import LockrefError
from lockref.helix.cluster.cluster_file import parse_cluster
from lockref.helix.records import views
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.shipped.stored_record import parsed
from lockref.history import Kind
from lockref.lab.lock_rows import lock_columns
from lockref.lab.spool import SpoolRecorder, begin_spool
from lockref.located_yaml import read_text
from lockref.storage import audit, lockfile
from lockref.words import Op
from reports.account import judged_history
from reports.history_files import SPOOL, write_history, write_json_lines
from scenarios.checkpoint import FINGERPRINT, read_fingerprint
from scenarios.definition.draw import draw_scenario
from scenarios.definition.fault_plan import draw_plan
from scenarios.definition.load import CATALOGUE, load_scenario, parse_scenario
from scenarios.failures.stored import load_failure
from scenarios.runs import note_killed, prune, status_of, unfinished_runs
from scenarios.wire.decoders import load_decoder
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
        "format": "lockref.campaign/2", "scenario": "a", "provider": "b", "code": "c", "seeds": [0, 9], "keep_runs": 3,
        "compare_every": 0,
    }  # fmt: skip
    (folder / FINGERPRINT).write_text(json.dumps(about))


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


READERS: dict[str, Reader] = {
    "a history in Parquet": Reader(parquet, judged_history),
    "a history in JSON lines": Reader(json_lines, judged_history),
    "a recording": Reader(recording, judged_history),
    "a stored failure": Reader(failure, lambda folder: load_failure(folder / "failure.json")),
    "a campaign's fingerprint": Reader(campaign, read_fingerprint),
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


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", BYTE_DAMAGES)
def test_much_damage(name: str, kind: str, tmp_path: Path) -> None:
    for seed in range(2, 60):
        try_one(name, kind, seed, tmp_path)
