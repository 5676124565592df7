"""Requests in flight together that carry the same condition: one may win.

A server that checks and writes in two steps answers every single request correctly. Two requests must meet in the gap
between check and write. In some servers the gap is wide only for long bodies, or only where the server verifies a
checksum. So each race is run in several forms. One more test needs no luck (`held_up`): a request is held up before its
last byte while another one lands. A server that checked the condition when it read the head lets it through.

Each round is judged by its answers and by the object that is there afterwards. A round is void if nobody won, or if too
few requests were answered. Rounds end when there are enough, when time is up, or soon after a fault is proven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lockref.clouds.calls import ANYTHING, DELETE, PUT, READ, Answer, Call
from lockref.runtime import NS_PER_S
from lockref.stores.probe.clauses import Verdict
from lockref.stores.probe.readings import RaceEnd, read_race
from lockref.words import Outcome
from scenarios.probe.findings import Finding, Rate
from scenarios.probe.session import NotSupported, Session, Unanswered, may_have_landed, wrong_after

ROUNDS_MIN: Final = 4
"""A race has at least so many rounds, even when its share of the time is over, unless the time of the whole probe is.
With fewer clean rounds the 95 % bound on the rate of faults, about 3 / rounds, excludes nothing."""

RACERS: Final = 12
RACERS_MIN: Final = 4
SLOW_ROUND_NS: Final = NS_PER_S
QUICK_ROUND_NS: Final = NS_PER_S // 2
"""After a slow round fewer racers take part; after a quick round all of them do."""

ENOUGH_FAULTY: Final = 5
ENOUGH_ROUNDS: Final = 12
"""A fault that was seen this often in so many rounds is proven; more rounds only sharpen its rate."""

SIBLINGS: Final = ("C2", "C3", "C9", "C16")
"""Races of plain writes and deletes: a server handles them in one way."""

_ALONE: Final = {"create": ("C1",), "replace": ("C4",), "delete": ("C8", "C5")}
"""By part of a race: the clauses that ask the same condition one request at a time.

In a race with deletes a replacement may find its object deleted, so C5 is asked there, too.
"""

LARGE_BYTES: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of the bodies in a race. size: in bytes. headers: sent beside the usual ones."""

    name: str
    size: int = 0
    headers: tuple[tuple[str, str], ...] = ()


def forms_of(session: Session) -> list[Form]:
    """Small and large bodies, and bodies that widen this server's gap. The last ones find the most and come twice."""
    if not session.store.is_wire:
        return [Form(name="small")]
    amplified = [
        Form(name="large, with a sum to check", size=LARGE_BYTES, headers=headers)
        for headers in session.store.dialect.amplifiers
    ]
    return [Form(name="small"), *amplified, Form(name="large", size=LARGE_BYTES), *amplified]


Round = Callable[[Session, Finding, Rate, Form], None]


def repeat(
    session: Session,
    finding: Finding,
    round_: Round,
    *,
    name: str,
    end_ns: int,
    forms: Sequence[Form] | None = None,
    share: int = 1,
    racers: int = RACERS,
    part: str = "",
) -> None:
    """Run the rounds of one race. A slow round halves the number of racers. A form that the store refuses is left out.

    share: divides the greatest number of rounds. part: `create`, `replace` or `delete`, if all requests of the race are
        of that kind.
    """
    if session.serves_one_at_a_time:
        racers = RACERS_MIN  # More would wait for a connection until they time out.
    # Begin with few racers: some stores make contenders wait for seconds.
    rate = Rate(name=name, part=part, racers=racers, racing=min(racers, RACERS_MIN))
    finding.rates.append(rate)
    try:
        _run_rounds(session, finding, rate, round_, end_ns, list(forms or forms_of(session)), share)
    finally:
        # What was proven stays proven, however the race ended.
        if rate.faulty:
            often = f"in {rate.faulty} of {rate.rounds} rounds, up to {rate.winners_max} winners of {rate.racers}"
            finding.note(finding.unsafe, f"{name}: {rate.fault} ({often})")
    if rate.rounds == 0:
        why = finding.facts.get("void") or finding.facts.get("left_out") or "no time was left"
        is_refused = session.lacks(Call(verb=PUT, key="", none_match=ANYTHING))
        kind = finding.unsupported if is_refused else finding.unanswered
        finding.note(kind, f"{name}: no round could be judged ({why})")
    elif rate.faulty == 0 and rate.rounds < ROUNDS_MIN:
        finding.note(finding.unanswered, f"{name}: {rate.rounds} rounds are too few to exclude any rate of faults")
    elif rate.faulty == 0:
        finding.kept += 1


