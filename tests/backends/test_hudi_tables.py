"""RFC-91's test plan on a real table (`python -m tests.evidence.tables`): what validation finds, and bad inputs.

Tables, logs and timelines are planted here, without Spark; the run itself is a long test.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Set
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lockref.clouds.aws import aws_client
from lockref.clouds.uri import parse_store_uri
from lockref.errors import BackendUnavailable, ConfigError, HistoryUnreadable
from lockref.java import JavaHome
from lockref.originals.hudi_classes import BUNDLE
from lockref.runtime import NS_PER_S
from scenarios.backends import start_backend
from tests.evidence.tables import environment
from tests.evidence.tables.__main__ import judged, main, parse
from tests.evidence.tables.attempts import Attempt, paired, read_attempts
from tests.evidence.tables.environment import TableEnvironment, table_environment
from tests.evidence.tables.measuring import common_ns, merged, wait_spans
from tests.evidence.tables.rewrites import lost_files
from tests.evidence.tables.run import TableSettings, run_tables
from tests.evidence.tables.timeline import BATCH, PROPERTIES, Instant, Timeline, batches_in, read_timeline, require_key
from tests.evidence.tables.validation import Finding, validate

NOTHING_BUILT = TableEnvironment(
    python=Path("python"), java=JavaHome(path=Path("java"), version="17", source="JAVA_HOME"), jars=()
)
"""An environment with which nothing can start."""
OWN = "no acknowledged batch lost or undone"

LAYOUT_2 = b"#a comment\nhoodie.timeline.layout.version=2\nhoodie.table.version=9\nhoodie.table.recordkey.fields=id\n"


def attempt(batch: str, rows: dict[str, dict[str, Any]], outcome: str = "acknowledged", *, at_ns: int = 0) -> Attempt:
    """An attempt of n1 that writes these rows."""
    full = {key: row | {"batch": batch} for key, row in rows.items()}
    return Attempt(
        client="n1", role="sql", batch=batch, op="update", rows=full, began_ns=at_ns, ended_ns=at_ns + 1,
        outcome=outcome,
    )  # fmt: skip


ATTEMPTS = [
    attempt("a", {"n1-0": {"n": 0, "ts": 1}, "n1-1": {"n": 0, "ts": 1}, "shared-0": {"n": 0, "ts": 1}}),
    attempt("b", {"n1-0": {"n": 7, "ts": 2}}, at_ns=10),
    attempt("c", {"n1-1": {"n": 8, "ts": 3}}, "refused", at_ns=20),
    attempt("d", {"shared-0": {"count": 1}}, at_ns=30),
    attempt("e", {"shared-0": {"count": 1}}, "unknown", at_ns=40),
    attempt("f", {"n1-2": {"n": 0, "ts": 4}}, at_ns=50),
    attempt("g", {"n1-2": {"delete": True}}, at_ns=60),
    attempt("h", {"n1-1": {"delete": True}}, "refused", at_ns=70),
]


def instant(number: int) -> str:
    """A time as Hudi writes it."""
    return f"202611270100{number:02}000"


def avro(batch: str) -> bytes:
    """The part of a commit's metadata that names the batch: a string behind its length, as Avro has it."""
    return b"\x02\x28" + BATCH + bytes([2 * len(batch)]) + batch.encode() + b"\x00"


def commit(number: int, batch: str) -> list[tuple[str, bytes]]:
    """The three files of a completed delta commit."""
    begun = f"timeline/{instant(number)}.deltacommit"
    return [
        (f"{begun}.requested", b""),
        (f"{begun}.inflight", b""),
        (f"timeline/{instant(number)}_{instant(number + 1)}.deltacommit", avro(batch)),
    ]


def objects() -> dict[str, bytes]:
    """The timeline of `ATTEMPTS`: what was acknowledged is completed, and the refused one stays requested."""
    files = [(PROPERTIES, LAYOUT_2), (f"timeline/{instant(50)}.deltacommit.requested", b"")]
    for place, batch in enumerate("abdfg"):
        files += commit(10 + 2 * place, batch)
    return dict(files)


