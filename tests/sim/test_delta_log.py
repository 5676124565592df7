"""The Delta log in virtual time: what loading costs, and what each protocol does with answers that are lost."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from lockref.delta.renaming import PendingRename
from lockref.dynamodb.shipped.crate import Crate
from lockref.errors import ConfigError, LockLost
from lockref.history import to_table
from lockref.lab.loading import load_provider
from lockref.provider import LockView
from lockref.runtime import ThreadRuntime
from lockref.stores.memory import MemoryStore
from lockref.stores.port import WriteReply
from lockref.words import Outcome
from reports.checks import decide, judge
from reports.checks.summary import Summary
from scenarios.batch import simulate_many
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.delta.loading import gets
from scenarios.run import run_simulated
from scenarios.workloads.delta.log_files import Commit, Log, entry_key, parse_commit
from scenarios.workloads.delta.protocols import ATTEMPTS_MAX, PROTOCOLS, commit_by
from scenarios.workloads.delta.renaming import Rename
from scenarios.workloads.delta.writer import Writer

TABLE = "lake/orders"
WORK = "kind: delta_log, life: unlocked, cycles: 1, start: 0s, think: 0s, hold: 0s"


def rows_of(text: str, seed: int = 1) -> list[dict]:
    outcome = run_simulated(parse_scenario(text), load_provider("hardened"), seed)
    return to_table([outcome.recorder]).to_pylist()


def test_loading_costs_what_the_note_says():
    """W10: one writer alone, versions 0 to 24: before commit v it reads version v - 1 with G(v - 1) GETs."""
    rows = rows_of(
        f"version: 1\nname: loads\nclients: 1\nduration: 60s\nworkload: {{{WORK}, protocol: create, writes: 25}}\n"
    )
    told = [row for row in rows if row["kind"] == "return" and row["op"] == "commit"]
    assert [int(row["version"]) for row in told] == list(range(25))
    assert [json.loads(row["detail"])["gets"] for row in told] == [0, *(gets(version) for version in range(24))]


def test_a_checkpoint_that_is_not_there_yet_costs_the_older_way():
    """A load of version 10 that races its checkpoint reads 11 entries in the place of 2 objects."""
    rows = rows_of(
        "version: 1\nname: races\nclients: 2\nduration: 60s\n"
        f"workload: {{{WORK}, protocol: create, writes: 11, checkpoint_delay: 20s,"
        " clients: {n2: {start: 15s, writes: 1}}}\n"
    )
    told = {row["version"]: row for row in rows if row["kind"] == "return" and row["op"] == "commit"}
    assert told["11"]["node"] == "n2"
    assert json.loads(told["11"]["detail"])["gets"] == 11


def test_what_lands_is_recorded_with_who_wrote_it_and_under_which_grant():
    """The effect names writer, tenure, version and identity; without a lock there is no tenure."""
    locked = rows_of(
        "version: 1\nname: locked\nclients: 1\nduration: 60s\nworkload: {kind: delta_log, cycles: 2, writes: 2}\n"
    )
    effects = [row for row in locked if row["kind"] == "effect"]
    tenures = [row["request"] for row in locked if row["kind"] == "call" and row["op"] == "acquire"]
    assert [(row["version"], row["attempt"], row["node"]) for row in effects] == [
        ("0", 1, "n1"), ("1", 2, "n1"), ("2", 1, "n1"), ("3", 2, "n1"),
    ]  # fmt: skip
    assert [row["request"] for row in effects] == [tenures[0], tenures[0], tenures[1], tenures[1]]
    assert len({row["content"] for row in effects}) == 4
    alone = rows_of(
        f"version: 1\nname: alone\nclients: 1\nduration: 9s\nworkload: {{{WORK}, protocol: put, writes: 1}}\n"
    )
    assert [row["request"] for row in alone if row["kind"] == "effect"] == [None]
    assert not [row for row in alone if row["op"] == "acquire"]


def test_tables_take_turns_and_have_a_lock_each_or_one_for_all():
    """D3: clients n1, n4 write to the first table; with the shared key there is one lock."""

    def run(lock_key: str) -> tuple[Counter, set]:
        rows = rows_of(
            "version: 1\nname: tables\nclients: 4\nduration: 60s\n"
            f"workload: {{kind: delta_log, tables: 3, lock_key: {lock_key}, cycles: 1, writes: 1, hold: 100ms}}\n"
        )
        tables = Counter(row["lock"] for row in rows if row["kind"] == "effect")
        return tables, {row["lock"] for row in rows if row["kind"] == "call" and row["op"] == "acquire"}

    tables, locks = run("table")
    assert sorted(tables.values()) == [1, 1, 2]
    assert locks == set(tables)
    tables, locks = run("shared")
    assert sorted(tables.values()) == [1, 1, 2]
    assert len(locks) == 1


def test_a_helping_log_store_needs_a_table():
    """The message says what to add, at the place of the key."""
    with pytest.raises(ConfigError, match=r"workload.protocol: is 'helping', which needs a table: add services"):
        parse_scenario("version: 1\nname: x\nworkload: {kind: delta_log, protocol: helping}\n")


# ---- protocols on one store, answers by hand ----


class Answers(MemoryStore):
    """Gives these outcomes in the place of what conditional creates of entries come to; None: the truth.

    An answer of silence follows an applied write (`landed`), or stands for one that never arrived.
    """

    def __init__(self, *outcomes: Outcome | None, landed: bool = True) -> None:
        super().__init__()
        self.outcomes, self.landed, self.creates = list(outcomes), landed, 0

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        self.creates += 1
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is None:
            return super().put_if_absent(key, body)
        if outcome is Outcome.AMBIGUOUS and self.landed:
            super().put_if_absent(key, body)
        return WriteReply(outcome=outcome)


class Hasty(ThreadRuntime):
    """Does not wait between attempts."""

    def sleep(self, duration_ns: int) -> None:
        assert duration_ns > 0, "a pause takes time"


def commit(protocol: str, store: MemoryStore, identity: str = "mine"):
    return committed(protocol, Writer(log=Log(store, TABLE), runtime=Hasty()), identity)


def committed(protocol: str, writer: Writer, identity: str = "mine"):
    """One commit by one protocol; a rename is prepared first."""
    entry, how = Commit(identity=identity, node="n1", task="main"), PROTOCOLS[protocol]
    if isinstance(how, Rename):
        how.prepare(writer, entry, writer.lock)
    return commit_by(how, writer, entry)


def log_of(store: MemoryStore) -> list[str]:
    """Whose commit each version is."""
    found = []
    while (body := store.read(entry_key(TABLE, len(found))).body) is not None:
        entry = parse_commit(body)
        assert entry is not None
        found.append(entry.identity)
    return found


SILENT, CONFLICT, REFUSED = Outcome.AMBIGUOUS, Outcome.CONFLICT, Outcome.PRECONDITION_FAILED


@pytest.mark.parametrize(
    ("protocol", "store", "outcome", "log"),
    [
        ("create", Answers(SILENT), Outcome.APPLIED, ["mine", "mine"]),
        ("create_identity", Answers(SILENT), Outcome.APPLIED, ["mine"]),
        ("create_identity", Answers(SILENT, SILENT, SILENT, SILENT), Outcome.APPLIED, ["mine"]),
        ("create_identity", Answers(*[SILENT] * 4, landed=False), Outcome.AMBIGUOUS, []),
        ("create_identity", Answers(SILENT, landed=False), Outcome.APPLIED, ["mine"]),
        ("create_identity", Answers(CONFLICT), Outcome.APPLIED, ["mine"]),
        ("create", Answers(*[CONFLICT] * 99), Outcome.PRECONDITION_FAILED, []),
        ("create_identity", Answers(*[CONFLICT] * 99), Outcome.PRECONDITION_FAILED, []),
        ("create_identity", Answers(Outcome.REJECTED), Outcome.REJECTED, []),
        ("create_identity", Answers(Outcome.THROTTLED), Outcome.APPLIED, ["mine"]),
    ],
    ids=[
        "B19: sent again, and taken for a rival's", "looked up after the refusal", "never answered, and there",
        "never answered, and not there", "lost on its way, then sent again", "409 and nothing there",
        "B20: 409 for ever", "409 for ever, looked up", "refused for good", "throttled once",
    ],
)  # fmt: skip
def test_answers_to_a_conditional_create(protocol, store, outcome, log):
    """W19, B19, B20: what the writer is told, and what is in the log then."""
    told = commit(protocol, store)
    assert (told.outcome, log_of(store)) == (outcome, log)
    assert told.attempts <= ATTEMPTS_MAX
    if outcome is Outcome.APPLIED:
        assert told.version == len(log) - 1


@pytest.mark.parametrize("protocol", ["create", "create_identity", "put", "rename"])
def test_the_next_version_comes_after_those_of_rivals(protocol):
    """Each loads, and writes what comes next; `rename` learns of rivals when it finds its version taken (D2)."""
    store = MemoryStore()
    assert commit("create", store, "a").version == 0
    assert commit("create", store, "b").version == 1
    told = commit(protocol, store, "c")
    assert (told.outcome, told.version, log_of(store)) == (Outcome.APPLIED, 2, ["a", "b", "c"])
    assert told.attempts == 1


@pytest.mark.parametrize("protocol", ["put", "rename"])
def test_a_lost_lock_stops_the_write(protocol):
    """The guard is asked right before the unconditional write: nothing is sent after a no."""
    store = MemoryStore()
    writer = Writer(log=Log(store, TABLE), runtime=Hasty(), may_write=lambda: False)
    told = committed(protocol, writer, "late")
    assert (told.outcome, log_of(store)) == (Outcome.REJECTED, [])


@dataclass
class Row:
    """What a lock's row tells of its holder's work."""

    data: str | None = None
    took_over: bool = False
    intent: str | None = None
    is_taken: bool = False

    def update_data(self, data: str) -> None:
        if self.is_taken:
            raise LockLost("another's by now")
        self.data, self.took_over = data, False


def dead(store: MemoryStore, *, is_copied: bool = False, has_source: bool = True) -> Row:
    """The row of a holder that died in its rename to version 0."""
    left = PendingRename(f"{TABLE}/_delta_log/.tmp/dead-0", entry_key(TABLE, 0))
    body = Commit(identity="dead", node="n9", task="main").to_bytes()
    for key, is_there in ((left.source, has_source), (left.destination, is_copied)):
        if is_there:
            store.put(key, body)
    return Row(data=left.to_data(), took_over=True)


@pytest.mark.parametrize("protocol", ["rename", "rename_identity"])
@pytest.mark.parametrize(
    ("how", "log"),
    [
        ({}, ["dead", "mine"]),
        ({"is_copied": True}, ["dead", "mine"]),
        ({"is_copied": True, "has_source": False}, ["dead", "mine"]),
        ({"has_source": False}, ["mine"]),
    ],
    ids=["not begun", "copied", "done", "source gone"],
)
def test_a_dead_writer_s_rename_is_finished_first(protocol, how, log):
    """Whatever it had done, its entry stands once; nothing is written over, and its source is gone."""
    store = MemoryStore()
    writer = Writer(log=Log(store, TABLE), runtime=Hasty(), lock=dead(store, **how))
    told = committed(protocol, writer)
    if not how:
        # Version 0 was free when our rename was prepared, and the repair takes it: the next grant is for the next one.
        assert (told.outcome, log_of(store)) == (Outcome.PRECONDITION_FAILED, ["dead"])
        told = committed(protocol, writer)
    assert (told.outcome, log_of(store)) == (Outcome.APPLIED, log)
    assert store.read(f"{TABLE}/_delta_log/.tmp/dead-0").body is None


@pytest.mark.parametrize("protocol", ["rename", "rename_identity"])
def test_a_repair_writes_over_nobody(protocol):
    """The dead writer's version was taken by another commit meanwhile: its rename is dropped."""
    store = MemoryStore()
    row = dead(store)
    store.put(entry_key(TABLE, 0), Commit(identity="rival", node="n2", task="main").to_bytes())
    committed(protocol, Writer(log=Log(store, TABLE), runtime=Hasty(), lock=row))
    assert log_of(store) == ["rival", "mine"]


