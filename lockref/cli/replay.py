"""`lockref replay`: re-run stored failures. FIXED, FAILED or ERROR for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lockref.cli.console import Console


@click.command(name="replay")
@click.argument("names", nargs=-1, required=True, metavar="ID|FILE|FOLDER...")
@click.option("--provider", "-p", help="Another lock under the same plan: was it the plan or the lock?")
@click.option("--backend", "-b", metavar="NAME|URI", help="Try its plan on a real server instead of replaying it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(
    ctx: click.Context, names: tuple[str, ...], provider: str | None, backend: str | None, as_json: bool
) -> int:
    """Re-run stored failures: exit 1 while one still fails, 0 when all are fixed, 2 if one cannot be applied.

    With --backend each failure's fault plan is carried out on a real server: exit 1 if a lock breaks there, 0 if the
    whole plan struck and it held, 3 if that proves nothing.
    """
    from lockref.cli.console import Console, printable
    from reports.formats.text import readable
    from scenarios.failures import find_failures, replay_failure
    from sim.explore.replay import Answer

    console = Console(ctx.obj, as_json=as_json)
    if backend is not None:
        return _retry(console, names, provider, backend)
    marks = {
        Answer.SAME_DIGEST: ("FAILED", ", same trace", "bad", 1),
        Answer.SAME_CLAUSE: ("FAILED", ", another trace", "bad", 1),
        Answer.NO_LONGER_FAILS: ("FIXED", "", "good", 0),
        Answer.NOT_APPLICABLE: ("ERROR", "", "head", 2),
    }
    rows: list[dict[str, object]] = []
    codes = set()
    for path in [path for name in names for path in find_failures(name)]:
        replayed = replay_failure(path, provider=provider)
        failure, answered = replayed.failure, replayed.answered
        word, trace, style, code = marks[answered.answer]
        codes.add(code)
        rows.append(
            {
                "id": failure.id,
                "answer": word,
                "detail": str(answered.answer),
                "clause": failure.clause,
                "broken": list(answered.clauses),
                "digest": answered.digest,
                "message": replayed.message,
            }
        )
        console.say(
            f"{word}{trace}   {failure.clause}   {printable(failure.id)}   seed {failure.seed}   "
            f"{printable(replayed.scenario)} under {printable(replayed.provider)}",
            style=style,
        )
        if replayed.message:
            console.say(f"  {printable(readable(replayed.message), limit=400)}")
        console.say(f"  {printable(answered.explanation, limit=400)}")
        if failure.shrink is not None:
            shrunk = failure.shrink
            console.say(
                f"  shrunk: {shrunk.faults_before} faults to {shrunk.faults_after}, "
                f"{shrunk.deviations_before} schedule deviations to {shrunk.deviations_after}"
                + (f"; matters: {', '.join(shrunk.matters)}" if shrunk.matters else "")
            )
    if as_json:
        console.document({"replays": rows})
    return 1 if 1 in codes else max(codes)


def _retry(console: Console, names: tuple[str, ...], provider: str | None, backend: str) -> int:
    """Try the failures on a real server, one after the other."""
    from lockref.cli.console import printable
    from lockref.cli.results import begin_run, contention_results
    from reports.formats.exit_codes import code_of, worst
    from scenarios.backends import require_known
    from scenarios.failures import find_failures
    from scenarios.runs import provenance
    from scenarios.worlds.retried import retry_failure

    require_known(backend)
    paths = [path for name in names for path in find_failures(name)]
    about = provenance({"failures": list(names), "provider": provider, "backend": backend})
    rows, codes = [], []
    with begin_run("replay", about) as folder:
        for number, path in enumerate(paths):
            part = folder if len(paths) == 1 else folder.part(f"failure-{number + 1}")
            tried = retry_failure(path, backend, provider=provider, folder=part.path, progress=console.step)
            results = contention_results(console, tried.done, part, about=about)
            code = code_of([results]) or (0 if tried.is_complete or tried.is_reproduced else 3)
            codes.append(1 if tried.is_reproduced else code)
            word = "REPRODUCED" if tried.is_reproduced else "NOT REPRODUCED"
            console.say(
                f"{word}   {tried.failure.clause}   {printable(tried.failure.id)}   {printable(tried.done.server)}   "
                f"{len(tried.carried_out.faults)} of {len(tried.failure.plan.faults)} faults carried out",
                style="bad" if tried.is_reproduced else "head",
            )
            for reason in tried.reasons or [f"left out: {told}" for told in tried.left_out]:
                console.say(f"  {printable(reason, limit=400)}")
            rows.append(
                {
                    "id": tried.failure.id,
                    "answer": word,
                    "clause": tried.failure.clause,
                    "broken": list(tried.broken),
                    "faults": {name: fired for name, (_, fired, _) in tried.done.outcome.fault_counts.items()},
                    "left_out": list(tried.left_out),
                    "reasons": list(tried.reasons),
                    "verdict": results.verdict,
                }
            )
        code = worst(codes)
        folder.describe(status="finished", verdict=rows[0]["verdict"] if len(rows) == 1 else None, exit_code=code)
    if console.as_json:
        console.document({"replays": rows})
    return code
