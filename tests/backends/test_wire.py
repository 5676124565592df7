"""Programs on the wire of a real server, started, disturbed and judged by the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from lockref.cli.main import run as lockref
from tests.wire_programs import FOLDER, LEASE_DECODER, LEASER, PAUSED

pytestmark = [pytest.mark.realbackend, pytest.mark.xdist_group("ministack")]
ON_THE_WIRE = ("--decoder", LEASE_DECODER, "--protects", "state/*")
CANARY = "c4n4ry-5ecret"


@pytest.fixture
def wire(ministack, tmp_path, monkeypatch, capfd):
    """Runs `lockref wire` in a folder of its own: its exit code and its document."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, dict[str, object]]:
        code = lockref(["-q", "wire", "--backend", ministack.bucket_uri, "--json", *arguments])
        out = capfd.readouterr().out
        return code, json.loads(out) if out else {}

    return run


def events() -> list[dict[str, object]]:
    return pq.read_table(".lockref/runs/latest/events.parquet").to_pylist()


def test_a_correct_lease_holds_although_its_holder_is_stopped(wire):
    """Each holder is stopped for longer than its lease; the other one works; neither writes outside its grant."""
    code, told = wire(
        *("--clients", "2", "--plan", PAUSED, "--for", "40s", *ON_THE_WIRE, "--"),
        *(*LEASER, "12", "0.02", "1.5"),
    )
    clauses = {name: clause["verdict"] for name, clause in told["clauses"].items()}
    assert (code, told["verdict"]) == (0, "held"), told["reasons"]
    assert {clauses[name] for name in ("S1", "S4", "S5", "S6")} == {"held"}
    assert {clauses[name] for name in ("S3", "S7")} == {"not_applicable"}
    kinds = [event["kind"] for event in events()]
    assert kinds.count("effect") == 24
    assert kinds.count("fault") == 4


def test_an_unconditional_unlock_is_accused(wire):
    """Woken after its lease, the careless program writes and unlocks whatever is there (S4)."""
    code, told = wire(
        *("--clients", "2", "--plan", PAUSED, "--for", "40s", *ON_THE_WIRE, "--"),
        *(*LEASER, "12", "0.02", "1.5", "careless"),
    )
    assert (code, told["verdict"]) == (1, "violated")
    assert told["clauses"]["S4"]["verdict"] == "violated"
    assert {failure["clause"] for failure in told["failures"]} <= {"S4", "S6"}


def test_a_lost_reply_is_struck_and_what_took_effect_is_known(wire):
    """The server's answer is on record although the client was told 500, and the SDK's own retry stands beside it."""
    _, told = wire(
        *("--clients", "2", "--plan", str(FOLDER / "lost-reply.yaml"), "--for", "40s", *ON_THE_WIRE, "--"),
        *(*LEASER, "2", "0.02", "1.5"),
    )
    assert told["verdict"] == "held", told["reasons"]
    record = events()
    [fault] = [event for event in record if event["kind"] == "fault"]
    mine = [e for e in record if e["node"] == "n1" and e["kind"] == "replied" and e["op"] in ("acquire", "renew")]
    assert json.loads(fault["detail"])["id"] == "error-1"
    [notice] = [notice for notice in told["notices"] if notice.startswith("error-1")]
    assert "n1 acquire PUT object" in notice
    assert "the server answered 200 (applied); the client hears 500 in its place" in notice
    assert mine[0]["outcome"] == "applied"
    assert mine[1]["outcome"] == "precondition_failed", "the retry of the SDK met its own object"
    assert mine[0]["content"] == mine[1]["content"]


def test_a_program_that_insists_on_tls_is_served(wire):
    """boto3 finds the certificate that vouches for its endpoint in AWS_CA_BUNDLE, and speaks TLS to it."""
    code, told = wire("--clients", "1", "--tls", *ON_THE_WIRE, "--", *LEASER, "2", "0", "1.5")
    assert (code, told["verdict"]) == (0, "held"), told["reasons"]
    assert [event["kind"] for event in events()].count("effect") == 2


KILLED = """\
version: 1
name: killed-server
clients: 2
faults:
  - {kind: crash_service, when: {client: n1, op: release, nth: 2, cut: c4}, restart_after: 400ms}
  - {kind: drip, op: acquire, nth: 3, over: 300ms}
"""


@pytest.mark.long
def test_a_server_that_is_killed_comes_back_and_the_lock_holds(tmp_path, monkeypatch, capfd):
    """SIGKILL between two requests: the objects are on disk, the SDK tries again, and nobody is accused."""
    monkeypatch.chdir(tmp_path)
    Path("killed.yaml").write_text(KILLED)
    arguments = ["--backend", "ministack", "--plan", "killed.yaml", "--for", "60s", "--clients", "2", *ON_THE_WIRE]
    code = lockref(["-q", "wire", "--json", *arguments, "--env", "AWS_MAX_ATTEMPTS=8", "--", *LEASER, "16", "0.2", "3"])
    told = json.loads(capfd.readouterr().out)
    assert (code, told["verdict"]) == (0, "held"), (told["reasons"], told["notices"])
    struck = [notice.partition(" struck")[0] for notice in told["notices"] if " struck 1×" in notice]
    assert struck == ["crash_service-1", "drip-2"], told["notices"]


def test_a_server_that_is_not_ours_is_not_killed(wire, tmp_path):
    """One line before anything is started (exit 5)."""
    Path("killed.yaml").write_text(KILLED)
    assert wire("--clients", "2", "--plan", "killed.yaml", *ON_THE_WIRE, "--", "true")[0] == 5