def row(key: str, n: int, ts: int, batch: str, number: int) -> dict[str, Any]:
    """A row, as the reader tells it."""
    return {"id": key, "writer": "n1", "n": n, "ts": ts, "batch": batch, "instant": instant(number)}


def rows() -> dict[str, dict[str, Any]]:
    """The table of `ATTEMPTS`."""
    told = [row("n1-0", 7, 2, "b", 12), row("n1-1", 0, 1, "a", 10), row("shared-0", 1, 9, "d", 14)]
    return {each["id"]: each for each in told}


def broken(found: list[Finding]) -> dict[str, str]:
    """By check, what broke."""
    return {finding.check: "; ".join(finding.broken) for finding in found if not finding.holds}


def judge(
    table: list[dict[str, Any]], files: dict[str, bytes], *services: str, more: tuple[Attempt, ...] = ()
) -> dict[str, str]:
    """What breaks in this table and timeline. more: attempts after those of `ATTEMPTS`."""
    return broken(validate([*ATTEMPTS, *more], table, read_timeline(files.items()), services=services))


def test_a_right_table_breaks_nothing() -> None:
    """A table that is what its writers were told holds, whichever end an unknown batch had."""
    assert judge([*rows().values()], objects()) == {}
    landed = [*(rows() | {"shared-0": row("shared-0", 2, 9, "e", 40)}).values()]
    assert judge(landed, objects() | dict(commit(40, "e"))) == {}


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("changed", [(), ("n1-0",), ("n1-1",), ("shared-0",), ("n1-0", "n1-1", "shared-0")])
def test_a_batch_whose_writer_does_not_know_stands_as_a_whole_where_the_timeline_has_it(
    landed: bool, changed: tuple[str, ...]
) -> None:
    """An update, a deletion and an increment of one batch: all of them where an instant is completed, else none."""
    unknown = attempt(
        "u", {"n1-0": {"n": 9, "ts": 6}, "n1-1": {"delete": True}, "shared-0": {"count": 1}}, "unknown", at_ns=80
    )
    made = {"n1-0": row("n1-0", 9, 6, "u", 40), "n1-1": None, "shared-0": row("shared-0", 2, 9, "u", 40)}
    table = [each for each in (rows() | {key: made[key] for key in changed}).values() if each is not None]
    # The instant of the rows is completed in both cases: whether it names the batch decides.
    files = objects() | dict(commit(40, "u" if landed else ""))
    wrong = {key for key in made if (key in changed) != landed}
    found = judge(table, files, more=(unknown,))
    assert {key for key in made if any(f"{key} " in told for told in found.values())} == wrong
    counts = {"each acknowledged increment counted once"} if "shared-0" in wrong else set()
    assert {*found} == counts | ({OWN} if wrong - {"shared-0"} else set())


@pytest.mark.parametrize(
    ("change", "check", "told"),
    [
        ({"n1-0": row("n1-0", 0, 1, "a", 10)}, OWN, "n1-0 is n=0 of a, expected n=7"),
        ({"n1-0": None}, OWN, "n1-0 is absent"),
        ({"n1-2": row("n1-2", 0, 4, "f", 16)}, OWN, "n1-2 is n=0 of f, expected abs"),
        ({"n1-9": row("n1-9", 0, 4, "f", 16)}, OWN, "nobody wrote it"),
        ({"n1-0": row("n1-0", 7, 2, "a", 12)}, OWN, "n1-0 is n=7 of a, expected n=7 of b"),
        ({"n1-0": row("n1-0", 6, 2, "b", 12)}, OWN, "n1-0 is n=6 of b, expected n=7 of b"),
        ({"n1-1": None}, OWN, "n1-1 is absent, expected n=0 of a"),
        ({"shared-0": row("shared-0", 0, 9, "d", 14)}, "each acknowledged increment counted once", "1 lost"),
        ({"shared-0": row("shared-0", 2, 9, "d", 14)}, "each acknowledged increment counted once", "1 too many"),
        ({"shared-0": None}, "each acknowledged increment counted once", "shared-0 is absent"),
        ({"n1-0": row("n1-0", 7, 1, "b", 12)}, "the ordering field decides", "n1-0 has ts 1, expected 2"),
        ({"n1-1": row("n1-1", 8, 3, "c", 10)}, "nothing of a refused batch", "n1-1 is of c, which was refused"),
        ({"n1-0": row("n1-0", 7, 2, "b", 50)}, "a timeline without holes", f"{instant(50)}, which is not completed"),
    ],
)  # fmt: skip
def test_a_planted_row_is_found(change: dict[str, dict[str, Any] | None], check: str, told: str) -> None:
    """A lost, undone, doubled, foreign, older or refused row breaks the check that asks for it."""
    table = [each for each in (rows() | change).values() if each is not None]
    assert told in judge(table, objects())[check]


