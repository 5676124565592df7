"""One scenario under one lock, as a test asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.errors import ConfigError
from lockref.foreign_modules import module_from_file
from lockref.storage.hudi.lock_manager import HudiLock
from lockref.testing import check_lock
from lockref.testing.checking import reference_of
from tests.docs import ROOT

NOTHING_HAPPENS = """\
version: 1
name: quiet
clients: 2
must_happen: [takeover_after_expiry]
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the failures that a test stores."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_lock_that_holds_is_told_with_its_runs() -> None:
    """A pass says how much was run; it stores nothing."""
    result = check_lock("hardened", "e01", range(1, 4))
    assert (result.is_held, result.outcome, result.runs, result.failures) == (True, "held", 3, ())
    assert "0 violations in 3 runs" in result.reason
    assert not Path(".lockref").exists()


def test_a_broken_lock_is_told_by_cause_witness_and_replay(capsys: pytest.CaptureFixture[str]) -> None:
    """E8: the first line is the cause, the text holds the line that shows it again, and that line does."""
    result = check_lock("hudi", "e08", range(1, 4))
    assert (result.is_held, result.outcome) == (False, "violated")
    first = result.failures[0]
    assert result.text.startswith("S")
    assert f"lockref replay {first}" in result.text
    assert len(result.failures) > 1
    assert all(result.text.count(f"lockref replay {each}") == 1 for each in result.failures)
    assert run(["replay", first]) == 1
    assert "FAILED, same trace" in capsys.readouterr().out


def test_a_scenario_that_never_came_about_is_no_pass(own_folder: Path) -> None:
    """What is demanded and never happened leaves the verdict open, and is named."""
    (own_folder / "quiet.yaml").write_text(NOTHING_HAPPENS)
    result = check_lock("hardened", "quiet.yaml", range(1, 3))
    assert (result.is_held, result.outcome) == (False, "inconclusive")
    assert "never happened: takeover_after_expiry" in result.text
    assert "only 2 seeds ran: more of them may bring it about" in result.text


def test_a_scenario_about_other_locks_is_not_run() -> None:
    """Another lock contends beside this one there, and only locks of one format share an object."""
    result = check_lock(f"{ROOT}/docs/examples/lease_lock.py:LeaseLock", "p01", [1])
    assert (result.outcome, result.is_held, result.runs) == ("not_applicable", False, 0)
    assert "declares no record_format" in result.reason


def test_clauses_that_no_lock_keeps_are_not_demanded(capsys: pytest.CaptureFixture[str]) -> None:
    """B4: a clock beyond the promise breaks S3 under every lock of this kind. As at a gate, no test asks for it."""
    assert run(["sim", "b04", "--provider", "hardened", "--seeds", "1..2", "--shrink-for", "0s"]) == 1
    result = check_lock("hardened", "b04", range(1, 3))
    assert result.is_held
    assert "of the clauses demanded here" in result.reason


def test_a_class_is_named_so_that_a_replay_finds_it() -> None:
    """A class of a package goes by its module; a class at the top of a file by that file."""
    assert reference_of(HudiLock) == "lockref.storage.hudi.lock_manager:HudiLock"
    result = check_lock(HudiLock, "e01", [1])
    assert result.provider == "lockref.storage.hudi.lock_manager:HudiLock"


def test_a_failure_of_a_class_is_replayed_from_its_file(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The stored failure names the file by its path from here, so the replay loads it again."""
    path = own_folder / "variants.py"
    path.write_text((ROOT / "docs" / "examples" / "variants.py").read_text())
    result = check_lock(module_from_file(path).Boastful, "e06", range(1, 6))
    assert (result.outcome, result.provider) == ("violated", "variants.py:Boastful")
    assert result.text.splitlines()[-1] == f"  replay    lockref replay {result.failures[0]}"
    assert run(["replay", result.failures[0]]) == 1
    assert "FAILED, same trace" in capsys.readouterr().out


def test_a_class_that_no_replay_could_find_is_refused() -> None:
    class Hidden(HudiLock):
        """Not at the top of a file."""

    with pytest.raises(ConfigError, match="Hidden is not at the top of a file"):
        check_lock(Hidden, "e01", [1])


@pytest.mark.parametrize("seeds", [[], [-1], [2**63], [True], ["1"]])
def test_seeds_that_are_none_are_refused(seeds: list[int]) -> None:
    with pytest.raises(ConfigError, match="seed"):
        check_lock("hardened", "e01", seeds)


def test_the_seed_that_a_scenario_pins_is_run(own_folder: Path) -> None:
    """`seed: 7` means this one run, unless the test names others."""
    (own_folder / "pinned.yaml").write_text("version: 1\nname: pinned\nclients: 1\nseed: 7\n")
    assert check_lock("hardened", "pinned.yaml").runs == 1
    assert check_lock("hardened", "pinned.yaml", range(1, 4)).runs == 3


def test_a_lock_that_raises_what_is_no_lock_error_is_told(own_folder: Path) -> None:
    source = (ROOT / "docs" / "examples" / "lease_lock.py").read_text()
    acquire = "def _acquire(self, timeout_ns: int) -> bool:\n"
    assert acquire in source
    (own_folder / "raising.py").write_text(source.replace(acquire, f"{acquire}        raise ValueError('mine')\n"))
    with pytest.raises(ConfigError, match="mine"):
        check_lock("raising.py:LeaseLock", "e01", [1])


def test_ctrl_c_ends_the_test_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign keeps what was finished after Ctrl-C; a test must not read that as a verdict."""

    def interrupted(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scenarios.campaigns.chunks.run_seeds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_lock("hardened", "e01", [1])