def test_what_landed_meanwhile_is_found_before_the_next_attempt():
    """B10, corrected: the guard said no, a successor finished the rename, and the next attempt finds it there."""
    store = MemoryStore()
    writer = Writer(log=Log(store, TABLE), runtime=Hasty(), may_write=lambda: False)
    assert committed("rename_identity", writer).outcome is Outcome.PRECONDITION_FAILED
    store.put(writer.prepared.destination, Commit(identity="mine", node="n1", task="main").to_bytes())
    told = committed("rename_identity", writer)
    assert (told.outcome, told.version, log_of(store)) == (Outcome.APPLIED, 0, ["mine"])


class WithoutData(Crate):
    """A program whose rows carry no data."""

    @property
    def intent(self) -> None:
        return None

    @intent.setter
    def intent(self, _intent: str | None) -> None:
        """Forgets it."""


@pytest.mark.parametrize(("provider", "has_commits"), [("dynamodb-lock-0.5", False), ("dynamodb", True)])
def test_a_dead_holder_s_row_without_data_stops_every_shipped_writer(provider, has_commits):
    """B12: each takes the row over, finds nothing to finish, and keeps the lock; corrected, there is nothing to do."""
    scenario = parse_scenario(
        "version: 1\nname: dataless\nclients: 3\nduration: 120s\n"
        "providers: {n1: tests.sim.test_delta_log:WithoutData}\n"
        "workload: {kind: delta_log, protocol: rename, cycles: 99, start: 1s..2s, hold: 100ms, writes: 1, wait: 90s,"
        " clients: {n1: {start: 0s}}}\n"
        "faults: [{kind: crash, client: n1, when: {client: n1, op: acquire, cut: c4}}]\n"
    )
    rows = to_table([run_simulated(scenario, load_provider(provider), 1).recorder]).to_pylist()
    told = [row["outcome"] for row in rows if row["kind"] == "return" and row["op"] == "commit"]
    given_back = [row for row in rows if row["kind"] == "call" and row["op"] == "release"]
    assert len(told) > 1
    assert set(told) == {"applied" if has_commits else "rejected"}
    assert bool(given_back) is has_commits, "a shipped writer goes away with the lock"


