"""C22 and C24: how often one object may be written, and what the store's clock says."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

from lockref.clouds.calls import PUT, READ, Call
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.words import Outcome
from scenarios.probe.findings import Finding
from scenarios.probe.session import Session

RATES_PER_S: Final = (5, 2, 1)
WRITES: Final = 3
"""At each rate."""
OFFSET_MAX_NS: Final = 2 * NS_PER_S
"""HTTP's dates have whole seconds; the rest is the way there and back."""


def write_rate(session: Session, finding: Finding, end_ns: int) -> None:
    """C22: writes of one object at a steady pace. How many were throttled, and did a throttled one land?"""
    writes = min(WRITES, session.rounds_max)
    for rate in RATES_PER_S:
        period_ns = NS_PER_S // rate
        if session.left_ns(end_ns) < (writes - 1) * period_ns:
            finding.facts[f"per_second_{rate}"] = "no time was left"
            continue
        key = session.key(f"pace-{rate}")
        version = session.make(key, session.body("start"))
        throttled = carried_out = 0
        begin_ns = session.runtime.monotonic_ns()
        for number in range(writes):
            session.runtime.sleep(max(0, begin_ns + number * period_ns - session.runtime.monotonic_ns()))
            call = Call(verb=PUT, key=key, body=session.body("pace"), match=version)
            answer = session.send(call)
            if answer.is_applied:
                carried_out += 1
                version = answer.version
                continue
            finding.saw(call, answer, note=f"{rate} writes a second")
            if answer.outcome is Outcome.THROTTLED:
                throttled += 1
                if session.read(key).body == call.body:
                    finding.note(finding.deviations, f"a write that was throttled ({answer.words}) landed")
            now = session.read(key)
            version = now.version or version
        finding.facts[f"per_second_{rate}"] = f"{throttled} of {writes} throttled"
        if carried_out or throttled:
            finding.kept += 1
        else:
            # Failures and refusals of another kind say nothing of a pace.
            finding.note(finding.unanswered, f"no write at {rate} a second was carried out or throttled")
        if throttled:
            finding.note(finding.deviations, f"throttled {throttled} of {writes} writes at {rate} a second")
    if not finding.kept and not finding.unanswered:
        finding.note(finding.unanswered, "no time was left for a steady pace")


def clock(session: Session, finding: Finding) -> None:
    """C24: the Date of an answer, beside this machine's clock before and after."""
    call = Call(verb=READ, key=session.key("clock"))
    before_ns = session.runtime.wall_ns()
    answer = session.ask(call)
    after_ns = session.runtime.wall_ns()
    try:
        stamp = parsedate_to_datetime(answer.date).timestamp() if answer.date else None
    except ValueError:
        stamp = None
    if stamp is None:
        finding.has_no("answers carry no date" if session.store.is_wire else "it has no clock of its own")
        return
    finding.saw(call, answer, note=f"Date: {answer.date}")
    # The stamp is cut to whole seconds: the clock was somewhere in the second that follows.
    earliest_ns, latest_ns = int(stamp * NS_PER_S), int((stamp + 1) * NS_PER_S)
    offset_ns = min(0, latest_ns - before_ns) + max(0, earliest_ns - after_ns)
    finding.facts["offset_ms"] = offset_ns // NS_PER_MS
    if abs(offset_ns) > OFFSET_MAX_NS:
        finding.note(finding.deviations, f"its clock is {offset_ns / NS_PER_S:+.0f} s off this machine's")
    finding.kept += 1
