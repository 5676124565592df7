"""The queue of a table, by hand: order, visibility, receipts. Then workers that serve it, in both worlds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from lockref.errors import ConfigError, LockError, OutcomeUnknown
from lockref.history import Recorder, to_table
from lockref.lab.loading import load_provider
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.stores.memory import MemoryStore
from lockref.stores.port import WriteReply
from lockref.words import Outcome
from reports.checks import judge
from reports.checks.facts.case import open_case
from reports.checks.measures.commits import commit_figures
from reports.checks.spec import HELD, VIOLATED
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.run import run_real, run_simulated
from scenarios.workloads.delta.item_queue import QUEUE, Delivery, ItemQueue, QueueClient
from scenarios.workloads.delta.log_files import Commit, Log, entry_key, newest_position, parse_commit
from scenarios.workloads.delta.queue_worker import QUEUE_PROTOCOLS, QueueWorker
from scenarios.workloads.delta.writer import Writer
from scenarios.workloads.resource import Write
from tests.hardened_rig import ManualRuntime

TABLE = "lake/orders"


class Clocked:
    """A queue with a clock that the test sets, at the other end of a channel."""

    capabilities, client, service = None, "n1", QUEUE.name

    def __init__(self) -> None:
        self.now_ns = 0
        self.queue = ItemQueue(now_ns=lambda: self.now_ns, visibility_ns=lambda: 10)
        self.says: Reply | None = None
        self.asked = 0

    def send(self, request: Request, _timeout_ns: int) -> Reply:
        self.asked += 1
        reply = self.queue.handle(request)
        return reply if self.says is None else self.says

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def clocked() -> Clocked:
    return Clocked()


@pytest.fixture
def client(clocked: Clocked) -> QueueClient:
    found: QueueClient = QUEUE.over(clocked, 1)
    for identity in ("a", "b", "c"):
        found.enqueue(TABLE, identity)
    return found


def test_items_come_first_in_first_out_and_nothing_passes_what_is_in_flight(client: QueueClient) -> None:
    """An item that is sent twice is one; another table's queue is another queue."""
    client.enqueue(TABLE, "a")
    client.enqueue("lake/other", "z")
    assert client.receive(TABLE, 2) == [Delivery(0, "a", 1), Delivery(1, "b", 1)]
    assert client.receive(TABLE, 2) == []
    assert client.receive("lake/other", 9) == [Delivery(0, "z", 1)]
    assert client.delete(TABLE, [Delivery(0, "a", 1), Delivery(1, "b", 1)])
    assert client.receive(TABLE, 9) == [Delivery(2, "c", 1)]


def test_what_is_not_deleted_in_time_comes_again_and_its_receipt_is_void(clocked: Clocked, client: QueueClient) -> None:
    """At the instant of the timeout the items are visible; then only the newest receipts count, all or none."""
    first = client.receive(TABLE, 2)
    clocked.now_ns = 9
    assert client.receive(TABLE, 2) == []
    clocked.now_ns = 10
    assert not client.delete(TABLE, first), "nobody has them"
    again = client.receive(TABLE, 3)
    assert again == [Delivery(0, "a", 2), Delivery(1, "b", 2), Delivery(2, "c", 1)]
    assert not client.delete(TABLE, [*again[1:], first[0]])
    assert client.delete(TABLE, again)
    clocked.now_ns = 100
    assert client.receive(TABLE, 9) == []
    assert not client.delete(TABLE, again)


@pytest.mark.parametrize(
    ("says", "error"),
    [(TIMED_OUT, OutcomeUnknown), (Reply(Outcome.THROTTLED, status=429, reason="slow down"), LockError)],
)
def test_a_queue_that_does_not_do_it_is_an_error(
    says: Reply, error: type[Exception], clocked: Clocked, client: QueueClient
) -> None:
    clocked.says = says
    with pytest.raises(error, match=TABLE):
        client.enqueue(TABLE, "d")


def test_a_coalesced_entry_tells_its_items_and_the_newest_position() -> None:
    """As Delta's action `txn`; an entry of one commit has neither, and is the bytes that it always was."""
    entry = Commit(identity="a", node="n1", task="main", items=("a", "b"), position=7)
    assert parse_commit(entry.to_bytes()) == entry
    assert entry.to_bytes().count(b'"add"') == 2
    assert newest_position(entry.to_bytes()) == 7
    alone = Commit(identity="a", node="n1", task="main")
    assert (newest_position(alone.to_bytes()), alone.identities, b'txn"' in alone.to_bytes()) == (-1, ("a",), False)
    assert newest_position(b'{"txn": {"appId": "queue", "version": "7"}}\nno json') == -1
    assert parse_commit(entry.to_bytes().replace(b'["a", "b"]', b'["a", 2]')) is None


