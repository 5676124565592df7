"""Run all benchmarks, or those named: `python -m tests.bench simulator checks …` (see `PARTS`).

`python -m tests.bench campaign --seeds 2000`, `python -m tests.bench instructions`: parts that are run by name alone.

`python -m tests.bench --before PATH` measures another checkout beside this one, see `compare`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from tests.bench.compare import ROWS, compare
from tests.bench.figures import Figure

PARTS = (
    "simulator",
    "checks",
    "lockcycle",
    "clients",
    "frontier",
    "pipeline",
    "startup",
    "planning",
    "rebalancing",
    "wire",
    "watching",
    "probing",
)
ON_DEMAND = ("campaign", "contention", "instructions")
"""Parts that take a quarter of an hour and more."""

RESULTS = Path(".lockref/bench.json")
COMPARED = Path(".lockref/bench-before.json")


def _machine() -> str:
    """Which machine this is; printed with its load, which no figure is free of."""
    machine = f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}")
    return machine


def _compare(before: Path, names: list[str]) -> int:
    unknown = sorted(set(names) - {row.name for row in ROWS})
    if unknown:
        print(f"no row {', '.join(unknown)}; there are {', '.join(row.name for row in ROWS)}", file=sys.stderr)
        return 2
    machine = _machine()
    rows = compare(before, names)
    COMPARED.parent.mkdir(exist_ok=True)
    COMPARED.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


def main(arguments: list[str]) -> int:
    """Measure, print a line for each figure, keep all in `.lockref/bench.json`."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="PART", help=f"of {', '.join((*PARTS, *ON_DEMAND))}")
    parser.add_argument("--seeds", type=int, metavar="N", help="of the part campaign")
    parser.add_argument(
        "--before", type=Path, metavar="PATH", help="compare with the checkout there; PART is a row then"
    )
    asked = parser.parse_args(arguments)
    names: list[str] = asked.names
    if asked.seeds is not None and ("campaign" not in names or asked.seeds < 1):
        parser.error("--seeds N belongs to the part campaign, and is at least 1")
    if asked.before is not None:
        return _compare(asked.before, names)
    options = {} if asked.seeds is None else {"seeds": asked.seeds}
    unknown = sorted(set(names) - {*PARTS, *ON_DEMAND})
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join((*PARTS, *ON_DEMAND))}", file=sys.stderr)
        return 2
    machine = _machine()
    figures: dict[str, list[Figure]] = {}
    for name in names or PARTS:
        print(f"\n{name}")
        figures[name] = []
        # A part that takes minutes yields each figure as soon as it is known, so one that is cut off has told some.
        measure = importlib.import_module(f"tests.bench.{name}").measure
        for figure in measure(**(options if name == "campaign" else {})):
            figures[name].append(figure)
            print(figure.line(), flush=True)
    everything = [figure for part in figures.values() for figure in part]
    missed = [figure for figure in everything if figure.is_met is False]
    print(f"\n{len(everything)} figures, {len(missed)} aims missed" + "".join(f"\n  {f.name}" for f in missed))
    RESULTS.parent.mkdir(exist_ok=True)
    document = {
        "machine": machine,
        "figures": {name: [asdict(figure) for figure in part] for name, part in figures.items()},
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
