"""The helping log store of `deltalake` 1.2.1 and ours on one table of rows: each finishes what the other left."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from lockref.clouds.uri import open_store
from lockref.dynamodb.table import Item, TableClient
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.port import ObjectStore, ReadReply, StoreCapabilities, Version, WriteReply
from lockref.words import Outcome
from scenarios.backends.asked_process import AskedProcess
from scenarios.workloads.delta.log_files import Commit, Log, parse_entry_key
from scenarios.workloads.delta.log_rows import COMPLETE, EXPIRE_TIME, FILE_NAME, TABLE_PATH, TEMP_PATH
from scenarios.workloads.delta.protocols import commit_by, help_each_other
from scenarios.workloads.delta.writer import CommitAnswer, Writer
from sim.faults.network import LoseRequest
from tests.evidence.delta.findings import ANSWER_S, COPY, Experiment, await_strike, committed, committed_beside
from tests.evidence.delta.lake import LOG_STORE, add_action

LOG_STORE_RELEASE: Final = "1.2.1"
_REQUEST_TIMEOUT_NS: Final = 20 * NS_PER_S
_NAMES: Final = {TABLE_PATH, FILE_NAME, TEMP_PATH, COMPLETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled(Commit):
    """A commit of ours that an original can read: one add action, in the partition of its label."""

    label: str

    def to_bytes(self) -> bytes:
        info = {"commitInfo": {"txnId": self.identity}}
        return b"\n".join((json.dumps(info).encode(), add_action(self.label)))


class DiesBeforeCopy:
    """The store of a writer that is killed between its row and the copy: no log entry gets into its place."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def capabilities(self) -> StoreCapabilities:
        return self._store.capabilities

    def read(self, key: str) -> ReadReply:
        return self._store.read(key)

    def put(self, key: str, body: bytes) -> WriteReply:
        if parse_entry_key(key) is not None:
            return WriteReply(outcome=Outcome.AMBIGUOUS, reason="its writer is dead")
        return self._store.put(key, body)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._store.put_if_absent(key, body)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._store.put_if_version(key, body, version)

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        return self._store.delete(key, version)

    def close(self) -> None:
        self._store.close()


class Ours:
    """Our helping log store on the Delta table at `s3://BUCKET/NAME`."""

    def __init__(self, run: Experiment, table: str, *, dies: bool = False) -> None:
        bucket, _, name = table.removeprefix("s3://").partition("/")
        places = run.lake.places(bucket)
        self._store = open_store(places.objects, request_timeout_ns=_REQUEST_TIMEOUT_NS)
        self._rows: TableClient = run.lake.rows(bucket)
        self._runtime = ThreadRuntime()
        store = DiesBeforeCopy(self._store) if dies else self._store
        self._writer = Writer(log=Log(store, name), runtime=self._runtime, rows=self._rows)
        self._name = name

    def commit(self, label: str) -> CommitAnswer:
        commit = Labelled(identity=self._runtime.token_bytes(8).hex(), node="ours", task="main", label=label)
        return commit_by(help_each_other, self._writer, commit)

    def close(self) -> None:
        self._rows.close()
        self._store.close()


@contextlib.contextmanager
def ours(run: Experiment, table: str, *, dies: bool = False) -> Iterator[Ours]:
    """dies: it is killed between its row and the copy."""
    with contextlib.closing(Ours(run, table, dies=dies)) as writer:
        yield writer


def _theirs(run: Experiment, table: str, name: str, *, endpoint: str = "") -> AskedProcess:
    return run.lake.writer(LOG_STORE_RELEASE, table, LOG_STORE, name=name, endpoint=endpoint)


def _row(run: Experiment, table: str, version: int) -> Item:
    """The row as the table has it."""
    found = run.lake.log_row(table, f"{version:020}.json")
    assert found is not None, "whoever committed this version left a row"
    return found