# ---- one worker of a queue, by hand ----


class Answering(MemoryStore):
    """A log's store that answers the first put of an entry as it is told. lands: whether that put takes effect."""

    def __init__(self, first: Outcome, *, lands: bool) -> None:
        super().__init__()
        self._first: Outcome | None = first
        self._lands = lands

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        first, self._first = self._first, None
        if first is None:
            return super().put_if_absent(key, body)
        if self._lands:
            super().put_if_absent(key, body)
        return WriteReply(outcome=first, reason="as told")


@pytest.mark.parametrize(
    ("protocol", "first", "lands", "is_told"),
    [
        ("queue_exactly_once", Outcome.APPLIED, True, True),
        ("queue_exactly_once", Outcome.AMBIGUOUS, True, True),
        ("queue_exactly_once", Outcome.AMBIGUOUS, False, True),
        ("queue_exactly_once", Outcome.REJECTED, False, False),
        ("queue_at_least_once", Outcome.AMBIGUOUS, True, False),
        ("queue_at_least_once", Outcome.AMBIGUOUS, False, False),
    ],
)
def test_an_item_is_told_and_deleted_once_it_is_known_to_be_in_the_log(
    protocol: str, first: Outcome, lands: bool, is_told: bool, clocked: Clocked, client: QueueClient
) -> None:
    """A lost answer to a commit is settled from the log, or left to the next delivery; a refusal leaves the items."""
    store = Answering(first, lands=lands)
    assert serve(store, clocked, client, protocol) == ([("a", "0"), ("b", "0"), ("c", "0")] if is_told else [])
    landed = parse_commit(store.read(entry_key(TABLE, 0)).body or b"")
    assert (None if landed is None else landed.identities) == (("a", "b", "c") if is_told or lands else None)
    assert store.read(entry_key(TABLE, 1)).body is None
    clocked.now_ns = 100
    assert [item.identity for item in client.receive(TABLE, 9)] == ([] if is_told else ["a", "b", "c"])


def test_a_worker_that_may_not_write_any_more_commits_and_deletes_nothing(
    clocked: Clocked, client: QueueClient
) -> None:
    store = Answering(Outcome.APPLIED, lands=True)
    assert serve(store, clocked, client, "queue_exactly_once", may_write=lambda: False) == []
    assert store.read(entry_key(TABLE, 0)).body is None
    clocked.now_ns = 100
    assert len(client.receive(TABLE, 9)) == 3


@pytest.mark.parametrize(("says", "asked"), [(None, 1), (TIMED_OUT, 4), (Reply(Outcome.THROTTLED, status=429), 1)])
def test_an_item_whose_enqueueing_is_not_answered_is_sent_again_and_one_item(
    says: Reply | None, asked: int, clocked: Clocked
) -> None:
    """Three times more; a refusal is an answer."""
    clocked.says = says
    client, recorder = QUEUE.over(clocked, 1), Recorder()
    worker_of(MemoryStore(), clocked, client, "queue_exactly_once", recorder).prepare("n1", "main", None)
    assert clocked.asked == asked
    clocked.says = None
    assert [item.identity for item in client.receive(TABLE, 9)] == to_table([recorder])["content"].to_pylist()


def worker_of(
    store: MemoryStore, clocked: Clocked, client: QueueClient, protocol: str, recorder: Recorder
) -> QueueWorker:
    return QueueWorker(
        client,
        Writer(log=Log(store, TABLE), runtime=ManualRuntime()),
        QUEUE_PROTOCOLS[protocol],
        items=lambda: 1,
        batch=9,
        recorder=recorder,
        stamp=lambda: (clocked.now_ns, 0, 0, "main"),
        next_number=lambda: 1,
    )


def serve(
    store: MemoryStore,
    clocked: Clocked,
    client: QueueClient,
    protocol: str,
    may_write: Callable[[], bool] = lambda: True,
) -> list[tuple[str, str]]:
    """Let a worker serve the queue once. Returns each item that was told as committed, and the version."""
    recorder = Recorder()
    worker_of(store, clocked, client, protocol, recorder).write(Write("n1", "main", 1, 1, "", 3, "a"), may_write)
    told = to_table([recorder]).to_pylist()
    assert {row["kind"] for row in told} <= {"return"}
    return [(row["content"], row["version"]) for row in told]


