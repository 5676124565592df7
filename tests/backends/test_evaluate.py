"""`lockref evaluate`: probe, contention, faults on the wire, and which store to take."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockref.cli.jobs.evaluation import evaluating, steps
from lockref.cli.main import run
from lockref.errors import BackendUnavailable
from reports.comparison.carrying import YES, Carrying
from reports.comparison.comparison import Comparison
from reports.comparison.store_runs import Requests
from reports.formats.results import Results
from scenarios.backends import RunningBackend
from scenarios.worlds.processes.workers import LostWorker
from tests.conditional_server import Bucket, serving
from tests.unit.reports.comparison.test_comparison import fingerprint

SMALL = ("--probe-for", "100s", "--rounds", "4", "--no-faults", "--json")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def test_an_evaluation_keeps_what_it_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store in memory: every part is on the page and in the document, with its verdict and its provenance."""
    monkeypatch.chdir(tmp_path)
    code = run(["evaluate", "memory:", "--contenders", "1,2", "--for", "3s", "--require", "wait.p50 < 1h", *SMALL])
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == code
    assert document["lock"]["designs"] == ["cas"]
    assert document["lock"]["sends"] == ["create", "replacement by version"]
    [store] = document["stores"]
    assert (store["ended"], store["carries"]["verdict"]) == ("", "yes")
    assert store["probe"]["verdict"] in ("conforming", "usable")
    latency = store["probe"]["latency"]
    assert {latency[kind]["requests"] >= 200 for kind in ("create refused", "replace done", "replace refused")} == {
        True
    }, "as many of each kind as a 99th percentile needs"
    assert [run["contenders"] for run in store["contention"]] == [1, 2]
    alone = store["contention"][0]
    assert alone["word"] == "held", "one client alone is not asked for hand-offs"
    assert alone["speed"]["grants"] > 0
    assert alone["limits"][0]["verdict"] == "held"
    sent = alone["requests"]
    assert sent["reads"] + sent["writes"] + sent["deletes"] == round(
        alone["speed"]["requests_per_grant"] * alone["speed"]["grants"]
    )
    assert {"lockref", "python", "platform", "sdks", "machine", "hold", "command"} <= set(document["provenance"])
    folder = tmp_path / ".lockref/runs/latest"
    page = (folder / "evaluation.html").read_text()
    assert "How fast, and for how many?" in page
    assert "Faults on the wire: not asked." in page
    assert document["advice"]["headline"] in html.unescape(page)
    assert "5ms..20ms" in page
    assert "<svg" in page
    assert (folder / "store-1/fingerprint.html").exists()
    assert (folder / "store-1/contenders-2/results.json").exists()


