"""Record anew what the originals ask and hear, into tests/data/delta_traces.

    python -m tests.evidence.delta.record [ORIGINAL ...]

Without a name: all of them. Exit code 2: an original or the server cannot be had.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from lockref.errors import BackendUnavailable
from tests.evidence.delta.lake import started_lake
from tests.evidence.delta.recorder import RECORDED, record_all, traces_file
from tests.evidence.delta.traces import to_lines


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.delta.record", description=__doc__)
    # The empty list: argparse asks whether it is among the choices, too, where no name is given.
    parser.add_argument("original", nargs="*", choices=[*RECORDED, []])
    names = parser.parse_args().original or [*RECORDED]
    try:
        with started_lake() as lake:
            for name in names:
                situations, record = RECORDED[name]
                traces = record_all(situations, partial(record, lake))
                traces_file(name).write_text(to_lines(traces), encoding="utf-8")
                requests = sum(len(call["requests"]) for trace in traces for call in trace["calls"])
                print(f"{name}: {len(traces)} situations, {requests} requests", flush=True)
    except BackendUnavailable as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
