"""One request after the other: each condition met and not met, with versions that are right, stale, gone and repeated.

A store that ignores a condition here needs no race to be found out.
"""

from __future__ import annotations

from lockref.clouds.calls import ANYTHING, DELETE, PUT, Answer, Call, Inexpressible
from lockref.words import Outcome
from scenarios.probe.findings import Finding
from scenarios.probe.session import Session, Unanswered, refused, wrong_after


def create(session: Session, finding: Finding) -> None:
    """C1: a create on an absent key succeeds; on a present one it fails and the first body stays."""
    key, body = session.key("create"), session.body()
    first = Call(verb=PUT, key=key, body=body, none_match=ANYTHING)
    answer = session.ask(first)
    finding.saw(first, answer, note="a create of an absent object")
    if answer.outcome is Outcome.REJECTED:
        finding.note(finding.unsupported, f"a create: refused as unknown ({answer.words})")
        return
    if not answer.is_applied:
        raise Unanswered(f"a create of an object that never was: {answer.words}")
    if session.read(key).body != body:
        finding.note(finding.unsafe, "confirmed a create, and the object does not hold its bytes")
    again = Call(verb=PUT, key=key, body=session.body("again"), none_match=ANYTHING)
    words, expected = finding.condition.words, session.store.dialect.statuses.exists
    refused(session, finding, again, words=words, expected=expected, body=body)
    if not session.clear(key):
        finding.facts["made_again"] = "not asked: deletes are refused"
        return
    body = session.body("new")
    session.make(key, body)
    finding.kept += 1
    after = Call(verb=PUT, key=key, body=session.body("late"), none_match=ANYTHING)
    refused(session, finding, after, words="a create of an object that was made again", expected=expected, body=body)


def replace(session: Session, finding: Finding) -> None:
    """C4: a replacement with the current version gives a new one; with a stale one it fails and the body stays."""
    key = session.key("replace")
    stale = session.make(key, session.body())
    body = session.body("second")
    call = Call(verb=PUT, key=key, body=body, match=stale)
    answer = session.ask(call)
    finding.saw(call, answer, note="a replacement of the current version")
    if answer.outcome is Outcome.REJECTED:
        finding.note(finding.unsupported, f"a replacement by version: refused as unknown ({answer.words})")
        return
    if not answer.is_applied:
        raise Unanswered(f"a replacement of the current version: {answer.words}")
    if answer.version == stale:
        finding.note(finding.unsafe, "a replacement by other bytes left the version as it was")
    expected = session.store.dialect.statuses.stale
    late = Call(verb=PUT, key=key, body=session.body("late"), match=stale)
    refused(session, finding, late, words=finding.condition.words, expected=expected, body=body)
    other = session.key("other")
    foreign = session.make(other, session.body("foreign"))
    crossed = Call(verb=PUT, key=key, body=session.body("crossed"), match=foreign)
    # What was carried out before has another body in the place of the expected one.
    if foreign != answer.version and not finding.unsafe:
        words = "a replacement with another object's version"
        refused(session, finding, crossed, words=words, expected=expected, body=body)


def replace_absent(session: Session, finding: Finding) -> None:
    """C5: a replacement of an absent object fails, and creates nothing."""
    key = session.key("absent")
    version = session.make(key, session.body())
    expected = session.store.dialect.statuses.absent
    never = Call(verb=PUT, key=session.key("never"), body=session.body("ghost"), match=version)
    refused(session, finding, never, words="a replacement of an object that never was", expected=expected, body=None)
    if not session.clear(key):
        finding.facts["gone"] = "not asked: deletes are refused"
        return
    call = Call(verb=PUT, key=key, body=session.body("ghost"), match=version)
    refused(session, finding, call, words=finding.condition.words, expected=expected, body=None)


