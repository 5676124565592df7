"""`python -m docs.site FOLDER` builds the site there; a warning of Sphinx ends it with exit code 1."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).parent


def build(folder: Path) -> int:
    """Build all pages anew into an empty `folder`; 0, or 1 where Sphinx warned (the pages are there all the same)."""
    if folder.exists():
        shutil.rmtree(folder)
    with tempfile.TemporaryDirectory(prefix="lockref-site-") as state:
        arguments = ["-q", "-b", "html", "--fail-on-warning", "-c", str(HERE), "-d", state]
        return build_main([*arguments, str(HERE.parent), str(folder)])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m docs.site FOLDER")
    sys.exit(build(Path(sys.argv[1])))