def test_a_key_with_two_rows_is_found() -> None:
    """Each key has one row."""
    table = [*rows().values(), row("n1-0", 7, 2, "b", 12)]
    assert judge(table, objects()) == {"one row for each key": "n1-0 has 2 rows"}


def test_a_row_without_its_key_is_found() -> None:
    """A row whose columns are lost, key included, breaks the check of keys, and the others are still asked."""
    table = [*rows().values(), row("n1-0", 3, 9, "d", 14) | {"id": None, "writer": None}]
    assert judge(table, objects()) == {"one row for each key": "a row of d has no key"}


@pytest.mark.parametrize(
    ("without", "more", "check", "told"),
    [
        ((12, "_", ".deltacommit"), {}, "each acknowledged batch in one completed instant", "b was acknowledged"),
        ((12, "", ".deltacommit.requested"), {}, "a timeline without holes", "never requested"),
        ((), dict(commit(40, "b")), "each acknowledged batch in one completed instant", "b stands in 2 instants"),
        ((), dict(commit(40, "c")), "nothing of a refused batch", "c was refused"),
        (
            (),
            {f"timeline/{instant(12)}_{instant(14)}.deltacommit": b""},
            "a timeline without holes",
            f"{instant(12)} is completed 2 times",
        ),
        (
            (),
            {f"timeline/{instant(51 + i)}.deltacommit.inflight": b"" for i in range(3)},
            "a timeline without holes",
            "4 instants are unfinished",
        ),
        (
            (),
            {f"timeline/{instant(9)}.commit.requested": b"", f"timeline/{instant(9)}_{instant(8)}.commit": b""},
            "a timeline without holes",
            "before it began",
        ),
        (
            (),
            {f"timeline/{instant(9)}.commit.requested": b"", f"timeline/{instant(9)}_{instant(13)}.commit": b""},
            "a timeline without holes",
            "2 instants end at",
        ),
        ((), {"timeline/commit.tmp": b""}, "a timeline without holes", "commit.tmp is no name of an instant"),
    ],
)  # fmt: skip
def test_a_hole_in_the_timeline_is_found(
    without: tuple[int, str, str] | tuple[()], more: dict[str, bytes], check: str, told: str
) -> None:
    """A missing, doubled or refused instant breaks the check that asks for it."""
    files = objects()
    if without:
        number, mark, end = without
        begin = f"timeline/{instant(number)}{mark}"
        gone = [key for key in files if key.startswith(begin) and key.endswith(end)]
        assert len(gone) == 1, "one file is taken away"
        del files[gone[0]]
    assert told in judge([*rows().values()], files | more)[check]


def test_services_must_happen() -> None:
    """A run whose compaction or clustering never completed does not pass."""
    compacted = {
        f"timeline/{instant(30)}.compaction.requested": b"",
        f"timeline/{instant(30)}_{instant(31)}.commit": b"",
    }
    # The planned clustering stays open: one attempt more that failed excuses it.
    planned = {f"timeline/{instant(32)}.clustering.requested": b""}
    failed = attempt("s", {}, "unknown", at_ns=90)
    found = judge([*rows().values()], objects() | compacted | planned, "compaction", "clustering", more=(failed,))
    assert found == {"clustering happened": "no clustering was completed"}


