"""`lockref replay`: re-run stored failures. FIXED, FAILED or ERROR for each."""

from __future__ import annotations

import click


@click.command(name="replay")
@click.argument("names", nargs=-1, required=True, metavar="ID|FILE|FOLDER...")
@click.option("--provider", "-p", help="Another lock under the same plan: was it the plan or the lock?")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], provider: str | None, as_json: bool) -> int:
    """Re-run stored failures: exit 1 while one still fails, 0 when all are fixed, 2 if one cannot be applied."""
    from lockref.cli.console import Console, printable
    from reports.formats.text import readable
    from scenarios.failures import find_failures, replay_failure
    from sim.explore.replay import Answer

    console = Console(ctx.obj, as_json=as_json)
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