@pytest.mark.parametrize(
    "data",
    [None, "", "no json", "[]", '{"source": "x"}', '{"source": 1, "destination": 2}', "[" * 100_000],
    ids=["none", "empty", "no json", "list", "no destination", "numbers", "deep"],
)
def test_a_row_that_tells_no_rename(data):
    """B12: the shipped writer goes away with an error and keeps the lock; corrected, there is nothing to finish."""
    for protocol, expected in (
        ("rename", (Outcome.REJECTED, True, [])),
        ("rename_identity", (Outcome.APPLIED, False, ["mine"])),
    ):
        store = MemoryStore()
        writer = Writer(log=Log(store, TABLE), runtime=Hasty(), lock=Row(data=data, took_over=True))
        told = committed(protocol, writer)
        assert (told.outcome, told.is_lock_kept, log_of(store)) == expected


@pytest.mark.parametrize("is_copied", [True, False])
def test_somebody_finished_our_rename_while_we_stood_still(is_copied):
    """B10: shipped, our entry is a rival's or our source is missed; corrected, the entry tells that it is ours."""
    for protocol, outcome in (("rename", Outcome.PRECONDITION_FAILED), ("rename_identity", Outcome.APPLIED)):
        store = MemoryStore()
        writer = Writer(log=Log(store, TABLE), runtime=Hasty())
        mine = Commit(identity="mine", node="n1", task="main")
        how = PROTOCOLS[protocol]
        how.prepare(writer, mine, None)
        renaming = writer.prepared
        if is_copied:
            store.put(renaming.destination, mine.to_bytes())
        store.delete(renaming.source)
        told = commit_by(how, writer, mine)
        if is_copied:
            assert told.outcome is outcome
        else:
            assert told.outcome is (Outcome.REJECTED if protocol == "rename" else Outcome.PRECONDITION_FAILED)


