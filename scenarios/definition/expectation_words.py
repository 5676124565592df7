"""The expectations of a scenario for each build, in the words of a listing of scenarios."""

from __future__ import annotations

from typing import Final

LEGEND: Final = """\
a scenario, and what is expected of each build in it; below, what happens
  held                   no clause breaks, in any run
  held S1 S3             these clauses hold; the others are not asked about
  violated S3; held S1   S3 breaks in at least one run, S1 in none"""
"""How to read a listing of `expectation_words`."""


def expectation_words(expected: object) -> str:
    """One build's part of `expect` in one line: "held", or verdicts with their clauses."""
    if not isinstance(expected, dict):
        return str(expected)
    by_verdict: dict[str, list[str]] = {}
    for clause, verdict in sorted(expected.items()):
        by_verdict.setdefault(str(verdict), []).append(clause)
    return "; ".join(f"{verdict} {' '.join(clauses)}" for verdict, clauses in sorted(by_verdict.items(), reverse=True))
