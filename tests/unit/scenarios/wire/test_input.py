"""What `lockref wire` refuses before it starts anything, in one line and with the right exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.cli.main import run
from scenarios.backends.server_process import free_port
from scenarios.wire.processes.programs import Place

PLAN = "version: 1\nname: mine\nclients: 2\n"


def said(capsys, *arguments: str) -> tuple[int, str]:
    code = run(["-q", "wire", *arguments])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "no program is named"),
        (("--", "no-such-program"), 2, "'no-such-program' was not found"),
        (("--", "/etc/passwd"), 2, "is no file that can be run"),
        (("--backend", "ministak", "--", "true"), 2, "Did you mean 'ministack'"),
        (("--backend", "memory:", "--", "true"), 5, "a protocol that the wire does not read"),
        (("--backend", "s3://bucket", "--", "true"), 5, "a cloud reads the bucket from the host name"),
        (("--backend", "s3://bucket?endpoint=https://s3.amazonaws.com", "--", "true"), 5, "a cloud reads the bucket"),
        (("--backend", "dynamodb://table", "--", "true"), 5, "a protocol that the wire does not read"),
        (("--decoder", "tofu", "--", "true"), 2, "decoder 'tofu' is not known"),
        (("--protects", "state/* by ", "--", "true"), 2, "'GLOB by LOCK'"),
        (("--plan", "e99", "--", "true"), 2, "e99"),
        (("--plan", "e05", "--clients", "1", "--", "true"), 2, "names client n2"),
        (("--for", "soon", "--", "true"), 2, "duration"),
        (("--env", "=x", "--", "true"), 2, "NAME=VALUE"),
        (("--template", "nowhere.tf", "--", "true"), 2, "nowhere.tf"),
    ],
)
def test_what_cannot_be_is_refused_at_once(arguments, code, words, tmp_path, monkeypatch, capsys):
    """A usage error exits 2, a server that cannot stand behind the wire 5."""
    monkeypatch.chdir(tmp_path)
    ended, told = said(capsys, *arguments)
    assert ended == code
    assert words in told
    assert not list(Path(".lockref").rglob("events.parquet"))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("{kind: ignore_conditions, at: 1s}", "a real store does not lie"),
        ("{kind: pause, client: n1, at: 1s, for: 1s, task: heartbeat}", "single threads of a process"),
        ("{kind: step, client: n1, at: 1s, by: 1s}", "set for one process alone"),
        ("{kind: offset, client: n1, at: 1s, by: 1s}", "from its start only"),
        ("{kind: offset, client: n1, at: 0s, for: 1s, by: 1s}", "from its start only"),
        ("{kind: delete_object, at: 1s}", "past the endpoints, so the record of requests would be incomplete"),
    ],
)
def test_faults_that_no_wire_can_do_are_named(fault, words, tmp_path, monkeypatch, capsys):
    """Each with its reason, before anything is started."""
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(f"{PLAN}faults:\n  - {fault}\n")
    code, told = said(capsys, "--plan", "plan.yaml", "--", "true")
    assert code == 2
    assert words in told


def test_a_network_that_loses_by_chance_is_refused(tmp_path, monkeypatch, capsys):
    """Only a simulated network does: whoever expects it here would see a run without it."""
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(f"{PLAN}network: {{loss: 0.1}}\n")
    code, told = said(capsys, "--plan", "plan.yaml", "--", "true")
    assert (code, "loses messages by chance; write faults instead" in told) == (2, True)


def test_a_server_that_does_not_answer_is_told(tmp_path, monkeypatch, capsys):
    """Exit code 5, with the address."""
    monkeypatch.chdir(tmp_path)
    code, told = said(capsys, "--backend", f"s3://bucket?endpoint=http://127.0.0.1:{free_port()}", "--", "true")
    assert code == 5
    assert "did not answer" in told


def test_a_message_never_repeats_what_the_program_was_told(tmp_path, monkeypatch, capsys):
    """Arguments and environment may hold secrets."""
    monkeypatch.chdir(tmp_path)
    code, told = said(capsys, "--env", "c4n4ry", "--", "no-such-program", "c4n4ry")
    assert code == 2
    assert "was not found" in told
    assert "c4n4ry" not in told.replace("--env 'c4n4ry'", "")


def test_braces_of_other_languages_stay(tmp_path):
    """A template is a configuration file: only known places are filled in."""
    place = Place(client="n2", number=2, endpoint="http://127.0.0.1:81", bucket="b", folder=tmp_path)
    text = 'terraform { backend "s3" { key = "{client}/x" endpoint = "{endpoint}" port = {port} } } {unknown} {number}'
    assert place.fill(text) == (
        'terraform { backend "s3" { key = "n2/x" endpoint = "http://127.0.0.1:81" port = 81 } } {unknown} 2'
    )
