"""What follows from what a probe saw: of one clause, for a design of lock, for the store, as an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockref.clouds.calls import PUT, Answer, Call
from lockref.clouds.uri import parse_store_uri
from lockref.errors import ConfigError
from lockref.stores.probe import fingerprint
from lockref.stores.probe.clauses import CLAUSES, CONDITIONS, DESIGNS, Verdict
from lockref.stores.probe.fingerprint import Fingerprint
from lockref.words import Outcome
from reports.formats.exit_codes import worst
from reports.formats.fingerprint import as_json, terminal_lines
from scenarios.probe import gate
from scenarios.probe.findings import WITNESSES_MAX, Finding, Rate, judged_design, overall
from scenarios.probe.fingerprint import fingerprint_of
from scenarios.probe.opening import addresses_of
from scenarios.probe.run import ProbeResult, probe
from scenarios.probe.session import OutOfTime
from scenarios.probe.steps import Step


def found(clause: str = "C1", **kinds: object) -> Finding:
    finding = Finding(CLAUSES[clause])
    for name, value in kinds.items():
        setattr(finding, name, value)
    return finding


def all_kept() -> dict[str, Finding]:
    return {clause: found(clause, kept=1) for clause in CLAUSES}


@pytest.mark.parametrize(
    ("kinds", "verdict"),
    [
        ({"kept": 2}, "conforming"),
        ({"kept": 2, "deviations": ["412 for 404"]}, "usable"),
        ({"kept": 1, "unsupported": ["501"]}, "usable"),
        ({"unsupported": ["501"]}, "unsupported"),
        ({}, "not_answered"),
        ({"kept": 2, "unanswered": ["no reply"]}, "not_answered"),
        ({"kept": 2, "unanswered": ["no reply"], "unsafe": ["accepted"]}, "unsafe"),
    ],
)
def test_one_clause_answers_for_itself(kinds: dict[str, object], verdict: str) -> None:
    """A silent success outweighs everything; a lost answer is no verdict; a deviation is listed and no more."""
    assert found(**kinds).verdict == verdict


def test_a_copy_makes_a_store_usable_at_most_and_a_stale_delete_makes_it_unsafe() -> None:
    """A lock's own requests decide; the others are told. An outage of one of them is no verdict on the store."""
    findings = all_kept()
    assert overall(findings) is Verdict.CONFORMING
    findings["C14"] = found("C14", unsafe=["accepted a copy"])
    assert overall(findings) is Verdict.USABLE
    findings["C2"] = found("C2", unanswered=["no round"])
    assert overall(findings) is Verdict.NOT_ANSWERED
    findings["C8"] = found("C8", unsafe=["accepted a delete"])
    assert overall(findings) is Verdict.UNSAFE


def test_what_the_store_does_not_have_spoils_nothing_and_what_it_refuses_does() -> None:
    """No delete markers without versions: fine. A conditional delete answered with 501: usable, not conforming."""
    findings = all_kept()
    findings["C12"] = found("C12")
    findings["C12"].has_no("the bucket keeps no former versions")
    assert overall(findings) is Verdict.CONFORMING
    findings["C8"] = found("C8", unsupported=["501"])
    assert overall(findings) is Verdict.USABLE


def test_a_lock_that_only_creates_does_not_mind_replacements() -> None:
    """K6: where replacements ignore their condition, create-only can be carried and compare-and-swap cannot."""
    findings = all_kept()
    findings["C4"] = found("C4", unsafe=["accepted a stale one"])
    spread = findings["C16"]
    spread.part = "replace"
    spread.note(spread.unsafe, "two winners")
    assert judged_design(DESIGNS["create"], findings)["verdict"] == "can carry"
    refuted = judged_design(DESIGNS["cas"], findings)
    assert refuted["verdict"] == "cannot carry"
    assert str(refuted["why"]).startswith("C4, C16: ")
    spread.part = "create"
    spread.note(spread.unsafe, "two winners of a create")
    assert judged_design(DESIGNS["create"], findings)["verdict"] == "cannot carry"