def test_nothing_secret_is_kept(wire, monkeypatch, tmp_path, capfd):
    """Keys, tokens, presigned queries, the program's arguments and its output are in no file and in no line."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"AK{CANARY}")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", CANARY)
    code, told = wire(
        *("--clients", "1", *ON_THE_WIRE, "--env", f"TOKEN={CANARY}", "--output", str(tmp_path / "kept"), "--"),
        *(sys.executable, str(FOLDER / "talkative.py"), CANARY),
    )
    assert code in (0, 3), told
    assert lockref(["check", "latest"]) in (0, 3)
    record = events()
    assert any(event["kind"] == "sent" for event in record), "the program did speak"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 4
    for path in files:
        assert CANARY.encode() not in path.read_bytes(), path
    assert CANARY not in repr(record) + json.dumps(told)
    shown = capfd.readouterr()
    assert CANARY not in shown.out + shown.err


@pytest.mark.parametrize(
    ("program", "words"), [(("true",), "never sent a request"), (("sh", "-c", "exit 7"), "exit code 7")]
)
def test_a_program_that_never_asks_proves_nothing(wire, program, words):
    """It is told that nothing came, with how the processes ended; exit code 3."""
    code, told = wire("--clients", "2", *ON_THE_WIRE, "--", *program)
    assert (code, told["verdict"]) == (3, "inconclusive")
    assert words in " ".join([*told["reasons"], *told["notices"]])


def test_a_pattern_that_nothing_fits_proves_nothing(wire):
    """A slip in `--protects` must not read as a lock that holds: S4 was never asked (exit code 3)."""
    code, told = wire("--clients", "1", *ON_THE_WIRE[:2], "--protects", "stat/*", "--", *LEASER, "1", "0", "1.5")
    assert (code, told["verdict"]) == (3, "inconclusive")
    assert told["reasons"] == ["no object that fits stat/* was written, so S4 was not asked"]


TWO_LOCKS = """
import json, os, time, boto3
from botocore.exceptions import ClientError
s3, bucket, me = boto3.client("s3"), os.environ["LOCKREF_BUCKET"], os.environ["LOCKREF_CLIENT"]
lock, done = f"locks/of-{me}.json", 0
body = json.dumps({"id": me, "until": time.time() + 60}).encode()
made = s3.put_object(Bucket=bucket, Key=lock, Body=body, IfNoneMatch="*")["ETag"]
s3.put_object(Bucket=bucket, Key=f"state/of-{me}", Body=b"x")
s3.delete_object(Bucket=bucket, Key=lock, IfMatch=made)
"""


def test_two_locks_in_one_folder_accuse_nobody(wire):
    """Each client writes under its own lock. Which lock guards what is told by the user, or the verdict is open."""
    program = ("--clients", "2", "--decoder", LEASE_DECODER)
    start = ("--", sys.executable, "-c", TWO_LOCKS)
    code, told = wire(*program, "--protects", "state/*", *start)
    assert (code, told["verdict"]) == (3, "inconclusive"), told["failures"]
    assert "--protects 'KEYS by LOCK'" in told["reasons"][0]
    named = [f"state/of-n{number} by locks/of-n{number}.json" for number in (1, 2)]
    code, told = wire(*program, "--protects", named[0], "--protects", named[1], *start)
    assert (code, told["verdict"]) == (0, "held"), told["reasons"]


def test_a_program_that_the_command_ended_did_not_end_by_itself(wire):
    """Which clients were still at work when the time was over is told; the signal that ended them was ours."""
    _, told = wire("--clients", "1", "--for", "1s", *ON_THE_WIRE, "--", "sleep", "60")
    notices = " ".join(told["notices"])
    assert "still running at the time limit and therefore ended (1 s; see --for): n1" in notices
    assert "by themselves" not in notices


def test_no_program_outlives_a_killed_command(ministack, tmp_path):
    """`kill -9` of the command ends the program, a stopped one too, and what the program has started."""
    up = tmp_path / "up"
    start = "import subprocess, time; subprocess.Popen(['sleep', '600.25'])"
    script = f"{start}; open({str(up)!r}, 'w').close(); time.sleep(600)"
    command = subprocess.Popen(
        [*(sys.executable, "-m", "lockref", "wire", "--clients", "1", "--backend", ministack.bucket_uri, "--"),
         *(sys.executable, "-c", script)],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _until(up.exists)
        below = psutil.Process(command.pid).children(recursive=True)
        assert any("600.25" in " ".join(process.cmdline()) for process in below)
        [program] = [process for process in below if process.cmdline()[1:2] == ["-c"]]
        os.kill(program.pid, signal.SIGSTOP)
    finally:
        command.kill()
        command.wait()
    gone, alive = psutil.wait_procs(below, timeout=20)
    assert not alive, gone


def _until(happened) -> None:
    """Wait for an event that another process makes."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.long
def test_the_folder_that_is_kept_is_a_run(wire, tmp_path):
    """`--output` names a new folder, which `lockref check` judges alike."""
    kept = tmp_path / "kept"
    code, told = wire("--clients", "1", *ON_THE_WIRE, "--output", str(kept), "--", *LEASER, "1", "0", "1.5")
    assert (code, told["verdict"]) == (0, "held")
    assert Path(kept, "events.parquet").exists()
    assert wire("--clients", "1", "--output", str(kept), "--", "true")[0] == 2, "a folder that is there is not touched"
