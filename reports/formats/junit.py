"""Results as JUnit XML, for CI systems that draw test results.

One `testcase` for each results document (a scenario, a lock and a backend). A
violation is a `failure`. An inconclusive verdict is an `error`, not a skip: a
skip reads as green. Only where the caller allows what is wrong (exit code 3 or
4) is it `skipped`, with the reason.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from reports.formats.results import Failure, Results, Standing
from reports.formats.text import printable, short

_BODY_MAX = 20_000


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
    suites = ET.Element("testsuites", name="lockref")
    suite = ET.SubElement(suites, "testsuite", name="lockref")
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for one in results:
        standing = one.standing(
            allow_inconclusive=allow_inconclusive, allow_not_live=allow_not_live, allow_store_lost=allow_store_lost
        )
        outcome = _add_case(suite, one, standing)
        if outcome:
            counts[outcome] += 1
    for element in (suites, suite):
        element.set("tests", str(len(results)))
        for name, number in counts.items():
            element.set(name, str(number))
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _add_case(suite: ET.Element, results: Results, standing: Standing) -> str:
    """Append one case; answers which counter it adds to, "" for a pass."""
    first = results.failures[0] if results.failures else None
    case = ET.SubElement(suite, "testcase", name=_clean(results.title or "history"), classname=_class_name(first))
    properties = ET.SubElement(case, "properties")
    for name, value in _properties(results, first):
        ET.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    clauses = ", ".join(results.broken)
    broken = f"{clauses} violated: {results.statement}" if clauses else results.statement
    if standing == "violated":
        failure = ET.SubElement(case, "failure", type=_clean(clauses), message=_clean(broken))
        failure.text = _body(results.failures)
        return "failures"
    said = "; ".join(results.reasons) or results.statement
    if standing == "inconclusive":
        ET.SubElement(case, "error", message=_clean(f"inconclusive: {said}"), type="inconclusive")
        return "errors"
    if standing == "allowed":
        told = f"inconclusive: {said}" if results.worst == "inconclusive" else broken
        ET.SubElement(case, "skipped", message=_clean(told))
        return "skipped"
    return ""


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
