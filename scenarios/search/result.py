"""The result of a search: the summary of its trials, the histories of those that failed, and how far it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lockref.history import batch_digest
from reports.checks.summary import Finding, Summary, telling_order
from scenarios.search.trials import Trial, TriedPiece
from scenarios.worlds.judged_result import History, JudgedResult, joined_histories, only_runs
from sim.explore.exhaustive import Tally


@dataclass(slots=True, kw_only=True)
class SearchResult(JudgedResult):
    """The trials of one search.

    failing: by number, each trial that speaks for a failure. traces: hash of a trace to the first trial that had it.
    tally: of the schedules, where they were explored. how: in a word or two, for the title. is_cut: it ended before
    everything was tried.
    """

    how: str = ""
    failing: dict[int, Trial] = field(default_factory=dict)
    traces: dict[str, int] = field(default_factory=dict)
    is_cut: bool = False
    tally: Tally = field(default_factory=Tally)
    tables: list[History] = field(default_factory=list)
    counts: dict[str, object] = field(default_factory=dict)

    @property
    def is_sample(self) -> bool:
        return False

    @property
    def title(self) -> str:
        return f"{self.scenario} under {self.provider}, {self.how}"

    @property
    def digest(self) -> str:
        """One hash over all distinct traces, in the order in which they were met."""
        return batch_digest(self.traces)

    @property
    def facts(self) -> Mapping[str, object]:
        return self.counts

    @property
    def history(self) -> History:
        """The histories of the trials that failed, each failure once."""
        return joined_histories(self.tables)

    def absorb(self, piece: TriedPiece) -> list[Finding]:
        """Add a piece; the failures that no earlier one has shown. A piece that met an error ends the search."""
        if piece.error is not None:
            self.error = piece.error
            return []
        assert piece.summary is not None, "a piece without an error was judged"
        known = {finding.key for finding in self.summary.findings}
        self.summary.add(piece.summary)
        self.tally = self.tally + piece.tally
        for tried in piece.tried:
            self.traces.setdefault(tried.trace, tried.number)
        self.summary.findings = _by_least_cause(self.summary.findings)
        new = [finding for finding in self.summary.findings if finding.key not in known]
        told = {finding.run for finding in self.summary.findings}
        self.failing = {number: trial for number, trial in self.failing.items() if number in told}
        self.failing.update({finding.run: piece.runs[finding.run] for finding in new})
        if piece.kept is not None and new:
            self.tables.append(only_runs(piece.kept, {finding.run for finding in new}))
        return new


def _by_least_cause(findings: Sequence[Finding]) -> list[Finding]:
    """The failures, less those that some of their kinds of faults have shown by themselves: they count as similar."""
    least: list[Finding] = []
    for finding in sorted(findings, key=lambda each: len(each.fault_kinds)):
        for place, known in enumerate(least):
            is_same = (known.clause, known.kind) == (finding.clause, finding.kind)
            if is_same and set(known.fault_kinds) <= set(finding.fault_kinds):
                least[place] = replace(known, similar=known.similar + finding.similar + 1)
                break
        else:
            least.append(finding)
    return sorted(least, key=lambda each: telling_order(each.clause, each.run, each.kind))


def begun(scenario: str, provider: str, *, how: str, not_demanded: frozenset[str] = frozenset()) -> SearchResult:
    """The result of a search that has not tried anything yet."""
    return SearchResult(scenario=scenario, provider=provider, how=how, summary=Summary(not_demanded=not_demanded))
