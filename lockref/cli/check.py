"""`lockref check`: judge any recorded history, of a simulation or of a real run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reports.formats.results import Results


@click.command(name="check")
@click.argument("history", type=click.Path(path_type=Path))
@click.option("--allow-exit", default="", metavar="3,4", help="Codes that count as success; never 1.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(ctx: click.Context, history: Path, allow_exit: str, as_json: bool) -> int:
    """Judge HISTORY: a run folder, the name of one, `latest`, a .parquet or a .jsonl file.

    A history that was cut off is judged up to the cut, and a run that was killed, or is not over yet, as far as it
    has recorded. A run of several scenarios or servers is judged part by part.
    """
    from lockref.cli.campaigns import code_of, document_of, say_results
    from lockref.cli.console import Console
    from lockref.cli.options import exit_codes
    from lockref.cli.reporting import parts_of
    from lockref.cli.run_folder import open_run, require_recorded
    from scenarios.batch import batch_digest

    console = Console(ctx.obj, as_json=as_json)
    allowed = exit_codes(allow_exit)
    if not history.exists():
        history = open_run(str(history)).path
    require_recorded(history)
    parts = parts_of(history) if history.is_dir() else []
    all_results = [judged_history(path) for path in ([part.folder for part in parts] or [history])]
    for results in all_results:
        say_results(console, results)
    if as_json:
        digests = [str(results.provenance["digest"]) for results in all_results]
        digest = digests[0] if len(digests) == 1 else batch_digest(digests)
        console.document(document_of(all_results, digest=digest, folder=None))
    return code_of(all_results, allowed)


def judged_history(history: Path) -> Results:
    """What the judge says, in this process, of one history: a folder or a file of events."""
    from lockref.cli.campaigns import check_line, tallied_results
    from lockref.cli.run_folder import provenance
    from lockref.history import digests
    from reports.checks import judge
    from reports.checks.integrity import altered, inspect_records
    from reports.checks.load import load_history
    from reports.checks.tally import tally
    from scenarios.batch import batch_digest

    events, runs, notes = load_history(history)
    told = digests(events)
    # An altered history may hold as well as break: whatever it shows is not what happened.
    damage = altered(inspect_records(events, runs), set(told), computed=told)
    counted = tally(
        judge(events, runs, known_damage=damage),
        events,
        runs,
        damaged=len(notes.damaged),
        nameless=notes.nameless,
        spared=_spared(history),
    )
    about = runs.select(["run", "seed", "world", "scenario", "provider"]).to_pylist()
    results = tallied_results(
        counted,
        title=str(history),
        scenario=", ".join(sorted({row["scenario"] for row in about})),
        provider=", ".join(sorted({row["provider"] for row in about})),
        provenance=provenance({"history": str(history)}) | {"digest": batch_digest(told[run] for run in sorted(told))},
        again=check_line(history),
        seeds={row["run"]: row["seed"] for row in about if row["world"] == "simulated" and row["seed"] is not None},
    )
    is_simulated = {row["world"] for row in about} == {"simulated"}
    results.notices += _told_of_folder(history, runs=len(runs), is_simulated=is_simulated)
    results.notices += notes.lines
    return results


def _told_of_folder(history: Path, *, runs: int, is_simulated: bool) -> list[str]:
    """How the run of a folder ended, and which of its runs are not among the histories that it keeps."""
    from lockref.cli.writers import end_of
    from reports.formats.results import load_results
    from scenarios.checkpoint import seeds_in

    if not history.is_dir():
        return []
    ended, path = end_of(history), history / "results.json"
    told = [ended if is_simulated else f"{ended}; it is judged as far as it recorded"] if ended else []
    if done := seeds_in(history):
        told.append(f"{done:,} seeds were finished; the same command with --resume goes on after them")
    judged = load_results(path).runs if path.is_file() else done
    if judged > runs:
        told.append(f"{runs:,} of {judged:,} runs kept their history and are judged here; the run judged all of them")
    return told


def _spared(history: Path) -> frozenset[str]:
    """The clauses that the run in this folder did not demand, such as those of a gate over the whole catalogue."""
    from reports.formats.results import load_results

    results = history / "results.json"
    return frozenset(load_results(results).spared) if results.is_file() else frozenset()