# ---- workers of a queue, in both worlds ----

LEDGER = ("DL1", "DL2", "DL3", "DL4", "DL5")


def rows_of(name: str, seed: int = 1) -> list[dict]:
    outcome = run_simulated(load_scenario(name), load_provider("dynamodb"), seed)
    return to_table([outcome.recorder]).to_pylist()


def test_a_worker_commits_the_items_of_all_as_one_version_and_drops_what_comes_again() -> None:
    """The catalogue's run: fewer versions than items; what was delivered twice is in the version that was told."""
    rows = rows_of("w20-queue-exactly-once")
    landed = Counter(row["content"] for row in rows if row["kind"] == "effect")
    assert {*landed.values()} == {1}
    versions = {row["version"] for row in rows if row["kind"] == "effect"}
    assert len(versions) < len(landed)
    entries = {(row["version"], row["node"]) for row in rows if row["kind"] == "effect"}
    writers = {row["content"]: row["node"] for row in rows if (row["kind"], row["op"]) == ("call", "commit")}
    assert any(writers[row["content"]] != row["node"] for row in rows if row["kind"] == "effect"), entries
    told = [row for row in rows if (row["kind"], row["op"]) == ("return", "commit")]
    assert max(json.loads(row["detail"])["deliveries"] for row in told) > 1
    where = {row["content"]: row["version"] for row in rows if row["kind"] == "effect"}
    assert all(where[row["content"]] == row["version"] for row in told)


def test_whoever_does_not_look_commits_twice_and_whoever_deletes_first_loses() -> None:
    rows = rows_of("w20-queue-at-least-once")
    assert 2 in Counter(row["content"] for row in rows if row["kind"] == "effect").values()
    rows = rows_of("w21-queue-at-most-once")
    told = {row["content"] for row in rows if (row["kind"], row["op"]) == ("return", "commit")}
    assert told - {row["content"] for row in rows if row["kind"] == "effect"}


def served(protocol: str, **keys: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in keys.items())
    return (
        "version: 1\nname: served\nclients: 3\nduration: 600s\nlock: {validity: 60s, renew_every: 6s}\n"
        f"workload: {{kind: delta_log, protocol: {protocol}, cycles: 3, items: 2, think: 0s, hold: 0s, writes: 2,"
        f" wait: 600s{more}}}\n"
    )


@pytest.mark.parametrize("processes", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_queue_is_served_in_a_real_run(processes, tmp_path) -> None:
    """Threads of one process, or processes: the queue lives in the one that started them."""
    scenario = parse_scenario(served("queue_exactly_once"))
    outcome = run_real(scenario, load_provider("hardened"), tmp_path.as_uri(), processes=processes)
    case = open_case(outcome.events, outcome.runs)
    figures = commit_figures(case.events, case.commits)
    verdicts = {row["clause"]: row["verdict"] for row in judge(outcome.events, outcome.runs).verdicts.to_pylist()}
    assert {verdicts[clause] for clause in LEDGER} == {HELD}
    assert figures.acknowledged == len(figures.lasted_ns) == 18
    assert (figures.lost, figures.twice, figures.landed, figures.refused, figures.unknown) == (0, 0, 0, 0, 0)


def test_a_visibility_that_is_shorter_than_a_commit_doubles_without_a_look_into_the_log() -> None:
    """No fault is needed: the deletion comes too late each time. With the look nothing is in two versions."""
    for protocol, verdict in (("queue_exactly_once", HELD), ("queue_at_least_once", VIOLATED)):
        text = served(protocol, visibility="20ms") + "network: {latency: 10ms..20ms}\n"
        outcome = run_simulated(parse_scenario(text), load_provider("hardened"), 1)
        landed = Counter(row["content"] for row in to_table([outcome.recorder]).to_pylist() if row["kind"] == "effect")
        assert (max(landed.values()) == 1) == (verdict == HELD)


def test_bad_queues_are_refused_at_their_place() -> None:
    with pytest.raises(ConfigError, match="a queue is served under"):
        parse_scenario(
            "version: 1\nname: x\nworkload: {kind: delta_log, protocol: queue_exactly_once, life: unlocked}\n"
        )
    with pytest.raises(ConfigError, match=r"services\.queue: is the queue of 'queue_exactly_once'"):
        parse_scenario(
            "version: 1\nname: x\nservices: {queue: {kind: table}}\n"
            "workload: {kind: delta_log, protocol: queue_exactly_once}\n"
        )