def test_a_batch_is_read_from_a_commit_s_metadata() -> None:
    """The length before a string is a zigzag number, of two bytes from 64 on."""
    name = "n3-stream-" + "7" * 60
    long = BATCH + bytes([(2 * len(name)) & 0x7F | 0x80, (2 * len(name)) >> 7]) + name.encode()
    assert batches_in(b"Obj\x01" + avro("a-1") + long) == ["a-1", name]
    assert batches_in(BATCH + b"\x50cut off") == []


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (LAYOUT_2.replace(b"layout.version=2", b"layout.version=1"), "the timeline has layout 1 (table version 9)"),
        (b"hoodie.table.name=t\n", "the timeline has layout unknown"),
        (LAYOUT_2.replace(b"=id", b"=uuid"), "the table's record key is 'uuid'"),
        (LAYOUT_2.replace(b"hoodie.table.recordkey.fields=id\n", b""), "the table's record key is 'not set'"),
        (b"", "there is no Hudi table"),
    ],
)  # fmt: skip
def test_a_table_that_is_not_ours_is_refused(properties: bytes, told: str) -> None:
    """An old timeline, another record key or no table at all: one clear line, exit code 2."""

    def read() -> Timeline:
        timeline = read_timeline([(PROPERTIES, properties)])
        require_key(timeline, "id")
        return timeline

    with pytest.raises(ConfigError) as raised:
        read()
    assert told in str(raised.value)


def test_the_log_of_a_killed_writer_is_read(tmp_path: Path) -> None:
    """An attempt without an end, and a last line that was cut, are an unknown outcome."""
    begun = {"client": "n1", "role": "sql", "at_ns": 5, "event": "begun", "batch": "a", "op": "insert", "rows": {}}
    (tmp_path / "n1-sql.jsonl").write_text(f'{json.dumps(begun)}\n{{"event": "en', encoding="utf-8")
    [found] = read_attempts(tmp_path)
    assert (found.batch, found.outcome, found.took_ns) == ("a", "unknown", None)


def test_a_damaged_log_is_told_with_its_line(tmp_path: Path) -> None:
    """A line that is no JSON is named by file and line."""
    path = tmp_path / "n1-sql.jsonl"
    path.write_text('{"event": "session"}\nno json\n', encoding="utf-8")
    with pytest.raises(HistoryUnreadable, match=rf"{path}:2: "):
        read_attempts(tmp_path)


def test_attempts_are_paired_by_their_batch() -> None:
    """The end of an attempt tells its outcome."""
    about = {"client": "n1", "role": "sql", "batch": "a", "op": "insert", "rows": {"k": {"n": 0}}}
    ended = about | {"event": "ended", "at_ns": 9, "outcome": "refused", "error": "why"}
    [found] = paired([about | {"event": "begun", "at_ns": 5}, {"event": "session"}, ended])
    assert (found.outcome, found.took_ns, found.error) == ("refused", 4, "why")


def test_a_wait_begins_with_the_first_request_after_the_last_hold() -> None:
    """Requests that belong to a hold are no wait for the next one."""
    assert wait_spans([1, 3, 12, 25, 31], [(4, 10), (13, 20), (30, 40)]) == [(1, 4), (12, 13), (25, 30)]
    assert common_ns(merged([(0, 4), (3, 6), (8, 9)]), [(5, 20)]) == 2


G, OTHER = "0" * 8 + "-0000-0000-0000-" + "0" * 12 + "-0", "1" * 8 + "-0000-0000-0000-" + "0" * 12 + "-0"


def at(second: int) -> str:
    return f"20260101000{second:03}000"


def sent(second: float, node: str, op: str, key: str, verb: str = "PUT object") -> dict[str, Any]:
    return {
        "kind": "sent", "at_ns": round(second * 1e9), "node": node, "op": op, "lock": f"lockref/lake/t/{key}",
        "detail": json.dumps({"verb": verb}),
    }  # fmt: skip


def log_of(second: int, group: str = G) -> str:
    return f".{group}_{at(second)}.log.1_0-1-2"


def base_of(second: int, group: str = G) -> str:
    return f"{group}_0-1-2_{at(second)}.parquet"


def steps(second: float, node: str, requested: int, completed: int, action: str) -> list[dict[str, Any]]:
    folder = ".hoodie/timeline/"
    return [
        sent(second, node, "write", f"{folder}{at(requested)}.{action}.requested"),
        sent(second + 1, node, "write", f"{folder}{at(requested)}_{at(completed)}.{action}"),
    ]


