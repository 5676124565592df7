"""The end of a search: its failures shrunk and stored, its account written and said, its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lockref.cli.jobs.shown.console import printable
from lockref.cli.jobs.shown.results import conclude, say_results, write_account
from scenarios import interrupts
from scenarios.failures.groups import FailureGroups
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.search.failing import FailingTrials

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.checks.summary import Finding
    from reports.formats.results import Results
    from scenarios.runs import RunFolder
    from scenarios.search.result import SearchResult


def tell_new(console: Console, result: SearchResult, new: Sequence[Finding]) -> None:
    """Say each way in which a clause breaks as it is found, with the faults under which it came."""
    ways = [(each.clause, each.kind) for each in result.summary.findings if each not in new]
    for finding in new:
        if (finding.clause, finding.kind) in ways:
            continue
        ways.append((finding.clause, finding.kind))
        faults = ", ".join(kind.replace("_", " ") for kind in finding.fault_kinds) or "no fault"
        kind = f" ({finding.kind})" if finding.kind else ""
        console.say(
            f"found: {finding.clause}{kind} in {printable(result.scenario)}, run {finding.run:,}: {faults}", style="bad"
        )


def account_of_search(
    console: Console,
    result: SearchResult,
    spec: ProviderSpec,
    folder: RunFolder,
    *,
    about: Mapping[str, object],
    allowed: Sequence[int],
    budget: ShrinkBudget,
    groups: FailureGroups,
) -> Results:
    """The account of one search, written to the folder and said."""
    store = FailingTrials(
        result.failing,
        spec,
        is_in_a_hurry=result.is_interrupted or interrupts.was_heard(),
        budget=budget,
        groups=groups,
        on_progress=console.progress,
    )
    results = write_account(result, folder, about=about, allowed=allowed, failures=store)
    say_results(console, results)
    return results


def end_search(
    console: Console,
    folder: RunFolder,
    results: Sequence[Results],
    searches: Sequence[SearchResult],
    *,
    allowed: Sequence[int],
) -> int:
    """End the command; its exit code. Raises KeyboardInterrupt if a Ctrl-C cut it off: what was tried is stored."""
    if interrupts.was_heard() or any(each.is_interrupted for each in searches):
        console.say(f"what was tried is in {folder.path}", style="dim")
        raise KeyboardInterrupt
    errors = {each.scenario: each.error for each in searches if each.error is not None}
    return conclude(
        console, folder, results, allowed=allowed, failed=next(iter(errors.values()), None),
        errors={name: str(error) for name, error in errors.items()} if len(searches) > 1 else {},
    )  # fmt: skip