def in_parts(**noted: tuple[str, ...]) -> Finding:
    """C16, with a sentence of that kind in each of these parts; "" is the clause as a whole."""
    finding = found("C16", kept=1)
    for kind, parts in noted.items():
        for part in parts:
            finding.part = part
            finding.note(getattr(finding, kind), f"{kind} {part}")
    return finding


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (in_parts(unsafe=("replace",)), "usable"),
        (in_parts(unsafe=("create",)), "unsafe"),
        (in_parts(unsafe=("",)), "unsafe"),
        (in_parts(unsafe=("replace",), unanswered=("create",)), "not_answered"),
        (in_parts(unsafe=("replace",), unanswered=("",)), "not_answered"),
        (in_parts(unanswered=("replace",)), "usable"),
        (in_parts(unanswered=("",)), "not_answered"),
        (found("C16"), "not_answered"),
    ],
)
def test_a_part_of_a_clause_is_spoilt_by_itself_and_by_the_whole(finding: Finding, verdict: str) -> None:
    """C16 for a lock that only creates: what was seen of replacements does not count, what was never asked does."""
    assert finding.verdict_for("create") == verdict


def test_a_refusal_is_a_reason_why_not_beside_a_missing_answer() -> None:
    """Compare-and-swap: C4 is refused and C3 was not asked. Nothing that is still to come makes it good."""
    findings = all_kept() | {"C3": found("C3"), "C4": found("C4", unsupported=["501"])}
    assert judged_design(DESIGNS["cas"], findings)["verdict"] == "cannot carry"


def test_what_is_told_begins_with_what_is_wrong() -> None:
    """Faults, open questions, deviations, refusals; a witness has a bound, and a reason only where nothing came."""
    finding = found(unsafe=["a"], unanswered=["b"], deviations=["c"], unsupported=["d"])
    assert finding.told == ["a", "b", "c", "d"]
    for number in range(WITNESSES_MAX + 1):
        finding.saw(Call(verb=PUT, key="k"), Answer(outcome=Outcome.REJECTED, status=number or None, reason="why"))
    assert len(finding.witness) == WITNESSES_MAX
    assert [told.get("reason") for told in finding.witness[:2]] == ["why", None]


def test_the_rate_of_a_clause_is_that_of_all_its_races() -> None:
    """Rounds and faults add up, and their interval is from its low end to its high one."""
    finding = found("C3", unsafe=["x"])
    finding.rates += [Rate(name="one", rounds=60, faulty=15), Rate(name="two", rounds=40)]
    told: Any = finding.as_facts()["rate"]
    assert (told["rounds"], told["faulty"], told["share"]) == (100, 15, 0.15)
    assert (told["low"], told["high"]) == (pytest.approx(0.093, abs=0.001), pytest.approx(0.233, abs=0.001))


def test_a_design_without_an_answer_or_with_a_refused_request_says_which() -> None:
    """A 501 is a reason why not; a missing answer is no reason for anything."""
    findings = all_kept()
    findings["C8"] = found("C8", unsupported=["501"])
    assert judged_design(DESIGNS["delete"], findings)["verdict"] == "cannot carry"
    findings["C3"] = found("C3")
    open_ = judged_design(DESIGNS["cas"], findings)
    assert (open_["verdict"], open_["why"]) == ("not answered", "C3 not answered")


def test_a_race_without_a_fault_bounds_its_rate() -> None:
    """3/n at 95 % after n clean rounds; Wilson's interval after a faulty one."""
    assert Rate(name="creates", rounds=300).facts()["high"] == pytest.approx(0.01)
    facts = Rate(name="creates", rounds=100, faulty=15).facts()
    assert (facts["low"], facts["high"]) == (pytest.approx(0.093, abs=0.001), pytest.approx(0.233, abs=0.001))


def test_the_quick_form_and_the_full_probe_share_their_clauses() -> None:
    """One table: C1 to C25, and the quick form's are among them, in their old order."""
    assert list(CLAUSES) == [f"C{number}" for number in range(1, 26)]
    assert [one.clause for one in CONDITIONS.values()] == ["C1", "C2", "C4", "C3", "C5", "C8", "C9", "C21"]
    assert {clause for design in DESIGNS.values() for clause in design.needs} <= {
        clause for clause, condition in CLAUSES.items() if condition.is_core
    }


def test_the_latencies_of_a_fingerprint_are_values_that_occurred() -> None:
    """Of 1 to 200: the 101st is the median, and so on; of one request all of them are that one."""
    told = document(all_kept(), {"read": list(range(200, 0, -1)), "create done": [7]})
    latency: Any = told["latency"]
    assert latency["read"] == {
        "requests": 200, "p50_ns": 101, "p90_ns": 181, "p99_ns": 199, "p999_ns": 200, "max_ns": 200,
    }  # fmt: skip
    assert latency["create done"] == {
        "requests": 1, "p50_ns": 7, "p90_ns": 7, "p99_ns": 7, "p999_ns": 7, "max_ns": 7,
    }  # fmt: skip


