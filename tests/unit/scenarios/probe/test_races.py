"""What a round of a race proves, and what becomes of racing processes that fall silent."""

from __future__ import annotations

import multiprocessing
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from lockref.clouds.calls import DELETE, PUT, Answer, Call
from lockref.clouds.uri import parse_store_uri
from lockref.stores.probe.clauses import CLAUSES, Verdict
from lockref.words import Outcome
from scenarios.probe.findings import Finding, Rate
from scenarios.probe.questions import races, spread
from scenarios.probe.session import Unanswered
from tests.scripted_store import ScriptedStore, session_of

REFUSED = Answer(outcome=Outcome.PRECONDITION_FAILED, status=412)
LOST = Answer(outcome=Outcome.AMBIGUOUS)
CALLS = [Call(verb=PUT, key="k", body=b"%d" % number, match="1") for number in range(4)]


class Shows:
    """A session of which only reads are asked; each shows these bytes."""

    def __init__(self, body: bytes | None) -> None:
        self._body = body

    def read(self, _key: str) -> Answer:
        if self._body is None:
            return Answer(outcome=Outcome.APPLIED, is_missing=True)
        return Answer(outcome=Outcome.APPLIED, body=self._body, version="9")


@pytest.mark.parametrize(
    ("answers", "left", "faulty", "void"),
    [
        ([REFUSED] * 4, b"start", 0, 1),
        ([REFUSED] * 4, b"1", 1, 0),
        ([REFUSED] * 4, None, 1, 0),
        ([REFUSED] * 3 + [LOST], b"3", 0, 1),
        ([REFUSED] * 3 + [Answer(outcome=Outcome.REJECTED, status=403)], b"start", 0, 1),
    ],
)
def test_a_race_without_a_winner(answers: list[Answer], left: bytes | None, faulty: int, void: int) -> None:
    """C3: to refuse every request and carry one out is a fault; where an answer was lost, that one may have landed."""
    finding, rate = Finding(CLAUSES["C3"]), Rate(name="replacements")
    races.judge(Shows(left), finding, rate, CALLS, answers, before=b"start")  # type: ignore[arg-type]
    assert (rate.faulty, rate.void) == (faulty, void)


WON = Answer(outcome=Outcome.APPLIED, status=200, version="2")
UNKNOWN = Answer(outcome=Outcome.REJECTED, status=501)


@pytest.mark.parametrize(
    ("answers", "left", "fault"),
    [
        ([REFUSED, WON, REFUSED, REFUSED], b"1", ""),
        ([REFUSED, WON, REFUSED, UNKNOWN], b"1", ""),
        ([REFUSED, WON, REFUSED, LOST], b"1", ""),
        ([REFUSED, WON, REFUSED, LOST], b"3", "let a request take effect beside the winner"),
        ([REFUSED, WON, REFUSED, REFUSED], b"start", "confirmed a request, and shows what was there before"),
        ([REFUSED, WON, REFUSED, REFUSED], b"2", "does not hold the winner's bytes afterwards"),
        ([WON, WON, REFUSED, REFUSED], b"1", "let several simultaneous requests succeed that carry one condition"),
    ],
)
def test_a_race_with_a_winner(answers: list[Answer], left: bytes, fault: str) -> None:
    """C3: one wins, its bytes are there, and no other one's. The witness is the first winner and one that lost."""
    finding, rate = Finding(CLAUSES["C3"]), Rate(name="replacements", winners_max=2)
    races.judge(Shows(left), finding, rate, CALLS, answers, before=b"start")  # type: ignore[arg-type]
    assert (rate.rounds, rate.faulty, rate.fault) == (1, bool(fault), fault)
    assert rate.winners_max == 2, "of all rounds"
    first, loser = answers.index(WON), answers.index(REFUSED)
    seen = [(f"racer {number} of 4", "applied") for number in range(first, first + answers.count(WON))]
    seen += [(f"racer {loser} of 4", "precondition_failed"), ("afterwards", "applied")]
    assert [(told["note"], told["outcome"]) for told in finding.witness] == (seen if fault else [])


def test_a_race_of_deletes_leaves_nothing() -> None:
    """C9: what a delete leaves is an absent object, whatever body the other requests had."""
    calls = [Call(verb=DELETE, key="k", match="1", body=b"unsent"), Call(verb=PUT, key="k", body=b"1", match="1")]
    for left, faulty in ((None, 0), (b"1", 1)):
        finding, rate = Finding(CLAUSES["C9"]), Rate(name="deletes")
        races.judge(Shows(left), finding, rate, calls, [WON, REFUSED], before=b"start")  # type: ignore[arg-type]
        assert (rate.rounds, rate.faulty) == (1, faulty)
        assert [told["request"] for told in finding.witness] == (["delete", "put", "read"] if faulty else [])


