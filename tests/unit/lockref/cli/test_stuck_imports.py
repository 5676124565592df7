"""A lock whose file never ends to import: the command ends, and names file and line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockref import StorageLock, foreign_modules
from lockref.errors import ConfigError
from lockref.helix import rebalancers
from lockref.lab.loading import load_provider
from scenarios.worlds.processes import cpu_watch, import_watch

LOOP = "import math\n\nwhile True:\n    math.sqrt(2)\n"
IN_A_REGEX = "import re\n\nre.match('(a+)+$', 'a' * 60 + 'b')\n"
IN_A_FUNCTION = "def forever():\n    while True:\n        pass\n\nforever()\n"
CATCHES = """
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""
IN_C = "import itertools\n\nsum(itertools.repeat(0))\n"
ASLEEP = "import time\n\ntime.sleep(10**9)\n"

COMMAND = """
import sys
from scenarios.worlds.processes import beat, cpu_watch, import_watch
beat.STUCK_CPU_S, beat.LOOK_EVERY_S, beat.ASLEEP_LOOKS = 1.5, 0.1, 8
cpu_watch.TICK_S, import_watch.LOOKS_MAX = 0.1, 3
from lockref.cli.main import main
main()
"""
"""The command line with little patience."""

watched = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are watched where there is fork")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Imports are watched as in a command, and a look comes soon."""
    monkeypatch.setattr(cpu_watch, "TICK_S", 0.03)
    monkeypatch.setattr(import_watch, "LOOKS_MAX", 2)
    monkeypatch.setattr(foreign_modules, "_watch", import_watch.ends_stuck_import)
    before = signal.getsignal(signal.SIGPROF)
    yield
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "lines", "name"),
    [(LOOP, (3, 4), "<module>"), (IN_A_REGEX, (3,), "<module>"), (IN_A_FUNCTION, (2, 3), "forever")],
)
def test_an_import_that_does_not_end_is_an_error_with_its_line(
    tmp_path: Path, impatient: None, text: str, lines: tuple[int, ...], name: str
) -> None:
    """Also where it hangs inside the standard library: the line is the user's."""
    file = tmp_path / "hanging.py"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"the import of hanging\.py has run for 0\.06 s of processor time") as found:
        load_provider(f"{file}:Lock")
    assert any(str(found.value).endswith(f" in {file}:{line} ({name})") for line in lines)


def test_a_module_by_name_and_a_rebalancer_are_watched_too(
    tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hanging_by_name.py").write_text(LOOP)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="the import of hanging_by_name has run"):
        load_provider("hanging_by_name:Lock")
    with pytest.raises(ConfigError, match=r"rebalancer .* the import of hanging_by_name\.py has run"):
        rebalancers.load("hanging_by_name.py:Rule")


def test_an_import_that_ends_leaves_the_watch_around_it_as_it_was(tmp_path: Path, impatient: None) -> None:
    """A simulation's own timer goes on after an import in one of its steps."""
    file = tmp_path / "fine.py"
    # A first import of the lock takes longer than these looks allow, so it comes before.
    file.write_text(f"from {StorageLock.__module__} import StorageLock as Lock\n")

    def mine(_number: int, _frame: object) -> None: ...

    before = signal.signal(signal.SIGPROF, mine)
    signal.setitimer(signal.ITIMER_PROF, 1000, 1000)
    try:
        load_provider(f"{file}:Lock")
        assert signal.getsignal(signal.SIGPROF) is mine
        assert signal.getitimer(signal.ITIMER_PROF)[0] > 900
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@watched
@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (LOOP, 2, "has run for 0.3 s of processor time and more"),
        (CATCHES, 2, "must not catch BaseException"),
        (IN_C, 5, "inside C code"),
        (ASLEEP, 5, "has slept for 1 s inside C code"),
    ],
)
def test_a_command_whose_lock_never_ends_to_import_ends(tmp_path: Path, text: str, code: int, told: str) -> None:
    """With file and line; what no line of Python can interrupt is seen by the process that watches the command."""
    (tmp_path / "hanging.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "sim", "e08", "--seed", "1", "--provider", "hanging.py:Lock"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "the import of hanging.py" in done.stderr
    assert f" in {tmp_path / 'hanging.py'}:" in done.stderr