def test_requirements_are_designs_and_clauses() -> None:
    """`--require`: words as people write them; a word that is none is an error."""
    assert gate.parse_required("cas, create-only,c13,cas") == ["cas", "create", "C13"]
    assert gate.parse_required("") == []
    with pytest.raises(ConfigError, match="neither a design of lock nor a clause"):
        gate.parse_required("cas,C26")


def seen_of(findings: dict[str, Finding], durations: dict[str, list[int]] | None = None) -> Fingerprint:
    address = parse_store_uri("s3://bucket/prefix?endpoint=http://127.0.0.1:9000")
    return fingerprint_of(
        ProbeResult(addresses=[address], findings=findings, began_wall_ns=0, durations=durations or {})
    )


def document(findings: dict[str, Finding], durations: dict[str, list[int]] | None = None) -> dict[str, Any]:
    return seen_of(findings, durations).document()


def test_a_stored_fingerprint_is_written_again_to_the_same_bytes() -> None:
    """Reading loses and moves no field: a probe of moto, as `lockref probe` wrote it when no field had a type."""
    stored = (Path(__file__).parents[3] / "data/fingerprint_of_moto.json").read_text(encoding="utf-8")
    assert as_json(Fingerprint.model_validate(json.loads(stored))) == stored


def test_the_last_lines_say_why_a_store_with_a_fault_is_usable() -> None:
    """A cross beside C14 and a verdict of "usable" contradict each other until the reason is told."""
    findings = all_kept()
    findings["C14"] = found("C14", kept=1, unsafe=["copy: accepted a create of an object that exists (200)"])
    lines = [line for line, _ in terminal_lines(seen_of(findings, {"read": [1], "conditional complete refused": [1]}))]
    assert lines[-3:-1] == ["≈ usable", "for a lock, which sends none of the requests of C14"]
    latencies = [line for line in lines if "too few for p50" in line]
    assert len({line.index("1 request,") for line in latencies}) == 1, "one column, however long a name is"
    assert not any(line.startswith("for a lock") for line, _ in terminal_lines(seen_of(all_kept())))


def test_a_new_fingerprint_has_the_parts_of_a_stored_one_in_their_order() -> None:
    """Names that a probe writes today, by their paths, against the stored probe; the rows of a race among them."""
    stored = json.loads((Path(__file__).parents[3] / "data/fingerprint_of_moto.json").read_text(encoding="utf-8"))
    raced = all_kept()
    raced["C2"].rates.append(Rate(name="creates", racers=2, rounds=3, faulty=1))
    new = document(raced, {"read": [1]})
    assert list(new) == list(stored)
    for part in ("store", "residue"):
        assert list(new[part]) == list(stored[part])
    assert list(new["designs"]["cas"]) == list(stored["designs"]["cas"])
    assert list(new["latency"]["read"]) == list(stored["latency"]["read"])
    assert list(new["clauses"]["C2"]) == list(stored["clauses"]["C2"])
    assert list(new["clauses"]["C2"]["rate"]) == list(stored["clauses"]["C2"]["rate"])
    assert list(new["clauses"]["C2"]["rate"]["races"][0]) == list(stored["clauses"]["C2"]["rate"]["races"][0])


@pytest.mark.parametrize(
    ("findings", "required", "options", "code"),
    [
        ({}, [], {}, 0),
        ({"C8": {"unsafe": ["x"]}}, [], {}, 1),
        ({"C8": {"unsafe": ["x"]}}, ["cas", "create"], {}, 0),
        ({"C4": {"unsafe": ["x"]}}, ["cas", "create"], {}, 1),
        ({"C4": {"unsafe": ["x"]}}, ["create"], {}, 0),
        ({"C3": {}}, ["cas", "create"], {}, 3),
        ({"C3": {}}, [], {}, 3),
        ({"C3": {}}, [], {"is_gone": True}, 5),
        ({"C3": {}}, ["cas"], {"is_gone": True}, 3),
        ({"C4": {"unsafe": ["x"]}, "C3": {}}, [], {"is_gone": True}, 1),
        ({"C13": {"unsupported": ["501"]}}, ["C13"], {}, 1),
        ({"C13": {"unsafe": ["x"]}, "C3": {}}, ["C3", "C13"], {}, 1),
        ({"C3": {}}, ["C3"], {}, 3),
        ({"C3": {"kept": 1, "deviations": ["x"]}}, ["C3"], {}, 0),
        ({}, [], {"is_interrupted": True}, 130),
    ],
)
def test_exit_codes(
    findings: dict[str, dict[str, object]], required: list[str], options: dict[str, bool], code: int
) -> None:
    """0, 1, 3 and 5 as docs/results.md says; what was proven unsafe is never hidden by an outage."""
    seen = all_kept() | {clause: found(clause, **kinds) for clause, kinds in findings.items()}
    assert gate.exit_code(seen_of(seen), required, **options) == code