@pytest.mark.parametrize(
    ("rounds", "faulty", "verdict"),
    [(4, 0, "conforming"), (3, 0, "not_answered"), (0, 0, "not_answered"), (4, 1, "unsafe"), (30, 1, "unsafe")],
)
def test_so_many_rounds_make_a_verdict(rounds: int, faulty: int, verdict: str) -> None:
    """Four clean rounds are the least, one faulty one is enough, and none has no verdict; a fault keeps nothing."""
    session = session_of(ScriptedStore(), rounds_max=rounds or 4)
    finding = Finding(CLAUSES["C2"])

    def judged(_session: Any, finding: Finding, rate: Rate, _form: races.Form) -> None:
        if not rounds:
            raise Unanswered("no answer")
        rate.rounds += 1
        rate.faulty = min(rate.rounds, faulty)

    races.repeat(session, finding, judged, name="creates", end_ns=session.end_ns)
    [rate] = finding.rates
    assert (rate.rounds, rate.void, finding.verdict) == (rounds, 0 if rounds else 4, verdict)
    assert bool(finding.kept) is (verdict == "conforming")


def test_a_proven_fault_ends_the_rounds_once_there_are_enough() -> None:
    """Five faulty rounds, and twelve in all: more of them only sharpen the rate."""
    session = session_of(ScriptedStore(), rounds_max=40)
    finding = Finding(CLAUSES["C2"])

    def judged(_session: Any, _finding: Finding, rate: Rate, _form: races.Form) -> None:
        rate.rounds += 1
        rate.faulty = min(rate.rounds, 5)

    races.repeat(session, finding, judged, name="creates", end_ns=session.end_ns)
    assert (finding.rates[0].rounds, finding.rates[0].faulty) == (12, 5)


class OnItsWay:
    """A session in which one request is held up while another one lands."""

    serves_one_at_a_time = False

    def __init__(self, first: Answer, last: Answer, left: bytes) -> None:
        self.store = SimpleNamespace(is_wire=True)
        self.first, self.last, self.left = first, last, left
        self.counts: list[Answer] = []

    def key(self, name: str) -> str:
        return name

    def body(self, about: str) -> bytes:
        return about.encode()

    def make(self, _key: str, _body: bytes) -> str:
        return "1"

    def hold(self, _call: Call) -> Any:
        return SimpleNamespace(release=lambda: self.last)

    def ask_beside(self, _held: Any, _call: Call) -> Answer:
        return self.first

    def counted(self, _calls: list[Call], answers: list[Answer]) -> None:
        self.counts += answers

    def read(self, _key: str) -> Answer:
        return Answer(outcome=Outcome.APPLIED, body=self.left, version="9")

    def clear(self, _key: str) -> None: ...


@pytest.mark.parametrize("absent", [True, False])
@pytest.mark.parametrize(
    ("first", "last", "left", "verdict"),
    [
        (WON, REFUSED, b"quick", "conforming"),
        (WON, WON, b"quick", "unsafe"),
        (WON, WON, b"slow", "unsafe"),
        (WON, REFUSED, b"slow", "unsafe"),
        (WON, LOST, b"slow", "not_answered"),
        (REFUSED, WON, b"slow", "not_answered"),
    ],
)
def test_a_request_that_was_held_up(first: Answer, last: Answer, left: bytes, verdict: str, absent: bool) -> None:
    """C2, C3: it comes too late. Without its answer, or where the other one did not land, it shows nothing."""
    session: Any = OnItsWay(first, last, left)
    finding = Finding(CLAUSES["C2"])
    races.held_up(session, finding, absent=absent)
    assert finding.verdict == verdict
    assert session.counts == [last], "it is counted, and may still land"


def raced(faulty: int, rounds: int, part: str = "replace") -> Rate:
    return Rate(name=f"{part}s", part=part, rounds=rounds, faulty=faulty)


def kept() -> dict[str, Finding]:
    return {clause: Finding(CLAUSES[clause], kept=1) for clause in ("C1", "C2", "C3", "C4", "C5", "C8", "C9", "C16")}


@pytest.mark.parametrize(
    ("clean", "leaky", "is_open"),
    [
        (raced(0, 28, "create"), raced(4, 42), True),
        (raced(0, 300, "create"), raced(4, 42), False),
        (raced(0, 60, "create"), raced(0, 60), False),
    ],
)
def test_a_clean_race_beside_a_leaky_one_needs_rounds(clean: Rate, leaky: Rate, is_open: bool) -> None:
    """C2 beside C3: 3/28 may be what 4 of 42 is, 3/300 is not; and two clean races say nothing of each other."""
    findings = kept()
    findings["C2"].rates.append(clean)
    findings["C3"].rates.append(leaky)
    races.require_apart(findings)
    assert findings["C2"].verdict is (Verdict.NOT_ANSWERED if is_open else Verdict.CONFORMING)


