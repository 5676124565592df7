"""What runs inside the environment of a `deltalake`: appends rows to a Delta table, as its parent says.

A program of its own: it imports nothing of this project, which is not in that environment. It is told its table and its
storage options in one argument, as JSON. Then each line of its input is `{"append": [LABEL, ...]}`; for each label it
commits one file, in the partition `label=LABEL`, and answers with one line:

    {"label": ..., "acknowledged": true, "seconds": ...}
    {"label": ..., "error": CLASS, "reason": TEXT}

The partition puts the label into the log, so that whoever judges need not read Parquet.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import time
from typing import Any

import deltalake

_PR_SET_PDEATHSIG = 1


def _rows(label: str) -> Any:
    """One row. Old releases want pyarrow; the current one brings a smaller Arrow."""
    try:
        import pyarrow
    except ImportError:
        import arro3.core as arrow

        return arrow.Table.from_pydict(
            {name: arrow.Array([label], arrow.DataType.string()) for name in ("label", "value")}
        )
    return pyarrow.table({"label": [label], "value": [label]})


def _append(table: str, label: str, options: dict[str, str]) -> dict[str, object]:
    began_s = time.monotonic()
    try:
        deltalake.write_deltalake(table, _rows(label), mode="append", partition_by=["label"], storage_options=options)
    except (deltalake.exceptions.DeltaError, OSError, ValueError) as error:
        return {"label": label, "error": type(error).__name__, "reason": str(error)}
    return {"label": label, "acknowledged": True, "seconds": round(time.monotonic() - began_s, 4)}


def _say(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)


def main() -> None:
    """Write as the input says, until the input ends."""
    if sys.platform == "linux":
        # A commit that waits for a lock does not notice that its parent has gone.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    told = json.loads(sys.argv[1])
    _say({"ready": deltalake.__version__})
    for line in sys.stdin:
        for label in json.loads(line)["append"]:
            _say(_append(told["table"], label, told["options"]))


if __name__ == "__main__":
    main()
