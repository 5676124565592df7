"""Results as JUnit XML, for CI systems that draw test results.

One `testcase` for each results document (a scenario, a lock and a backend), or for each scenario of a gate. A
violation is a `failure`. An inconclusive verdict is an `error`, not a skip: a skip reads as green. Only where the
caller allows what is wrong (exit code 3 or 4) is it `skipped`, with the reason; so, too, in a gate, what does not apply
to the lock and what its team has accepted.

The file of a gate keeps to Jenkins' schema junit-10, which knows properties of a suite alone. So what belongs to one
scenario is a property with the scenario's name before it, and stands in its case as text for people. The file of a run
has `properties` in its case, as pytest writes them and as Jenkins' own reader takes them.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reports.formats import gate_result
from reports.formats.exit_codes import HELD
from reports.formats.gate_result import NOT_LIVE, VIOLATED, FailureGroup, GatedScenario, GateResult, Required
from reports.formats.results import Failure, Results, Standing
from reports.formats.text import printable, short

_BODY_MAX = 20_000

_Ended = Literal["", "failure", "error", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One test case. outcome: the element that says how it ended; "" for a pass. kind, message, body: what it holds.

    out: text for people, shown beside it.
    """

    name: str
    class_name: str
    properties: Sequence[tuple[str, str]] = ()
    outcome: _Ended = ""
    kind: str = ""
    message: str = ""
    body: str = ""
    out: str = ""
    seconds: float | None = None


def junit_xml(
    results: Sequence[Results],
    *,
    allow_inconclusive: bool = False,
    allow_not_live: bool = False,
    allow_store_lost: bool = False,
) -> str:
    """The document as text.

    allow_inconclusive, allow_not_live, allow_store_lost: the gate takes exit codes 3, 4 and 5 for a pass.
    """
    standings = [
        one.standing(
            allow_inconclusive=allow_inconclusive, allow_not_live=allow_not_live, allow_store_lost=allow_store_lost
        )
        for one in results
    ]
    return _document("lockref", [_case(one, standing) for one, standing in zip(results, standings, strict=True)])


def gate_junit_xml(result: GateResult) -> str:
    """One document for a whole gate: a test case for each scenario, and one for each limit that is required."""
    cases = [_gated(result, scenario) for scenario in result.scenarios]
    cases += [_required(result, limit) for limit in result.required]
    return _document("lockref gate", cases, _gate_properties(result))


def _document(name: str, cases: Sequence[_Case], about: Sequence[tuple[str, str]] = ()) -> str:
    """The text of the document. about: properties of the whole."""
    suites = ET.Element("testsuites", name=name)
    suite = ET.SubElement(suites, "testsuite", name=name)
    ended = Counter(case.outcome for case in cases)
    counts = {"tests": len(cases), "failures": ended["failure"], "errors": ended["error"], "skipped": ended["skipped"]}
    for element in (suites, suite):
        for counter, number in counts.items():
            # The schema has no such sum over suites.
            if not (about and element is suites and counter == "skipped"):
                element.set(counter, str(number))
    _add_properties(suite, about)
    for case in cases:
        _add(suite, case)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _add(suite: ET.Element, case: _Case) -> None:
    element = ET.SubElement(suite, "testcase", name=_clean(case.name), classname=_clean(case.class_name))
    if case.seconds is not None:
        element.set("time", f"{case.seconds:.3f}")
    _add_properties(element, case.properties)
    if case.outcome:
        ended = ET.SubElement(element, case.outcome, message=_clean(case.message))
        if case.kind:
            ended.set("type", _clean(case.kind))
        if case.body:
            ended.text = "\n" + printable(case.body, _BODY_MAX) + "\n"
    if case.out:
        ET.SubElement(element, "system-out").text = "\n" + printable(case.out, _BODY_MAX) + "\n"


def _add_properties(element: ET.Element, properties: Sequence[tuple[str, str]]) -> None:
    if properties:
        told = ET.SubElement(element, "properties")
        for name, value in properties:
            ET.SubElement(told, "property", name=_clean(name), value=_clean(value))


def _case(results: Results, standing: Standing) -> _Case:
    """The case of one results document."""
    first = results.failures[0] if results.failures else None
    case = _Case(name=results.title or "history", class_name=_class_name(first), properties=_properties(results, first))
    clauses = ", ".join(results.broken)
    broken = f"{clauses} violated: {results.statement}" if clauses else results.statement
    if standing == "violated":
        return replace(case, outcome="failure", kind=clauses, message=broken, body=_body(results.failures))
    said = "; ".join(results.reasons) or results.statement
    if standing == "inconclusive":
        return replace(case, outcome="error", kind="inconclusive", message=f"inconclusive: {said}")
    if standing == "allowed":
        told = f"inconclusive: {said}" if results.worst == "inconclusive" else broken
        return replace(case, outcome="skipped", message=told)
    return case


