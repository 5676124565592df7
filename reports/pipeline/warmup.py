"""Everything once, over next to nothing: so that the first history that matters finds the road open.

A new JVM loads classes, interprets them and compiles them later; Python
workers are forked from a parent that first imports what they need. On a small
history this is most of the first pass. Whoever has other work to do meanwhile
lets a pass over an invented history take it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from lockref.history import IF_ABSENT, Kind, Op, Recorder, runs_table, to_table
from lockref.stores.port import Outcome
from reports.pipeline.analysis import analyse_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCK = "lock"
_STEP_NS = 1_000_000


def warm_up(spark: SparkSession, folder: Path | str) -> None:
    """Send an invented history through the whole pipeline; it stays with its tables in `folder`.

    Two clients hold the lock at once in it, because a violation is part of the road.
    """
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    recorder = Recorder()
    for place, node in enumerate(("n1", "n2")):
        _hold(recorder, node, at_ns=place * _STEP_NS, request=10 * place)
    row = {"run": 0, "scenario": "warm-up", "provider": "", "world": "simulated", "clients": 2}
    pq.write_table(to_table([recorder]), out / "events.parquet")
    pq.write_table(runs_table([row]), out / "runs.parquet")
    analyse_each([out, out], out / "analysis", spark)


def _hold(recorder: Recorder, node: str, *, at_ns: int, request: int) -> None:
    """Acquire, believe, write, believe still, release: overlapping whoever does it a step later."""

    def say(kind: Kind, step: int, **fields: object) -> None:
        now_ns = at_ns + step * _STEP_NS
        recorder.event(kind, now_ns, now_ns, now_ns, node, "main", _LOCK, **fields)  # type: ignore[arg-type]

    written = {"request": request + 1, "owner": node, "token": request, "valid_until_ns": at_ns + 3 * _STEP_NS}
    say(Kind.CALL, 0, op=Op.ACQUIRE, request=request)
    say(Kind.SENT, 1, op=Op.ACQUIRE, if_version=IF_ABSENT, **written)
    say(Kind.REPLIED, 2, op=Op.ACQUIRE, outcome=Outcome.APPLIED, if_version=IF_ABSENT, version=node, **written)
    say(Kind.RETURN, 3, op=Op.ACQUIRE, outcome=Outcome.APPLIED, request=request, owner=node, version=node)
    say(Kind.BELIEVED, 3, op=Op.ACQUIRE, request=request, owner=node)
    say(Kind.EFFECT, 4, op=Op.WRITE, outcome=Outcome.APPLIED, request=request, if_version="0", version="1")
    say(Kind.BELIEVED, 9, op=Op.GUARD, request=request, owner=node)
    say(Kind.CALL, 10, op=Op.RELEASE, request=request + 2)
    say(Kind.RETURN, 11, op=Op.RELEASE, outcome=Outcome.APPLIED, request=request + 2)