def require_apart(findings: Mapping[str, Finding]) -> None:
    """Withdraw the verdict of a clean race that cannot be told apart from a faulty sibling.

    A server that checks and writes in two steps lets several racers win now and then. It is luck which of its races
    show that within a few rounds. So compare rates: a clean race that might still fail as often as its sibling did has
    not been shown to hold. Races are siblings only where the store keeps the condition for single requests (C1, C4, C5,
    C8). A condition that the store always overlooks is no matter of luck.
    """
    kept_alone = {
        part
        for part, clauses in _ALONE.items()
        if not any(findings[clause].verdict is Verdict.UNSAFE for clause in clauses)
    }
    siblings = [(clause, rate) for clause in SIBLINGS for rate in findings[clause].rates if rate.part in kept_alone]
    faulty = [(clause, rate) for clause, rate in siblings if rate.faulty]
    for clause, rate in siblings:
        finding = findings[clause]
        if rate.faulty or not rate.rounds or finding.unsafe:
            continue
        for other, seen in faulty:
            if rate.high >= seen.low:
                # No design of lock needs one half of C9 alone.
                finding.part = "" if rate.part == "delete" else rate.part
                finding.note(
                    finding.unanswered,
                    f"{rate.name}: no fault in {rate.rounds} rounds. That is too few to tell it from {other}, where "
                    f"{seen.faulty} of {seen.rounds} rounds show one",
                )
                break


