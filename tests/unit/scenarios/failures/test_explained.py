"""A stored failure explained: the file is enough, the cause is the run's, and foreign code is not imported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.errors import ConfigError
from reports.explanation.explanation import SENTENCE_MAX
from scenarios.failures.explained import explain


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """By clause, the failures of Hudi's lock under a paused holder, in a folder that is not the one of the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("found"))
        assert run(["sim", "e08", "--provider", "hudi", "--seed", "1"]) == 1
        yield {json.loads(path.read_text())["clause"]: path.resolve() for path in Path(".lockref/failures").glob("*")}


def test_the_file_alone_tells_the_cause(
    stored: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another folder, with nothing but the file: who was paused, who took over, who still said yes (S3)."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(stored["S3"], "failure.json")
    told = explain(Path("failure.json"))
    pause, takeover, yes = told.sentence.split("; ")
    assert "n1 was paused for" in pause
    assert "planned) under a lease of 10 s" in pause
    assert takeover.startswith("n3 took over at ")
    assert yes.startswith("n1 woke at ")
    assert yes.endswith(" and still said yes")
    assert len(told.sentence) <= SENTENCE_MAX
    assert [row.what for row in told.events if row.is_guilty] == ["its guard says yes to a write"]


def test_each_clause_of_one_run_has_its_own_words(stored: dict[str, Path]) -> None:
    """The late write of S4 and the late notice of L4 are not told as the overlap of S3 is."""
    told = {clause: explain(path) for clause, path in stored.items()}
    assert set(told) == {"S3", "S4", "L4"}
    assert "and wrote without looking" in told["S4"].sentence
    assert "after its lease had ended" in told["L4"].sentence
    assert len({explanation.paragraph for explanation in told.values()}) == 3
    for explanation in told.values():
        assert 2 <= explanation.paragraph.count(". ") + 1 <= 6


def test_the_same_failure_is_told_in_the_same_words(stored: dict[str, Path]) -> None:
    """Two people who explain one file read the same, row by row."""
    assert explain(stored["S4"]) == explain(stored["S4"])


def test_a_lock_that_keeps_the_clause_leaves_nothing_to_explain(stored: dict[str, Path]) -> None:
    """Under the lock that says no in time there is no failure, and no cause is made up."""
    with pytest.raises(ConfigError, match="no longer fails: S3 holds under hardened"):
        explain(stored["S3"], provider="hardened")


def test_the_code_that_a_file_names_is_not_imported(stored: dict[str, Path], tmp_path: Path) -> None:
    """A failure may come from a stranger, and importing is running."""
    failure = json.loads(stored["S3"].read_text())
    failure["provider"]["name"] = "strange_lock.py:Lock"
    path = tmp_path / "strange.json"
    path.write_text(json.dumps(failure))
    with pytest.raises(ConfigError, match="add --trust"):
        explain(path)


def test_the_command_prints_paragraph_table_and_replay_line(
    stored: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The paragraph, then the events with the wrong one marked, then the line that shows the failure again."""
    path = str(stored["S3"])
    assert run(["explain", path]) == 0
    text = capsys.readouterr().out
    order = ["A correct lock", "time  node  what", "← breaks S3", f"replay    lockref replay {path}"]
    assert sorted(order, key=text.index) == order


def test_json_is_one_document(stored: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the explanation and nothing else on standard output."""
    assert run(["explain", str(stored["S4"]), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["clause"] == "S4"
    assert document["sentence"] in json.dumps(document)
    assert any(row.get("is_guilty") for row in document["events"])


def test_a_folder_of_failures_is_refused(stored: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """One failure is explained at a time; what was asked for is said, and what to ask for instead."""
    assert run(["explain", str(stored["S3"].parent)]) == 2
    assert "name one of them" in capsys.readouterr().err


def test_a_file_that_is_no_failure_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"id": 1}')
    assert run(["explain", str(path)]) == 2
    assert "no stored failure" in capsys.readouterr().err
