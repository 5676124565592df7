"""How fast a lock was on a real server, in one line for the terminal and the head of the page.

Waits of calls that were not granted have no place among the quantiles of those
that were, so their number is told beside them. Virtual time gets no such line:
its latencies are the scenario's.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.checks.judgement import Measures
from reports.formats.text import duration

_NS_PER_S = 1_000_000_000


def speed(measures: Measures, events: pa.Table) -> str:
    """Grants per second, waits, hand-offs and requests per grant of `events`; empty where nothing was granted."""
    asked = measures.calls.filter(pc.equal(measures.calls["op"], "acquire"))
    answered = asked.filter(pc.is_valid(asked["wait_ns"]))
    granted = answered.filter(pc.equal(answered["outcome"], "applied"))
    if not len(granted):
        return ""
    begin_ns = pc.min(asked["call_ns"]).as_py()
    end_ns = pc.max(pc.add(granted["call_ns"], granted["wait_ns"])).as_py()
    rate = len(granted) * _NS_PER_S / max(end_ns - begin_ns, 1)
    requests = pc.sum(pc.equal(events["kind"], "sent")).as_py() or 0
    released = measures.handoffs.filter(pc.equal(measures.handoffs["after"], "release"))
    told = [f"{_rounded(rate)} grants/s", f"wait {_quantiles(granted['wait_ns'])}"]
    if len(released):
        told.append(f"hand-off after release {_quantiles(released['handoff_ns'])}")
    told.append(f"{_rounded(requests / len(granted))} requests per grant")
    if len(asked) > len(granted):
        told.append(f"{len(asked) - len(granted):,} of {len(asked):,} calls not granted")
    return "; ".join(told)


def _quantiles(samples: pa.ChunkedArray) -> str:
    ordered = np.sort(samples.to_numpy())
    # Nearest rank: a value that occurred, as in the quantiles of the pipeline.
    at = {share: int(ordered[max(math.ceil(share * len(ordered)), 1) - 1]) for share in (0.5, 0.99)}
    return f"median {duration(at[0.5])}, 99 % {duration(at[0.99])}"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
