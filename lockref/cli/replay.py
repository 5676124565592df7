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
    from pydantic import ValidationError

    from lockref.cli.console import Console, printable
    from lockref.cli.evidence import JudgedRun
    from lockref.cli.failures import find_failures
    from lockref.errors import ConfigError, Location
    from lockref.lab.loading import load_provider
    from reports.formats.text import readable
    from scenarios.definition.schema import Scenario
    from scenarios.worlds.simulated import RunOutcome, run_simulated
    from sim.explore.replay import Answer, Failure, replay
    from sim.faults.vocabulary import FaultPlan
    from sim.kernel.schedules import Schedule

    console = Console(ctx.obj, as_json=as_json)
    marks = {
        Answer.SAME_DIGEST: ("FAILED", "bad", 1),
        Answer.SAME_CLAUSE: ("FAILED", "bad", 1),
        Answer.NO_LONGER_FAILS: ("FIXED", "good", 0),
        Answer.NOT_APPLICABLE: ("ERROR", "head", 2),
    }
    rows = []
    for path in [path for name in names for path in find_failures(name)]:
        failure = Failure.load(path)
        try:
            scenario = Scenario.model_validate(failure.scenario)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ConfigError(
                f"the stored scenario is none of this version: scenario.{place}: {first['msg']}",
                location=Location(str(path)),
            ) from None
        spec = load_provider(provider or failure.provider.name)

        def run(plan: FaultPlan, schedule: Schedule, seed: int, scenario=scenario, spec=spec) -> RunOutcome:  # type: ignore[no-untyped-def]
            return run_simulated(scenario, spec, seed, plan=plan, schedule=schedule)

        judged: list[JudgedRun] = []

        def broken(outcome: RunOutcome, judged=judged) -> frozenset[str]:  # type: ignore[no-untyped-def]
            one = JudgedRun(outcome)
            judged.append(one)
            return one.broken

        answered = replay(failure, run, broken)
        message = judged[-1].message(failure.clause) if judged else ""
        word, style, code = marks[answered.answer]
        rows.append((failure, answered, word, code, message))
        trace = {Answer.SAME_DIGEST: ", same trace", Answer.SAME_CLAUSE: ", another trace"}.get(answered.answer, "")
        console.say(
            f"{word}{trace}   {failure.clause}   {printable(failure.id)}   seed {failure.seed}   "
            f"{printable(scenario.name)} under {printable(spec.name)}",
            style=style,
        )
        if message:
            console.say(f"  {printable(readable(message), limit=400)}")
        console.say(f"  {printable(answered.explanation, limit=400)}")
        if failure.shrink is not None:
            shrunk = failure.shrink
            console.say(
                f"  shrunk: {shrunk.faults_before} faults to {shrunk.faults_after}, "
                f"{shrunk.deviations_before} schedule deviations to {shrunk.deviations_after}"
                + (f"; matters: {', '.join(shrunk.matters)}" if shrunk.matters else "")
            )
    if as_json:
        console.document(
            {
                "replays": [
                    {
                        "id": failure.id,
                        "answer": word,
                        "detail": str(answered.answer),
                        "clause": failure.clause,
                        "broken": list(answered.clauses),
                        "digest": answered.digest,
                        "message": message,
                    }
                    for failure, answered, word, _, message in rows
                ]
            }
        )
    codes = {code for *_, code, _ in rows}
    return 1 if 1 in codes else max(codes)
