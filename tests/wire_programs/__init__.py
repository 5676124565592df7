"""Programs that the tests put on the wire. They know nothing of lockref."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parent
EXAMPLES = FOLDER.parents[1] / "docs" / "examples"
LEASER = (sys.executable, str(EXAMPLES / "leaser.py"))
PAUSED = str(EXAMPLES / "paused-program.yaml")
LEASE_DECODER = "json:owner=$.id,until_s=$.until"
