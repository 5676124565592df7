"""C13, C14 and C15: the other ways to write an object. Each answers for itself: a right PUT says nothing of a copy."""

from __future__ import annotations

import functools
from typing import Final

from lockref.clouds.calls import ANYTHING, COPY, PUT, READ, Answer, Call, Inexpressible, WriteMode
from lockref.words import Outcome
from scenarios.probe.findings import Finding, Rate
from scenarios.probe.preparation import ModeRefused, prepared
from scenarios.probe.questions import races
from scenarios.probe.questions.races import Form
from scenarios.probe.session import Session, Unanswered, odd_refusal, wrong_after

RACERS: Final = 8
ROUND_REQUESTS: Final = 3 * RACERS + 8
"""Requests of one round, at most: the beginning, a part and the completion of each upload; a read, a delete, spares."""


def modes_of(session: Session, clause: str) -> list[WriteMode]:
    """The ways to write that are judged under the clause."""
    return [mode for mode in session.store.dialect.modes if mode.clause == clause]


def other_ways(session: Session, finding: Finding) -> None:
    """C1, C3, C4 and C5 in every mode of the clause, one after the other."""
    found = modes_of(session, finding.condition.clause)
    if not found:
        finding.has_no("there is no such way to write")
    for mode in found:
        try:
            _one_mode(session, finding, mode)
        except ModeRefused as error:
            _leave_out(finding, mode)
            finding.note(finding.unsupported, f"{mode.name}: {error}")
        except Inexpressible as error:
            finding.has_no(f"{mode.name}: no such request ({error})")


def _one_mode(session: Session, finding: Finding, mode: WriteMode) -> None:
    refusals = session.store.dialect.statuses
    key = session.key("mode")
    body = session.body(mode.name)
    first = _write(session, finding, mode, Call(verb=PUT, key=key, body=body, none_match=ANYTHING), "a create")
    if first is None:
        return
    if not first.is_applied:
        finding.note(finding.deviations, f"{mode.name}: a create of an absent object: {first.words}")
        body, version = session.body("plain"), ""
        version = session.make(key, body)
    else:
        version = first.version or session.version(key)
        body = _written(session, finding, mode, key, body)
    again = Call(verb=PUT, key=key, body=session.body(mode.name), none_match=ANYTHING)
    if not _refused(session, finding, mode, again, "a create of an object that exists", refusals.exists, body):
        body = session.body("plain")
        session.make(key, body, absent=False)
        version = session.version(key)
    second = session.body(mode.name)
    call = Call(verb=PUT, key=key, body=second, match=version)
    met = _write(session, finding, mode, call, "a replacement of the current version")
    if met is None or not met.is_applied:
        if met is not None:
            told = "refused as unknown" if met.outcome is Outcome.REJECTED else "refused"
            finding.note(finding.unsupported, f"{mode.name}: a replacement by version: {told} ({met.words})")
        return
    second = _written(session, finding, mode, key, second)
    late = Call(verb=PUT, key=key, body=session.body(mode.name), match=version)
    _refused(session, finding, mode, late, "a replacement of a stale version", refusals.stale, second)
    if session.clear(key):
        ghost = Call(verb=PUT, key=key, body=session.body(mode.name), match=version)
        _refused(session, finding, mode, ghost, "a replacement of an object that is gone", refusals.absent, None)
    else:
        finding.facts["gone"] = "not asked: deletes are refused"
    if mode.clause == "C14":
        _source_condition(session, finding, mode)


def _written(session: Session, finding: Finding, mode: WriteMode, key: str, body: bytes) -> bytes:
    """Read the object after a write in that mode. Bytes that differ from the written ones are a fault of their own."""
    shown = session.read(key)
    if shown.body is None or shown.body == body:
        return body
    finding.saw(Call(verb=READ, key=key), shown, note="after a write that was confirmed")
    finding.note(finding.deviations, f"{mode.name}: the object holds other bytes than were written")
    return shown.body


def _write(session: Session, finding: Finding, mode: WriteMode, call: Call, words: str) -> Answer | None:
    """Write in that mode; None where the store refuses such a request as unknown."""
    final = prepared(session, mode, call)
    answer = final if isinstance(final, Answer) else session.ask(final)
    finding.saw(call if isinstance(final, Answer) else final, answer, note=f"{mode.name}: {words}")
    if answer.outcome is Outcome.REJECTED and call.none_match is not None:
        _leave_out(finding, mode)
        finding.note(finding.unsupported, f"{mode.name}: {words}: refused as unknown ({answer.words})")
        return None
    return answer


