"""C25: a lease of Azure's on an object. One of several acquires it, writes need it, and a former one is nothing."""

from __future__ import annotations

from typing import Final

from lockref.clouds.calls import LEASE, PUT, Answer, Call
from scenarios.probe.findings import Finding
from scenarios.probe.questions.modes import modes_of
from scenarios.probe.session import Session, Unanswered, may_have_landed

RACERS: Final = 8
ROUNDS: Final = 10
_SECONDS: Final = "15"
"""The shortest lease that Azure gives."""


def lease(session: Session, finding: Finding, end_ns: int) -> None:
    """Acquire in a race; write without it and with it; renew it; break it, write, and renew the former one.

    What is refused proves a lease only beside the same request that a holder sends and that is carried out.
    """
    if not modes_of(session, finding.condition.clause):
        finding.has_no("there are no leases on objects")
        return
    for number in range(ROUNDS):
        if number and session.left_ns(end_ns) <= 0:
            break
        _round(session, finding)
    _used(session, finding)


def _call(key: str, action: str, **headers: str) -> Call:
    named = {"x-ms-lease-action": action} | {f"x-ms-{name.replace('_', '-')}": value for name, value in headers.items()}
    return Call(verb=LEASE, key=key, headers=tuple(named.items()))


def _identity(session: Session) -> str:
    digits = session.runtime.token_bytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _broken(session: Session, key: str) -> None:
    """End whatever lease there is: an object under one cannot be removed."""
    session.send(_call(key, "break", lease_break_period="0"))
    session.clear(key)


def _round(session: Session, finding: Finding) -> None:
    key = session.key("lease-race")
    session.make(key, session.body())
    calls = [
        _call(key, "acquire", lease_duration=_SECONDS, proposed_lease_id=_identity(session)) for _ in range(RACERS)
    ]
    answers = session.race(calls)
    winners = [number for number, answer in enumerate(answers) if answer.is_applied]
    _broken(session, key)
    if len(winners) > 1:
        finding.saw(calls[winners[0]], answers[winners[0]], note="one of several winners")
        finding.note(finding.unsafe, f"gave {len(winners)} of {RACERS} clients the lease on one object")
    elif winners and not any(may_have_landed(answer) for answer in answers):
        finding.kept += 1


def _used(session: Session, finding: Finding) -> None:
    key = session.key("lease")
    session.make(key, session.body())
    mine = _identity(session)
    _carried_out(session, finding, _call(key, "acquire", lease_duration=_SECONDS, proposed_lease_id=mine), "acquire")
    # It names no version, so that it can be refused for want of the lease alone.
    bare = _answered(session, finding, Call(verb=PUT, key=key, body=session.body("bare")), "a write without the lease")
    if bare.is_applied:
        finding.note(finding.unsafe, f"accepted a write without the lease ({bare.words})")
    else:
        finding.kept += 1
        if bare.status != 412:
            finding.note(finding.deviations, f"a write without the lease: answered {bare.words}, expected 412")
    with_it = Call(verb=PUT, key=key, body=session.body("holder"), headers=(("x-ms-lease-id", mine),))
    _carried_out(session, finding, with_it, "a write with the lease")
    _carried_out(session, finding, _call(key, "renew", lease_id=mine), "renew")
    _carried_out(session, finding, _call(key, "break", lease_break_period="0"), "break")
    session.make(key, session.body("after"), absent=False)
    renewal = _call(key, "renew", lease_id=mine)
    late = _answered(session, finding, renewal, "renew a lease that ended, after a write")
    if late.is_applied:
        finding.note(finding.unsafe, f"renewed a lease that had ended, after somebody wrote ({late.words})")
    else:
        finding.kept += 1
    _broken(session, key)


def _answered(session: Session, finding: Finding, call: Call, note: str) -> Answer:
    """The answer, which says whether the request was carried out. Errors: Unanswered for one that leaves it open."""
    answer = session.send(call)
    finding.saw(call, answer, note=note)
    if may_have_landed(answer):
        raise Unanswered(f"{note}: {answer.words}")
    return answer


def _carried_out(session: Session, finding: Finding, call: Call, note: str) -> None:
    """A request of the holder. Errors: Unanswered where it is not carried out: then a refusal proves nothing."""
    answer = _answered(session, finding, call, note)
    if not answer.is_applied:
        raise Unanswered(f"{note}, by the holder: {answer.words}")
