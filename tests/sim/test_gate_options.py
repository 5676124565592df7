"""The options of `lockref gate`, as a user runs it: selection, accepted failures, requirements, reports, time."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from lockref.cli.jobs.gate import gating
from lockref.cli.jobs.gate.early_end import EarlyEnd
from lockref.cli.jobs.gate.options import GateOptions
from lockref.cli.jobs.gate.outputs import place_of_class
from lockref.cli.main import run
from lockref.lab.loading import ProviderSpec, load_provider
from lockref.runtime import NS_PER_S
from reports.formats.gate_result import GatedScenario, GateResult, load_gate
from reports.formats.gate_screen import screen_lines
from reports.formats.markdown import BYTES_MAX
from scenarios.campaign import run_campaign
from scenarios.definition.load import load_scenario
from scenarios.gate.abilities import Abilities, ask, ask_fleet
from scenarios.gate.exploration import explore
from scenarios.runs import finished_runs
from tests.docs import ROOT

FEW = ("e01-empty-store", "e08-paused-holder", "e10-pause-before-write")
LEASE_LOCK = ROOT / "docs" / "examples" / "lease_lock.py"
HUDI = ["gate", "--provider", "hudi", "--seeds", "1..2", "--jobs", "1"]
SOUND = ["gate", "--provider", "hardened", "--seeds", "1..2", "--jobs", "1"]

_asked: dict[str, Abilities] = {}


@pytest.fixture(autouse=True)
def small_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three scenarios, in a folder of their own, outside any CI system. Each lock is asked once what it can do."""

    def asked(locks: Sequence[ProviderSpec], **declared: object) -> Abilities:
        name = ",".join(lock.name for lock in locks)
        if name not in _asked:
            _asked[name] = ask_fleet(locks)
        return _asked[name]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gating, "ask_fleet", asked)
    monkeypatch.setattr(gating, "judged_catalogue", lambda: {name: load_scenario(name) for name in FEW})
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


def last() -> GateResult:
    return load_gate(next(path for path in finished_runs("gate") if path.name < "2999") / "gate.json")


def outcomes() -> dict[str, str]:
    return {each.name: each.outcome for each in last().scenarios}


def known(*entries: str) -> list[str]:
    Path("known.yaml").write_text("\n".join(["version: 1", "known:", *(f"  - {entry}" for entry in entries)]))
    return ["--known", "known.yaml"]


def causes() -> list[str]:
    """The words of the causes that Hudi's lock shows here."""
    assert run(["-q", *HUDI]) == 1
    found = [group.cause for group in last().groups]
    assert found
    return found


