"""Results as GitHub workflow commands: annotations on a run.

GitHub shows at most ten annotations of a kind for a step and drops the rest
in silence, so at most ten distinct failures are told as errors and one notice
counts the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from reports.formats.gate_result import GateResult
from reports.formats.gate_screen import ended_by, headline, shown_by
from reports.formats.results import Failure, Results
from reports.formats.text import outgoing, printable, readable, short

ERRORS_MAX = 10
DATA_MAX = 4000


def annotation_lines(
    results: Sequence[Results],
    *,
    allow_inconclusive: bool = False,
    allow_not_live: bool = False,
    allow_store_lost: bool = False,
) -> list[str]:
    """Lines to print on standard output, one command each; empty where nothing failed.

    allow_inconclusive, allow_not_live, allow_store_lost: the gate takes exit codes 3, 4 and 5 for a pass; what it lets
    pass is a notice.
    """
    standings = [
        one.standing(
            allow_inconclusive=allow_inconclusive, allow_not_live=allow_not_live, allow_store_lost=allow_store_lost
        )
        for one in results
    ]
    stopped = [one for one, standing in zip(results, standings, strict=True) if standing == "violated"]
    failed = [
        (one, failure)
        for one, standing in zip(results, standings, strict=True)
        # Where a failure is allowed and something else is open, the failure is no error.
        if standing == "violated"
        for failure in one.failures
    ]
    lines = [_error(one, failure) for one, failure in failed[:ERRORS_MAX]]
    # A broken threshold has no failure of its own.
    lines += [
        f"::error title=lockref::{_data(f'{short(one.title, 80)} is violated: ' + '; '.join(one.notices))}"
        for one in stopped
        if not one.failures
    ][: max(0, ERRORS_MAX - len(lines))]
    if len(failed) > ERRORS_MAX:
        rest = len(failed) - ERRORS_MAX
        lines.append(f"::notice title=lockref::{_data(f'{rest} more distinct failures are in report.html')}")
    lines += [
        f"::warning title=lockref::{_data(f'{short(one.title, 80)} is inconclusive: ' + '; '.join(one.reasons))}"
        for one, standing in zip(results, standings, strict=True)
        if standing == "inconclusive" or (one.verdict == "inconclusive" and standing != "allowed")
    ][:ERRORS_MAX]
    lines += [
        f"::notice title=lockref::{_data(f'{short(one.title, 80)} is {one.worst}, and that is allowed')}"
        for one, standing in zip(results, standings, strict=True)
        if standing == "allowed"
    ][:ERRORS_MAX]
    return lines


def gate_annotation_lines(result: GateResult) -> list[str]:
    """Lines for a whole gate: at most ten errors, and one notice that counts what these do not tell.

    An error points to the line that crashed, or to the class of the lock; where neither is known, to the scenario, if
    it is a file of the user's.
    """
    sources = {each.name: each.source for each in result.scenarios}
    errors = [
        _gate_error(f"crash: {ended_by(crash)}", f"{readable(crash.sentence)} ({crash.replay})", crash.file, crash.line)
        for crash in result.crashes
        if crash.file
    ]
    told = [
        (f"crash: {ended_by(crash)}", f"{readable(crash.sentence)} ({crash.replay})", "")
        for crash in result.crashes
        if not crash.file
    ]
    told += [
        (
            f"{group.clause} violated: {shown_by(group)}",
            f"{readable(group.sentence)}{f' ({group.replay})' if group.replay else ''}",
            sources.get(group.scenario, ""),
        )
        for group in result.stopping
    ]
    told += [("required", limit.told, "") for limit in result.required if limit.exit_code]
    told += [
        (f"{each.name} {each.outcome.replace('_', ' ')}", each.reason or "no reason is known", each.source)
        for each in result.undecided
        if each.exit_code
    ]
    errors += [
        _gate_error(title, message, result.lock_file or source, result.lock_line if result.lock_file else 1)
        for title, message, source in told
    ]
    counts = [(len(errors) - ERRORS_MAX, "more"), (len(result.groups) - len(result.stopping), "accepted")]
    left_out = [f"{number} {word}" for number, word in counts if number > 0]
    lines = errors[:ERRORS_MAX]
    if left_out:
        lines.append(_notice(f"{headline(result)[0]}; {', '.join(left_out)}: see gate.json"))
    return lines


def _notice(text: str) -> str:
    return f"::notice title=lockref::{_data(text)}"


def _gate_error(title: str, message: str, file: str, line: int | None) -> str:
    where = f"file={_property(file)},line={line}," if file else ""
    return f"::error {where}title={_property(title)}::{_data(short(message, 500))}"


def _error(results: Results, failure: Failure) -> str:
    title = f"{failure.clause} violated: {short(results.title, 80)}"
    where = f"file={_property(failure.scenario)}," if failure.scenario.endswith((".yaml", ".yml")) else ""
    message = readable(failure.message)
    told = f"{message} ({failure.replay})" if failure.replay else message
    return f"::error {where}title={_property(title)}::{_data(short(told, 500))}"


def _data(text: str) -> str:
    # The runner also reads an older form of command, which may stand anywhere in a line: `outgoing` breaks it.
    return outgoing(printable(text, DATA_MAX)).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(short(text, 200)).replace(":", "%3A").replace(",", "%2C")