def _refused(
    session: Session, finding: Finding, mode: WriteMode, call: Call, words: str, expected: int, body: bytes | None
) -> bool:
    """Write what must be refused in that mode. False if it was not."""
    final = prepared(session, mode, call)
    answer = final if isinstance(final, Answer) else session.ask(final)
    finding.saw(call if isinstance(final, Answer) else final, answer, note=f"{mode.name}: {words}")
    after = session.read(call.key)
    if wrong := wrong_after(call, answer, after, words=words, body=body):
        finding.saw(Call(verb=READ, key=call.key), after, note="afterwards")
        finding.note(finding.unsafe, f"{mode.name}: {wrong}")
        return False
    if answer.outcome is Outcome.REJECTED and not session.understands(call if isinstance(final, Answer) else final):
        finding.note(finding.unsupported, f"{mode.name}: {words}: refused as unknown ({answer.words})")
        return True
    finding.kept += 1
    if odd := odd_refusal(answer, expected):
        finding.note(finding.deviations, f"{mode.name}: {words}: {odd}")
    return True


def _source_condition(session: Session, finding: Finding, mode: WriteMode) -> None:
    """A copy of a source that has the named version, and one of a source that has moved on."""
    source, target = session.key("source"), session.key("target")
    stale = session.make(source, session.body("old"))
    current = session.replace(source, session.body("new"), stale)
    met = Call(verb=COPY, key=session.key("met"), source=source, source_match=current)
    answer = session.ask(met)
    finding.saw(met, answer, note=f"{mode.name}: of a source that has the named version")
    if not answer.is_applied:
        # A store that refuses every such copy has not compared anything.
        told = "refused as unknown" if answer.outcome is Outcome.REJECTED else "refused"
        finding.note(finding.unsupported, f"{mode.name}: a condition on the source: {told} ({answer.words})")
        return
    call = Call(verb=COPY, key=target, source=source, source_match=stale)
    answer = session.ask(call)
    finding.saw(call, answer, note=f"{mode.name}: of a source that has another version")
    if answer.is_applied or session.read(target).body is not None:
        finding.note(finding.unsafe, f"{mode.name}: accepted a copy of a stale source ({answer.words})")
    else:
        finding.kept += 1


def _leave_out(finding: Finding, mode: WriteMode) -> None:
    """Note that the store refuses this way to write: it takes part in no race."""
    left_out = finding.facts.setdefault("refused_modes", [])
    assert isinstance(left_out, list), "a list of names"
    left_out.append(mode.name)


def race_modes(session: Session, finding: Finding, end_ns: int) -> None:
    """Simultaneous creates in each mode that can race; and beside plain ones."""
    if finding.unsafe or not finding.kept:
        return  # A mode that ignores conditions needs no race.
    left_out = finding.facts.get("refused_modes", [])
    assert isinstance(left_out, list), "a list of names"
    racing = [
        mode for mode in modes_of(session, finding.condition.clause) if mode.can_race and mode.name not in left_out
    ]
    for number, mode in enumerate(racing):
        share_ns = session.left_ns(end_ns) // (2 * (len(racing) - number))
        for kind in (_create_round, _mixed_round):
            until_ns = session.runtime.monotonic_ns() + share_ns
            beside = " beside plain writes" if kind is _mixed_round else ""
            races.repeat(
                session, finding, functools.partial(kind, mode), name=f"creates by {mode.name}{beside}",
                end_ns=until_ns, forms=[Form(name="small")], racers=RACERS, share=3,
            )  # fmt: skip


def _create_round(mode: WriteMode, session: Session, finding: Finding, rate: Rate, _form: Form) -> None:
    _mode_round(mode, session, finding, rate, every=1)


def _mixed_round(mode: WriteMode, session: Session, finding: Finding, rate: Rate, _form: Form) -> None:
    _mode_round(mode, session, finding, rate, every=2)


def _mode_round(mode: WriteMode, session: Session, finding: Finding, rate: Rate, *, every: int) -> None:
    key = session.key("race-mode")
    calls = []
    for number in range(rate.racing):
        call = Call(verb=PUT, key=key, body=session.body(), none_match=ANYTHING)
        if number % every == 0:
            try:
                final = prepared(session, mode, call)
            except ModeRefused as error:
                # It took such uploads when it was asked for one at a time.
                raise Unanswered(f"{mode.name}: {error}") from error
            if isinstance(final, Answer):
                continue
            call = final
        calls.append(call)
    if not calls:
        raise Unanswered(f"{mode.name}: each upload was refused when it began")
    races.judge(session, finding, rate, calls, session.race(calls), before=None)
    session.clear(key)
