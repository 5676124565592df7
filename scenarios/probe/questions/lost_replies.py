"""C18 and C19: what a client meets after the network failed it.

The reply of a landed write is lost on its way, by the fault proxy that the laboratory uses elsewhere. Through TLS a
proxy cannot see where a reply begins; there the client hangs up unread, which is the same to the store.
"""

from __future__ import annotations

from lockref.clouds.calls import ANYTHING, PUT, READ, Call
from scenarios.probe.exchange import WireStore
from scenarios.probe.findings import Finding
from scenarios.probe.session import (
    NotSupported,
    Session,
    Unanswered,
    may_have_landed,
    odd_refusal,
    refused,
    wrong_after,
)

NO_WIRE = "there is no wire on which a reply could be lost"


def lost_reply(session: Session, finding: Finding) -> None:
    """C18: a create and a replacement land, their replies are lost; the plain repetition is refused."""
    if not session.store.is_wire:
        finding.has_no(NO_WIRE)
        return
    refusals = session.store.dialect.statuses
    key = session.key("lost-reply")
    call = Call(verb=PUT, key=key, body=session.body("lost create"), none_match=ANYTHING)
    finding.part = "create"
    _repeated(session, finding, call, words="the repetition of a create that landed", expected=refusals.exists)
    if finding.unsafe:
        return
    finding.part = "replace"
    version = session.version(key)
    call = Call(verb=PUT, key=key, body=session.body("lost replacement"), match=version)
    _repeated(session, finding, call, words="the repetition of a replacement that landed", expected=refusals.stale)


def _repeated(session: Session, finding: Finding, call: Call, *, words: str, expected: int) -> None:
    """Lose the reply of a write, look that it landed, and send it again as it was."""
    session.check_time()
    assert isinstance(session.store, WireStore), "a reply is lost on a wire"
    if session.store.is_encrypted:
        is_struck = session.store.send_and_hang_up(call)
        how = "the client hung up before it read the reply"
    else:
        # They load the simulator's faults, which would delay the first request of the probe.
        from scenarios.injection.faultproxy import FaultProxy
        from sim.faults.answers import Error

        with FaultProxy(session.store.address) as proxy:
            proxy.next(Error(id="lost reply", status="reset", cut="c2"))
            way = session.store.by(("127.0.0.1", proxy.port))
            answer = way.send(call)
            way.close()
            is_struck = bool(proxy.struck) and answer.status is None
        how = "the fault proxy reset the connection in the place of the reply"
        finding.saw(call, answer, note=how)
    session.requests += 1
    finding.facts["how"] = how
    if not is_struck:
        raise Unanswered(f"{call.verb} of {call.key}: no reply could be lost")
    landed = session.read(call.key)
    if landed.body != call.body:
        finding.saw(Call(verb=READ, key=call.key), landed, note="after the lost reply")
        if session.lacks(call):
            raise NotSupported(f"{words}: such a write is refused as unknown")
        raise Unanswered(f"{call.verb} of {call.key}: it did not land, so there was nothing to lose")
    refused(session, finding, call, words=words, expected=expected, body=call.body)


def late_duplicate(session: Session, finding: Finding) -> None:
    """C19: a duplicate of a replacement arrives when another writer has moved on."""
    if not session.store.is_wire:
        finding.has_no(NO_WIRE)
        return
    key = session.key("duplicate")
    version = session.make(key, session.body("start"))
    call = Call(verb=PUT, key=key, body=session.body("mine"), match=version)
    held = None if session.serves_one_at_a_time else session.hold(call)
    mine = session.ask(call) if held is None else session.ask_beside(held, call)
    if mine is None:
        raise Unanswered(f"replacement of {key}: it serves one connection at a time")
    try:
        finding.saw(call, mine, note="the write, whose duplicate is still on its way")
        if not mine.is_applied:
            raise Unanswered(f"replacement of {key}: {mine.words}")
        body = session.body("successor")
        session.replace(key, body, mine.version)
    except BaseException:
        if held is not None:
            held.drop()
        raise
    late = session.send(call) if held is None else held.release()
    if held is not None:
        session.counted([call], [late])
    words = "a duplicate that arrived when another writer had moved on"
    finding.saw(call, late, note=words)
    after = session.read(key)
    if wrong := wrong_after(call, late, after, words=words, body=body):
        finding.note(finding.unsafe, wrong)
    elif may_have_landed(late):
        raise Unanswered(f"{words}: {late.words}")
    else:
        finding.kept += 1
        if odd := odd_refusal(late, session.store.dialect.statuses.stale):
            finding.note(finding.deviations, f"{words}: {odd}")
