"""The `--json` document of a command: the joint verdict, and each scenario's own part where there are several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from lockref.history import batch_digest
from reports.checks.spec import CLAUSES
from reports.checks.verdicts import joint_verdict
from reports.formats.results import Results

_TOLD_OF_EACH = {
    "title",
    "verdict",
    "liveness",
    "fairness_claims",
    "runs",
    "statement",
    "speed",
    "answers",
    "reasons",
    "endings",
    "longest_gap_ns",
}


def joint_digest(results: Sequence[Results]) -> str:
    """The digest of one history, or one hash over those of several."""
    digests = [str(each.provenance["digest"]) for each in results]
    return digests[0] if len(digests) == 1 else batch_digest(digests)


def document_of(
    results: Sequence[Results],
    *,
    digest: str,
    folder: Path | None,
    skipped: Mapping[str, str] = MappingProxyType({}),
    errors: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, object]:
    """The document.

    skipped: scenarios that do not apply to the lock, with the reason.
    errors: scenarios that could not be run to their end, with the error.
    """
    speeds = [each.speed and each.speed.model_dump() for each in results]
    gaps = [each.longest_gap_ns for each in results if each.longest_gap_ns is not None]
    document: dict[str, object] = {
        "verdict": joint_verdict({each.verdict for each in results}),
        "liveness": joint_verdict({each.liveness for each in results}),
        "fairness_claims": joint_verdict({each.fairness_claims for each in results}),
        "runs": sum(each.runs for each in results),
        "clauses": _joint_clauses(results),
        "failures": [
            failure.model_dump(include={"id", "seed", "clause", "replay", "scenario", "provider", "message", "similar"})
            for each in results
            for failure in each.failures
        ],
        "endings": dict(sum((Counter(each.endings) for each in results), Counter[str]())),
        "longest_gap_ns": max(gaps, default=None),
        "reasons": [reason for each in results for reason in each.reasons],
        "speed": speeds[0] if len(results) == 1 else None,
        "answers": [answers.model_dump() for each in results for answers in each.answers],
        "notices": [notice for each in results for notice in each.notices],
        "digest": digest,
        "folder": str(folder) if folder else None,
    }
    if len(results) > 1:
        document["scenarios"] = [
            {
                **each.model_dump(include=_TOLD_OF_EACH),
                "demanded": [name for name in each.clauses if name not in each.not_demanded],
                "not_demanded": {name: clause.verdict for name, clause in each.not_demanded.items()},
            }
            for each in results
        ]
    if errors:
        document["errors"] = [{"scenario": name, "error": error} for name, error in errors.items()]
    if skipped:
        document["skipped"] = [{"scenario": name, "reason": reason} for name, reason in skipped.items()]
    return document


def _joint_clauses(results: Sequence[Results]) -> dict[str, dict[str, object]]:
    joint: dict[str, dict[str, object]] = {}
    for name in CLAUSES:
        told = [each.clauses[name] for each in results if name in each.clauses]
        parts = [part for part in told if part.is_demanded]
        if told:
            joint[name] = {
                "verdict": joint_verdict({part.verdict for part in parts}),
                "runs": sum(part.runs for part in parts),
                "violated": sum(part.violated for part in parts),
                **({} if parts else {"is_demanded": False}),
            }
    return joint
