"""The removal of kept runs that are beyond the user's limits: listed or carried out, and told with its bytes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockref.cli.jobs.runs.kept import age_in_words, size_in_words
from lockref.cli.jobs.runs.surplus import Limits, Surplus, carry_out, planned
from lockref.errors import BackendUnavailable
from lockref.words import counted

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console


def prune_runs(console: Console, limits: Limits, *, with_failures: bool, is_dry: bool) -> int:
    """Remove what is beyond the limits, or, in a dry run, list it. Returns the exit code, 0.

    with_failures: stored failures, too. Errors: BackendUnavailable where something may not be removed, and
    KeyboardInterrupt after Ctrl-C; what was removed by then is told, and nothing else is lost.
    """
    plan = planned(limits, now_s=time.time(), with_failures=with_failures)
    going = [*reversed(plan.runs), *reversed(plan.failures)]
    for notice in plan.notices:
        console.say(notice, style="head")
    gone: list[Surplus] = []

    def removed(each: Surplus) -> None:
        gone.append(each)
        console.say(f"{'would go' if is_dry else 'removed'}  {_line(each)}")

    if is_dry:
        for each in going:
            removed(each)
    else:
        try:
            carry_out(plan, removed=removed)
        except KeyboardInterrupt:
            console.say(f"interrupted: {_sum(gone, is_dry=False)}; each other run is whole", style="bad")
            raise
        except OSError as error:
            console.say(_sum(gone, is_dry=False))
            raise BackendUnavailable(f"not all could be removed: {error}") from error
    stay = "1 run stays" if plan.kept == 1 else f"{plan.kept:,} runs stay"
    console.say(f"{_sum(gone, is_dry=is_dry)}; {stay}")
    if console.as_json:
        rows = [{"path": str(each.path), "bytes": each.size, "age_s": each.age_s, "why": each.why} for each in gone]
        console.document(
            {"is_dry_run": is_dry, "removed": rows, "bytes": sum(each.size for each in gone), "kept": plan.kept}
        )
    return 0


def _line(each: Surplus) -> str:
    return f"{each.path.name}  {size_in_words(each.size)}  {age_in_words(each.age_s)} old  ({each.why})"


def _sum(gone: list[Surplus], *, is_dry: bool) -> str:
    runs = sum(each.path.suffix != ".json" for each in gone)
    what = [counted(runs, "run"), *([counted(len(gone) - runs, "stored failure")] if len(gone) > runs else [])]
    size = size_in_words(sum(each.size for each in gone))
    return f"{' and '.join(what)} {'would go' if is_dry else 'removed'}, {size}"