def replace_recreated(session: Session, finding: Finding) -> None:
    """C6: the version from before a delete fails, also once the object is there again with other bytes."""
    key = session.key("recreated")
    old = session.make(key, session.body())
    session.remove(key)
    refusals = session.store.dialect.statuses
    ghost = Call(verb=PUT, key=key, body=session.body("ghost"), match=old)
    refused(session, finding, ghost, words="the version from before a delete", expected=refusals.absent, body=None)
    if finding.unsafe:
        session.remove(key)
    body = session.body("again")
    create = Call(verb=PUT, key=key, body=body, none_match=ANYTHING)
    again = session.ask(create)
    finding.saw(create, again, note="a create after a delete")
    if not again.is_applied:
        # The object can never be made again. Clients then wait for ever, but no two of them hold the lock.
        finding.note(finding.deviations, f"a create after a delete: answered {again.words}")
        return
    late = Call(verb=PUT, key=key, body=session.body("late"), match=old)
    words = "the version from before a delete and a new create"
    refused(session, finding, late, words=words, expected=refusals.stale, body=body)


def version_reuse(session: Session, finding: Finding) -> None:
    """C7: do equal bytes give equal versions? If not, the first version fails after A, B, A."""
    key, body = session.key("aba"), session.body("A")
    first = session.make(key, body)
    second = session.replace(key, session.body("B"), first)
    third = session.replace(key, body, second)
    finding.facts["versions_repeat"] = third == first
    late = Call(verb=PUT, key=key, body=session.body("C"), match=first)
    if third != first:
        expected = session.store.dialect.statuses.stale
        refused(session, finding, late, words=finding.condition.words, expected=expected, body=body)
        return
    answer = session.ask(late)
    finding.saw(late, answer, note="the version came back with the bytes, as versions made from contents do")
    finding.kept += 1


def delete(session: Session, finding: Finding) -> None:
    """C8: a delete by version keeps another version, removes the current one, and fails on an absent object."""
    key, refusals = session.key("delete"), session.store.dialect.statuses
    stale = session.make(key, session.body())
    body = session.body("second")
    current = session.replace(key, body, stale)
    late = Call(verb=DELETE, key=key, match=stale)
    refused(session, finding, late, words=finding.condition.words, expected=refusals.stale, body=body)
    if finding.unsafe:
        return
    call = Call(verb=DELETE, key=key, match=current)
    answer = session.ask(call)
    finding.saw(call, answer, note="a delete of the current version")
    if not answer.is_applied:
        finding.note(finding.unsupported, f"a delete of the current version: {answer.words}")
        return
    if not session.read(key).is_absent:
        finding.note(finding.unsafe, "confirmed a delete of the current version, and kept the object")
        return
    finding.kept += 1
    gone = Call(verb=DELETE, key=key, match=current)
    words = "a delete by version of an object that is gone"
    refused(session, finding, gone, words=words, expected=refusals.delete_conditional_absent, body=None)
    _delete_by_star(session, finding)


def _delete_by_star(session: Session, finding: Finding) -> None:
    key, body = session.key("star"), session.body()
    session.make(key, body)
    call = Call(verb=DELETE, key=key, match=ANYTHING)
    try:
        answer = session.ask(call)
    except Inexpressible:
        return
    finding.saw(call, answer, note="a delete of any version")
    is_there = session.read(key).body is not None
    if answer.is_applied and is_there:
        finding.note(finding.unsafe, "confirmed a delete of any version, and kept the object")
    elif not answer.is_applied and not is_there:
        finding.note(finding.unsafe, f"refused a delete of any version ({answer.words}), and removed the object")
    elif not answer.is_applied:
        finding.note(finding.deviations, f"a delete of any version (If-Match: *): answered {answer.words}")


