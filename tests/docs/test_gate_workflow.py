"""docs/examples/lock-gate.yaml: the workflow that people copy runs, and its gate is green."""

from __future__ import annotations

import shlex
import shutil
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from lockref.cli.main import run
from scenarios.gate.known import load_known
from tests.docs import ROOT

EXAMPLES = ROOT / "docs" / "examples"
# YAML 1.1, which this reader speaks, takes `on` for true; GitHub does not.
WORKFLOW = yaml.safe_load((EXAMPLES / "lock-gate.yaml").read_text(encoding="utf-8"))
STEPS = WORKFLOW["jobs"]["gate"]["steps"]
INSTALL, GATE = (shlex.split(step["run"]) for step in STEPS if "run" in step)


def test_the_gate_of_the_workflow_is_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command as it stands there, over few seeds of a few scenarios, in a repository with the lock and the list."""
    for name in ("lease_lock.py", "known-failures.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    assert GATE[:2] == ["lockref", "gate"]
    assert run([*GATE[1:], "-k", "e01 or e08", "--seeds", "1..2", "--jobs", "1"]) == 0
    assert len(list(ET.parse("gate.xml").iter("testcase"))) == 2
    assert Path("summary.md").read_text().lstrip().startswith("## GATE GREEN")
    assert "::error" not in capsys.readouterr().out


def test_the_workflow_keeps_what_a_reader_needs() -> None:
    """Also of a red gate; and hidden files, which the artefact leaves out unless it is told."""
    (kept,) = (step for step in STEPS if "upload-artifact" in step.get("uses", ""))
    assert kept["if"] == "always()"
    assert kept["with"]["include-hidden-files"] is True
    assert set(kept["with"]["path"].split()) == {"gate.xml", ".lockref/failures/"}


def test_the_workflow_installs_an_extra_that_there_is() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert INSTALL == ["pip", "install", "lockref[lab]"]
    assert "lab" in extras


def test_the_list_of_known_failures_is_one() -> None:
    assert len(load_known(EXAMPLES / "known-failures.yaml")) == 2