def test_no_lock_is_put_on_a_store_that_proved_unsafe(keys: None, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that overlooks conditions cannot carry it, with the clause; exit code 1, and nobody contends on it."""
    with serving(Bucket(flaw="stale replacement")) as uri:
        assert run(["evaluate", uri, "--contenders", "1", "--for", "2s", *SMALL]) == 1
    document = json.loads(capsys.readouterr().out)
    [store] = document["stores"]
    assert store["contention"] == []
    assert store["carries"]["verdict"] == "no"
    assert "C4" in store["carries"]["why"]
    assert "cannot carry" in document["advice"]["headline"]


def test_what_the_lock_never_sends_is_not_asked_of_a_store(
    keys: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store that deletes whatever version is named carries a lock that deletes nothing, and none that does."""
    asked = ["--contenders", "1", "--for", "3s", *SMALL]
    (tmp_path / "deletes.py").write_text(DELETES)
    with serving(Bucket(flaw="stale delete")) as uri:
        assert run(["evaluate", uri, *asked]) == 0
        document = json.loads(capsys.readouterr().out)
        assert run(["evaluate", uri, "--provider", "./deletes.py:Deletes", *asked]) == 1
    [store] = document["stores"]
    assert store["probe"]["clauses"]["C8"]["verdict"] == "unsafe"
    assert "C8" in store["carries"]["reservations"][-1]
    assert document["advice"]["take"] == [store["name"]]
    refused = json.loads(capsys.readouterr().out)
    assert refused["lock"]["designs"] == ["delete"]
    assert "C8" in refused["stores"][0]["carries"]["why"]


DELETES = '''
from lockref import Grant, Outcome


class Deletes:
    """Created by its holder, and deleted by its version: the plainest lock there is."""

    def __init__(self, context):
        self._store, self._runtime = context.open_store(1_000_000_000), context.runtime
        self._key, self.grant = context.settings.key, None

    def try_lock(self):
        reply = self._store.put_if_absent(self._key, self._runtime.token_bytes(8))
        if reply.outcome is Outcome.APPLIED:
            self.grant = Grant(owner="anybody", version=reply.version)
        return self.holds()

    def lock(self, timeout_s):
        end_ns = self._runtime.monotonic_ns() + int(timeout_s * 1e9)
        while not self.try_lock():
            if self._runtime.monotonic_ns() > end_ns:
                return False
            self._runtime.sleep(50_000_000)
        return True

    def unlock(self):
        self._store.delete(self._key, self.grant.version)
        self.grant = None

    def holds(self):
        return self.grant is not None

    def close(self):
        pass
'''


def test_a_store_that_does_not_answer_costs_nothing_of_the_others(
    keys: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of two is not reached: the other one is advised, exit 0, and the page tells of both. None reached: 5."""
    nobody = "s3://bucket/x?endpoint=http://127.0.0.1:9"
    asked = ["--contenders", "1", "--for", "3s", "--probe-for", "100s", "--rounds", "4", "--no-faults"]
    assert run(["evaluate", "memory:", nobody, *asked]) == 0
    said = capsys.readouterr().out
    assert "s3://bucket/x was not reached" in said
    document = json.loads((tmp_path / ".lockref/runs/latest/evaluation.json").read_text())
    assert document["stores"][0]["contention"][0]["word"] == "held"
    assert document["stores"][1]["carries"]["verdict"] == "not reached"
    page = (tmp_path / ".lockref/runs/latest/evaluation.html").read_text()
    assert "Contention: not reached." in page
    assert nobody in page.replace("&#39;", "'")
    assert run(["evaluate", nobody, *asked]) == 5


def test_a_lock_on_a_table_has_no_store_of_objects(keys: None, capsys: pytest.CaptureFixture[str]) -> None:
    """`dynamodb` asked of a bucket: it cannot carry it, and the table in memory is measured all the same."""
    with serving(Bucket()) as uri:
        code = run(["evaluate", uri, "memory:", "--provider", "dynamodb", "--contenders", "1", "--for", "3s", *SMALL])
    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert "stands on a table" in document["stores"][0]["carries"]["why"]
    assert document["advice"]["take"] == ["memory:"]


@pytest.mark.parametrize(
    ("limit", "expected"), [("requests_per_grant.mean < 0.5", 4), ("requests_per_grant.mean < 900", 0)]
)
def test_a_limit_that_no_store_meets(
    limit: str, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--require`: a store that misses it is not advised, and exit code 4 says that none meets it."""
    monkeypatch.chdir(tmp_path)
    asked = ["--contenders", "1", "--for", "3s", "--require", limit, *SMALL]
    assert run(["evaluate", "memory:", *asked]) == expected
    document = json.loads(capsys.readouterr().out)
    assert (document["advice"]["take"] == []) == bool(expected)
    assert document["stores"][0]["contention"][0]["word"] == "held", "a limit says nothing of safety"
    assert any("misses" in reason for reason in document["advice"]["reasons"]) == bool(expected)


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_faults_are_told_beside_a_lock_that_breaks(
    keys: None, capsys: pytest.CaptureFixture[str], ministack: RunningBackend
) -> None:
    """e12 loses the answer of a take-over: hudi answers wrongly (S7), the hardened lock holds, and both are told."""
    code = run(["evaluate", ministack.uri, "--contenders", "1", "--for", "3s", "--probe-for", "100s", "--rounds", "4",
                "--faults", "e12", "--json"])  # fmt: skip
    document = json.loads(capsys.readouterr().out)
    [fault] = document["stores"][0]["faults"]
    assert (fault["word"], fault["baseline"]["word"]) == ("held", "violated")
    assert fault["kinds"] == ["lose_reply"]
    assert code == 0
    assert any("broke hudi in e12" in note for note in document["advice"]["notes"])


@pytest.mark.parametrize("crowds", ["", "0", "8,x", "5000"])
def test_crowds_are_numbers_of_clients(crowds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "memory:", "--contenders", crowds]) == 2
    assert "--contenders" in capsys.readouterr().err


def test_a_violation_in_a_run_that_lost_a_worker_is_on_the_page(
    asked: tuple[Asked, list[Callable[[tuple[str, ...]], None]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the other processes recorded was judged: exit code 1 and not the outage's, and the verdict stands there."""
    worker = LostWorker(number=2, clients=("n2",), at_ns=1, ending="was killed by SIGKILL", stderr_end="")
    broken = Results(title="", verdict="violated", statement="S3 broke", runs=1)
    done = SimpleNamespace(error=BackendUnavailable(str(worker)))
    monkeypatch.setattr(steps, "contend_on", lambda *_asked, **_options: done)
    monkeypatch.setattr(steps, "account_of_run", lambda *_asked: (broken, Requests()))
    assert run(["evaluate", "memory:", "--contenders", "2", "--for", "2s", "--no-faults", "--json"]) == 1
    [store] = json.loads(capsys.readouterr().out)["stores"]
    assert [each["verdict"] for each in store["contention"]] == ["violated"]
    assert store["ended"] == "worker process 2 (n2) was killed by SIGKILL"


Asked = list[tuple[str, ...]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Asked, list[Callable[[tuple[str, ...]], None]]]:
    """What each store was asked, in order, by an evaluation that measures nothing; and what to call before each run."""
    questions: Asked = []
    before: list[Callable[[tuple[str, ...]], None]] = []
    held = Results(title="", verdict="held", statement="held", runs=1)

    def probed(_self: object, store: steps.EvaluatedStore) -> tuple[dict[str, Any], int, Carrying]:
        questions.append((store.uri, "probe"))
        found = {**fingerprint("http://a", C2="conforming").document(), "verdict": "conforming"}
        return found, 0, Carrying(verdict=YES)

    def contended(store: str, scenario: Any, *_asked: object, folder: Path, **options: Any) -> SimpleNamespace:
        question = (store, scenario.name if options["clients"] is None else folder.name)
        for call in before:
            call(question)
        questions.append(question)
        return SimpleNamespace(error=None)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(steps.Evaluation, "_probed", probed)
    monkeypatch.setattr(steps.Evaluation, "_is_struck", lambda _self, store: not store.no_faults)
    monkeypatch.setattr(steps, "contend_on", contended)
    monkeypatch.setattr(steps, "account_of_run", lambda *_asked: (held, Requests()))
    monkeypatch.setattr(evaluating, "side_by_side", lambda *_asked: ())
    return questions, before


STORES = ("memory:a", "memory:b", "memory:c")
BLOCKS = ("--contenders", "1,4", "--repeats", "3", "--json")


def test_stores_take_turns_in_every_block(asked: tuple[Asked, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """All probes first; each block alike, with another store first; the faults last."""
    questions, _ = asked
    assert run(["evaluate", *STORES, *BLOCKS, "--faults", "e11", "--no-baseline"]) == 0
    a, b, c = STORES
    assert questions[:3] == [(store, "probe") for store in STORES]
    assert questions[3:21] == [
        *((store, crowd) for crowd in ("contenders-1", "contenders-4") for store in (a, b, c)),
        *((store, f"{crowd}-repeat-2") for crowd in ("contenders-1", "contenders-4") for store in (b, c, a)),
        *((store, f"{crowd}-repeat-3") for crowd in ("contenders-1", "contenders-4") for store in (c, a, b)),
    ]
    assert [store for store, _ in questions[21:]] == list(STORES)
    for store in json.loads(capsys.readouterr().out)["stores"]:
        assert store["repeats"] == {"asked": 3, "run": 3}
        assert len(store["faults"]) == 1


def test_ctrl_c_in_a_block_keeps_what_is_finished_and_says_so(
    asked: tuple[Asked, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In the second block, after two stores of three: exit 130, and each store tells how many blocks it has."""
    questions, before = asked

    def interrupt(question: tuple[str, ...]) -> None:
        if question == ("memory:a", "contenders-4-repeat-2"):
            raise KeyboardInterrupt

    before.append(interrupt)
    assert run(["evaluate", *STORES, *BLOCKS[:-1]]) == 130
    printed = capsys.readouterr().out
    assert "interrupted: the page tells what was measured until then" in printed
    assert "memory:a: 1 of 3 repeats were run to their end" in printed
    assert "memory:b: 2 of 3 repeats were run to their end" in printed
    folder = tmp_path / ".lockref/runs/latest"
    stores = json.loads((folder / "evaluation.json").read_text())["stores"]
    assert [len(store["contention"]) for store in stores] == [3, 4, 4]
    assert [store["ended"] for store in stores] == ["interrupted"] * 3
    assert "1 of 3 repeats of each number of clients were run to their end" in (folder / "evaluation.html").read_text()
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
    assert questions[-1] == ("memory:c", "contenders-4-repeat-2")


def test_a_store_that_goes_away_in_a_block_ends_for_itself(
    asked: tuple[Asked, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The others go on, in every block; the store is asked nothing more."""
    questions, before = asked

    def breaks(question: tuple[str, ...]) -> None:
        if question == ("memory:b", "contenders-1-repeat-2"):
            raise BackendUnavailable("nobody answers")

    before.append(breaks)
    assert run(["evaluate", *STORES, *BLOCKS, "--no-faults"]) == 0
    stores = json.loads(capsys.readouterr().out)["stores"]
    assert [store["repeats"]["run"] for store in stores] == [3, 1, 3]
    assert [store["ended"] for store in stores] == ["", "nobody answers", ""]
    assert len([store for store, _ in questions if store == "memory:b"]) == 3


def test_repeats_of_two_equal_stores_are_side_by_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real runs, two of each: the comparison of the evaluation and that of `compare` say that two are too few."""
    monkeypatch.chdir(tmp_path)
    sized = ["--contenders", "2", "--for", "1s", "--probe-for", "2s", "--rounds", "1", "--repeats", "2", "--no-faults"]
    assert run(["evaluate", "memory:a", "memory:b", *sized]) in (0, 3)
    folder = tmp_path / ".lockref/runs/latest"
    (page,) = [
        found
        for path in sorted(folder.glob("side-by-side-*/comparison.json"))
        if (found := Comparison.model_validate_json(path.read_text())).repeats_least
    ]
    assert [column.repeats for column in page.columns] == [2, 2]
    (rate,) = [row for row in page.rows if row.name == "grants per second"]
    assert rate.cells[1].apart == "few_runs"
    parts = [f"{folder}/store-{store}/contenders-2{repeat}" for repeat in ("", "-repeat-2") for store in (1, 2)]
    capsys.readouterr()
    assert run(["compare", "--repeats", "2", *parts, "--json"]) == 0
    again = Comparison.model_validate_json(capsys.readouterr().out)
    assert again.rows == page.rows
