"""docs/testing-your-application.md is a project: its blocks are files, and pytest ends as it tells."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs import ROOT
from tests.docs.sessions import parts

PARTS = parts(ROOT / "docs" / "testing-your-application.md")
FILES = [(part.name, part.text) for part in PARTS if part.name]


def test_the_page_is_a_project_whose_tests_pass(tmp_path: Path) -> None:
    """Each block with a name is that file; a lock and a scenario of the reader's own stand beside them."""
    assert FILES
    assert len(FILES) == len(PARTS), "every block is a file"
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    example = (ROOT / "docs" / "examples" / "lease_lock.py").read_text(encoding="utf-8")
    (tmp_path / "my_lock.py").write_text(example.replace("class LeaseLock", "class MyLock"))
    (tmp_path / "pause.yaml").write_text((tmp_path / "pause.lock.yaml").read_text())
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.findall(r"^PASSED (\S+)", done.stdout, re.MULTILINE)
    assert {one.partition("::")[0] for one in passed} == {name for name, _ in FILES if name != "pytest.ini"}
    assert [one for one in passed if one.startswith("test_lock.py")] == [
        f"test_lock.py::TestMyLock::test_scenario[{name}]"
        for name in ("e01-empty-store", "e03-killed-holder", "e08-paused-holder", "pause")
    ]
