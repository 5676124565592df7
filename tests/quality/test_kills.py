"""A bench that is killed has lost nothing; the long version is `python -m tests.quality.kills --times 100`."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.quality.kills import kill_once

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 is POSIX"),
    # The rounds wait for a bench that starts interpreters.
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize(
    ("processes", "phase", "is_group"),
    [
        (1, "middle", False),
        pytest.param(2, "middle", False, marks=pytest.mark.long),
        pytest.param(2, "middle", True, marks=pytest.mark.long),
        (1, "start", False),
    ],
    ids=["one process", "two, the command alone", "two, all at once", "while it starts"],
)
def test_kill_9_loses_nothing(tmp_path: Path, processes: int, phase: str, is_group: bool) -> None:
    """`check` judges what was recorded; no grant that is older than a second is missing, and nobody lives on."""
    kill = kill_once(tmp_path, processes=processes, phase=phase, after_s=0.7, is_group=is_group)
    assert kill.problems == ()
    assert kill.missing == 0
    assert kill.grants > 0 or phase == "start"