def test_the_worst_store_speaks_for_several() -> None:
    """A proven fault is never hidden."""
    assert worst([0, 3, 5]) == 5
    assert worst([0, 1, 5]) == 1


def test_a_new_question_is_not_answered_by_an_old_verdict(tmp_path: Path) -> None:
    """A clause whose question has another version is not answered in a stored fingerprint; the others are."""
    path = tmp_path / "store.json"
    stored = json.loads(json.dumps(document(all_kept())))
    stored["clauses"]["C4"]["question"] = 0
    del stored["clauses"]["C19"]
    path.write_text(json.dumps(stored))
    told = fingerprint.load(path)
    verdicts = {clause: each.verdict for clause, each in told.clauses.items()}
    assert {clause for clause, verdict in verdicts.items() if verdict != "conforming"} == {"C4", "C19"}
    assert verdicts["C4"] == "not_answered"
    assert told.designs["create"].verdict == "can carry"
    assert told.designs["cas"].verdict == "not answered"
    assert told.verdict == "not_answered"


def test_what_was_proven_unsafe_stays_so_beside_an_old_question(tmp_path: Path) -> None:
    """A store that breaks C2 is unsafe, whatever else would have to be asked again."""
    path = tmp_path / "store.json"
    stored = json.loads(json.dumps(document(all_kept() | {"C2": found("C2", unsafe=["two winners"])})))
    del stored["clauses"]["C19"]
    path.write_text(json.dumps(stored))
    assert fingerprint.load(path).verdict == "unsafe"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is no JSON"),
        ("[]", "is no fingerprint"),
        ('{"format": "lockref-fingerprint", "format_version": 99}', "format 99"),
        ('{"format": "lockref-fingerprint", "format_version": 1}', "damaged"),
    ],
)
def test_a_file_that_is_no_fingerprint_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    """One line that says what is wrong, and what to do."""
    path = tmp_path / "store.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=complaint):
        fingerprint.load(path)


@pytest.mark.parametrize("lost", ["latency", "store.endpoint", "clauses.C1.asks", "designs.cas.why", "designs.cas"])
def test_a_damaged_fingerprint_is_refused_with_its_place(tmp_path: Path, lost: str) -> None:
    """Whatever a reader relies on is checked when the file is read, not when it is missed."""
    stored = json.loads(json.dumps(document(all_kept())))
    path, part = tmp_path / "store.json", stored
    *inner, last = lost.split(".")
    for name in inner:
        part = part[name]
    del part[last]
    path.write_text(json.dumps(stored))
    with pytest.raises(ConfigError, match=f"damaged at {lost}"):
        fingerprint.load(path)


def test_a_fingerprint_is_of_one_store(tmp_path: Path) -> None:
    """Another bucket or endpoint is another store; another prefix of the bucket is not."""
    told = seen_of(all_kept())
    fingerprint.require_for(told, parse_store_uri("s3://bucket/x?endpoint=http://127.0.0.1:9000"), path=tmp_path)
    with pytest.raises(ConfigError, match="probe that store"):
        fingerprint.require_for(told, parse_store_uri("s3://bucket?endpoint=http://127.0.0.1:9001"), path=tmp_path)


def test_a_clause_whose_races_were_never_run_has_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """C13 and C15 are asked in two steps. The time ends in the second step of C13; C1 was asked to its end."""

    def keeps(_session: object, finding: Finding, _end_ns: int) -> None:
        finding.kept += 1

    def is_late(_session: object, _finding: Finding, _end_ns: int) -> None:
        raise OutOfTime

    steps = [
        *(Step(clause=clause, run=keeps, weight=1, requests_max=1) for clause in ("C1", "C13", "C15")),
        Step(clause="C13", run=is_late, weight=1, requests_max=1, is_again=True),
        Step(clause="C15", run=keeps, weight=1, requests_max=1, is_again=True),
    ]
    monkeypatch.setattr("scenarios.probe.run.steps_for", lambda *_arguments, **_options: steps)
    done = probe(addresses_of("memory:", ()))
    verdicts = {clause: done.findings[clause].verdict for clause in ("C1", "C13", "C15")}
    assert verdicts == {"C1": Verdict.CONFORMING, "C13": Verdict.NOT_ANSWERED, "C15": Verdict.NOT_ANSWERED}
    assert done.findings["C13"].unanswered == ["not asked to its end: the probe ended early"]