def finished(requested: int, completed: int, action: str, *batches: str, groups: Set[str] = frozenset()) -> Instant:
    return Instant(
        requested=at(requested), action=action, completions=[at(completed)], batches=[*batches], groups={*groups}
    )


def lost(rows: list[dict[str, Any]], *instants: Instant) -> list[str]:
    timeline = Timeline(properties={}, instants={each.requested: each for each in instants}, strange=[])
    return lost_files(pa.Table.from_pylist(rows), timeline)


UPDATE = (sent(12, "n2", "write", log_of(10)), *steps(11, "n2", 10, 14, "deltacommit"))
DONE = finished(10, 14, "deltacommit", "n2-sql-2-0")


def test_a_log_file_that_an_unfinished_base_file_hides_is_told() -> None:
    """A clustering got the base file alone. The hiding file is from before the log's completion, and was there."""
    clustering = finished(20, 22, "replacecommit", groups={G, OTHER})
    rows = [
        *UPDATE, sent(13, "n1", "write", base_of(13)), sent(15, "n1", "write", base_of(15)),
        *steps(20, "n3", 20, 22, "replacecommit"), sent(20.5, "n3", "write", base_of(20, OTHER)),
        sent(30, "n3", "delete", base_of(13), "DELETE object"),
    ]  # fmt: skip
    [told] = lost(rows, DONE, clustering)
    assert f"the log file of n2-sql-2-0 ({at(10)}, file group 00000000), completed {at(14)}, was not read by" in told
    assert told.endswith(f"unfinished in the group then: {at(13)}")
    read = sent(20.2, "n3", "read", log_of(10), "GET object")
    assert lost([*rows, read], DONE, clustering) == []
    assert lost([*rows, sent(20.2, "n3", "read", log_of(10), "HEAD object")], DONE, clustering) == [told]


def test_the_client_that_carries_a_pending_rewrite_out_is_the_one_that_reads_for_it() -> None:
    """n3 was killed after it had requested a clustering. n1 carried it out, and read the log file for it."""
    clustering = finished(20, 22, "replacecommit", groups={G, OTHER})
    requested, *rest = steps(20, "n3", 20, 22, "replacecommit")
    carried_out = [requested, *({**row, "node": "n1"} for row in rest), sent(20.5, "n1", "write", base_of(20, OTHER))]
    rows = [*UPDATE, *carried_out]
    [told] = lost(rows, DONE, clustering)
    assert f"{at(20)} of n1" in told
    assert lost([*rows, sent(20.2, "n1", "read", log_of(10), "GET object")], DONE, clustering) == []


def test_a_writer_that_adds_rows_to_a_small_group_rewrites_it() -> None:
    """Its base file comes after the log, and has nothing of it."""
    insert = finished(16, 18, "deltacommit", "n1-sql-0-0")
    rows = [*UPDATE, *steps(16, "n1", 16, 18, "deltacommit"), sent(16.5, "n1", "write", base_of(16))]
    gone = [sent(12, "n3", "write", base_of(11)), sent(14, "n3", "delete", base_of(11), "DELETE object")]
    [told] = lost([*rows, *gone], DONE, insert)
    assert f"was not read by n1-sql-0-0 {at(16)} of n1" in told
    assert told.endswith("then: none"), "what was removed before hides nothing"
    # A base file from before the log was completed is below it.
    early = finished(12, 13, "deltacommit", "n1-sql-0-0")
    rows = [*UPDATE, *steps(12, "n1", 12, 13, "deltacommit"), sent(12.5, "n1", "write", base_of(12))]
    assert lost(rows, DONE, early) == []


