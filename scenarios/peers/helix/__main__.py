"""Run Apache Helix 1.4.3 as released beside ours, on a real ZooKeeper.

    python -m scenarios.peers.helix [EXPERIMENT ... | all]

Helix comes with Maven on first use, and needs a JDK of Java 17 or newer. Exit code 0: seen as docs/helix.md tells;
1: something else was seen; 2: Helix or the server cannot be had.
"""

from __future__ import annotations

import argparse
import sys
import time

from lockref.errors import BackendUnavailable
from lockref.temporary_folders import owned_folder
from scenarios.backends.zookeeper import started_zookeeper
from scenarios.peers.helix.experiments import TOGETHER, Experiment
from scenarios.peers.helix.hazards import HAZARDS
from scenarios.peers.helix.lock_mistakes import LOCK_MISTAKES
from scenarios.peers.helix.one_znode import ONE_ZNODE
from scenarios.peers.helix.plain import PLAIN
from scenarios.peers.helix.size import SIZE

ALL = {**TOGETHER, **HAZARDS, **PLAIN, **SIZE, **ONE_ZNODE, **LOCK_MISTAKES}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.peers.helix", description=__doc__)
    # The empty list: argparse asks whether it is among the choices, too, where no name is given.
    parser.add_argument("experiment", nargs="*", choices=[*ALL, "all", []], help="none: list them")
    chosen = parser.parse_args()
    if not chosen.experiment:
        for name in ALL:
            print(name)
        return 0
    names = [*ALL] if "all" in chosen.experiment else chosen.experiment
    unseen = []
    with owned_folder("fleet") as folder:
        try:
            with started_zookeeper() as server:
                run = Experiment(hosts=server.hosts, log_folder=folder, say=lambda line: print(f"  {line}", flush=True))
                for name in names:
                    print(f"{name}:", flush=True)
                    began_s = time.monotonic()
                    is_seen = ALL[name](run)
                    print(f"  {'seen' if is_seen else 'NOT SEEN'}, {time.monotonic() - began_s:.0f} s", flush=True)
                    unseen += [] if is_seen else [name]
        except BackendUnavailable as error:
            print(error, file=sys.stderr)
            return 2
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