def test_what_is_open_or_refuted_anyway_is_told_once() -> None:
    """A race without a judged round has said why, and a clause that is refuted needs no doubt beside it."""
    findings = kept()
    findings["C3"].rates.append(raced(4, 42))
    findings["C2"].rates.append(raced(0, 0, "create"))
    findings["C16"].rates.append(raced(0, 20, "create"))
    findings["C16"].unsafe.append("two winners over two endpoints")
    races.require_apart(findings)
    assert (findings["C2"].unanswered, findings["C16"].unanswered) == ([], [])


def test_a_condition_that_is_never_read_says_nothing_of_other_races() -> None:
    """K6: where replacements ignore their condition, all of them win, and a clean race of creates stays clean."""
    findings = kept()
    findings["C4"].unsafe.append("accepted a stale one")
    findings["C2"].rates.append(raced(0, 6, "create"))
    findings["C3"].rates.append(raced(2, 12))
    races.require_apart(findings)
    assert findings["C2"].verdict is Verdict.CONFORMING


def test_a_replacement_that_makes_a_deleted_object_says_nothing_of_other_races() -> None:
    """C9 beside C2: where C5 breaks, a replacement wins after each delete, whatever the luck."""
    findings = kept()
    findings["C5"].unsafe.append("made a deleted one")
    findings["C9"].rates.append(raced(5, 12, "delete"))
    findings["C2"].rates.append(raced(0, 6, "create"))
    races.require_apart(findings)
    assert findings["C2"].verdict is Verdict.CONFORMING


def test_a_clean_race_of_deletes_beside_leaky_replacements_has_no_verdict() -> None:
    """C9 beside C3, as a whole: no lock needs a part of it. Where C8 breaks, a race of deletes says nothing of luck."""
    findings = kept()
    findings["C9"].rates.append(raced(0, 40, "delete"))
    findings["C3"].rates.append(raced(3, 40))
    races.require_apart(findings)
    assert {findings["C9"].verdict_for(part) for part in ("", "create")} == {Verdict.NOT_ANSWERED}
    findings = kept()
    findings["C8"].unsafe.append("deleted a stale one")
    findings["C9"].rates.append(raced(3, 40, "delete"))
    findings["C3"].rates.append(raced(0, 40))
    races.require_apart(findings)
    assert findings["C3"].verdict is Verdict.CONFORMING


class Process:
    """A racing process that never ends by itself, until it is killed."""

    def __init__(self) -> None:
        self.is_killed = False

    def join(self, _timeout_s: float) -> None: ...

    def is_alive(self) -> bool:
        return not self.is_killed

    def kill(self) -> None:
        self.is_killed = True


class Raced:
    """A session around a race from several processes."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.serves_one_at_a_time = False
        self.keeps_connections = True

    def key(self, name: str) -> str:
        return name

    def body(self, *, size: int = 0) -> bytes:
        return b"x"

    def check_time(self) -> None: ...

    def keep(self, key: str) -> None:
        self.kept.append(key)


def test_a_process_that_falls_silent_ends_the_races(monkeypatch: pytest.MonkeyPatch) -> None:
    """C16: its answer would come in the next round, and be taken for another's. What it sent may still land."""
    monkeypatch.setattr(spread, "ANSWER_TIMEOUT_S", 0)
    racers = spread.Racers([])
    here, _there = multiprocessing.Pipe()
    process: Any = Process()
    racers._racers.append(spread._Racer(process, here))
    session: Any = Raced()
    form = races.Form(name="plain", size=1)
    with pytest.raises(Unanswered):
        spread._round(racers, True, session, Finding(CLAUSES["C16"]), Rate(name="creates", racing=2), form)
    assert session.kept == ["race-spread"]
    assert process.is_killed
    finding = Finding(CLAUSES["C16"])
    spread.by_processes(session, finding, 0, racers=racers)
    assert finding.unanswered
    assert "silent" in finding.unanswered[0]


@pytest.mark.parametrize("words", [[], [(True, [])]], ids=["before it is ready", "while it waits for the word"])
def test_a_racing_process_ends_in_silence_once_nobody_asks(
    monkeypatch: pytest.MonkeyPatch, words: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    """After Ctrl-C the probe ends its racing processes; a stack trace of theirs would hide what it has to say."""
    monkeypatch.setattr(spread, "end_with_parent", lambda: None)
    raced: list[object] = []
    here, there = multiprocessing.Pipe()
    for word in words:
        here.send(word)
    if words:
        monkeypatch.setattr(spread.local, "race", lambda calls: raced.append(calls) or here.close() or [])
        here.send("go")
    else:
        here.close()
    spread._racer(parse_store_uri("memory:racing"), there)
    assert raced == [[] for _ in words], "it came as far as it was asked to"
    assert capfd.readouterr() == ("", "")


def test_the_callers_signals_stay_as_they_were() -> None:
    """Whoever blocks Ctrl-C around a probe finds it blocked afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with spread.Racers([]):
            pass
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