def _gated(result: GateResult, scenario: GatedScenario) -> _Case:
    """The case of one scenario of a gate."""
    groups = result.groups_of(scenario)
    case = _Case(
        name=scenario.name,
        class_name=_gate_class(result),
        out="\n".join(f"{name}: {value}" for name, value in _scenario_properties(scenario, groups)),
        seconds=scenario.seconds,
    )
    if scenario.outcome in (VIOLATED, NOT_LIVE):
        stopping = [group for group in groups if not group.accepted]
        message = stopping[0].sentence if stopping else scenario.reason or f"{', '.join(scenario.broken)} violated"
        blocks = "\n\n".join(group.block or group.sentence for group in stopping)
        is_allowed = scenario.exit_code == HELD
        return replace(
            case,
            outcome="skipped" if is_allowed else "failure",
            kind=", ".join(scenario.broken),
            message=message,
            body="" if is_allowed else blocks,
        )
    if scenario.outcome == gate_result.ACCEPTED:
        told = "; ".join(f"{group.sentence} ({group.accepted})" for group in groups)
        return replace(case, outcome="skipped", kind="accepted", message=told)
    if scenario.outcome == gate_result.NOT_APPLICABLE:
        return replace(case, outcome="skipped", kind="not applicable", message=f"not applicable: {scenario.reason}")
    if scenario.outcome == gate_result.HELD:
        return case
    word = scenario.outcome.replace("_", " ")
    is_allowed = scenario.exit_code == HELD
    return replace(case, outcome="skipped" if is_allowed else "error", kind=word, message=f"{word}: {scenario.reason}")


def _required(result: GateResult, limit: Required) -> _Case:
    """The case of a limit that all runs together must keep."""
    case = _Case(name=f"required: {limit.text}", class_name=_gate_class(result), out=limit.told)
    if limit.verdict == "held":
        return case
    stopped: _Ended = "failure" if limit.verdict == "violated" else "error"
    return replace(case, outcome=stopped if limit.exit_code else "skipped", kind=limit.verdict, message=limit.told)


def _gate_class(result: GateResult) -> str:
    # Readers take what stands before the last dot for a package. A path has dots and slashes of its own.
    return f"lockref.gate.{re.sub(r'[^A-Za-z0-9_-]+', '_', result.provider)}"


def _gate_properties(result: GateResult) -> list[tuple[str, str]]:
    """The properties of the whole. Names without a scenario are about the first cause, where a reader begins."""
    first = _cause_properties(result.stopping[0]) if result.stopping else []
    found = [("lock", result.provider), ("run", result.folder), ("exit_code", str(result.exit_code)), *first]
    for scenario in result.scenarios:
        told = _scenario_properties(scenario, result.groups_of(scenario))
        found += [(f"{scenario.name}.{name}", value) for name, value in told]
    return found


def _scenario_properties(scenario: GatedScenario, groups: Sequence[FailureGroup]) -> list[tuple[str, str]]:
    found = [("outcome", scenario.outcome.replace("_", " ")), ("runs", str(scenario.runs))]
    if scenario.reason:
        found.append(("reason", scenario.reason))
    for group in groups:
        found += _cause_properties(group)
    return found


def _cause_properties(group: FailureGroup) -> list[tuple[str, str]]:
    found = [("cause", group.cause), ("failure", group.id), ("found in", group.scenario)]
    found += [("seed", str(group.seed))] if group.seed is not None else []
    return found + ([("replay", group.replay)] if group.replay else [])


def _class_name(failure: Failure | None) -> str:
    parts = ("lockref", failure.provider, failure.backend) if failure is not None else ("lockref",)
    return _clean(".".join(part for part in parts if part))


def _properties(results: Results, first: Failure | None) -> list[tuple[str, str]]:
    not_demanded = [("not_demanded", ", ".join(results.not_demanded))] if results.not_demanded else []
    found = [*not_demanded, ("verdict", results.verdict), ("statement", results.statement), ("runs", str(results.runs))]
    found += [("notice", notice) for notice in results.notices]
    if first is not None:
        found += [("failure", first.id), ("replay", first.replay)]
        if first.seed is not None:
            found.append(("seed", str(first.seed)))
    found += [(f"file.{name}", path) for name, path in sorted(results.files.items())]
    return found


def _body(failures: Sequence[Failure]) -> str:
    text = "\n\n".join(failure.block or f"{failure.clause}: {failure.message}" for failure in failures)
    return "\n" + printable(text, _BODY_MAX) + "\n"


def _clean(text: str) -> str:
    # XML 1.0 has no way to write most control characters and lone surrogates. `short` shows them by their numbers.
    return short(text, 1000)
