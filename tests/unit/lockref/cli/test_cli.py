"""The command line: exit codes, documents, bad input. In-process, in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lockref.cli import options
from lockref.cli.jobs import demonstration, simulation
from lockref.cli.jobs.reporting import parts_of
from lockref.cli.jobs.shown import console
from lockref.cli.main import run
from lockref.errors import BackendUnavailable, DeterminismError
from lockref.seeds import parse_seed
from reports.formats import exit_codes
from reports.formats.results import load_results
from reports.history_files import load_history, write_json_lines
from scenarios.definition.load import catalogue
from scenarios.definition.schema import Scenario
from scenarios.runs import open_run
from scenarios.worlds import threads

NOBODY = "s3://bucket/p?endpoint=http://127.0.0.1:9"
BELIEVER = """
from lockref.storage.provider import StorageLock
class Believer(StorageLock):
    def holds(self):
        return getattr(self, '_was_granted', False)
    def lock(self, timeout_s):
        self._was_granted = super().lock(timeout_s)
        return self._was_granted
    def unlock(self):
        self._was_granted = False
        super().unlock()
"""
GREEDY = """
from lockref.storage.provider import StorageLock
class Greedy(StorageLock):
    def lock(self, timeout_s):
        return super().lock(timeout_s) or True
    def holds(self):
        return True
"""
UNKNOWN_KIND = "version: 1\nname: x\nclients: 3\nfaults:\n  - {at: 1s, kind: freez, client: n1, for: 2s}\n"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results go below a fresh folder, never into the working tree."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """The one document on standard output; anything beside it fails here."""
    loaded: dict[str, object] = json.loads(capsys.readouterr().out)
    return loaded


def test_a_broken_clause_exits_1_and_a_kept_one_0(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1 is for a lock that broke, 0 for one that held and was put to the test."""
    assert run(["sim", "e08", "--provider", "hudi", "--seeds", "1..5"]) == 1
    assert run(["sim", "e08", "--provider", "hardened", "--seeds", "1..5"]) == 0
    assert "lockref replay LK-" in capsys.readouterr().out


