"""What a store did when it was asked: which conditions it kept, how often, how fast.

A server's dialect promises conditions; whether this server keeps them is
measured (`lockref.stores.probe.selftest`). A pass bounds the defect's rate and proves
nothing; one ignored condition proves that no lock is safe there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from lockref.runtime import NS_PER_MS

Status = Literal["kept", "ignored", "refused", "not_measured"]
"""refused: the server said honestly that it does not know the condition. ignored: it answered as if it had kept it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that a lock relies on.

    clause: its id, as docs/results.md lists them. words: what the store is asked.
    harm: what goes wrong in a lock if the store ignores the condition.
    """

    clause: str
    name: str
    words: str
    harm: str


CONDITIONS: Final = {
    one.name: one
    for one in (
        Condition(
            clause="C1",
            name="create",
            words="a create of an object that exists",
            harm="a client that waits for the lock writes over the holder's record, and both hold it",
        ),
        Condition(
            clause="C2",
            name="create_race",
            words="simultaneous creates of one object",
            harm="two clients create the record at the same time, and both hold the lock",
        ),
        Condition(
            clause="C4",
            name="replace",
            words="a replacement of a stale version",
            harm="a late write of a former holder replaces its successor's record, and both hold the lock",
        ),
        Condition(
            clause="C3",
            name="replace_race",
            words="simultaneous replacements of one version",
            harm="two clients take over the same lapsed record, and both hold the lock",
        ),
        Condition(
            clause="C5",
            name="replace_absent",
            words="a replacement of an object that is gone",
            harm="a late renewal brings a deleted record back to life",
        ),
        Condition(
            clause="C8",
            name="delete",
            words="a delete of a stale version",
            harm="a lock that deletes its record (RFC-91's does not) removes its successor's, and the next gets in",
        ),
        Condition(
            clause="C9",
            name="delete_race",
            words="a delete and a replacement of one version, at the same time",
            harm="a renewal is confirmed although the record is gone, and the next client gets in",
        ),
        Condition(
            clause="C21",
            name="read_after_write",
            words="a read after a confirmed write",
            harm="a client decides on a record that has been replaced",
        ),
    )
}


@dataclass(slots=True, kw_only=True)
class ConditionResult:
    """What became of one condition.

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
class Measured:
    """What was measured of one store.

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
        return f"a request takes {_ms(ordered[len(ordered) // 2])}, at most {_ms(ordered[-1])} of {len(ordered)}"


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


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / NS_PER_MS:.1f} ms"
