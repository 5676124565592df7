"""The end of every job that judges: say the verdicts, write the document, and return the exit code."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import click

from lockref.cli.jobs.shown.console import Console, printable
from lockref.words import counted
from reports.account import check_line, judged_history, summarised_results, write_results, write_run
from reports.checks.verdicts import whole_verdict
from reports.explanation.recorded import RecordedCauses
from reports.formats.document import document_of, joint_digest
from reports.formats.exit_codes import code_of, gate, worst
from reports.formats.github import annotation_lines
from reports.formats.results import Results
from reports.formats.terminal import result_lines
from reports.formats.text import outgoing
from scenarios.campaigns.run_folders import seeds_in
from scenarios.runs import RunFolder, end_of, provenance

if TYPE_CHECKING:
    from lockref.errors import LockrefError
    from reports.checks.summary import Finding
    from scenarios.failures.failure_store import FailureRecord
    from scenarios.worlds.judged_result import JudgedResult, Steps


class FailureKeeper(Protocol):
    """Stores the failures of simulated runs."""

    @property
    def is_short_of_time(self) -> bool:
        """Was one left larger than it need be, for want of time?"""
        ...

    def store(self, finding: Finding, /) -> FailureRecord:
        """Keep one, under an id by which it is replayed."""
        ...


def write_account(
    done: JudgedResult,
    folder: RunFolder,
    *,
    about: Mapping[str, object],
    allowed: Sequence[int] = (),
    failures: FailureKeeper | None = None,
    notices: Sequence[str] = (),
) -> Results:
    """The account of judged runs, whatever world they ran in, written to the folder with their history.

    about: the provenance of the command. failures: where the failures of simulated runs are stored for a replay; those
    of other runs are judged again from the folder. notices: what the caller adds to those of the runs.
    """
    results = summarised_results(
        done.summary,
        title=done.title,
        scenario=done.scenario,
        provider=done.provider,
        backend=done.server,
        provenance={**about, **done.facts, "digest": done.digest},
        store_failure=failures.store if failures else None,
        again=check_line(folder.path),
        causes=None if failures else RecordedCauses(*done.history),
        is_sample=done.is_sample,
    )
    results.capabilities = done.capabilities
    results.notices += [*done.notices, *notices]
    if failures is not None and failures.is_short_of_time:
        results.notices.append(
            "the time for shrinking was spent: some failures are told as they were found, with more faults than they "
            "need (--shrink-for gives more; a single scenario and seed need little)"
        )
    if done.is_history_written:
        write_results(folder.path, results, allowed=allowed)
    else:
        write_run(folder.path, *done.history, results, allowed=allowed)
    return results


def account_of(
    console: Console,
    done: JudgedResult,
    folder: RunFolder,
    *,
    about: Mapping[str, object],
    allowed: Sequence[int] = (),
) -> Results:
    """The account of a run in real time, written and said. Raises KeyboardInterrupt if a Ctrl-C cut the run off."""
    results = write_account(done, folder, about=about, allowed=allowed)
    say_results(console, results)
    if done.is_interrupted:
        console.say(f"what was finished is in {folder.path}", style="dim")
        raise KeyboardInterrupt
    return results


def history_results(history: Path) -> Results:
    """The account of a recorded history, judged here, with how its run ended."""
    ended = end_of(history) if history.is_dir() else ""
    return judged_history(
        history,
        provenance=provenance({"history": str(history)}),
        ended=ended,
        # A run that has just finished may not have removed its chunks yet.
        finished_seeds=seeds_in(history) if ended else 0,
    )


def begin_run(command: str, about: Mapping[str, object]) -> RunFolder:
    """A new run folder; an earlier run that was killed is told of on standard error."""
    return RunFolder.begin(command, about, tell=lambda text: click.echo(outgoing(text), err=True))


def steps_of(console: Console, folder: RunFolder) -> Steps:
    """A function that says which step of a run begins, and writes it down for whoever watches the folder."""

    def begins(text: str, /, *, lasting_ns: int = 0) -> None:
        console.step(text, lasting_ns=lasting_ns)
        folder.begin_step(text, lasting_ns=lasting_ns)

    return begins


def say_error(console: Console, scenario: str, error: LockrefError) -> None:
    """Tell the error that ended the runs of one scenario, among others or after some of them."""
    message = printable(str(error), limit=4000, keep_newlines=True)
    console.say(f"ERROR        {scenario}: {message}", style="bad")


def say_results(console: Console, results: Results, *, repeats: Mapping[str, str] = MappingProxyType({})) -> None:
    """The verdict in a few lines, the failure blocks last. repeats: see `result_lines`."""
    for text, style in result_lines(results, repeats):
        console.say(text, style=style)


def conclude(
    console: Console,
    folder: RunFolder,
    results: Sequence[Results],
    *,
    allowed: Sequence[int] = (),
    failed: LockrefError | None = None,
    skipped: Mapping[str, str] = MappingProxyType({}),
    errors: Mapping[str, str] = MappingProxyType({}),
    further: Mapping[str, object] = MappingProxyType({}),
    further_code: int = 0,
) -> int:
    """End a job that judged runs: describe its folder, print the document or the folder's path; its exit code.

    skipped: scenarios that do not apply to the lock, with the reason.
    errors: scenarios that could not be run to their end, with the error; they have been told.
    further: what the job has to say in the document besides; further_code: the exit code of that.
    failed: what ended it early. It is raised again where nothing was judged
    before and no document is due; otherwise it is said, and what was judged
    still counts: a proven failure is not hidden by a server that then went away.
    """
    if failed is not None and not results and not (console.as_json and errors):
        raise failed
    code = worst((code_of(results, allowed) if results else 0, further_code))
    if failed is not None:
        code = worst((code, failed.exit_code))
    if errors:
        console.say(f"{counted(len(errors), 'scenario')} could not be run: {', '.join(errors)}", style="bad")
    elif failed is not None:
        console.say(f"ended early: {printable(str(failed), limit=4000, keep_newlines=True)}", style="bad")
    if len(results) + len(skipped) + len(errors) > 1:
        ended: Counter[str] = Counter(each.worst for each in results)
        ended.update({"not applicable": len(skipped), "could not be run": len(errors)})
        console.say("in all: " + ", ".join(f"{number:,} {how}" for how, number in ended.items() if number))
    document = document_of(results, digest=joint_digest(results), folder=folder.path, skipped=skipped, errors=errors)
    whole = whole_verdict(
        safety=str(document["verdict"]),
        liveness=str(document["liveness"]),
        fairness=str(document["fairness_claims"]),
    )
    document |= further
    folder.describe(
        status="finished" if failed is None else "failed", verdict=further.get("verdict", whole), exit_code=code
    )
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotation_lines(results, **gate(allowed)):
            console.command(line)
    if console.as_json:
        console.document(document)
    else:
        console.say(f"history and results in {folder.path}", style="dim")
    return code
