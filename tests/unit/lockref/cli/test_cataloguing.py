"""`lockref scenario list, show, validate`: what there is, what happens in it, and what a run would refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.cli.main import run


@pytest.mark.parametrize(
    ("filters", "is_in", "is_out"),
    [
        (["--id", "E8"], "e08-paused-holder", "e09-pause-before-answer"),
        (["--fault", "partition", "--build", "hudi"], "demo", "e08-paused-holder"),
        (["--clause", "F1"], "", "e08-paused-holder"),
        (["-k", "e8 and pause"], "e08-paused-holder", "e09-pause-before-answer"),
    ],
)
def test_a_listing_is_filtered(filters: list[str], is_in: str, is_out: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kinds of filters narrow each other; the JSON document has the same scenarios."""
    code = run(["scenario", "list", *filters, "--json"])
    names = [each["name"] for each in json.loads(capsys.readouterr().out)["scenarios"]] if code == 0 else []
    assert code == (0 if names else 2)
    assert is_out not in names
    assert not is_in or is_in in names


def test_a_scenario_is_shown_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """What happens, the faults with their numbers and what such a fault does, and what is expected of whom."""
    assert run(["scenario", "show", "e08"]) == 0
    told = capsys.readouterr().out
    for words in (
        "e08-paused-holder  E8, U2",
        "The holder is paused in its critical section",
        "for 11.5s..14s",
        "The whole process stops",
        "hudi: violated S3 S4",
        "S3  No two clients believe they hold the same lock at one instant.",
        "takeover_after_expiry",
        "lockref sim e08",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("lock: {validity: 4s, renew_every: 1s}", [], "under hardened a run is refused: provider 'hardened'"),
        ("providers: {n2: hudi}", ["--provider", "dynamodb"], "does not apply to dynamodb: n2 runs hudi"),
        ("must_happen: [reentry]", ["--provider", "hudi"], "does not apply to hudi"),
        ("clients: 2", ["--provider", "nosuch"], "under nosuch a run is refused: provider 'nosuch' is not known"),
    ],
)
def test_validation_tells_what_a_run_would_refuse(
    text: str, options: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that reads well was refused by the run only: by the lock's options, or since it does not apply."""
    file = tmp_path / "mine.yaml"
    file.write_text(f"version: 1\nname: mine\n{text}\n")
    assert run(["scenario", "validate", str(file), *options]) == 2
    assert told in capsys.readouterr().out


def test_validation_tells_where_a_scenario_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That is no mistake: exit code 0."""
    file = tmp_path / "mine.yaml"
    file.write_text(
        "version: 1\nname: mine\nfaults: [{kind: step, client: n1, by: 1s, at: 2s}]\nthresholds: [handoff < 9s]\n"
    )
    assert run(["scenario", "validate", str(file)]) == 0
    told = capsys.readouterr().out
    assert "not on real servers: scenario 'mine' injects what no real run can (step" in told
    assert "not on the wire, which shows no calls: limits on handoff" in told


def test_validation_runs_nothing_of_a_stranger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the lock under test is one that the user names."""
    (tmp_path / "theirs.py").write_text("raise SystemExit('imported')\n")
    file = tmp_path / "mine.yaml"
    file.write_text(f"version: 1\nname: mine\nproviders: {{n2: '{tmp_path}/theirs.py:Lock'}}\n")
    assert run(["scenario", "validate", str(file), "--provider", "hudi"]) == 0
    assert "not looked at" in capsys.readouterr().out