def test_a_row_that_cannot_be_updated_stops_the_shipped_writer_only():
    """After a repair the row is another's: an error and no release as shipped; the guard decides where corrected."""
    for protocol, is_lock_kept in (("rename", True), ("rename_identity", False)):
        store = MemoryStore()
        row = dead(store)
        row.is_taken = True
        told = committed(protocol, Writer(log=Log(store, TABLE), runtime=Hasty(), lock=row))
        assert (told.is_lock_kept, log_of(store)) == (is_lock_kept, ["dead"])


def test_an_entry_tells_whose_it_is_and_others_do_not():
    """Bytes of other writers are nobody's commit here."""
    mine = Commit(identity="x", node="n1", task="main", tenure=3, attempt=2, token=7, owner="o")
    assert parse_commit(mine.to_bytes()) == mine
    for other in (b"", b"{", b"[]", b'{"add":{}}', b'{"commitInfo":{"txnId":1}}'):
        assert parse_commit(other) is None


def test_rows_of_the_log_are_no_records_of_a_lock_whose_decoder_reads_any_bytes():
    """The plainest decoder takes every body for an owner: helpers of one commit were accused of S6."""
    scenario = load_scenario("b16")
    plain = replace(load_provider("hardened"), decode=lambda _key, body: (LockView(owner=body.hex()),))
    batch = simulate_many(scenario, plain, range(1, 6))
    found = decide(Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs))
    assert "violated" not in found.clauses.values()
    struck = [run_simulated(scenario, plain, seed).fault_counts["lose_reply-1"][2] for seed in range(1, 6)]
    assert sum(struck) > 0, "a fault on writes of rows finds them"


def test_the_catalogue_shows_the_guilty_protocols():
    """Each guilty scenario has its clause within ten seeds; `lockref scenario test` asks the rest."""
    for name, clause in (("w16-unconditional-puts", "DL4"), ("w19-reply-lost", "DL1"), ("w18-late-copy", "DL4")):
        batch = simulate_many(load_scenario(name), load_provider("hardened"), range(1, 11))
        found = decide(Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs))
        assert found.clauses[clause] == "violated", name
