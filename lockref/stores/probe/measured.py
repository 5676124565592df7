"""Measurements of a store: which conditions it kept, how often, how fast.

A server's dialect promises conditions; whether this server keeps them is
measured (`lockref.stores.probe.selftest`). A pass bounds the defect's rate and proves
nothing; one ignored condition proves that no lock is safe there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lockref.durations import duration
from lockref.stores.probe.clauses import CONDITIONS, Condition

Status = Literal["kept", "ignored", "refused", "not_measured"]
"""refused: the server said honestly that it does not know the condition. ignored: it answered as if it had kept it."""


@dataclass(slots=True, kw_only=True)
class ConditionResult:
    """The result of one condition.

    detail: what was seen, where it was not simply kept. rounds: judged ones of a race; void: those in which nobody
    won or too little was answered; faulty: those that show the condition ignored. winners_max: in one round.
    """

    condition: Condition
    status: Status = "not_measured"
    detail: str = ""
    racers: int = 0
    rounds: int = 0
    void: int = 0
    faulty: int = 0
    winners_max: int = 0

    def ignored(self, detail: str) -> None:
        """Note that the condition was not kept; the first detail stays."""
        if self.status != "ignored":
            self.status, self.detail = "ignored", detail

    def kept(self) -> None:
        """Note that the condition was kept once; once ignored stays ignored."""
        if self.status == "not_measured":
            self.status, self.detail = "kept", ""

    @property
    def sentence(self) -> str:
        """For a message: what was accepted, the clause, and what a lock would do."""
        return f"{self.detail} ({self.condition.clause}): on such a store {self.condition.harm}"

    def facts(self) -> dict[str, object]:
        """For results and `--json`."""
        facts: dict[str, object] = {"clause": self.condition.clause, "status": self.status}
        if self.detail:
            facts["detail"] = self.detail
        if self.racers:
            facts |= {
                "racers": self.racers,
                "rounds": self.rounds,
                "rounds_void": self.void,
                "rounds_guilty": self.faulty,
                "winners_max": self.winners_max,
            }
        return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """The results of all conditions of one store.

    versions_repeat: equal bytes gave equal versions (C7); None where it was not seen.
    request_ns: duration of each request that was sent alone, not in a race.
    credentials: what a user must be told about the credentials that were sent; "" for nothing.
    """

    findings: dict[str, ConditionResult] = field(
        default_factory=lambda: {name: ConditionResult(condition=condition) for name, condition in CONDITIONS.items()}
    )
    versions_repeat: list[bool] = field(default_factory=list)
    request_ns: list[int] = field(default_factory=list)
    credentials: str = ""

    @property
    def ignored(self) -> list[ConditionResult]:
        """The conditions that the store ignored."""
        return [finding for finding in self.findings.values() if finding.status == "ignored"]

    @property
    def conditional_delete(self) -> str:
        """`supported`, `ignored`, `refused` or `not_measured`."""
        status = self.findings["delete"].status
        return "supported" if status == "kept" else status

    def facts(self) -> dict[str, object]:
        """For `results.json` and `--json`. Durations are nanoseconds."""
        facts: dict[str, object] = {name: finding.facts() for name, finding in self.findings.items()}
        facts["conditional_delete"] = self.conditional_delete
        if self.versions_repeat:
            facts["versions_repeat"] = any(self.versions_repeat)
        if self.credentials:
            facts["credentials"] = self.credentials
        if self.request_ns:
            ordered = sorted(self.request_ns)
            facts["requests"] = len(ordered)
            facts["request_p50_ns"] = ordered[len(ordered) // 2]
            facts["request_max_ns"] = ordered[-1]
        return facts

    def lines(self) -> list[tuple[Status, str]]:
        """For people: one line a condition."""
        return [(finding.status, _line(finding)) for finding in self.findings.values()]

    @property
    def latency(self) -> str:
        """For people; empty where nothing was measured."""
        if not self.request_ns:
            return ""
        ordered = sorted(self.request_ns)
        median, longest = duration(ordered[len(ordered) // 2]), duration(ordered[-1])
        return f"a request takes {median}, at most {longest}, of {len(ordered)}"


def _line(finding: ConditionResult) -> str:
    condition = finding.condition
    head = f"{condition.clause:<4} {condition.words}"
    if finding.status == "kept":
        told = "one winner" if finding.racers and finding.condition.name != "delete_race" else "kept"
        if finding.racers:
            told += f" in each of {finding.rounds} rounds of {finding.racers}"
        return f"{head}: {told}"
    if finding.status == "ignored":
        return f"{head}: ignored: {finding.detail}"
    told = "refused" if finding.status == "refused" else "not measured"
    return f"{head}: {told}{f': {finding.detail}' if finding.detail else ''}"
