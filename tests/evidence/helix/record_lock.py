"""Record what helix-lock 1.4.3 does in every script of `lock_scripts`, on a real ZooKeeper.

    python -m tests.evidence.helix.record_lock [FILE]

Without a file it writes tests/data/helix_lock_traces.json.gz, which our build is compared with. It takes about five
minutes. A step may come late on a machine that does much else, so every script is played until two plays in a row
agree.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any, Final

from lockref.errors import BackendUnavailable, ConfigError
from lockref.temporary_folders import owned_folder
from scenarios.backends.zookeeper import started_zookeeper
from tests.evidence.experiments import ROOT
from tests.evidence.helix.lock_class import LockClass
from tests.evidence.helix.lock_scripts import NAMED, READING, Script, Trace, comparable, random_scripts

SCRIPTS: Final = (*NAMED, *READING, *random_scripts(80, seed=1))
SCOPES: Final = (
    ("CLUSTER", ("c1", "c1")), ("CLUSTER", ("c1", "other")), ("PARTICIPANT", ("c1", "inst_1")),
    ("RESOURCE", ("c1", "res_1")), ("RESOURCE", ("c1",)), ("RESOURCE", ("c1", "{res}")),
    ("RESOURCE", ("{resourceName}", "res_1")),
)  # fmt: skip
PLAYS_MAX: Final = 5


def play(original: LockClass, scripts: list[Script]) -> list[Trace]:
    """What came of each script, once."""
    return [comparable(told["trace"], told["since_ms"]) for told in original.played(scripts)]


def record(original: LockClass) -> dict[str, Any]:
    """`paths` of scopes, and `scripts` with the trace of each. Raises BackendUnavailable if plays do not agree."""
    paths = [[scope, names, original.path(scope, names)] for scope, names in SCOPES]
    traces, doubtful = play(original, list(SCRIPTS)), list(range(len(SCRIPTS)))
    for _ in range(PLAYS_MAX - 1):
        again = play(original, [SCRIPTS[place] for place in doubtful])
        differing = [place for place, trace in zip(doubtful, again, strict=True) if trace != traces[place]]
        for place, trace in zip(doubtful, again, strict=True):
            traces[place] = trace
        doubtful = differing
        if not doubtful:
            return {
                "original": "helix-lock 1.4.3",
                "paths": paths,
                "scripts": [{**script, "trace": trace} for script, trace in zip(SCRIPTS, traces, strict=True)],
            }
    names = ", ".join(SCRIPTS[place]["name"] for place in doubtful)
    raise BackendUnavailable(f"no two plays in a row agree on {names}: is this machine so busy?")


def to_bytes(found: dict[str, Any]) -> bytes:
    """The same bytes for the same recording."""
    return gzip.compress(json.dumps(found, indent=0, ensure_ascii=False).encode(), mtime=0)


def main() -> int:
    """The command."""
    try:
        target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/data/helix_lock_traces.json.gz"
        with (
            owned_folder("helix-lock") as folder,
            started_zookeeper() as server,
            LockClass(server.hosts, folder) as original,
        ):
            found = record(original)
    except (BackendUnavailable, ConfigError) as error:
        print(error, file=sys.stderr)
        return 2
    target.write_bytes(to_bytes(found))
    print(f"{target}: {len(found['scripts'])} scripts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
