"""`lockref soak`: one lock at work for long on a real server, judged by its clauses and by what it never gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lockref.cli.jobs.shown.console import printable
from lockref.cli.jobs.shown.results import begin_run, conclude, say_results, steps_of
from lockref.cli.jobs.soak.judging import Judged, judge_stretches
from lockref.cli.jobs.soak.settings import Asked, asked_before
from lockref.durations import plain_duration
from lockref.errors import ConfigError, LockrefError
from lockref.runtime import NS_PER_S
from reports.account import write_results
from reports.checks.verdicts import joint_verdict
from reports.formats.exit_codes import HELD, INCONCLUSIVE, VIOLATED
from reports.html.soak import write_soak_page
from scenarios.runs import RunFolder, nothing_recorded, provenance
from scenarios.soak.plans import longest_unstruck_ns
from scenarios.soak.running import Soaked, soak_on, soak_plan
from scenarios.soak.stretches import next_stretch, soaked_ns, stretch_folders

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from reports.soak.verdict import SoakVerdict

LASTING_MIN_NS: Final = NS_PER_S
"""The shortest soak. One of which less is left is judged at once."""

_CODES: Final = {"flat": HELD, "leaks": VIOLATED, "inconclusive": INCONCLUSIVE}
_STYLES: Final = {"flat": "good", "leaks": "bad", "rises": "", "inconclusive": ""}


def soak(console: Console, asked: Asked, *, allowed: Sequence[int]) -> int:
    """Soak, judge, and write page and document. Returns the exit code. allowed: exit codes that count as success.

    Errors: ConfigError for a time that is too short, or faults of which none would strike;
    what `soak_on` raises, where nothing was measured before it; KeyboardInterrupt after Ctrl-C.
    """
    if asked.lasting_ns < LASTING_MIN_NS:
        raise ConfigError(
            f"--for {plain_duration(asked.lasting_ns)} is too short for a soak; expected "
            f"{plain_duration(LASTING_MIN_NS)} or more"
        )
    plan = soak_plan(asked.settings(), lasting_ns=asked.lasting_ns)
    if plan is not None and not plan.faults:
        raise ConfigError(
            f"--for {plain_duration(asked.lasting_ns)} is too short for faults each {plain_duration(asked.every_ns)}: "
            f"none would strike; give --for more than {plain_duration(longest_unstruck_ns(asked.every_ns))}"
        )
    with begin_run("soak", provenance(asked.told())) as folder:
        return _soak_in(console, folder, asked, lasting_ns=asked.lasting_ns, allowed=allowed)


def resume(console: Console, name: str, *, allowed: Sequence[int]) -> int:
    """Go on with a soak that was killed, interrupted, or lost its server. Otherwise as `soak`."""
    path, asked, about = asked_before(name)
    asked.settings()
    with RunFolder.resume(path, about) as folder:
        done_ns = soaked_ns(path)
        console.say(f"{done_ns / NS_PER_S:.0f} s of {asked.lasting_ns / NS_PER_S:g} s are done, in {path}", style="dim")
        return _soak_in(console, folder, asked, lasting_ns=asked.lasting_ns - done_ns, allowed=allowed)


def _soak_in(console: Console, folder: RunFolder, asked: Asked, *, lasting_ns: int, allowed: Sequence[int]) -> int:
    settings = asked.settings()
    begins = steps_of(console, folder)
    soaked: Soaked | None = None
    failed: LockrefError | None = None
    if lasting_ns >= LASTING_MIN_NS:
        stretch = next_stretch(folder.path)
        try:
            soaked = soak_on(settings, lasting_ns=lasting_ns, folder=stretch, progress=begins)
            failed = soaked.error
        except ConfigError:
            raise
        except LockrefError as error:
            failed = error
        finally:
            if not any(stretch.iterdir()):
                # Nothing was measured: the lock or the server could not be had.
                stretch.rmdir()
    title = f"{settings.scenario.name} on {asked.backend} under {settings.spec.name}"
    begins("judging what was recorded")
    # What an error has left in a recording is kept, too.
    soaked_ns(folder.path)
    stretches = stretch_folders(folder.path)
    judged = judge_stretches(stretches, title=title, about=folder.about, clients=settings.client_count)
    if not judged.results:
        raise failed or nothing_recorded(folder.path)
    notices = list(soaked.notes) if soaked is not None else []
    if failed is not None:
        notices.append(f"ended early: {failed}")
    for path, results in zip(judged.folders, judged.results, strict=True):
        if path == stretches[-1]:
            results.notices += notices
        write_results(path, results, allowed=allowed)
        say_results(console, results)
    _say(console, judged.told)
    page = write_soak_page(
        judged.told,
        judged.results,
        folder.path,
        title=title,
        origin=f"{folder.about.get('command', '')}, lockref {folder.about.get('lockref', '')}",
        notices=notices,
    )
    console.say(f"page  {page}", style="dim")
    if soaked is not None and soaked.is_interrupted:
        console.say(f"`lockref soak --resume {folder.path}` goes on", style="dim")
        raise KeyboardInterrupt
    folder.describe(soak=judged.told.verdict)
    code = _CODES[judged.told.verdict]
    return conclude(
        console,
        folder,
        judged.results,
        allowed=allowed,
        failed=failed,
        further=_told(judged),
        further_code=HELD if code in set(allowed) - {VIOLATED} else code,
    )


def _told(judged: Judged) -> dict[str, object]:
    """The document's part on the soak: `verdict` is of the whole, and `clauses` of the safety clauses alone."""
    told = judged.told.told()
    safety = joint_verdict({each.verdict for each in judged.results})
    told["soak"]["clauses"] = safety
    whole = judged.told.whole(
        safety=safety,
        liveness=joint_verdict({each.liveness for each in judged.results}),
        fairness=joint_verdict({each.fairness_claims for each in judged.results}),
    )
    return {**told, "verdict": whole}


def _say(console: Console, told: SoakVerdict) -> None:
    """The verdict of the soak, and a line for each resource: of the lock all, of others those that are not flat."""
    console.say(f"{told.verdict.upper():<12} {told.statement}", style=_STYLES[told.verdict])
    for each in told.findings:
        if each.decides or each.name in ("latency", "cpu", "network") or each.verdict == "leaks":
            whose = "" if each.decides else f"{each.role}, told only: " if each.verdict == "leaks" else ""
            console.say(
                f"  {whose}{printable(each.line, limit=400)}", style=_STYLES[each.verdict] if each.decides else ""
            )
