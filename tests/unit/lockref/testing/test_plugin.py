"""The pytest plugin as a project meets it: each test runs pytest in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockref.testing.conformance import SCENARIOS
from tests.docs import ROOT

CLASS = """
from lockref.testing import LockConformance

class TestHudi(LockConformance):
    provider = "hudi"
    scenarios = ["e01", "e08"]
    seeds = range(1, 3)
"""
QUIET = "version: 1\nname: quiet\nclients: 2\nmust_happen: [takeover_after_expiry]\n"
PAUSE = (ROOT / "scenarios" / "catalogue" / "e08-paused-holder.yaml").read_text().replace("e08-paused-holder", "pause")


BRIEFLY_SHRUNK = "import scenarios.failures.failure_store as store\nstore.SHRINK_RUNS_MAX = 4\n"
"""How small a failure becomes is asked elsewhere, and costs most of a run that finds one."""


class Project:
    """A folder with tests, and pytest run in it by a new interpreter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("pytest.ini", "[pytest]\n")
        self.write("conftest.py", BRIEFLY_SHRUNK)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def pytest(self, *arguments: str) -> tuple[int, str]:
        """The exit code of pytest, and all that it printed."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:randomly", *arguments],
            cwd=self.folder, env={**environment, "COLUMNS": "160", "CI": "1"}, capture_output=True, text=True,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_nothing_is_loaded_unless_it_is_used(project: Project) -> None:
    """A project of the same environment that tests no lock pays for four small modules, and for no package."""
    project.write(
        "conftest.py",
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    print('OURS', *sorted(m for m in sys.modules if m.split('.')[0] in\n"
        "        ('lockref', 'sim', 'scenarios', 'reports', 'numpy', 'pyarrow', 'pydantic', 'click', 'greenlet')))\n",
    )
    project.write("test_theirs.py", "def test_theirs(): pass\n")
    project.write("conda.lock.yaml", "version: 1\nmetadata: {}\npackage: []\n")
    code, told = project.pytest("--trace-config", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")
    assert code == 0, told
    assert re.search(r"lockref\.testing\.plugin|lockref +:", told), "the plugin is loaded by its entry point"
    (ours,) = re.findall(r"^OURS (.*)$", told, re.MULTILINE)
    assert ours.split() == ["lockref", "lockref.testing", "lockref.testing.options", "lockref.testing.plugin"]


def test_each_scenario_is_an_item_by_its_name(project: Project) -> None:
    """Patterns, names and files beside the test; each scenario once. Without a list there is a short one."""
    project.write("tests/pause.yaml", PAUSE)
    project.write(
        "tests/test_mine.py",
        CLASS.replace('["e01", "e08"]', '["e0[18]", "e08-paused-holder", "pause.yaml", "z13*"]')
        + '\nclass TestShort(LockConformance):\n    provider = "hardened"\n',
    )
    code, told = project.pytest("--collect-only", "-q", "tests")
    assert code == 0, told
    items = re.findall(r"::test_scenario\[(.*)\]", told)
    named = ["e01-empty-store", "e08-paused-holder", "pause", "z13-frozen-when-told-to-drop"]
    assert items[:4] == named
    assert [item.split("-")[0] for item in items[4:]] == list(SCENARIOS)
    code, told = project.pytest("--collect-only", "-q", "-k", "e08 and Hudi", "tests")
    assert re.findall(r"::test_scenario\[(.*)\]", told) == ["e08-paused-holder"]


def test_a_failure_tells_the_cause_and_the_replay_and_no_frame_of_ours(project: Project) -> None:
    """E8: the run stops at the first failure (-x), `--lf` runs it alone, and its replay line shows it again."""
    project.write("test_mine.py", CLASS.replace('["e01", "e08"]', '["e01", "e08", "e02"]'))
    code, told = project.pytest("-x", "-q")
    assert (code, re.findall(r"\d+ (?:passed|failed)", told)) == (1, ["1 failed", "1 passed"])
    for frame in ("conformance.py", "checking.py", "Traceback", "lockref/"):
        assert frame not in told.replace(".lockref/", "")
    (summary,) = re.findall(r"^FAILED .*$", told, re.MULTILINE)
    assert re.search(r"test_mine\.py::TestHudi::test_scenario\[e08-paused-holder\] - LockBroken: S\d", summary)
    identity = re.search(r"lockref replay (LK-\w+)", told)
    assert identity is not None
    code, told = project.pytest("--lf", "-q")
    assert (code, re.findall(r"\d+ (?:passed|failed)", told)) == (1, ["1 failed"])
    replay = [sys.executable, "-m", "lockref", "replay", identity[1]]
    done = subprocess.run(replay, cwd=project.folder, capture_output=True, text=True)
    assert (done.returncode, "FAILED, same trace" in done.stdout) == (1, True), done.stderr


@pytest.mark.long
def test_items_are_spread_over_processes(project: Project) -> None:
    """pytest-xdist gives the items to two processes, and the outcome is the same."""
    project.write("test_mine.py", CLASS)
    code, told = project.pytest("-n", "2", "-q", "--lockref-seeds", "1")
    assert (code, re.findall(r"\d+ (?:passed|failed)", told)) == (1, ["1 failed", "1 passed"])
    assert "lockref replay LK-" in told


FUNCTIONS = """
from lockref.testing import LockResult, lock_scenarios

