"""A recorded history to its results, in this process: what `check` prints, and the page of a run without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.formats.results import Results


def judged_history(history: Path) -> Results:
    """What the judge says, in this process, of one history: a folder or a file of events."""
    from lockref.cli.campaigns import check_line, tallied_results
    from lockref.cli.run_folder import provenance
    from lockref.history import digests
    from reports.checks import judge
    from reports.checks.facts.integrity import altered, inspect_records
    from reports.checks.summary import tally
    from reports.history_files import load_history
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