def test_a_log_file_in_a_replaced_group_is_told() -> None:
    """The clustering was over before the writer took its instant; a group that it made is another one."""
    clustering = finished(5, 7, "replacecommit", groups={G, OTHER})
    rows = [*steps(5, "n3", 5, 7, "replacecommit"), sent(6, "n3", "write", base_of(5, OTHER)), *UPDATE]
    [told] = lost(rows, DONE, clustering)
    assert told.endswith(f"was written into a group that replacecommit {at(5)} had replaced")
    moved = [row | {"lock": row["lock"].replace(G, OTHER)} if ".log." in row["lock"] else row for row in rows]
    assert lost(moved, DONE, clustering) == []
    # A batch that was never finished has lost nothing.
    assert lost(rows, Instant(requested=at(10), action="deltacommit", batches=["n2-sql-2-0"]), clustering) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--jvm", "sql", "--jvm", "streams"], "the role 'streams' is not known; expected sql, stream, services"),
        (["--jvm", "services"], "no JVM writes"),
        (["--batches", "0"], "--batches is 0; expected 1 or more"),
        (["--seed", "-1"], "--seed is -1; expected 0 or more"),
        (["--validity", "5"], "--validity is 5; expected 10 or more"),
        (["--validity", "0"], "--validity is 0; expected 10 or more"),
        (["--strike", "stop", "--stop-for", "0"], "--stop-for is 0; expected 1 or more"),
        (["--minutes", "nan"], "--minutes is nan; expected at most 1440"),
        (["--minutes", "inf"], "--minutes is inf; expected at most 1440"),
        (["--minutes", "0.2"], "--minutes 0.2 is too short"),
        (["--hudi", "compact=1"], "--hudi 'compact=1' is not of the form hoodie.KEY=VALUE"),
        (["--table", "/"], "--table names no place in the bucket"),
    ],
)
def test_options_that_cannot_be_are_refused(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A role or a size that proves nothing ends with one line and exit code 2, before anything starts."""
    monkeypatch.setattr(f"{main.__module__}.table_environment", lambda: pytest.fail("nothing is fetched"))
    assert main(arguments) == ConfigError.exit_code
    assert told in capsys.readouterr().err


def test_a_folder_that_exists_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--out names a new folder."""
    assert main(["--out", str(tmp_path)]) == ConfigError.exit_code
    assert "exists already" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in the way is bad input. A place where nothing may be written is the machine's."""
    monkeypatch.setattr(f"{main.__module__}.table_environment", lambda: pytest.fail("nothing is fetched"))
    (tmp_path / "file").touch()
    assert main(["--out", str(tmp_path / "file" / "below")]) == ConfigError.exit_code
    assert f"{tmp_path / 'file'} is a file" in capsys.readouterr().err
    monkeypatch.setattr("os.access", lambda path, _mode: path != tmp_path)
    assert main(["--out", str(tmp_path / "new" / "below")]) == BackendUnavailable.exit_code
    assert f"{tmp_path} may not be written" in capsys.readouterr().err


def test_a_disk_that_is_full_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a traceback, whose exit code would say that the table broke."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"{main.__module__}.table_environment", lambda: NOTHING_BUILT)
    monkeypatch.setattr(f"{main.__module__}.run_tables", full)
    assert main(["--out", str(tmp_path / "new")]) == BackendUnavailable.exit_code
    assert "No space left on device" in capsys.readouterr().err


def test_a_struck_writer_s_plan_is_a_scenario() -> None:
    """The stop outlasts the validity, and the plan names the commit that is struck."""
    for strike, kind in (("stop", "pause"), ("stop-early", "pause"), ("kill", "crash")):
        settings, _ = parse(["--strike", strike, "--at-commit", "3"])
        plan = settings.plan()
        assert plan is not None
        assert settings.pause_s > settings.validity_s
        assert settings.validity_s == (10 if kind == "pause" else TableSettings().validity_s)
        assert [fault.kind for fault in plan.faults] == [kind]


def test_another_spark_in_the_environment_is_refused(tmp_path: Path) -> None:
    """Hudi's bundle is for one line of Spark: a Spark of another one is named, exit code 5."""
    python = tmp_path / "bin" / "python"
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / "pyspark").mkdir(parents=True)
    (packages / "pyspark-4.1.4.dist-info").mkdir()
    with pytest.raises(BackendUnavailable, match=rf"has pyspark-4.1.4, and {BUNDLE.file_name} needs pyspark 3.5.9"):
        environment.require_version(python)


def test_a_java_without_a_compiler_is_refused(tmp_path: Path) -> None:
    """Without javac the class that Hudi loads for s3 cannot be made: exit code 5, with the reason."""
    java = JavaHome(path=tmp_path, version="17.0.1", source="JAVA_HOME")
    with pytest.raises(BackendUnavailable, match="has no javac; install a full JDK"):
        environment.compiled_client(java, [])


