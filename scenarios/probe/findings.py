"""The findings of a probe: the outcome of each clause, and the verdict on the store and on each design of lock.

A clause answers for itself. An outage is no verdict: what was not answered says nothing about the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lockref.clouds.calls import Answer, Call
from lockref.stores.probe.clauses import CLAUSES, Condition, Design, Verdict
from reports.checks.measures.confidence import share_95

WITNESSES_MAX: Final = 24


@dataclass(slots=True, kw_only=True)
class Rate:
    """The counts of a race. rounds: that could be judged; faulty: of these, with a fault; void: that prove nothing.

    part: `create`, `replace` or `delete`, if all requests of the race are of that kind. racers: the most that take
    part; racing: how many take part now, because slow rounds have fewer. winners_max: in one round. fault: of the first
    faulty round, in words.
    """

    name: str
    part: str = ""
    racers: int = 0
    racing: int = 0
    rounds: int = 0
    faulty: int = 0
    void: int = 0
    winners_max: int = 0
    fault: str = ""

    def facts(self) -> dict[str, object]:
        """For the fingerprint."""
        return {
            "name": self.name, "racers": self.racers, "rounds": self.rounds, "faulty": self.faulty, "void": self.void,
            "winners_max": self.winners_max, "low": round(self.low, 6), "high": round(self.high, 6),
        }  # fmt: skip

    @property
    def low(self) -> float:
        """The least share of faulty rounds at 95 %."""
        return share_95(self.faulty, self.rounds)[0]

    @property
    def high(self) -> float:
        """The largest share of faulty rounds at 95 %."""
        return share_95(self.faulty, self.rounds)[1]


@dataclass(slots=True)
class Finding:
    """All that the probe found out about one clause.

    kept: how many checks the store passed. facts: figures beside the verdict. is_absent: the cloud has no such request,
    which is not the same as a request that this store refuses. part: `create` or `replace` while only that half of the
    clause is asked. The halves have verdicts of their own, because a lock that only creates needs only one of them.
    """

    condition: Condition
    kept: int = 0
    deviations: list[str] = field(default_factory=list)
    unsafe: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    rates: list[Rate] = field(default_factory=list)
    witness: list[dict[str, object]] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    is_absent: bool = False
    part: str = ""
    _unsafe_parts: set[str] = field(default_factory=set)
    _open_parts: set[str] = field(default_factory=set)

    @property
    def verdict(self) -> Verdict:
        if self.unsafe:
            return Verdict.UNSAFE
        if self.unanswered or not (self.kept or self.unsupported or self.deviations):
            return Verdict.NOT_ANSWERED
        if not self.kept and not self.deviations:
            return Verdict.UNSUPPORTED
        return Verdict.USABLE if self.deviations or self.unsupported else Verdict.CONFORMING

    def note(self, kind: list[str], text: str) -> None:
        """Add a sentence once."""
        if kind is self.unsafe:
            self._unsafe_parts.add(self.part)
        elif kind is self.unanswered:
            self._open_parts.add(self.part)
        if text not in kind:
            kind.append(text)

    def verdict_for(self, part: str) -> Verdict:
        """The verdict for a lock that needs only that part of the clause; "" for the whole clause."""
        verdict = self.verdict
        if part and verdict is Verdict.UNSAFE and not self._unsafe_parts & {part, ""}:
            verdict = Verdict.NOT_ANSWERED if self._open_parts & {part, ""} else Verdict.USABLE
        if part and verdict is Verdict.NOT_ANSWERED and self._open_parts and not self._open_parts & {part, ""}:
            verdict = Verdict.USABLE
        return verdict

    def saw(self, call: Call, answer: Answer, *, note: str = "") -> None:
        """Keep a request and its answer as witness. Neither holds anything of a signature."""
        if len(self.witness) < WITNESSES_MAX:
            self.witness.append(witness_of(call, answer, note=note))

    def has_no(self, what: str) -> None:
        """The store has no such request."""
        self.is_absent = True
        self.note(self.unsupported, what)

    @property
    def told(self) -> list[str]:
        """Sentences for people, the worst first."""
        return [*self.unsafe, *self.unanswered, *self.deviations, *self.unsupported]

    def as_facts(self) -> dict[str, object]:
        """For the fingerprint."""
        rates = [rate.facts() for rate in self.rates]
        judged, faulty = sum(rate.rounds for rate in self.rates), sum(rate.faulty for rate in self.rates)
        total: dict[str, object] | None = None
        if self.rates:
            low, high = share_95(faulty, judged)
            total = {
                "rounds": judged, "faulty": faulty, "share": round(faulty / judged, 6) if judged else None,
                "low": round(low, 6), "high": round(high, 6), "races": rates,
            }  # fmt: skip
        return {
            "verdict": self.verdict.value,
            "question": self.condition.question,
            "asks": self.condition.words,
            "unsafe": self.unsafe,
            "deviations": self.deviations,
            "unsupported": self.unsupported,
            "not_answered": self.unanswered,
            "rate": total,
            "witness": self.witness,
            "facts": self.facts,
        }


def witness_of(call: Call, answer: Answer, *, note: str = "") -> dict[str, object]:
    """A request and its answer as data."""
    told: dict[str, object] = {"request": call.verb, "key": call.key}
    if call.condition:
        told["condition"] = call.condition
    if call.mode:
        told["mode"] = call.mode
    told |= {"status": answer.status, "code": answer.code, "outcome": answer.outcome.name.lower()}
    if answer.version:
        told["version"] = answer.version
    if answer.status is None and answer.reason:
        told["reason"] = answer.reason
    if note:
        told["note"] = note
    return told


def judged_design(design: Design, findings: Mapping[str, Finding]) -> dict[str, object]:
    """Can the store carry locks of this design, and why not."""
    verdicts = {clause: findings[clause].verdict_for(design.part) for clause in design.needs}
    unsafe = [clause for clause in design.needs if verdicts[clause] is Verdict.UNSAFE]
    refused = [
        clause for clause in design.needs if verdicts[clause] is Verdict.UNSUPPORTED and not findings[clause].is_absent
    ]
    open_ = [clause for clause in design.needs if verdicts[clause] is Verdict.NOT_ANSWERED]
    if unsafe:
        clause = unsafe[0]
        verdict, why = "cannot carry", f"{', '.join(unsafe)}: {CLAUSES[clause].harm}"
    elif refused:
        verdict, why = "cannot carry", f"the store refuses {CLAUSES[refused[0]].words} ({', '.join(refused)})"
    elif open_:
        verdict, why = "not answered", f"{', '.join(open_)} not answered"
    else:
        usable = [clause for clause in design.needs if verdicts[clause] is Verdict.USABLE]
        verdict, why = "can carry", f"with the deviations of {', '.join(usable)}" if usable else ""
    return {"title": design.title, "verdict": verdict, "why": why, "needs": list(design.needs)}


def overall(findings: Mapping[str, Finding]) -> Verdict:
    """The store's verdict. Only the core clauses can make it unsafe; a fault in any other clause makes it usable.

    A store that refuses creates under a condition is unsupported.
    """
    core = [finding for finding in findings.values() if finding.condition.is_core]
    if any(finding.verdict is Verdict.UNSAFE for finding in core):
        return Verdict.UNSAFE
    creates = findings["C1"]
    if creates.verdict is Verdict.UNSUPPORTED and not creates.is_absent:
        # Every lock begins with a create under a condition.
        return Verdict.UNSUPPORTED
    if any(finding.verdict is Verdict.NOT_ANSWERED for finding in core):
        return Verdict.NOT_ANSWERED
    spoilt = any(
        finding.verdict in (Verdict.USABLE, Verdict.UNSAFE)
        or (finding.verdict is Verdict.UNSUPPORTED and not finding.is_absent)
        for finding in findings.values()
    )
    return Verdict.USABLE if spoilt else Verdict.CONFORMING
