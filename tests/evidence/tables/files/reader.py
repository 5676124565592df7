"""Read the table in a fresh session and write its rows, one JSON object a line.

python reader.py PLAN OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from settings import open_session, read_plan  # type: ignore[import-not-found]  # beside this script


def main() -> int:
    plan = read_plan()
    session = open_session(plan, "reader")
    rows = session.read.format("hudi").option("hoodie.metadata.enable", "false").load(plan["table"])
    chosen = rows.selectExpr("id", "writer", "n", "ts", "batch", "_hoodie_commit_time as instant").collect()
    out = Path(sys.argv[2])
    out.write_text("".join(json.dumps(row.asDict()) + "\n" for row in chosen), encoding="utf-8")
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
