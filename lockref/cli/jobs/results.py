"""The end of every job that judges: say the verdicts, write the document, and return the exit code."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from lockref.cli.jobs.console import Console, printable
from lockref.history import history_digest
from lockref.words import counted
from reports.account import check_line, judged_history, summarised_results, write_run
from reports.formats.document import document_of, joint_digest
from reports.formats.exit_codes import code_of, gate, worst
from reports.formats.github import annotation_lines
from reports.formats.results import Results
from reports.formats.terminal import result_lines
from reports.formats.text import outgoing
from scenarios.checkpoint import seeds_in
from scenarios.runs import RunFolder, end_of, provenance

if TYPE_CHECKING:
    from lockref.errors import LockrefError
    from scenarios.campaign import CampaignResult
    from scenarios.failures.stored import FailureStore
    from scenarios.wire.run import WireOutcome
    from scenarios.worlds.contention import Contention


def campaign_results(campaign: CampaignResult, failures: FailureStore, *, about: Mapping[str, object]) -> Results:
    """The account of a campaign of seeds; its failures are stored. about: the provenance of the command."""
    results = summarised_results(
        campaign.summary,
        title=f"{campaign.scenario.name} under {campaign.provider}",
        scenario=campaign.scenario.name,
        provider=campaign.provider,
        provenance={**about, "digest": campaign.digest},
        store_failure=failures.store,
    )
    results.notices += campaign.notices
    if failures.is_short_of_time:
        results.notices.append(
            "the time for shrinking was spent: some failures are told as they were found, with more faults than they "
            "need (--shrink-for gives more; a single scenario and seed need little)"
        )
    return results


def contention_results(
    console: Console,
    done: Contention,
    folder: RunFolder,
    *,
    about: Mapping[str, object],
    allowed: Sequence[int] = (),
) -> Results:
    """The account of a contention run, written and said. Raises KeyboardInterrupt if a Ctrl-C cut the run off."""
    outcome = done.outcome
    facts = {"backend": done.server, "backend_version": done.version, "contenders": done.clients}
    results = summarised_results(
        done.summary,
        title=done.title,
        scenario=done.scenario,
        provider=done.provider,
        backend=done.server,
        provenance={**about, **facts, "digest": history_digest(outcome.events)},
        again=check_line(folder.path),
    )
    results.capabilities = done.capabilities
    results.notices += done.store_notices
    results.notices += done.run_notices
    write_run(folder.path, outcome.events, outcome.runs, results, allowed=allowed)
    return _told(console, results, folder, is_interrupted=outcome.is_interrupted)


def wire_results(
    console: Console,
    done: WireOutcome,
    folder: RunFolder,
    *,
    about: Mapping[str, object],
    allowed: Sequence[int] = (),
) -> Results:
    """The account of a program on the wire, written and said. Raises KeyboardInterrupt if a Ctrl-C cut the run off."""
    facts = {"backend": done.server, "backend_version": done.version, "faults": dict(done.fired)}
    results = summarised_results(
        done.summary,
        title=done.title,
        scenario=done.scenario,
        provider=done.program,
        backend=done.server,
        provenance={**about, **facts, "digest": history_digest(done.events)},
        again=check_line(folder.path),
    )
    results.notices += done.notices
    write_run(folder.path, done.events, done.runs, results, allowed=allowed)
    return _told(console, results, folder, is_interrupted=done.is_interrupted)


def _told(console: Console, results: Results, folder: RunFolder, *, is_interrupted: bool) -> Results:
    """Say the account, and return it. Raises KeyboardInterrupt if Ctrl-C cut the run off."""
    say_results(console, results)
    if is_interrupted:
        console.say(f"what was finished is in {folder.path}", style="dim")
        raise KeyboardInterrupt
    return results


def history_results(history: Path) -> Results:
    """The account of a recorded history, judged here, with how its run ended."""
    is_folder = history.is_dir()
    return judged_history(
        history,
        provenance=provenance({"history": str(history)}),
        ended=end_of(history) if is_folder else "",
        finished_seeds=seeds_in(history) if is_folder else 0,
    )


def begin_run(command: str, about: Mapping[str, object]) -> RunFolder:
    """A new run folder; an earlier run that was killed is told of on standard error."""
    return RunFolder.begin(command, about, tell=lambda text: click.echo(outgoing(text), err=True))


def say_results(console: Console, results: Results) -> None:
    """The verdict in a few lines, the failure blocks last."""
    for text, style in result_lines(results):
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
) -> int:
    """End a job that judged runs: describe its folder, print the document or the folder's path; its exit code.

    skipped: scenarios that do not apply to the lock, with the reason.
    errors: scenarios that could not be run to their end, with the error; they have been told.
    failed: what ended it early. It is raised again where nothing was judged
    before and no document is due; otherwise it is said, and what was judged
    still counts: a proven failure is not hidden by a server that then went away.
    """
    if failed is not None and not results and not (console.as_json and errors):
        raise failed
    code = code_of(results, allowed) if results else 0
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
    folder.describe(status="finished" if failed is None else "failed", verdict=document["verdict"], exit_code=code)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotation_lines(results, **gate(allowed)):
            console.command(line)
    if console.as_json:
        console.document(document)
    else:
        console.say(f"history and results in {folder.path}", style="dim")
    return code