@lock_scenarios("e01", provider="hardened", seeds=[1])
def test_without_a_result(tmp_path): assert tmp_path.is_dir()

@lock_scenarios("e01", provider="hardened", seeds=[1])
def test_asks_more(tmp_path, lock_result: LockResult):
    assert lock_result.runs == 40, "mine"

@lock_scenarios("p01", provider="my_lock.py:LeaseLock", seeds=[1])
def test_about_others(): raise AssertionError("not reached")

@lock_scenarios("e08", provider="hudi", seeds=[1])
def test_body_of_a_broken_lock(): raise AssertionError("not reached")

@lock_scenarios("quiet.yaml", provider="hardened", seeds=[1])
def test_never_happened(): raise AssertionError("not reached")

class TestMethods:
    @lock_scenarios("e01", provider="hardened", seeds=[1])
    def test_method(self): pass
"""


def test_a_function_is_run_for_each_scenario_that_holds(project: Project) -> None:
    """Its body may ask more. What cannot be judged is an error, what is about other locks a skip with the reason."""
    shutil.copy(ROOT / "docs" / "examples" / "lease_lock.py", project.folder / "my_lock.py")
    project.write("test_mine.py", FUNCTIONS)
    project.write("quiet.yaml", QUIET)
    code, told = project.pytest("-q", "-rA")
    assert code == 1
    names = re.findall(r"^(PASSED|FAILED|ERROR) test_mine\.py::(?:TestMethods::)?(\w+)", told, re.MULTILINE)
    assert sorted((name, how) for how, name in names) == [
        ("test_asks_more", "FAILED"),
        ("test_body_of_a_broken_lock", "FAILED"),
        ("test_method", "PASSED"),
        ("test_never_happened", "ERROR"),
        ("test_without_a_result", "PASSED"),
    ]
    assert "AssertionError: mine" in told
    assert "not reached" not in told
    assert "never happened: takeover_after_expiry" in told
    (skipped,) = re.findall(r"^SKIPPED .*$", told, re.MULTILINE)
    assert "p01-beside-hudi-contenders is about other locks" in skipped


def test_a_scenario_file_is_a_test(project: Project) -> None:
    """`*.lock.yaml` is collected; the configuration names the lock, and the command line has the last word."""
    project.write("tests/pause.lock.yaml", PAUSE)
    code, told = project.pytest("-q")
    assert (code, re.findall(r"\d+ (?:passed|failed|error)", told)) == (1, ["1 error"])
    assert "pause.lock.yaml needs a lock to test" in told
    project.write("pytest.ini", "[pytest]\nlockref_provider = hardened\n")
    project.write("tests/quiet.lock.yaml", QUIET)
    code, told = project.pytest("-q", "-rA", "--lockref-seeds", "1..2")
    assert re.findall(r"^(?:PASSED|ERROR) \S+", told, re.MULTILINE) == [
        "PASSED tests/pause.lock.yaml::pause", "ERROR tests/quiet.lock.yaml::quiet",
    ]  # fmt: skip
    code, told = project.pytest("-q", "tests/pause.lock.yaml", "--lockref-provider", "hudi", "--lockref-seeds", "1")
    assert code == 1
    assert "lockref replay LK-" in told
    assert "lockref sim tests/pause.lock.yaml --provider hudi --seed 1" in told
    assert "yaml_files.py" not in told


WRONG_NAMES = {
    "test_misspelt.py": (CLASS.replace("e01", "e0l"), "there is no scenario 'e0l'"),
    "test_pattern.py": (CLASS.replace("e01", "x*"), "no scenario of the catalogue and no file is named like 'x*'"),
    "test_no_lock.py": (CLASS.replace('    provider = "hudi"\n', ""), "TestHudi names no lock: set `provider`"),
    "test_alone.py": (
        "def test_mine(lock_result): pass\n",
        "`lock_result` is for classes that derive from LockConformance",
    ),
}
"""File to its tests, and to what is told of them."""


def test_a_wrong_name_is_told_in_one_line(project: Project) -> None:
    """At collection, before anything runs, and without a traceback."""
    for name, (text, _) in WRONG_NAMES.items():
        project.write(name, text)
    code, told = project.pytest("-q")
    assert code == 2
    for name, (_, message) in WRONG_NAMES.items():
        (line,) = [line for line in told.splitlines() if message in line]
        assert line.startswith(f"{name}::")
    assert re.findall(r"\.py:\d+", told) == []


def test_a_lock_that_does_not_load_is_an_error(project: Project) -> None:
    project.write("test_mine.py", CLASS.replace('"hudi"', '"hudy"'))
    code, told = project.pytest("-q")
    assert (code, re.findall(r"\d+ (?:passed|failed|error)", told)) == (1, ["2 error"])
    assert "provider 'hudy' is not known" in told
    assert "conformance.py" not in told


def test_seeds_that_are_none_are_a_usage_error(project: Project) -> None:
    code, told = project.pytest("--lockref-seeds", "9..1")
    assert code == 4
    assert "--lockref-seeds: '9..1' is empty: 9 is larger than 1" in told
    assert "Traceback" not in told


MARKED = """
import pytest
from lockref.testing import LockConformance, lock_scenarios

