"""`lockref watch`: a run is told of while it goes on, and judged as `lockref check` judges it when it is over."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lockref.cli.jobs.checking import check_history
from lockref.cli.jobs.shown.console import Console
from lockref.cli.jobs.simulation import _begun
from lockref.cli.jobs.watch.following import follow
from lockref.cli.jobs.watch.parts import Committed
from lockref.cli.main import run
from lockref.history import Recorder, runs_table
from lockref.lab.loading import load_provider
from lockref.lab.spool import SPOOL, SpoolRecorder, begin_spool, read_spool, spooled_span
from lockref.words import Kind, Op, Outcome
from reports.history_files import HISTORIES, write_history, write_runs
from scenarios.campaigns import collection, orders
from scenarios.campaigns.chunks import run_chunk
from scenarios.campaigns.collection import collect
from scenarios.campaigns.orders import Order
from scenarios.campaigns.sources import Sources
from scenarios.definition.load import load_scenario
from scenarios.executor import InProcess
from scenarios.runs import RunFolder, run_json, status_of

Capture = pytest.CaptureFixture[str]
S = 1_000_000_000


class Acts:
    """What the watched run does while its watcher waits: one act for each pause. After the last one nothing is left."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self._acts = list(acts)
        self.pauses = 0

    def __call__(self, _duration_ns: int) -> None:
        self.pauses += 1
        assert self._acts, "the watcher waits for a run that is over"
        self._acts.pop(0)()


