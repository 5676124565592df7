"""C12: a bucket that keeps former versions, where a delete leaves a marker."""

from __future__ import annotations

from lockref.clouds.calls import DELETE, PUT, VERSIONING, Call, Inexpressible
from scenarios.probe.findings import Finding
from scenarios.probe.session import Session, refused

NOT_VERSIONED = "the bucket keeps no former versions"


def is_versioned(session: Session) -> bool | None:
    """Does the bucket keep former versions? None where it does not say. Errors: Unanswered; Inexpressible."""
    answer = session.ask(Call(verb=VERSIONING))
    if not answer.is_applied:
        return None
    return dict(answer.entries).get("status", "").lower() == "enabled"


def versioned_bucket(session: Session, finding: Finding) -> None:
    """Over a delete marker: a create succeeds; a replacement and a delete by version fail."""
    try:
        kept = is_versioned(session)
    except Inexpressible:
        finding.has_no("it has no buckets that keep former versions")
        return
    finding.facts["versioned"] = kept
    if not kept:
        finding.has_no(NOT_VERSIONED)
        return
    refusals = session.store.dialect.statuses
    key = session.key("versioned")
    version = session.make(key, session.body())
    session.remove(key)
    ghost = Call(verb=PUT, key=key, body=session.body("ghost"), match=version)
    words = "a replacement over a delete marker"
    refused(session, finding, ghost, words=words, expected=refusals.absent, body=None)
    gone = Call(verb=DELETE, key=key, match=version)
    words = "a delete by version over a delete marker"
    refused(session, finding, gone, words=words, expected=refusals.delete_conditional_absent, body=None)
    body = session.body("again")
    create = Call(verb=PUT, key=key, body=body, none_match="*")
    answer = session.ask(create)
    finding.saw(create, answer, note="a create over a delete marker")
    if not answer.is_applied:
        finding.note(finding.deviations, f"a create over a delete marker: answered {answer.words}")
        return
    finding.kept += 1
    late = Call(verb=PUT, key=key, body=session.body("late"), match=version)
    words = "the version from before the delete marker"
    refused(session, finding, late, words=words, expected=refusals.stale, body=body)
