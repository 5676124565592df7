"""Stored failures, run again: in virtual time, or on a real server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockref.cli.jobs.shown.console import printable
from lockref.cli.jobs.shown.results import account_of, begin_run
from reports.formats.exit_codes import code_of, worst
from reports.formats.text import readable
from scenarios.backends import require_known
from scenarios.failures.failure_store import FAULTS_TOLD
from scenarios.failures.retry import retry_failure
from scenarios.failures.stored_failures import find_failures, is_own, replay_failure
from scenarios.runs import provenance
from sim.explore.replay import Answer

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console


def replay(console: Console, names: Sequence[str], *, provider: str | None, trust: bool) -> int:
    """Run each failure again: 1 while one still fails, 0 when all are fixed, 2 if one cannot be applied.

    names: ids, files, folders. provider: another lock under the same plan. trust: import code that a file names, too;
    what a failure in the store of this folder names is imported anyway.
    Errors: ConfigError for a name that is no failure.
    """
    marks = {
        Answer.SAME_DIGEST: ("FAILED", ", same trace", "bad", 1),
        Answer.SAME_CLAUSE: ("FAILED", ", another trace", "bad", 1),
        Answer.NO_LONGER_FAILS: ("FIXED", "", "good", 0),
        Answer.NOT_APPLICABLE: ("ERROR", "", "head", 2),
    }
    rows: list[dict[str, object]] = []
    codes = set()
    for path in [path for name in names for path in find_failures(name)]:
        replayed = replay_failure(path, provider=provider, may_import=trust or is_own(path))
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
        for text in failure.faults[:FAULTS_TOLD]:
            console.say(f"  fault: {printable(readable(text), limit=400)}")
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
    if console.as_json:
        console.document({"replays": rows})
    return 1 if 1 in codes else max(codes)


def retry(console: Console, names: Sequence[str], *, provider: str | None, backend: str, trust: bool) -> int:
    """Try the failures' fault plans on a real server, one after the other; the exit code.

    1 if a lock breaks there, 0 if the whole plan struck and it held, 3 if that proves nothing.
    Errors: ConfigError for a name that is no failure, or no server; those of `retry_failure`.
    """
    require_known(backend)
    paths = [path for name in names for path in find_failures(name)]
    about = provenance({"failures": list(names), "provider": provider, "backend": backend})
    rows, codes, wholes = [], [], []
    with begin_run("replay", about) as folder:
        for number, path in enumerate(paths):
            part = folder if len(paths) == 1 else folder.part(f"failure-{number + 1}")
            tried = retry_failure(
                path,
                backend,
                provider=provider,
                may_import=trust or is_own(path),
                folder=part.path,
                progress=console.step,
            )
            results = account_of(console, tried.done, part, about=about)
            code = code_of([results]) or (0 if tried.is_complete or tried.is_reproduced else 3)
            codes.append(1 if tried.is_reproduced else code)
            wholes.append(results.whole)
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
        folder.describe(status="finished", verdict=wholes[0] if len(wholes) == 1 else None, exit_code=code)
    if console.as_json:
        console.document({"replays": rows})
    return code