def told(capsys: Capture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def watched(folder: Path, *acts: Callable[[], object], allowed: Sequence[int] = (), quiet_ns: int = 0) -> int:
    console = Console({"quiet": True}, as_json=True)
    return follow(console, str(folder), every_ns=1, quiet_ns=quiet_ns, allowed=allowed, pause=Acts(*acts))


def cycle(recorder: Recorder, number: int) -> None:
    """One client takes the lock and gives it back, a second later."""
    at_ns = (2 * number + 1) * S

    def event(kind: Kind, after_ns: int, op: Op, request: int, outcome: Outcome = Outcome.NONE, **texts: Any) -> None:
        moment_ns = at_ns + after_ns
        recorder.event(
            kind, (moment_ns, moment_ns, moment_ns, "main"), "n1", "key", op, outcome, request=request, **texts
        )

    call, take, give = 10 * number, 10 * number + 1, 10 * number + 2
    state = {"owner": f"n1-{number}", "token": number + 1, "valid_until_ns": at_ns + 10 * S, "content": f"c{number}"}
    event(Kind.CALL, 0, Op.ACQUIRE, call)
    before = "absent" if number == 0 else f"r{number - 1}"
    event(Kind.SENT, 1, Op.ACQUIRE, take, if_version=before, **state)
    event(Kind.REPLIED, 2, Op.ACQUIRE, take, Outcome.APPLIED, if_version=before, version=f"a{number}", **state)
    event(Kind.RETURN, 3, Op.ACQUIRE, call, Outcome.APPLIED, owner=f"n1-{number}", token=number + 1)
    event(Kind.CALL, S, Op.RELEASE, call + 5)
    gone = {"owner": "", "token": number + 1, "content": f"f{number}", "detail": '{"released":true}'}
    event(Kind.SENT, S + 1, Op.RELEASE, give, if_version=f"a{number}", **gone)
    event(Kind.REPLIED, S + 2, Op.RELEASE, give, Outcome.APPLIED, if_version=f"a{number}", version=f"r{number}", **gone)
    event(Kind.RETURN, S + 3, Op.RELEASE, call + 5, Outcome.APPLIED)


@pytest.fixture
def real_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """The folder of a real run that has just begun, and records."""
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.begin("bench", {"command": "lockref bench", "arguments": {"provider": "hardened"}})
    begin_spool(folder.path / SPOOL)
    row = {"run": 0, "scenario": "contention", "provider": "hardened", "world": "real"}
    write_runs(folder.path, runs_table([row]))
    return folder


def finish(folder: RunFolder, recorder: SpoolRecorder) -> None:
    """The run ends: its history takes the place of its recording."""
    events = read_spool(folder.path / SPOOL)
    row = {"run": 0, "scenario": "contention", "provider": "hardened", "world": "real", "event_count": len(events)}
    write_history(folder.path, events, runs_table([row]))
    folder.describe(status="finished")


def test_a_recording_is_followed_to_its_end(real_run: RunFolder, capsys: Capture) -> None:
    """Nothing yet, then events, more events, the end: the verdict and the exit code are those of `lockref check`."""
    recorder = SpoolRecorder(real_run.path / SPOOL, 0)

    def some() -> None:
        real_run.begin_step("8 contenders", lasting_ns=10 * S)
        cycle(recorder, 0)

    code = watched(real_run.path, some, lambda: cycle(recorder, 1), lambda: finish(real_run, recorder))
    lines = told(capsys)
    assert [line["told"] for line in lines] == ["begun", "progress", "step", "progress", "progress", "ended"]
    first, second, third = (line for line in lines if line["told"] == "progress")
    assert (first["done"], second["done"], third["done"]) == (0, 8, 16)
    assert second["title"] == "contention under hardened"
    assert second["left_ns"] == 10 * S - (S + 3)
    assert third["clauses"]["S1"] == {"verdict": "held", "runs": 1, "violated": 0, "inconclusive": 0}
    assert code == check_history(Console(as_json=True), real_run.path, allowed=())
    checked = json.loads(capsys.readouterr().out)
    assert {name: lines[-1][name] for name in checked} == checked
    assert (lines[-1]["status"], lines[-1]["exit_code"]) == ("finished", code)
    assert "step" not in run_json(real_run.path), "a run that is over has no step under way"


def test_a_row_that_is_half_written_is_waited_for(real_run: RunFolder, capsys: Capture) -> None:
    """The last row of a recording was being copied when the watcher looked: it counts once it is whole."""
    recorder = SpoolRecorder(real_run.path / SPOOL, 0)
    cycle(recorder, 0)
    (rows,) = (real_run.path / SPOOL).glob("*.rows")
    whole = rows.read_bytes()
    width, count = 8 * 19, 8
    torn = whole[: width * (count - 1) + 60] + bytes(len(whole) - width * (count - 1) - 60)
    rows.write_bytes(torn)

    def complete() -> None:
        rows.write_bytes(whole)

    assert watched(real_run.path, complete, lambda: finish(real_run, recorder)) in (0, 3)
    *_, ended = told(capsys)
    assert ended["status"] == "finished"


def test_a_run_whose_process_is_gone_is_told_so(real_run: RunFolder, capsys: Capture) -> None:
    """The folder says that the run goes on, and no such process lives: watching ends, and what there is is judged."""
    recorder = SpoolRecorder(real_run.path / SPOOL, 0)
    cycle(recorder, 0)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    real_run.describe(pid=gone.pid)
    code = follow(Console(), str(real_run.path), every_ns=1, allowed=(), pause=Acts())
    shown = capsys.readouterr().out
    assert "the run is dead: its process ended without a word" in shown
    assert "was killed" in shown
    assert code == check_history(Console({"quiet": True}), real_run.path, allowed=())


def test_an_interrupt_ends_the_watching_alone(real_run: RunFolder) -> None:
    """Ctrl-C while the watcher waits: the run goes on, and its folder is as it was."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    before = {path: path.read_bytes() for path in real_run.path.rglob("*") if path.is_file()}
    with pytest.raises(KeyboardInterrupt):
        watched(real_run.path, interrupted)
    assert {path: path.read_bytes() for path in real_run.path.rglob("*") if path.is_file()} == before
    assert status_of(real_run.path) == "running"


def test_a_folder_without_a_writer_is_over_when_it_is_quiet(tmp_path: Path, capsys: Capture) -> None:
    """A recorder in another language writes lines and no run.json: the watcher goes on while the file grows."""
    begin_spool(tmp_path / SPOOL)
    recorder = SpoolRecorder(tmp_path / SPOOL, 0)
    cycle(recorder, 0)
    file, _ = tmp_path / HISTORIES[1], read_spool(tmp_path / SPOOL)
    lines = [
        json.dumps({key: value for key, value in row.items() if value is not None})
        for row in read_spool(tmp_path / SPOOL).to_pylist()
    ]
    file.write_text("\n".join(lines[:5]) + "\n" + lines[5][:20])
    growth = [lambda: file.write_text("\n".join(lines) + "\n")] + [lambda: None] * 100_000
    assert watched(tmp_path, *growth, quiet_ns=20_000_000) in (0, 3)
    assert len(file.read_text().splitlines()) == len(lines), "the watcher waited for what was still to be written"
    *_, ended = told(capsys)
    assert (ended["status"], ended["runs"]) == ("unknown", 1)


def test_a_campaign_is_followed_chunk_by_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Seeds done of all, their rate, the verdict by clause, each failure once with a line that runs its seed again."""
    monkeypatch.chdir(tmp_path)
    spec, scenario = load_provider("hudi"), load_scenario("e08")
    arguments = {"scenarios": ["e08"], "provider": "hudi"}
    folder = RunFolder.begin("sim", {"command": "lockref sim e08", "arguments": arguments})
    order = _begun(Order(scenario=scenario, spec=spec, seeds=range(1, 61)), Sources.of(spec), folder.path)

    def go_on() -> None:
        for result in collect([order], InProcess(), work=run_chunk):
            write_history(folder.path, *result.history)

    def end() -> None:
        folder.describe(status="finished")

    assert watched(folder.path, go_on, end) == 1
    lines = told(capsys)
    progress = [line for line in lines if line["told"] == "progress"]
    assert progress[-1]["done"] == progress[-1]["of"] == 60
    assert progress[-1]["clauses"]["S3"]["violated"] == 60
    findings = [line for line in lines if line["told"] == "finding"]
    assert len({line["clause"] for line in findings}) == len(findings) > 0
    assert {line["replay"] for line in findings} == {"lockref sim e08 --provider hudi --seeds 1"}
    assert lines[-1]["exit_code"] == 1
    assert run(["sim", *findings[0]["replay"].split()[2:], "--shrink-for", "0s"]) == 1


def test_each_committed_chunk_of_a_campaign_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often one looks; the account of a chunk that is torn counts when it is whole."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(orders, "CHUNK", 5)
    monkeypatch.setattr(collection, "run_sheltered", run_chunk)
    line = ["campaign", "e08", "--provider", "hudi", "--seeds", "1..8", "--jobs", "1", "--shrink-for", "0s"]
    assert run([*line, "--out", "c"]) == 1
    account = tmp_path / "c" / "chunks" / "chunk-000001.json"
    whole = account.read_bytes()
    account.write_bytes(whole[: len(whole) // 2])
    part = Committed(tmp_path / "c", "e08", {"scenarios": ["e08"], "provider": "hudi"})
    seen = [part.look(), part.look()]
    account.write_bytes(whole)
    seen += [part.look(), part.look()]
    assert [sight and (sight.done, sight.of) for sight in seen] == [(5, 8), (5, 8), (8, 8), (8, 8)]
    assert seen[-1] is not None
    assert seen[-1].results is not None
    assert seen[-1].results.verdict == "violated"
    assert seen[-1].results.failures[0].replay == "lockref sim e08 --provider hudi --seeds 1"


def test_what_is_watched_must_be_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """No such run is refused at once, with what there is instead."""
    monkeypatch.chdir(tmp_path)
    assert run(["watch"]) == 2
    assert "'latest' is no run folder" in capsys.readouterr().err


def test_the_span_of_a_recording_is_told_without_reading_it(tmp_path: Path) -> None:
    """Events and the true time between the first and the last, over several parts; nothing for no recording."""
    assert spooled_span(tmp_path / SPOOL) == (0, 0)
    begin_spool(tmp_path / SPOOL)
    for part in range(2):
        cycle(SpoolRecorder(tmp_path / SPOOL, part), part)
    assert spooled_span(tmp_path / SPOOL) == (16, 3 * S + 3)
