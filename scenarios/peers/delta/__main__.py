"""Repeat experiments on originals and a server, which are installed on first use.

    python -m scenarios.peers.delta [EXPERIMENT ... | all] [--lease SECONDS] [--writers N] [--appends N]

Exit code 0: seen as docs/delta-originals.md tells; 1: something else was seen; 2: an original or the server cannot be
had.
"""

from __future__ import annotations

import argparse
import sys
import time

from lockref.errors import BackendUnavailable
from scenarios.peers.delta.comparison import COMPARISON
from scenarios.peers.delta.danger import DANGERS
from scenarios.peers.delta.findings import FINDINGS, Experiment
from scenarios.peers.delta.lake import started_lake
from scenarios.peers.delta.log_store import LOG_STORES
from scenarios.peers.delta.today import TODAY
from scenarios.peers.delta.turns import TURNS

ALL = {**FINDINGS, **TURNS, **DANGERS, **LOG_STORES, **TODAY, **COMPARISON}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.peers.delta", description=__doc__)
    # The empty list: argparse asks whether it is among the choices, too, where no name is given.
    parser.add_argument("experiment", nargs="*", choices=[*ALL, "all", []], help="none: list them")
    parser.add_argument("--lease", type=int, default=5, metavar="SECONDS", help="of the writers (default 5)")
    parser.add_argument("--writers", type=int, default=4, metavar="N", help="processes at once (default 4)")
    parser.add_argument("--appends", type=int, default=5, metavar="N", help="of each process (default 5)")
    chosen = parser.parse_args()
    if not chosen.experiment:
        for name in ALL:
            print(name)
        return 0
    names = [*ALL] if "all" in chosen.experiment else chosen.experiment
    unseen = []
    try:
        with started_lake() as lake:
            for name in names:
                print(f"{name}:", flush=True)
                began_s = time.monotonic()
                run = Experiment(
                    lake=lake, lease_s=chosen.lease, writers=chosen.writers, appends=chosen.appends,
                    say=lambda line: print(f"  {line}", flush=True),
                )  # fmt: skip
                is_seen = ALL[name](run)
                print(f"  {'seen' if is_seen else 'NOT SEEN'}, {time.monotonic() - began_s:.0f} s", flush=True)
                unseen += [] if is_seen else [name]
    except BackendUnavailable as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