def turns(run: Experiment) -> bool:
    """They take turns, version by version. Their rows have the same attributes, of the same types."""
    table = run.new_table("t")
    with _theirs(run, table, "theirs") as peer, ours(run, table) as mine:
        answers = committed(peer, "first")
        for number in range(run.appends):
            told = mine.commit(f"ours-{number}")
            answers += committed(peer, f"theirs-{number}")
            assert told.outcome is Outcome.APPLIED, told
    log = run.lake.log(table)
    rows = [_row(run, table, version) for version in log.versions]
    labels = ["first", *(f"{who}-{number}" for number in range(run.appends) for who in ("ours", "theirs"))]
    run.say(f"{len(log.versions)} versions in turn: {[*log.versions.values()]}")
    run.say(f"a row of theirs: {rows[0]}")
    run.say(f"a row of ours: {rows[1]}")
    kinds = [{name: next(iter(value)) for name, value in row.items()} for row in rows]
    is_alike = all(kind == {**dict.fromkeys(_NAMES, "S"), EXPIRE_TIME: "N"} for kind in kinds)
    is_in_turn = [*log.versions.values()] == [(label,) for label in labels]
    return is_alike and is_in_turn and all("acknowledged" in answer for answer in answers)


def contend(run: Experiment) -> bool:
    """Their processes and our threads at once: every acknowledged commit is in one version."""
    table = run.new_table("t")
    done: list[str] = []

    def work(name: str) -> None:
        with ours(run, table) as mine:
            for label in (f"{name}-{number}" for number in range(run.appends)):
                told = mine.commit(label)
                done.extend([label] if told.outcome is Outcome.APPLIED else [])

    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(_theirs(run, table, f"peer{number}")) for number in range(2)]
        answers = committed_beside(run, peers, work)
    log = run.lake.log(table)
    theirs = [answer["label"] for answer in answers if "acknowledged" in answer]
    wrong = [label for label in theirs + done if log.times(label) != 1]
    for answer in answers:
        if "error" in answer:
            run.say(f"  refused: {answer['error']}: {answer['reason'][:200]}")
    run.say(
        f"2 processes of {LOG_STORE_RELEASE} beside 2 threads of ours: {len(theirs)} and {len(done)} commits "
        f"acknowledged, {len(log.versions)} versions, {len(wrong)} lost or twice"
    )
    return not wrong and bool(done) and len(log.versions) == len(theirs) + len(done) and log.is_contiguous


def we_finish(run: Experiment) -> bool:
    """Theirs is killed between its row and the copy. We finish its version, then commit the next one."""
    table = run.new_table("t")
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(run.lake.proxy())
        peer = stack.enter_context(_theirs(run, table, "doomed", endpoint=proxy.endpoint))
        committed(peer, "first")
        proxy.when(COPY, LoseRequest(id="copy"))
        peer.ask(append=["dead"])
        await_strike(proxy)
        left = _row(run, table, 1)
        peer.kill()
    before = run.lake.log(table)
    began_s = time.monotonic()
    with ours(run, table) as mine:
        told = mine.commit("after")
    waited_s = time.monotonic() - began_s
    log, done = run.lake.log(table), _row(run, table, 1)
    run.say(f"a killed {LOG_STORE_RELEASE} left {left}")
    run.say(
        f"we commit in {waited_s:.2f} s: {told.outcome.name} {told.version}; {dict(log.versions)}; row 1 now {done}"
    )
    is_left = left[COMPLETE] == {"S": "false"} and not before.times("dead")
    is_done = done[COMPLETE] == {"S": "true"} and EXPIRE_TIME in done
    return is_left and is_done and [*log.versions.values()] == [("first",), ("dead",), ("after",)]


def they_finish(run: Experiment) -> bool:
    """Ours is killed between its row and the copy. Theirs finishes our version, then commits the next one."""
    table = run.new_table("t")
    with _theirs(run, table, "theirs") as peer:
        committed(peer, "first")
        with ours(run, table, dies=True) as mine:
            told = mine.commit("dead")
        left, before = _row(run, table, 1), run.lake.log(table)
        [answer] = committed(peer, "after", timeout_s=ANSWER_S + run.patience_s)
    log, done = run.lake.log(table), _row(run, table, 1)
    run.say(f"we die after our row ({told.outcome.name}: the row decides) and leave {left}")
    run.say(f"{LOG_STORE_RELEASE}: {answer}; {dict(log.versions)}")
    run.say(f"our row now: {done}")
    is_left = left[COMPLETE] == {"S": "false"} and not before.times("dead")
    is_done = done[COMPLETE] == {"S": "true"}
    return is_left and is_done and [*log.versions.values()] == [("first",), ("dead",), ("after",)]


LOG_STORES: Final[dict[str, Callable[[Experiment], bool]]] = {
    "log-store-turns": turns,
    "log-store-contend": contend,
    "ours-after-killed-1.2.1": we_finish,
    "1.2.1-after-killed-ours": they_finish,
}
"""Every experiment with the helping log store by name."""