def test_the_document_carries_what_gates_read(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints verdict, runs, clauses, failures with id, seed, clause and replay, and the digest."""
    assert run(["sim", "e09", "--provider", "hudi", "--seeds", "3..6", "--json"]) == 1
    told = document(capsys)
    assert told["verdict"] == "violated"
    assert told["runs"] == 4
    assert told["clauses"]["S3"] == {"verdict": "violated", "runs": 4, "violated": 4}  # type: ignore[index]
    failure = told["failures"][0]  # type: ignore[index]
    assert failure["seed"] == 3
    assert failure["clause"] == "S3"
    assert failure["replay"] == f"lockref replay {failure['id']}"
    assert len(told["digest"]) == 32  # type: ignore[arg-type]


def test_several_scenarios_give_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """The joint verdict is the worst, and each scenario has a part."""
    assert run(["sim", "e01", "e08", "--provider", "hudi", "--seeds", "1..3", "--json"]) == 1
    told = document(capsys)
    assert told["verdict"] == "violated"
    assert [part["verdict"] for part in told["scenarios"]] == ["held", "violated"]  # type: ignore[union-attr]
    assert told["runs"] == 6


@pytest.mark.long
def test_the_digest_does_not_depend_on_the_number_of_processes(capsys: pytest.CaptureFixture[str]) -> None:
    """Seeds decide a campaign; how they are spread over processes does not."""
    digests = []
    for jobs in ("1", "2"):
        run(["sim", "e01", "--seeds", "1..120", "--jobs", jobs, "--json"])
        digests.append(document(capsys)["digest"])
    assert digests[0] == digests[1]


@pytest.mark.shrunk
def test_a_replayed_failure_fails_again(capsys: pytest.CaptureFixture[str]) -> None:
    """A stored failure gives the very same events; under the hardened lock the same plan is FIXED."""
    run(["sim", "e08", "--provider", "hudi", "--seeds", "1..2", "--json"])
    identity = document(capsys)["failures"][0]["id"]  # type: ignore[index]
    assert run(["replay", identity]) == 1
    assert "FAILED, same trace" in capsys.readouterr().out
    assert run(["replay", identity, "--provider", "hardened"]) == 0
    assert "FIXED" in capsys.readouterr().out
    assert run(["replay", f".lockref/failures/{identity}.json"]) == 1
    assert run(["replay", ".lockref/failures"]) == 1


def test_a_history_is_judged_again_from_its_run_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """`check` on a kept history says what `sim` said, under one digest, and which seed and line show it again."""
    run(["sim", "e08", "--provider", "hudi", "--seeds", "1..4", "--json"])
    simulated = document(capsys)
    assert run(["check", ".lockref/runs/latest", "--json"]) == 1
    told = document(capsys)
    assert told["clauses"] == simulated["clauses"]
    assert told["digest"] == simulated["digest"]
    assert told["failures"][0]["seed"] == 1  # type: ignore[index]
    assert told["failures"][0]["replay"] == "lockref check .lockref/runs/latest"  # type: ignore[index]


def test_a_history_that_lost_a_line_is_inconclusive(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A spoilt line proves nothing about the lock: `check` says whose run was lost, and exits 3, not 0 and not 1."""
    run(["sim", "contention", "--provider", "hardened", "--seeds", "1..2"])
    write_json_lines(own_folder / "h", *load_history(Path(".lockref/runs/latest"))[:2])
    path = own_folder / "h/events.jsonl"
    lines = path.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if '"kind":"return"' in line)
    lines[first] = lines[first].replace('"kind":"return"', '"kind":"retur"')
    path.write_text("\n".join(lines) + "\n")
    capsys.readouterr()
    assert run(["check", "h", "--json"]) == 3
    told = document(capsys)
    assert (told["runs"], told["reasons"]) == (1, ["1 run could not be judged: the record is damaged"])
    assert "1 record set aside: unknown kind" in told["notices"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["sim", "none.yaml"], 2, "none.yaml"),
        (["sim", "typo.yaml"], 2, "typo.yaml:5:"),
        (["sim", "typo.yaml"], 2, "Did you mean 'freeze'?"),
        (["sim", "binary.yaml"], 2, "binary.yaml"),
        (["sim", "e08", "--provider", "hardend"], 2, "Did you mean 'hardened'?"),
        (["sim", "e08", "--provider", "nosuch.py:Lock"], 2, "there is no file"),
        (["sim", "e08", "--provider", "./lock.py"], 2, "write './lock.py:Class'"),
        (["sim", "e99"], 2, "lockref scenario list"),
        (["sim", "e8o"], 2, "Did you mean 'e08'?"),
        (["sim", "e08", "--all"], 2, "leave out the names"),
        (["sim", "e08", "--allow-exit", "1"], 2, "cannot be allowed"),
        (["sim", "e08", "--seeds", "5..1"], 2, "empty"),
        (["sim", "e08", "--seeds", "x"], 2, "1..500"),
        (["sim", "hasty.yaml", "--provider", "hudi"], 2, "greater than or equal to 10x"),
        (["sim", "hasty.yaml", "--provider", "hardened"], 2, "the validity is 8 s, the renewal interval 2 s"),
        (["sim", "option.yaml"], 2, "margin_ms is 'wide'"),
        (["sim"], 2, "name a scenario"),
        (["sim", "e08", "--jobs", "many"], 2, "--jobs"),
        (["bench", "contention", "--backend", "nosuch://x", "--contenders", "2", "--for", "1s"], 2, "nosuch"),
        (["bench", "contention", "--backend", "ministak", "--for", "1s"], 2, "Did you mean 'ministack'?"),
        (["bench", "contention", "--backend", "memory:", "--for", "soon"], 2, "--for"),
        (["bench", "contention", "--backend", "memory:", "--arrivals", "0"], 2, "--arrivals"),
        (["bench", "--backend", "ministack?client=curl", "--for", "1s"], 2, "'curl' is not known"),
        (["bench", "e08", "--backend", "memory:", "--for", "1s"], 2, "injects what no real run can"),
        (["bench", "--backend", NOBODY, "--contenders", "2", "--for", "1s"], 5, "127.0.0.1:9"),
        (["check", "history.json"], 2, "history.json"),
        (["check", "missing"], 2, "missing"),
        (["replay", "NOSUCH"], 2, "NOSUCH"),
        (["report", "NOSUCH"], 2, "NOSUCH"),
        (["scenario", "schema", "-o", "none/schema.json"], 2, "no folder none"),
        (["nosuch"], 2, "No such command"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(
    arguments: list[str], code: int, said: str, own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input names the place and the remedy, exits 2 or 5, and never shows a traceback."""
    (own_folder / "typo.yaml").write_text(UNKNOWN_KIND)
    (own_folder / "hasty.yaml").write_text("version: 1\nname: hasty\nlock: {validity: 8s, renew_every: 2s}\n")
    (own_folder / "option.yaml").write_text("version: 1\nname: option\nlock: {options: {margin_ms: wide}}\n")
    (own_folder / "binary.yaml").write_bytes(b"\xff\xfe\x00garbage")
    (own_folder / "history.json").write_text("[1,2")
    assert run(arguments) == code
    told = capsys.readouterr()
    assert said in told.err + told.out
    assert "Traceback" not in told.err + told.out


def test_the_catalogue_begins_with_how_to_read_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Each word that a line of the listing can have is told before the first of them."""
    assert run(["scenario", "list"]) == 0
    legend, listing = capsys.readouterr().out.split("a01-", 1)
    for form in ("held", "held S1", "violated S3; held S1"):
        assert re.search(rf"^  {form}.* {{2,}}", legend, re.MULTILINE), form
        assert re.search(rf" {form}\b", listing), form
    assert "\n  S3   No two clients believe they hold the same lock at one instant.\n" in listing
    assert "docs/" not in legend + listing, "an installed lockref has no docs"


@pytest.mark.parametrize("command", [["sim", "e08", "--seeds", "1"], ["bench", "--backend", "memory:", "--for", "1s"]])
def test_a_folder_that_cannot_be_written_is_no_defect(
    command: list[str], own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where results cannot be kept the machine is at fault: one line that names the place, exit 5."""
    (own_folder / ".lockref").write_text("in the way")
    assert run(command) == 5
    told = capsys.readouterr().err
    assert ".lockref/runs: Not a directory" in told
    assert "Traceback" not in told


def test_an_open_loop_tells_both_times(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The wait from the call, and the response from the intended start, which is never shorter."""
    asked = ["--backend", "memory:", "--contenders", "2", "--for", "1s", "--arrivals", "30"]
    assert run(["bench", *asked, "--json"]) in (0, 3)
    told = json.loads(capsys.readouterr().out)
    speed = told["speed"]
    assert speed["response_max_ns"] >= speed["wait_max_ns"] > 0
    assert speed["late_max_ns"] >= 0
    stored = load_results(Path(told["folder"]) / "results.json")
    assert stored.provenance["arguments"]["arrivals_per_s"] == 30


def test_contention_in_memory_holds_and_keeps_its_history(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real run's history and results are in the run folder, and `check` judges them alike."""
    assert run(["bench", "contention", "--backend", "memory:", "--contenders", "8", "--for", "4s", "--json"]) == 0
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert told["verdict"] == "held"
    # How fast it was: numbers with their units for machines, words for people.
    speed = told["speed"]
    assert speed["grants_per_s"] == pytest.approx(speed["grants"] * 1e9 / speed["answered_ns"])
    assert 0 < speed["wait_p50_ns"] <= speed["wait_p99_ns"] <= speed["wait_max_ns"]
    assert speed["clients"] == 8 >= speed["clients_served"] == sum(one["granted"] > 0 for one in speed["per_client"])
    assert sum(speed[f"{name}_share"] for name in ("held", "handoff", "idle", "silent")) == pytest.approx(1)
    assert "grants/s; wait median" in shown.err
    assert f"{speed['clients_served']} of 8 clients served; Jain" in shown.err
    assert f"({speed['longest_drought_client']})" in shown.err
    assert told["answers"][0]["unanswered"] == 0
    assert len(str(told["digest"])) == 32
    folder = Path(str(told["folder"]))
    assert {entry.name for entry in folder.iterdir()} >= {"events.parquet", "runs.parquet", "results.json", "run.json"}
    assert load_results(folder / "results.json").capabilities["dialect"] == "memory"
    assert run(["check", str(folder), "--json"]) == 0
    assert document(capsys)["digest"] == told["digest"]


def test_all_takes_every_scenario() -> None:
    """`--all` is a gate: also the scenarios in which the hardened lock keeps only some clauses are taken."""
    taken = simulation._chosen((), take_all=True)
    assert set(taken) == {path.stem for path in catalogue()}


@pytest.mark.long
def test_all_leaves_nothing_out(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole gate, over one seed; tests/sim/test_gate.py runs it over two scenarios."""
    code = run(["sim", "--all", "--provider", "hardened", "--seed", "1"])
    told = capsys.readouterr()
    assert "e05-contender-far-ahead under hardened" in told.out
    assert "e08-paused-holder under hardened" in told.out
    assert code in (0, 3), told.out


def test_a_comparison_of_traces_says_how_many(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check-determinism`: every tenth seed twice; how many is told, for none would look the same."""
    assert run(["sim", "e08", "--provider", "hardened", "--seeds", "1..21", "--check-determinism"]) == 0
    assert "determinism: 3 seeds run twice" in capsys.readouterr().out


def test_a_lock_in_a_file_is_put_to_the_test(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stranger's class in any file runs, and its broken promise is exit 1."""
    (own_folder / "mine.py").write_text(BELIEVER)
    assert run(["sim", "e08", "--provider", "mine.py:Believer", "--seeds", "1..5"]) == 1
    assert "S3" in capsys.readouterr().out


def test_a_defect_is_not_a_broken_lock(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1 is reserved: a lock that raises what is no LockError exits 2 and is named."""
    (own_folder / "broken.py").write_text(
        "class Broken:\n"
        "    grant = None\n"
        "    def __init__(self, context): pass\n"
        "    def try_lock(self): raise KeyError('oops')\n"
        "    def lock(self, timeout_s): raise KeyError('oops')\n"
        "    def unlock(self): pass\n"
        "    def holds(self): return False\n"
        "    def close(self): pass\n"
    )
    assert run(["sim", "e01", "--provider", "broken.py:Broken", "--seeds", "1"]) == 2
    assert "KeyError" in capsys.readouterr().err


def test_a_nondeterministic_lock_is_found_out(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lock that asks the real clock ends the run with exit 6 and the line that asked."""
    (own_folder / "leaky.py").write_text(
        "import time\n"
        "from lockref.storage.provider import StorageLock\n"
        "class Leaky(StorageLock):\n"
        "    def try_lock(self):\n"
        "        time.time()\n"
        "        return super().try_lock()\n"
        "    def lock(self, timeout_s):\n"
        "        time.time()\n"
        "        return super().lock(timeout_s)\n"
    )
    assert run(["sim", "e01", "--provider", "leaky.py:Leaky", "--seeds", "1..3"]) == DeterminismError.exit_code
    assert "leaky.py:8" in capsys.readouterr().err


def test_listings_are_documents_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Every listing prints one JSON document."""
    for arguments, key in (
        (["scenario", "list", "--json"], "scenarios"),
        (["providers", "--json"], "providers"),
        (["backends", "--json"], "backends"),
    ):
        assert run(arguments) == 0
        assert document(capsys)[key]
    assert run(["doctor", "--json"]) == 0
    assert any(finding["name"] == "Python" for finding in document(capsys)["findings"])  # type: ignore[index, union-attr]


def test_the_classes_of_providers_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """However long the names are."""
    assert run(["providers"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("bring")]
    assert len({len(line) - len(line.split(maxsplit=1)[1]) for line in rows}) == 1


def test_scenarios_are_validated_in_place(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`scenario validate` says what is wrong in every file it was given."""
    (own_folder / "good.yaml").write_text("version: 1\nname: fine\n")
    (own_folder / "bad.yaml").write_text(UNKNOWN_KIND)
    assert run(["scenario", "validate", "good.yaml", "bad.yaml"]) == 2
    told = capsys.readouterr().out
    assert "✓ good.yaml" in told
    assert "bad.yaml:5:" in told


def test_each_error_of_a_scenario_file_has_its_own_line(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File, line and column begin each line, both in `scenario validate` and where a file is about to run."""
    (own_folder / "bad.yaml").write_text('version: 1\nname: fine\nclints: 3\nlock: {validity: 10}\n"a\\nb": 2\n')
    assert run(["scenario", "validate", "bad.yaml"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[1] for line in lines] == ["bad.yaml:3:1:", "bad.yaml:4:18:", "bad.yaml:5:1:"]
    assert run(["sim", "bad.yaml"]) == 2
    assert [line.removeprefix("lockref: ") for line in capsys.readouterr().err.splitlines()] == [
        line.removeprefix("✗ ") for line in lines
    ]


def test_a_broken_threshold_is_exit_4(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`thresholds` are judged on their own, after safety: a lock that holds but is slow exits 4."""
    scenario = "version: 1\nname: slow\nworkload: {hold: 2s, cycles: 1}\nthresholds: ['hold.p50 < %s']\n"
    (own_folder / "strict.yaml").write_text(scenario % "1s")
    (own_folder / "lax.yaml").write_text(scenario % "9s")
    assert run(["sim", "strict.yaml", "--seeds", "1..3"]) == 4
    assert "threshold violated: hold.p50 < 1s" in capsys.readouterr().out
    assert run(["sim", "lax.yaml", "--seeds", "1..3"]) == 0


def test_a_pinned_seed_is_run_unless_others_are_asked_for(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`seed: 7` in a scenario stands for `--seeds 7`, and gives way to it."""
    (own_folder / "pinned.yaml").write_text("version: 1\nname: pinned\nseed: 7\n")
    (own_folder / "free.yaml").write_text("version: 1\nname: free\n")
    digests = []
    for arguments in (["pinned.yaml"], ["free.yaml", "--seed", "7"]):
        assert run(["sim", *arguments, "--json"]) == 0
        told = document(capsys)
        assert told["runs"] == 1
        digests.append(told["digest"])
    assert digests[0] == digests[1]
    assert run(["sim", "pinned.yaml", "--seeds", "1..3", "--json"]) == 0
    assert document(capsys)["runs"] == 3


def test_what_broke_is_told_although_a_later_server_is_away(
    own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proven failure (1) outranks an absent server (5), and `run.json` says how it ended."""
    (own_folder / "everyone.py").write_text(
        "class Everyone:\n"
        "    grant = None\n"
        "    def __init__(self, context): pass\n"
        "    def try_lock(self): return True\n"
        "    def lock(self, timeout_s): return True\n"
        "    def unlock(self): pass\n"
        "    def holds(self): return True\n"
        "    def close(self): pass\n"
    )
    both = ["--backend", "memory:", "--backend", NOBODY, "--contenders", "4", "--for", "1s"]
    assert run(["bench", *both, "--provider", "everyone.py:Everyone"]) == 1
    assert "ended early" in capsys.readouterr().out
    about = json.loads(Path(".lockref/runs/latest/run.json").read_text())
    assert (about["status"], about["verdict"], about["exit_code"]) == ("failed", "violated", 1)
    assert run(["bench", "--backend", NOBODY, "--contenders", "2", "--for", "1s"]) == 5
    assert json.loads(Path(".lockref/runs/latest/run.json").read_text())["status"] == "failed"


def test_a_workflow_gets_annotations(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Under GitHub Actions each distinct failure is an annotation; elsewhere there is none."""
    run(["sim", "e08", "--provider", "hudi", "--seeds", "1..2"])
    assert "::error" not in capsys.readouterr().out
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    run(["sim", "e08", "--provider", "hudi", "--seeds", "1..2"])
    assert "::error title=S3 violated" in capsys.readouterr().out


def test_a_gate_that_allows_doubt_gets_a_skip(own_folder: Path) -> None:
    """`--allow-exit 3`: exit 0 and a JUnit case that is skipped; without it exit 3 and an error."""
    (own_folder / "calm.yaml").write_text("version: 1\nname: calm\nmust_happen: [crash]\n")
    told = []
    for allowed in ([], ["--allow-exit", "3"]):
        code = run(["sim", "calm.yaml", "--seeds", "1..3", *allowed])
        case = Path(".lockref/runs/latest/junit.xml").read_text()
        told.append((code, "<error" in case, "<skipped" in case))
    assert told == [(3, True, False), (0, False, True)]


def test_scenarios_show_what_they_say(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`scenario test` compares each build with the file's expectations, and names the surprise."""
    assert run(["scenario", "test", "e08", "--seeds", "1..5"]) == 0
    (own_folder / "wrong.yaml").write_text("version: 1\nname: wrong\nexpect: {hardened: {S3: violated}}\n")
    assert run(["scenario", "test", "wrong.yaml", "--seeds", "1..3"]) == 1
    assert "S3 is held, expected violated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("safety", "liveness", "fairness", "allowed", "code"),
    [
        ("held", "held", "held", (), 0),
        ("held", "not_applicable", "not_applicable", (), 0),
        ("violated", "held", "held", (), 1),
        ("violated", "violated", "held", (), 1),
        ("held", "violated", "held", (), 4),
        ("held", "not_applicable", "violated", (), 4),
        ("inconclusive", "violated", "held", (), 4),
        ("inconclusive", "held", "held", (), 3),
        ("held", "inconclusive", "held", (), 3),
        ("held", "held", "inconclusive", (), 3),
        ("inconclusive", "held", "held", (3,), 0),
        ("inconclusive", "violated", "held", (4,), 3),
        ("inconclusive", "violated", "held", (3,), 4),
        ("violated", "held", "held", (1,), 1),
    ],
)
def test_a_proven_failure_is_never_hidden(
    safety: str, liveness: str, fairness: str, allowed: tuple[int, ...], code: int
) -> None:
    """Exit codes rank 1, 4, 3, 0, and --allow-exit never softens 1."""
    assert exit_codes.exit_code(safety=safety, liveness=liveness, fairness=fairness, allowed=allowed) == code


def test_codes_of_several_runs_rank_too() -> None:
    """One broken lock among many runs is what the command says."""
    assert exit_codes.worst([0, 3, BackendUnavailable.exit_code]) == 5
    assert exit_codes.worst([0, 3, 1, 70]) == 1
    assert exit_codes.worst([]) == 0


def test_hostile_names_reach_no_terminal() -> None:
    """Escapes, newlines and ten kilobytes are shown, not sent."""
    hostile = "\x1b[31mred\x07\nline" + "x" * 10_000
    shown = console.printable(hostile)
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert len(shown) < 220
    assert console.printable("a\nb", keep_newlines=True) == "a\nb"


def test_colours_that_were_asked_for_reach_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """`--color always` holds for `| less -R`, too; without it a pipe gets plain text."""
    assert run(["--color", "always", "sim", "e01", "--seeds", "1..2"]) == 0
    assert "\x1b[32mHELD" in capsys.readouterr().out
    assert run(["sim", "e01", "--seeds", "1..2"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_faults_are_refused_before_a_server_starts(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a fault cannot be done to a real run, such as a clock's, nobody waits for a server to learn that."""
    assert run(["bench", "e08", "--backend", "ministack"]) == 2
    told = capsys.readouterr().err
    assert "injects what no real run can" in told
    assert "starting" not in told


def test_seeds_are_read_as_people_write_them() -> None:
    """Integer, hexadecimal, a range, a commit hash."""
    assert list(options.SEED_RANGE.convert("7", None, None)) == [7]
    assert list(options.SEED_RANGE.convert("0x10..0x12", None, None)) == [16, 17, 18]
    assert parse_seed("ab" * 20) == int("ab" * 20, 16) % 2**63


def test_interrupting_leaves_a_readable_run_folder(own_folder: Path) -> None:
    """Ctrl-C ends with 130; what was judged is in the run folder, whose status says interrupted."""
    command = [sys.executable, "-m", "lockref", "sim", "e08", "--seeds", "1..1000000", "--jobs", "1"]
    process = subprocess.Popen(command, cwd=own_folder, stderr=subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"})
    assert process.stderr is not None
    # The first progress line says that a batch has been judged.
    assert process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(240) == 130
    process.stderr.close()
    folder = own_folder / ".lockref" / "runs" / "latest"
    about = json.loads((folder / "run.json").read_text())
    assert about["status"] == "interrupted"
    results = json.loads((folder / "results.json").read_text())
    assert results["runs"] >= 1


def test_an_interrupt_that_python_drops_still_ends_the_run(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C inside a weak reference's callback is dropped by Python; the next batch is not begun all the same."""
    (own_folder / "dropping.py").write_text(
        "import signal, weakref\n"
        "from lockref import StorageLock\n"
        "class Thing: pass\n"
        "things = [Thing()]\n"
        "reference = weakref.ref(things[0], lambda _: signal.raise_signal(signal.SIGINT))\n"
        "class Dropping(StorageLock):\n"
        "    def lock(self, timeout_s):\n"
        "        things.clear()\n"
        "        return super().lock(timeout_s)\n"
    )
    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: dropped.append(told.exc_type))
    assert run(["sim", "e01", "--provider", "dropping.py:Dropping", "--seeds", "1..2000", "--jobs", "1"]) == 130
    assert dropped == [KeyboardInterrupt]
    about = json.loads((own_folder / ".lockref" / "runs" / "latest" / "run.json").read_text())
    assert about["status"] == "interrupted"


def test_interrupting_contention_keeps_its_history(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in a real run: what was recorded can be judged, says it was cut off, and is too short for evidence."""

    def interrupted(threads: threads.ClientThreads, *_arguments: object) -> tuple[str, ...]:
        while len(threads.recorder) < 40:
            threads.runtime.sleep(1_000_000)
        raise KeyboardInterrupt

    monkeypatch.setattr(threads.ClientThreads, "finish", interrupted)
    assert run(["bench", "--backend", "memory:", "--contenders", "4", "--for", "1s"]) == 130
    assert "0 violations in 1 run with" in capsys.readouterr().out
    folder = own_folder / ".lockref" / "runs" / "latest"
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
    assert json.loads((folder / "results.json").read_text())["cut_off"] == 1
    assert run(["check", str(folder)]) == 3
    assert "(at least 20 asked for)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["sim", "e08", "--provider", "greedy.py:Greedy", "--seeds", "1..2", "--shrink-for", "0s"], 1),
        pytest.param(["sim", "e08", "--seeds", "1..2"], 0, marks=pytest.mark.long),
        (["scenario", "schema"], 0),
    ],
)
def test_a_closed_pipe_does_not_change_the_verdict(own_folder: Path, arguments: list[str], code: int) -> None:
    """`lockref … | grep -q` closes the pipe early: 1 still means that a lock broke, and nothing else (exit codes)."""
    (own_folder / "greedy.py").write_text(GREEDY)
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "lockref", *arguments]
    try:
        ended = subprocess.run(command, cwd=own_folder, stdout=write_end, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write_end)
    assert ended.returncode == code, ended.stderr.decode()
    assert b"BrokenPipe" not in ended.stderr


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`lockref --help` lists all commands without loading them."""
    assert run(["--help"]) == 0
    told = capsys.readouterr().out
    for name in ("demo", "doctor", "sim", "replay", "bench", "check", "report", "scenario", "backends", "providers"):
        assert f"  {name} " in told


def test_a_report_takes_any_folder_with_a_history(own_folder: Path) -> None:
    """A stranger's history needs no run.json and no Parquet to get a page."""
    for name in ("events.jsonl", "events.parquet"):
        folder = own_folder / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_text("")
        assert [part.folder for part in parts_of(open_run(str(folder)).path)] == [folder.resolve()]


def test_a_forbidden_timing_is_refused_or_told_beside_every_verdict(
    own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RFC-91's factor and drift bound: a scenario goes below only by `unsafe`, and then every document says so."""
    (own_folder / "tight.yaml").write_text("version: 1\nname: tight\nlock: {drift_bound: 0ms}\n")
    assert run(["sim", "tight.yaml", "--seeds", "1..3"]) == 2
    (own_folder / "tight.yaml").write_text("version: 1\nname: tight\nlock: {drift_bound: 0ms, unsafe: true}\n")
    assert run(["sim", "tight.yaml", "--seeds", "1..3"]) in (0, 1, 4)
    folder = own_folder / ".lockref" / "runs" / "latest"
    told = json.loads((folder / "results.json").read_text())["notices"]
    assert any("unsafe timing" in notice and "drift bound is 0 ms" in notice for notice in told)
    capsys.readouterr()
    assert run(["check", str(folder), "--json"]) in (0, 1, 4)
    assert any("unsafe timing" in notice for notice in json.loads(capsys.readouterr().out)["notices"])


def test_a_run_of_several_parts_is_judged_part_by_part(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` takes whatever folder a command left, by path or by name; the worst part gives the exit code."""
    assert run(["sim", "e01", "e08", "--provider", "hudi", "--seeds", "1..4"]) == 1
    for name in (".lockref/runs/latest", "latest"):
        capsys.readouterr()
        assert run(["check", name, "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert (told["runs"], told["verdict"], len(told["scenarios"])) == (8, "violated", 2)


def test_a_demo_that_shows_too_little_says_so(
    own_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread never contends: the demo tries again for longer, then says what to do; exit 3, nothing broke."""
    monkeypatch.setattr(demonstration, "BACKEND", "memory:demo")
    monkeypatch.setattr(demonstration, "BASELINE_SEEDS", 5)
    # The pages are drawn in the test below.
    monkeypatch.setattr(demonstration, "write_report", lambda *_, **__: "no page")
    monkeypatch.setattr(demonstration, "write_comparison", lambda *_: None)
    assert run(["demo", "--seeds", "2", "--contenders", "1", "--for", "50ms", "--no-spark"]) == 3
    told = capsys.readouterr().out
    assert "Again, with 1 threads for 0.15 s" in told
    assert "Again, with 1 threads for 0.3 s" in told
    assert "too busy to show contention; nothing broke" in told
    assert "lockref demo --contenders 8 --for 60s" in told


def test_a_later_attempt_of_the_demo_counts(
    own_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a first attempt was too short to show, a longer one shows: exit 0, and both stand in the run folder."""
    asked: list[tuple[int, int]] = []

    contend_on = demonstration.contend_on

    def contend(backend: str, scenario: Scenario, spec: Any, *, clients: int, duration_ns: int, **rest: Any) -> Any:
        asked.append((clients, duration_ns))
        if len(asked) == 1:
            return contend_on(backend, scenario, spec, clients=clients, duration_ns=1_000_000, **rest)
        # Without its floor one grant is enough, and a slow machine gives that, too.
        scenario = scenario.model_copy(update={"must_happen": []})
        return contend_on(backend, scenario, spec, clients=2, duration_ns=1_000_000_000, **rest)

    monkeypatch.setattr(demonstration, "contend_on", contend)
    monkeypatch.setattr(demonstration, "BACKEND", "memory:demo")
    monkeypatch.setattr(demonstration, "BASELINE_SEEDS", 5)
    assert run(["demo", "--seeds", "60", "--contenders", "32", "--for", "1s", "--no-spark"]) == 0
    assert asked == [(32, 1_000_000_000), (8, 3_000_000_000)]
    [folder] = (own_folder / ".lockref" / "runs").glob("*-demo")
    assert {path.name for path in folder.iterdir()} >= {"3-contention", "3-contention-again-2"}
    assert "too busy" not in capsys.readouterr().out


def test_a_lock_that_raises_everywhere_still_gives_a_document(
    own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--json` prints one document also where no scenario could be run to its end: it names the errors."""
    (own_folder / "raising.py").write_text(
        "class Raising:\n"
        "    grant = None\n"
        "    def __init__(self, context): pass\n"
        "    def try_lock(self): raise TypeError('broken')\n"
        "    def lock(self, timeout_s): raise TypeError('broken')\n"
        "    def unlock(self): pass\n"
        "    def holds(self): return False\n"
        "    def close(self): pass\n"
    )
    assert run(["sim", "e01", "--provider", "raising.py:Raising", "--seeds", "1..2", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert [error["scenario"] for error in document["errors"]] == ["e01-empty-store"]
    assert "TypeError" in document["errors"][0]["error"]


def test_a_lock_without_readable_records_is_told_what_nobody_judged(
    own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """HELD is not all: clauses that applied to no run are named, so that nobody takes them for kept."""
    lock = "tests.quality.planted.strangers:HiddenLock"
    assert run(["sim", "e01", "--provider", lock, "--seeds", "1..2"]) in (0, 3, 4)
    assert "not judged in any run: S1, S5, S6, S7" in capsys.readouterr().out