@pytest.mark.lock_known_unsafe("e08", reason="HUDI-7777")
class TestHudi(LockConformance):
    provider = "hudi"
    scenarios = ["e01", "e08"]
    seeds = [1]

@pytest.mark.lock_known_unsafe(reason="mended meanwhile")
class TestMended(LockConformance):
    provider = "hardened"
    scenarios = ["e01"]
    seeds = [1]

@pytest.mark.lock_known_unsafe("quiet", reason="what cannot be judged is no known failure")
@lock_scenarios("quiet.yaml", provider="hardened", seeds=[1])
def test_quiet(): pass

@pytest.mark.lock_requires("tokens", "renews")
class TestTokens(LockConformance):
    provider = "hudi"
    scenarios = ["e01"]
    seeds = [1]

@pytest.mark.lock_requires("tokens")
class TestOurTokens(TestTokens):
    provider = "hardened"
"""


def test_known_failures_are_expected_and_needs_are_asked(project: Project) -> None:
    """A known failure that holds now fails, and one that cannot be judged is an error. A lacking ability is a skip."""
    project.write("pytest.ini", "[pytest]\naddopts = --strict-markers\n")
    project.write("quiet.yaml", QUIET)
    project.write("test_mine.py", MARKED.replace('"e08", reason="HUDI', '"e0[89]", reason="HUDI', 1))
    code, told = project.pytest("-q", "-rA")
    assert code == 1
    endings = re.findall(r"^(PASSED|XFAIL|FAILED|ERROR) test_mine\.py::(\S+)", told, re.MULTILINE)
    assert sorted(endings) == [
        ("ERROR", "test_quiet[quiet]"),
        ("FAILED", "TestMended::test_scenario[e01-empty-store]"),
        ("PASSED", "TestHudi::test_scenario[e01-empty-store]"),
        ("PASSED", "TestOurTokens::test_scenario[e01-empty-store]"),
        ("XFAIL", "TestHudi::test_scenario[e08-paused-holder]"),
    ]
    assert "HUDI-7777" in told
    assert "[XPASS(strict)] mended meanwhile" in told
    (skipped,) = re.findall(r"^SKIPPED .*$", told, re.MULTILINE)
    assert skipped.endswith("hudi: this lock shows no tokens")
    code, told = project.pytest("-q", "--lf", "-n", "2")
    assert re.findall(r"\d+ (?:passed|failed|error|xfailed)", told) == ["1 failed", "1 error"]
    assert "lock_requires(*abilities)" in project.pytest("--markers")[1]


WRONG_MARKERS = {
    'lock_known_unsafe("e09", reason="x")': "'e09' is none of the scenarios e01-empty-store, e08-paused-holder",
    'lock_known_unsafe("e08")': "takes names of scenarios and a reason",
    'lock_requires("token")': "'token' is no ability; expected some of renews, tokens",
}
"""What is written above a class, and what is told of it."""


def test_a_wrong_marker_is_told_at_collection(project: Project) -> None:
    """Each in a line of its own file, and without a traceback."""
    for number, written in enumerate(WRONG_MARKERS):
        project.write(f"test_{number}.py", CLASS.replace("\nclass", f"\nimport pytest\n@pytest.mark.{written}\nclass"))
    code, told = project.pytest("-q")
    assert code == 2
    for number, message in enumerate(WRONG_MARKERS.values()):
        (line,) = [line for line in told.splitlines() if message in line]
        assert line.startswith(f"test_{number}.py::")
    assert re.findall(r"\.py:\d+", told) == []
