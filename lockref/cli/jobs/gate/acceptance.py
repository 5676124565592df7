"""The verdict of a gate under its options: limits of the whole, accepted failures, scenarios that were not begun."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lockref.cli.jobs.gate.outputs import place_of_class
from lockref.words import counted
from reports.checks.thresholds.kept import Samples, judged_threshold
from reports.formats import gate_result
from reports.formats.exit_codes import HELD, INCONCLUSIVE, NOT_LIVE, worst
from reports.formats.gate_result import FailureGroup, GatedScenario, GateResult, Required
from scenarios.gate.demands import Ability
from scenarios.gate.known import KnownFailure, accept

if TYPE_CHECKING:
    from lockref.cli.jobs.gate.options import Chosen, GateOptions
    from scenarios.campaigns.result import CampaignResult

_CODES: Final = {"violated": NOT_LIVE, "inconclusive": INCONCLUSIVE}


def required_of(results: Iterable[CampaignResult], texts: Sequence[str], allowed: Collection[int]) -> list[Required]:
    """The limits that all runs together must keep, judged; they are taken out of the results of single scenarios.

    A limit of the whole says little about one scenario: in most of them a fault is the reason for the wait.
    """
    pooled = {text: Samples() for text in texts}
    for result in results:
        for party, text in list(result.summary.limits):
            if text in pooled:
                pooled[text].join(result.summary.limits.pop((party, text)))
    found = []
    for text, samples in pooled.items():
        kept = judged_threshold(text, samples)
        code = _CODES.get(kept.verdict, HELD)
        found.append(
            Required.model_validate(
                {
                    "text": text,
                    "verdict": kept.verdict,
                    "told": str(kept),
                    "exit_code": HELD if code in allowed else code,
                }
            )
        )
    return found


def under_options(
    result: GateResult, options: GateOptions, chosen: Chosen, *, known: Sequence[KnownFailure], lock: str, provider: str
) -> GateResult:
    """The result with what was accepted and left out. lock: its name. provider: the lock as the caller named it."""
    is_whole = not (chosen.left_out or result.cut)
    acceptance = accept(known, result.groups, lock={provider, lock}, today=datetime.now(UTC).date(), is_whole=is_whole)
    groups = tuple(
        group.model_copy(update={"accepted": acceptance.accepted.get(place, "")})
        for place, group in enumerate(result.groups)
    )
    scenarios = tuple(
        _accepted(_begun(each, result.cut, is_enough=options.is_fail_fast), groups) for each in result.scenarios
    )
    codes = [*(each.exit_code for each in scenarios), *(limit.exit_code for limit in result.required)]
    left_out = f"{counted(chosen.left_out, 'scenario')} that the caller left out" if chosen.left_out else ""
    file, line = place_of_class(provider)
    return result.model_copy(
        update={
            "groups": groups,
            "scenarios": scenarios,
            "exit_code": worst(codes),
            "unexplored": (*([left_out] if left_out else []), *result.unexplored),
            "notes": (*chosen.notes, *result.notes, *_hints(result), *acceptance.notes),
            "lock_file": file,
            "lock_line": line,
        }
    )


def _hints(result: GateResult) -> list[str]:
    """Declarations that the caller may have forgotten."""
    lease = next((found for found in result.abilities if found.name == Ability.LEASE), None)
    if lease is None or lease.has or lease.origin == "declared":
        return []
    if not any(group.clause in ("L1", "L2", "L6") for group in result.groups):
        return []
    return [
        "this lock seems to have no lease. If an operator frees what a dead holder leaves, say so: --declare no-lease, "
        'or claims = ("no-lease",) in its class'
    ]


def _begun(scenario: GatedScenario, cut: str, *, is_enough: bool) -> GatedScenario:
    """A scenario that was not begun says why. is_enough: the caller wanted no more than the first failure."""
    if not cut or scenario.runs or scenario.outcome != gate_result.INCONCLUSIVE:
        return scenario
    code = HELD if is_enough else scenario.exit_code
    return scenario.model_copy(update={"reason": f"not begun: {cut}", "exit_code": code})


def _accepted(scenario: GatedScenario, groups: Sequence[FailureGroup]) -> GatedScenario:
    """A scenario all of whose causes are accepted stops nothing, unless it broke a limit of its own as well."""
    shown = [group for group in groups if group.id in scenario.groups]
    if not shown or not all(group.accepted for group in shown) or scenario.broken_limits:
        return scenario
    return scenario.model_copy(update={"outcome": gate_result.ACCEPTED, "exit_code": HELD})