def test_a_selection_is_run_and_what_it_leaves_out_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*HUDI, "-k", "e0 or pause", "--exclude", "E10"]) == 1
    assert outcomes() == {"e08-paused-holder": "violated"}
    assert "not explored: 2 scenarios that the caller left out" in capsys.readouterr().out
    assert run([*HUDI, "-k", "e01"]) == 0
    assert outcomes() == {"e01-empty-store": "held"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-k", "e08 and"], r"'e08 and', column 8: expected a word"),
        (["-k", "paussed"], r"-k 'paussed' takes none of 3 scenarios\. Did you mean 'paused'\?"),
        (["--exclude", "("], r"'\(', column 2: expected a word"),
        (["--exclude", "e01 or e08 or e10"], "--exclude leaves no scenario to run"),
        (["-k", "e08", "--exclude", "e08"], "--exclude leaves no scenario to run"),
        (["--require", "handof < 2s"], r"column 1: expected a measure .* Did you mean 'handoff'\?"),
        (["--known", "absent.yaml"], r"absent\.yaml: cannot be read"),
        (["--for", "10"], "'10', without a unit"),
    ],
)
def test_a_bad_call_ends_before_the_first_run(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the place of what is wrong; no folder, no seed."""
    assert run([*HUDI, *options]) == 2
    assert re.search(told, " ".join(capsys.readouterr().err.split()))
    assert not Path(".lockref/runs").exists()


def test_a_gate_of_a_mixed_fleet_tells_its_clients_and_what_each_lock_can_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One build of an upgrade that breaks makes the gate red: the fleet's failures replay as any.

    Whatever else there is to note, the screen says who runs what.
    """
    monkeypatch.setattr(gating, "cluster_at", losing)
    line = ["gate", "--provider", "hudi,hardened", "--seeds", "1..2", "--jobs", "1", "-k", "e08"]
    entries = [{"cause": cause, "reason": "an old one", "expires": "2099-01-01"} for cause in ("S1", "S2")]
    Path("known.yaml").write_text(json.dumps({"version": 1, "known": entries}))
    assert run([*line, "--json", "--known", "known.yaml"]) == 1
    capsys.readouterr()
    gate = last()
    assert gate.provider == "hudi,hardened"
    note, *others = gate.notes
    assert len(others) == 3, "what was lost, and two entries that match nothing"
    assert [f"  {note}"[:100]] == [text[:100] for text, _ in screen_lines(gate) if "fleet" in text], "the screen has it"
    assert note.startswith("a mixed fleet (n1: hudi; n2: hardened)")
    assert note.endswith("run --provider hardened,hudi as well")
    assert any("hudi: " in each.evidence and "hardened: " in each.evidence for each in gate.abilities)
    assert gate.groups[0].sentence.startswith(("n1 runs hudi: ", "n1 runs hudi, n2 runs hardened: "))
    assert run(gate.groups[0].replay.removeprefix("lockref ").split()) == 1
    assert run(["gate", "--provider", "hardened,hudi", *line[3:]]) == 0
    assert run([*line, "--declare", "no-lease"]) == 2
    assert "give each class that has no lease claims = ('no-lease',)" in " ".join(capsys.readouterr().err.split())


def test_an_accepted_failure_does_not_stop_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    """It is told with its reason on the screen and in JUnit; the scenarios that show it are counted apart."""
    listed = known(*(f"{{cause: '{cause}', reason: one writer, expires: 2999-12-31}}" for cause in causes()))
    capsys.readouterr()
    assert run([*HUDI, *listed, "--junit", "gate.xml"]) == 0
    assert outcomes() == {FEW[0]: "held", FEW[1]: "accepted", FEW[2]: "accepted"}
    said = capsys.readouterr().out
    assert ": accepted until 2999-12-31: one writer" in said
    assert "GATE GREEN   hudi: 1 held, 2 accepted" in said
    assert "✗" not in said
    assert ET.parse("gate.xml").getroot()[0].get("skipped") == "2"


def test_a_failure_of_another_cause_is_as_red_as_before() -> None:
    """An entry of another clause, or of another lock, accepts nothing."""
    listed = known(
        "{cause: S1, reason: r, expires: 2999-12-31}", "{cause: S3, provider: mine, reason: r, expires: 2999-12-31}"
    )
    assert run(["-q", *HUDI, *listed]) == 1


def test_an_expired_entry_counts_again_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    clause = causes()[0].split(":")[0]
    capsys.readouterr()
    assert run([*HUDI, *known(f"{{cause: {clause}, reason: one writer, expires: 2020-01-31}}")]) == 1
    assert f"known.yaml:3:5: {clause} was accepted until 2020-01-31 and counts again" in capsys.readouterr().out


def test_a_vanished_failure_is_told_to_be_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """But not where a selection may be the reason why it was not found."""
    listed = known("{cause: S4, reason: r, expires: 2999-12-31}")
    assert run([*SOUND, *listed]) == 0
    assert "known.yaml:3:5: S4 was not found any more: remove the entry" in capsys.readouterr().out
    assert run([*SOUND, *listed, "-k", "e01"]) == 0
    assert "remove the entry" not in capsys.readouterr().out


@pytest.mark.parametrize(("limit", "code", "word"), [("1h", 0, "held"), ("1ms", 4, "violated")])
def test_a_requirement_is_about_all_runs_together(
    limit: str, code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It decides about the gate and not about single scenarios, in which a fault is the reason for a wait."""
    assert run([*SOUND, "--require", f"handoff.p99 < {limit}"]) == code
    assert set(outcomes().values()) == {"held"}
    (required,) = last().required
    assert (required.verdict, required.exit_code) == (word, code)
    assert f"  required: {word}: handoff.p99 < {limit}: " in capsys.readouterr().out


def test_a_requirement_without_a_sample_is_not_kept() -> None:
    """Nobody hands over where one scenario has one client's crash alone; the gate does not say that it was quick."""
    assert run(["-q", *SOUND, "-k", "e01", "--require", "handoff_after_death.max < 1h"]) == 3
    assert run(["-q", *SOUND, "-k", "e01", "--require", "handoff_after_death.max < 1h", "--allow-exit", "3"]) == 0


def test_the_last_failed_scenarios_are_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the last gate of the same lock. Where nothing stopped it, or there was none, all are run, and that is told."""
    assert run([*HUDI, "--last-failed"]) == 1
    assert "there is no earlier gate of this lock here" in capsys.readouterr().out
    assert len(outcomes()) == 3
    assert run([*SOUND]) == 0
    # A gate that cannot be read any more is passed over.
    broken = Path(".lockref/runs/29990101T000000-gate")
    broken.mkdir()
    (broken / "run.json").write_text('{"status": "finished", "number": 999}')
    (broken / "gate.json").write_text("{}")
    assert run([*HUDI, "--lf"]) == 1
    assert set(outcomes()) == {FEW[1], FEW[2]}
    assert run([*HUDI, "--lf", "-k", "e01"]) == 2
    assert "-k and --exclude leave no scenario that stopped the last gate" in capsys.readouterr().err
    assert run([*SOUND, "--lf"]) == 0
    assert "--last-failed: nothing stopped the gate of" in capsys.readouterr().out
    assert len(outcomes()) == 3


def test_what_was_accepted_did_not_stop_the_last_gate() -> None:
    """A scenario that was left open did, though no cause is known of it."""
    from lockref.cli.jobs.gate.options import _failed_last

    accepted = GatedScenario(name="accepted", outcome="accepted", groups=("LK-1",))
    undecided = GatedScenario(name="open", outcome="inconclusive", exit_code=3)
    last_gate = GateResult(provider="hudi", stands_on="object store", exit_code=3, scenarios=(accepted, undecided))
    folder = Path(".lockref/runs/20260101T000000-gate")
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"status": "finished", "number": 1}')
    (folder / "gate.json").write_text(last_gate.model_dump_json())
    assert _failed_last("hudi") == (frozenset({"open"}), [])


def test_fail_fast_ends_with_the_first_scenario_that_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    """What was not begun is told, and is no further failure of JUnit."""
    assert run([*HUDI, "--fail-fast", "--junit", "gate.xml"]) == 1
    assert outcomes() == {FEW[0]: "held", FEW[1]: "violated", FEW[2]: "inconclusive"}
    assert last().scenarios[2].reason == "not begun: --fail-fast: the first scenario that broke ended the gate"
    assert "cut: --fail-fast" in capsys.readouterr().out
    (root,) = ET.parse("gate.xml").getroot()
    assert [root.get(name) for name in ("failures", "errors", "skipped")] == ["1", "0", "1"]


def test_fail_fast_does_not_end_with_an_accepted_failure() -> None:
    """Else the first known failure would hide every new one."""
    listed = known(*(f"{{cause: '{cause}', reason: r, expires: 2999-12-31}}" for cause in causes()))
    assert run(["-q", *HUDI, "--fail-fast", *listed]) == 0
    assert outcomes()[FEW[2]] == "accepted"


def test_a_budget_that_is_too_small_is_inconclusive_and_says_what_was_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was begun is judged. A gate that did not begin the rest is not green."""
    assert run([*SOUND, "--for", "1ns"]) == 3
    assert outcomes() == {FEW[0]: "held", FEW[1]: "inconclusive", FEW[2]: "inconclusive"}
    said = capsys.readouterr().out
    assert "cut: the 1 ns of --for were over before all was run that was planned" in said
    assert "inconclusive: e08-paused-holder and 1 more: not begun: the 1 ns of --for were over" in said
    assert "not explored: 2 scenarios not begun, 1 scenario with at most 4 seeds\n" in said


def clock(*seconds: float) -> Callable[[], int]:
    """A clock that is asked once for each of these; then it stands."""
    left = list(seconds)
    return lambda: int((left.pop(0) if len(left) > 1 else left[0]) * NS_PER_S)


def test_a_part_of_the_budget_is_kept_for_shrinking_once_something_broke() -> None:
    """Without a failure there is nothing to shrink; the time belongs to runs."""
    options = GateOptions(budget_ns=100 * NS_PER_S)
    watch = EarlyEnd(options, (), lock={"hudi"}, began_ns=0, shrink_ns=15 * NS_PER_S, now_ns=clock(90))
    assert watch.left_ns() == 10 * NS_PER_S
    assert not watch.is_over()
    result = run_campaign(load_scenario("e08"), load_provider("hudi"), range(1, 3), keep_runs=0)
    shown: list[object] = []
    watch.looking(shown.append)(result)
    assert shown == [result]
    assert watch.left_ns() == 0
    assert watch.is_over()
    assert watch.shrink_ns == 10 * NS_PER_S


def test_time_that_is_left_goes_to_further_seeds() -> None:
    """After the plan, in rounds, until too little is left for a seed; the result has all of them."""
    scenarios = {name: load_scenario(name) for name in FEW[:2]}
    spec = load_provider("hudi")
    abilities = ask(spec)
    planned = explore(spec, abilities, scenarios)
    rounds = count()
    longer = explore(spec, abilities, scenarios, left_ns=lambda: 3600 * NS_PER_S if next(rounds) < 2 else 0)
    before, after = ([part.result.summary.runs for part in each.explored if part.result] for each in (planned, longer))
    # A scenario at most doubles its seeds in a round, and an hour is enough for that.
    assert after == [4 * number for number in before]
    assert longer.cut == ""


def test_reports_are_written_where_the_caller_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are made. The summary of a job is appended to, and stays below what GitHub keeps, with what is there."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("summary.md").write_text("x" * (BYTES_MAX - 2_000))
    assert run(["-q", *HUDI, "--junit", "new/gate.xml", "--markdown", "new/gate.md"]) == 1
    assert len(list(ET.parse("new/gate.xml").getroot().iter("testcase"))) == 3
    page = Path("new/gate.md").read_text()
    assert page.startswith("## GATE RED   hudi: ")
    assert last().groups[0].block
    assert last().groups[0].block.splitlines()[0] in page
    summary = Path("summary.md").read_text()
    assert "## GATE RED   hudi: " in summary
    assert "*Cut here: the rest is in gate.json.*" in summary
    assert len(summary.encode()) <= BYTES_MAX


def test_an_annotation_stands_at_the_class_of_the_lock(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of the user's is named from the root of the repository."""
    guard = "and self._runtime.monotonic_ns() < grant.deadline_ns\n            and self._runtime.wall_ns() <"
    assert guard in LEASE_LOCK.read_text()
    text = LEASE_LOCK.read_text().replace(guard, "and 0 <")
    Path("src").mkdir()
    Path("src/lock.py").write_text(text)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    command = ["-q", "gate", "--provider", "src/lock.py:LeaseLock", "--seeds", "1..2", "--jobs", "1"]
    assert run([*command, "-k", "e08 or e10"]) == 1
    line = text[: text.index("class LeaseLock")].count("\n") + 1
    said = capsys.readouterr().out
    assert re.search(rf"^::error file=src/lock\.py,line={line},title=S", said, re.MULTILINE)


def test_the_place_of_a_class_is_read_and_not_imported(tmp_path: Path) -> None:
    """A lock of the package has no file of the user's; what cannot be read has no place."""
    Path("a.py").write_text("raise SystemExit\n\n\nclass Lock:\n    pass\n")
    assert place_of_class("a.py:Lock") == ("a.py", 4)
    assert place_of_class(f"{tmp_path}/a.py:Lock") == ("a.py", 4)
    assert place_of_class("a.py:Other") == ("a.py", None)
    assert place_of_class("hudi") == ("", None)
    assert place_of_class("absent.py:Lock") == ("", None)
    assert place_of_class("no_such_module:Lock") == ("", None)
    file, line = place_of_class("lockref.storage.lock:StorageLock")
    assert file.endswith("lockref/storage/lock.py")
    assert line is not None


def test_a_scenario_with_a_broken_limit_of_its_own_is_not_accepted_with_its_cause() -> None:
    """The cause is accepted, the limit is not."""
    from lockref.cli.jobs.gate.acceptance import _accepted
    from tests.unit.reports.formats.test_gate_formats import group

    broken = GatedScenario(name="a", outcome="violated", groups=("LK-1",), exit_code=1)
    accepted = group(accepted="accepted until 2999-12-31: r")
    assert _accepted(broken, [accepted]).exit_code == 0
    limited = broken.model_copy(update={"broken_limits": ("wait < 1s: 2.000 s",)})
    assert _accepted(limited, [accepted]) == limited
    assert _accepted(broken, [group()]) == broken


def test_a_scenario_with_one_accepted_cause_and_another_is_not_accepted() -> None:
    """Else a known failure would hide a new one in the same scenario."""
    from lockref.cli.jobs.gate.acceptance import _accepted
    from tests.unit.reports.formats.test_gate_formats import group

    broken = GatedScenario(name="a", outcome="violated", groups=("LK-1", "LK-2"), exit_code=1)
    accepted = group(accepted="accepted until 2999-12-31: r")
    new = accepted.model_copy(update={"id": "LK-2", "accepted": ""})
    assert _accepted(broken, [accepted, new]) == broken


def test_a_gate_that_was_cut_does_not_say_that_a_known_failure_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    """It was not looked for in the scenarios that were not begun."""
    listed = known("{cause: S1, reason: r, expires: 2999-12-31}")
    assert run([*HUDI, *listed, "--fail-fast"]) == 1
    assert last().cut
    assert "not looked for in all scenarios: keep the entry" in capsys.readouterr().out


@contextmanager
def losing(*_: object, tell: Callable[[str], None], **__: object) -> Iterator[None]:
    """No cluster is at work; one is said to have lost an executor."""
    tell("an executor was lost")
    yield None


def test_what_a_cluster_lost_is_a_note_of_the_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note, on the screen and in gate.json. The loss is planted: no cluster is at work here."""

    monkeypatch.setattr(gating, "cluster_at", losing)
    assert run([*SOUND, "-k", "e01"]) == 0
    assert "an executor was lost" in last().notes
    assert "an executor was lost" in capsys.readouterr().out


def test_ctrl_c_keeps_and_tells_what_had_run(monkeypatch, capsys):
    """Exit 130; the scenario that was finished has its outcome, the others were not begun, and nothing is shrunk."""
    known = gating.explore

    def interrupted(*asked: object, on_progress: Callable[[object], None], **more: object) -> object:
        def heard(result: object) -> None:
            on_progress(result)
            monkeypatch.setattr("scenarios.interrupts._heard", True)

        return known(*asked, on_progress=heard, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(gating, "explore", interrupted)
    assert run(HUDI) == 130
    told = capsys.readouterr().out
    assert "GATE CUT OFF" in told
    assert "cut: Ctrl-C ended the gate" in told
    found = load_gate(Path(".lockref/runs/latest/gate.json"))
    assert [each.runs for each in found.scenarios] == [2, 0, 0]
    assert [each.reason for each in found.scenarios[1:]] == ["not begun: Ctrl-C ended the gate"] * 2
    assert found.exit_code == 130
