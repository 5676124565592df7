"""`lockref check`: judge any recorded history, of a simulation or of a real run."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="check")
@click.argument("history", type=click.Path(path_type=Path))
@click.option("--allow-exit", default="", metavar="3,4", help="Codes that count as success; never 1.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(ctx: click.Context, history: Path, allow_exit: str, as_json: bool) -> int:
    """Judge HISTORY: a run folder, a .parquet or a .jsonl file. A history that was cut off is judged up to the cut.

    The folder of a run that was killed, or is not over yet, is judged as far as it has recorded.
    """
    from lockref.cli.campaigns import check_line, code_of, document_of, say_results, tallied_results
    from lockref.cli.console import Console
    from lockref.cli.options import exit_codes
    from lockref.cli.run_folder import provenance, require_recorded
    from lockref.cli.writers import end_of
    from reports.checks import judge
    from reports.checks.load import load_history
    from reports.checks.tally import tally
    from scenarios.batch import history_digest

    console = Console(ctx.obj, as_json=as_json)
    allowed = exit_codes(allow_exit)
    require_recorded(history)
    events, runs, notes = load_history(history)
    counted = tally(
        judge(events, runs),
        events,
        runs,
        damaged=len(notes.damaged),
        nameless=notes.nameless,
        spared=_spared(history),
    )
    about = runs.select(["run", "seed", "world", "scenario", "provider"]).to_pylist()
    digest = history_digest(events)
    results = tallied_results(
        counted,
        title=str(history),
        scenario=", ".join(sorted({row["scenario"] for row in about})),
        provider=", ".join(sorted({row["provider"] for row in about})),
        provenance=provenance({"history": str(history)}) | {"digest": digest},
        again=check_line(history),
        seeds={row["run"]: row["seed"] for row in about if row["world"] == "simulated" and row["seed"] is not None},
    )
    ended = end_of(history) if history.is_dir() else ""
    results.notices += [f"{ended}; it is judged as far as it recorded"] if ended else []
    results.notices += notes.lines
    say_results(console, results)
    if as_json:
        console.document(document_of([results], digest=digest, folder=None))
    return code_of([results], allowed)


def _spared(history: Path) -> frozenset[str]:
    """The clauses that the run in this folder did not demand, such as those of a gate over the whole catalogue."""
    from reports.formats.results import load_results

    results = history / "results.json"
    return frozenset(load_results(results).spared) if results.is_file() else frozenset()