def test_jars_that_cannot_be_had_end_with_their_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty cache, and a resolver that reaches nothing: the jar and the reason, exit code 5, and no folder."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho connection refused >&2\nexit 1\n")
    java.chmod(0o755)
    home = JavaHome(path=tmp_path / "jdk", version="17", source="JAVA_HOME")
    monkeypatch.setenv("LOCKREF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(environment, "search_java", lambda: SimpleNamespace(home=home))
    monkeypatch.setattr(environment, "PYSPARK", SimpleNamespace(python=lambda: tmp_path / "python"))
    monkeypatch.setattr(environment, "require_version", lambda _python: None)
    assert main(["--out", str(tmp_path / "new")]) == BackendUnavailable.exit_code
    told = capsys.readouterr().err
    assert f"{BUNDLE.group}:{BUNDLE.artifact}:{BUNDLE.version} failed" in told
    assert "connection refused" in told
    assert not (tmp_path / "new").exists()


def test_a_machine_without_java_ends_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is fetched or started: one line, exit code 5."""
    monkeypatch.setenv("LOCKREF_JAVA", "none")
    assert main([]) == BackendUnavailable.exit_code
    assert "Spark needs Java" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.realbackend
@pytest.mark.java
@pytest.mark.timeout(1800)
def test_two_jvms_write_one_table_under_the_lock(tmp_path: Path) -> None:
    """RFC-91's test plan, small: two JVMs, and no clause of the lock broken.

    A batch is lost only where the record of requests names Hudi's reason: a log file that nobody reads
    (docs/hudi-tables.md).
    """
    try:
        there = table_environment()
    except BackendUnavailable as error:
        pytest.skip(str(error))
    settings = TableSettings(jvms=(("sql",), ("sql",)), batches=3, rows=4, minutes=10)
    run = run_tables(settings, there, tmp_path / "run")
    judgement = judged(run)
    assert (judgement.verdicts.safety, judgement.verdicts.liveness) == ("held", "held"), judgement.verdicts
    assert run.timeline is not None
    assert not judgement.doubts
    broken_checks = [finding.sentence for finding in judgement.findings if not finding.holds]
    assert not broken_checks or lost_files(run.wire.events, run.timeline), broken_checks


@pytest.mark.realbackend
def test_a_place_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    """A table at the place ends the run before it writes anything: an old timeline, another key, or just a table."""
    with start_backend("ministack") as running:
        address = parse_store_uri(running.uri)
        s3 = aws_client(
            "s3", endpoint=address.endpoint, region="us-east-1", request_timeout_ns=10 * NS_PER_S, pool_size=1
        )
        for name, properties, told in (
            ("old", LAYOUT_2.replace(b"layout.version=2", b"layout.version=1"), "the timeline has layout 1"),
            ("other", LAYOUT_2.replace(b"=id", b"=uuid"), "the table's record key is 'uuid'"),
            ("there", LAYOUT_2, "there is a table at"),
        ):
            s3.put_object(Bucket=address.container, Key=f"{name}/.hoodie/{PROPERTIES}", Body=properties)
            with pytest.raises(ConfigError, match=told):
                run_tables(TableSettings(store=running.uri, table=name), NOTHING_BUILT, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_port_where_no_s3_answers_is_told(tmp_path: Path) -> None:
    """A port on which something else listens, or nothing: one line with the address, exit code 5."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    store = f"s3://lockref?endpoint=http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(BackendUnavailable, match="did not answer a listing like S3"):
            run_tables(TableSettings(store=store), NOTHING_BUILT, tmp_path / "run")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    with pytest.raises(BackendUnavailable, match="did not answer a listing like S3"):
        run_tables(TableSettings(store=store), NOTHING_BUILT, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_no_s3_server_here_is_refused(tmp_path: Path) -> None:
    """The endpoints stand in front of one server of this machine."""
    with pytest.raises(ConfigError, match="is no S3 server of this machine"):
        run_tables(TableSettings(store="memory:"), NOTHING_BUILT, tmp_path / "run")