def _run_rounds(
    session: Session, finding: Finding, rate: Rate, round_: Round, end_ns: int, waiting: list[Form], share: int
) -> None:
    done, rounds_max = 0, max(min(ROUNDS_MIN, session.rounds_max), session.rounds_max // share)
    while waiting and done < rounds_max and (session.left_ns(end_ns) > 0 or done < ROUNDS_MIN):
        form = waiting[done % len(waiting)]
        done += 1
        began_ns = session.runtime.monotonic_ns()
        voids = rate.void
        try:
            round_(session, finding, rate, form)
        except _FormRefused as error:
            waiting = [each for each in waiting if each.name != form.name]
            finding.facts.setdefault("left_out", f"{form.name}: {error}")
        except NotSupported:
            raise
        except Unanswered as error:
            rate.void += 1
            finding.facts["void"] = str(error)
        if rate.void - voids and rate.void > 10 and not rate.rounds:
            break
        lasted_ns = session.runtime.monotonic_ns() - began_ns
        if lasted_ns > SLOW_ROUND_NS:
            rate.racing = max(RACERS_MIN, rate.racing // 2)
        elif lasted_ns < QUICK_ROUND_NS:
            rate.racing = rate.racers
        if rate.faulty >= ENOUGH_FAULTY and rate.rounds >= ENOUGH_ROUNDS:
            break


class _FormRefused(Exception):
    """The store does not take such requests."""


def create_round(session: Session, finding: Finding, rate: Rate, form: Form, *, spread: bool = False) -> None:
    """C2: simultaneous creates of one absent object."""
    key = session.key("race")
    calls = [
        Call(verb=PUT, key=key, body=session.body(size=form.size), none_match=ANYTHING, headers=form.headers)
        for _ in range(rate.racing)
    ]
    judge(session, finding, rate, calls, session.race(calls, spread=spread), before=None)
    if not rate.rounds and session.lacks(calls[0]):
        raise NotSupported("simultaneous creates: every one was refused as unknown")
    session.clear(key)


def replace_round(session: Session, finding: Finding, rate: Rate, form: Form, *, spread: bool = False) -> None:
    """C3: simultaneous replacements of one version."""
    key, before = session.key("race"), session.body("start")
    version = session.make(key, before)
    calls = [
        Call(verb=PUT, key=key, body=session.body(size=form.size), match=version, headers=form.headers)
        for _ in range(rate.racing)
    ]
    judge(session, finding, rate, calls, session.race(calls, spread=spread), before=before)
    session.clear(key)


def delete_round(session: Session, finding: Finding, rate: Rate, _form: Form) -> None:
    """C9: simultaneous deletes of one version."""
    key, before = session.key("race-delete"), session.body("start")
    version = session.make(key, before)
    calls = [Call(verb=DELETE, key=key, match=version)] * rate.racing
    judge(session, finding, rate, calls, session.race(calls), before=before)
    session.clear(key)


def mixed_round(session: Session, finding: Finding, rate: Rate, form: Form) -> None:
    """C9: deletes and replacements of one version; one wins between the two kinds."""
    key, before = session.key("race-mixed"), session.body("start")
    version = session.make(key, before)
    deletion = Call(verb=DELETE, key=key, match=version)
    replacements = [
        Call(verb=PUT, key=key, body=session.body(size=form.size), match=version, headers=form.headers)
        for _ in range(rate.racing // 2)
    ]
    calls = [call for pair in zip(replacements, [deletion] * len(replacements), strict=True) for call in pair]
    judge(session, finding, rate, calls, session.race(calls), before=before)
    session.clear(key)


def judge(
    session: Session,
    finding: Finding,
    rate: Rate,
    calls: Sequence[Call],
    answers: Sequence[Answer],
    *,
    before: bytes | None,
) -> None:
    """Judge one round. It is right if at most one request won, and the object holds what the winner wrote."""
    winners = [number for number, answer in enumerate(answers) if answer.is_applied]
    unknown = [number for number, answer in enumerate(answers) if may_have_landed(answer)]
    if all(answer.outcome is Outcome.REJECTED for answer in answers):
        session.clear(calls[0].key)
        raise _FormRefused(answers[0].words)
    after = session.read(calls[0].key)
    end = read_race(
        [_left_by(calls[number]) for number in winners],
        [_left_by(calls[number]) for number in unknown],
        before=before,
        after=after.body,
    )
    if end is RaceEnd.VOID:
        rate.void += 1
        finding.facts.setdefault("void", f"{end}: {answers[0].words}")
        return
    rate.rounds += 1
    rate.winners_max = max(rate.winners_max, len(winners))
    if end is RaceEnd.RIGHT:
        return
    rate.faulty += 1
    if rate.faulty == 1:
        for number in [*winners[:3], *[n for n in range(len(calls)) if n not in winners][:1]]:
            finding.saw(calls[number], answers[number], note=f"racer {number} of {len(calls)}")
        finding.saw(Call(verb=READ, key=calls[0].key), after, note="afterwards")
    rate.fault = rate.fault or end.value


def _left_by(call: Call) -> bytes | None:
    return None if call.verb == DELETE else call.body


def held_up(session: Session, finding: Finding, *, absent: bool) -> None:
    """Hold one request up while another one lands. The late one must be refused, or the store keeps no condition."""
    if not session.store.is_wire or session.serves_one_at_a_time:
        return
    key = session.key("held")
    version = "" if absent else session.make(key, session.body("start"))
    condition: dict[str, Any] = {"none_match": ANYTHING} if absent else {"match": version}
    slow = Call(verb=PUT, key=key, body=session.body("slow"), **condition)
    quick = Call(verb=PUT, key=key, body=session.body("quick"), **condition)
    words = f"a {'create' if absent else 'replacement'} that was on its way while another one landed"
    held = session.hold(slow)
    first = session.ask_beside(held, quick)
    if first is None:
        finding.facts["held_up"] = "it serves one connection at a time"
        return
    last = held.release()
    session.counted([slow], [last])
    finding.saw(quick, first, note="while another one was on its way")
    finding.saw(slow, last, note=words)
    after = session.read(key)
    if may_have_landed(last) or not first.is_applied:
        finding.facts["held_up"] = f"{words}: {first.words}, then {last.words}"
    elif wrong := wrong_after(slow, last, after, words=words, body=quick.body):
        finding.note(finding.unsafe, wrong)
    else:
        finding.kept += 1
    session.clear(key)