def wildcards(session: Session, finding: Finding) -> None:
    """C10: conditions with a star, a negated version, or both. The store may refuse or keep them, not overlook them."""
    ghost = Call(verb=PUT, key=session.key("star"), body=session.body("ghost"), match=ANYTHING)
    words = "a replacement of any version of an absent object (If-Match: *)"
    asked = _must_not_pass(session, finding, ghost, words=words, body=None)
    key, body = session.key("wildcard"), session.body()
    version = session.make(key, body)
    both = Call(verb=PUT, key=key, body=session.body("both"), match=version, none_match=ANYTHING)
    words = "a create and a replacement in one (If-None-Match: * and If-Match)"
    asked = _must_not_pass(session, finding, both, words=words, body=body) or asked
    negated = Call(verb=PUT, key=key, body=session.body("negated"), none_match=version)
    if not finding.unsafe:
        words = "a write unless the version is the current one (If-None-Match with it)"
        asked = _must_not_pass(session, finding, negated, words=words, body=body) or asked
    any_version = Call(verb=PUT, key=session.key("any"), body=session.body("any"), match=ANYTHING)
    if asked:
        session.make(any_version.key, session.body())
        try:
            answer = session.ask(any_version)
        except Inexpressible:
            return
        finding.saw(any_version, answer, note="a replacement of any version of a present object")
        _expect_unknown(session, finding, answer, words="If-Match: * on a present object")
        return
    if not finding.kept and not finding.unsafe:
        finding.has_no("no such conditions")


def _must_not_pass(session: Session, finding: Finding, call: Call, *, words: str, body: bytes | None) -> bool:
    """Send a request that must not succeed; any refusal is right. False if the dialect has no such request."""
    try:
        answer = session.ask(call)
    except Inexpressible:
        return False
    finding.saw(call, answer, note=words)
    after = session.read(call.key)
    if wrong := wrong_after(call, answer, after, words=words, body=body):
        finding.note(finding.unsafe, wrong)
    else:
        finding.kept += 1
        _expect_unknown(session, finding, answer, words=words)
    return True


def _expect_unknown(session: Session, finding: Finding, answer: Answer, *, words: str) -> None:
    """Note an answer other than the one that the service has for conditions that it does not know."""
    expected = session.store.dialect.statuses.unknown_condition
    if expected and answer.status != expected:
        finding.note(finding.deviations, f"{words}: answered {answer.words}, expected {expected}")


def quoting(session: Session, finding: Finding) -> None:
    """C11: a version without its quotation marks is understood, or refused; a stale one is refused either way."""
    key = session.key("quoting")
    stale = session.make(key, session.body())
    if not (stale.startswith('"') and stale.endswith('"') and len(stale) > 2):
        finding.has_no("versions have no quotation marks")
        return
    body = session.body("second")
    current = session.replace(key, body, stale)
    late = Call(verb=PUT, key=key, body=session.body("late"), match=stale.strip('"'))
    expected = session.store.dialect.statuses.stale
    refused(session, finding, late, words="a stale version without quotation marks", expected=expected, body=body)
    bare = Call(verb=PUT, key=key, body=session.body("bare"), match=current.strip('"'))
    answer = session.ask(bare)
    finding.saw(bare, answer, note="the current version without quotation marks")
    if answer.is_applied:
        finding.kept += 1
    else:
        finding.note(finding.deviations, f"the current version without quotation marks: answered {answer.words}")


def overwrite(session: Session, finding: Finding) -> None:
    """C23: a write without a condition changes the version, so that the former one fails."""
    key = session.key("overwrite")
    first = session.make(key, session.body())
    body = session.body("second")
    call = Call(verb=PUT, key=key, body=body)
    answer = session.ask(call)
    finding.saw(call, answer, note="a write without a condition")
    if answer.outcome is Outcome.REJECTED:
        finding.has_no(f"the store takes no write without a condition ({answer.words})")
        return
    if not answer.is_applied:
        raise Unanswered(f"a write without a condition: {answer.words}")
    if answer.version == first:
        finding.note(finding.unsafe, "a write without a condition left the version as it was")
    late = Call(verb=PUT, key=key, body=session.body("late"), match=first)
    words = "the version from before a write without a condition"
    refused(session, finding, late, words=words, expected=session.store.dialect.statuses.stale, body=body)
