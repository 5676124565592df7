"""The latency of the requests of a lock on a store, each sent alone: creates, replacements, refusals and reads.

The questions of a probe send few of most kinds, too few for a 99th percentile. So a probe that is asked for latencies
repeats one cycle: create, be refused a create, replace, be refused a replacement, read, delete.
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.calls import ANYTHING, PUT, READ, Call
from lockref.runtime import NS_PER_S
from scenarios.probe.session import Session

CYCLES: Final = 200
"""As many as a 99th percentile needs (`reports.formats.fingerprint.QUANTILES`)."""
BUDGET_NS: Final = 20 * NS_PER_S
REQUESTS: Final = 6


def measure_latencies(session: Session, *, cycles: int, end_ns: int) -> None:
    """Repeat the cycle; the session keeps the durations. It ends early at `end_ns`, on the monotonic clock.

    Errors: those of `Session.make`; a store that does not keep a condition is no error here.
    """
    for _ in range(cycles):
        if session.runtime.monotonic_ns() >= end_ns:
            return
        key = session.key("latency")
        first = session.make(key, session.body("latency"))
        session.patiently(Call(verb=PUT, key=key, body=session.body("latency"), none_match=ANYTHING))
        session.patiently(Call(verb=PUT, key=key, body=session.body("latency"), match=first))
        session.patiently(Call(verb=PUT, key=key, body=session.body("latency"), match=first))
        session.patiently(Call(verb=READ, key=key))
        session.clear(key)
