"""The rows of another checkout beside this one's: is it faster, is anything slower?

    python -m tests.bench --before PATH [ROW …]

PATH is a clone with its own `.venv`, such as the commit before a change. Each
checkout gets one process that stays warm. The rows are measured in turn, one
round there and one here; the ratio is taken round by round, and its median and
spread are shown. Rows that only compute are measured in CPU time, because on a
busy machine wall time says more about the others.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lockref.errors import ConfigError
from scenarios.backends import start_backend
from tests.bench.figures import Spread

HERE = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).resolve().with_name("worker.py")
TOLERANCE = 0.97


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """name: as the worker knows it. is_rate: more is better; a duration or a count otherwise. aim: of the ratio."""

    name: str
    says: str
    unit: str
    is_rate: bool = True
    needs_server: bool = False
    rounds: int = 9
    aim: float = TOLERANCE

    def ratio(self, before: Spread, after: Spread) -> Spread:
        """After against before; above 1 is better, whatever is measured."""
        return after.over(before) if self.is_rate else before.over(after)


ROWS = (
    Row(name="events", says="events of virtual time, recording on", unit="/CPU s"),
    Row(name="short hardened", says="short seeds, hardened", unit="/CPU s", aim=1.25),
    Row(name="short hudi", says="short seeds, hudi", unit="/CPU s"),
    Row(name="swarm hardened", says="swarm seeds, hardened", unit="/CPU s", aim=1.2),
    Row(name="judging", says="short seeds judged", unit="/CPU s"),
    Row(name="lock cycle", says="lock and unlock, ministack", unit="ms", is_rate=False, needs_server=True),
    Row(name="requests", says="requests per grant, 16 contenders", unit="", is_rate=False, needs_server=True, rounds=3),
    Row(name="handoff", says="median hand-off, 16 contenders", unit="ms", is_rate=False, needs_server=True, rounds=3),
)


class Checkout:
    """One checkout's process."""

    def __init__(self, path: Path) -> None:
        python = path / ".venv/bin/python"
        if not python.exists():
            raise ConfigError(f"{path} has no .venv/bin/python: give the path of a clone in which `make setup` ran")
        self._process = subprocess.Popen(
            [python, WORKER], cwd=path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def measure(self, row: Row, uri: str) -> float:
        """One measurement. Raises ConfigError if the process dies of it; its own words are on standard error."""
        asking, answering = self._process.stdin, self._process.stdout
        assert asking is not None, "a pipe was asked for"
        assert answering is not None, "a pipe was asked for"
        asking.write(json.dumps({"row": row.name, "uri": uri}) + "\n")
        asking.flush()
        answer = answering.readline()
        if not answer:
            raise ConfigError(f"{self._process.args!r} died while it measured {row.name!r}")
        return float(json.loads(answer))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def compare(before: Path, names: list[str]) -> list[dict[str, object]]:
    """Measure the rows named, or all; print each and answer them as data. Raises ConfigError."""
    chosen = [row for row in ROWS if not names or row.name in names]
    told: list[dict[str, object]] = []
    with ExitStack() as stack:
        uri = ""
        if any(row.needs_server for row in chosen):
            uri = stack.enter_context(start_backend("ministack")).uri
        old, new = Checkout(before), Checkout(HERE)
        stack.callback(old.close)
        stack.callback(new.close)
        for row in chosen:
            # The first round warms up and does not count.
            pairs = [(old.measure(row, uri), new.measure(row, uri)) for _ in range(row.rounds + 1)][1:]
            was, is_now = (Spread(tuple(values)) for values in zip(*pairs, strict=True))
            ratio = row.ratio(was, is_now)
            mark = "✓" if ratio.median >= row.aim else "✗"
            print(
                f"{mark} {row.says:<38} {ratio} × before   aim >= {row.aim:g}   "
                f"before {was}, after {is_now} {row.unit}",
                flush=True,
            )
            told.append(
                {
                    "name": row.says,
                    "ratio": ratio.median,
                    "ratios": ratio.values,
                    "aim": row.aim,
                    "unit": row.unit,
                    "before": was.values,
                    "after": is_now.values,
                }
            )
    return told
