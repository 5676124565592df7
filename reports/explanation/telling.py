"""The words that the causes of all clauses share: instants, lengths, holders, take-overs and faults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lockref.durations import plain_duration
from lockref.words import OPERATOR, counted
from reports.explanation.explanation import SENTENCE_MAX
from reports.explanation.facts import RunFacts
from reports.explanation.run_records import Exchange, Row, Strike
from reports.formats.text import seconds, short

FAULTS_IN_PARAGRAPH: Final = 3
_CLOCKS: Final = {"step": 1, "offset": 1, "freeze": 1, "drift": 2, "slew": 2}
"""Faults of clocks, the less likely causes last: a drift seldom explains what a pause beside it does."""
_AT_ONCE_NS: Final = 1_000_000
"""Shorter than that, two things happen at the same time for a reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause of a failure: `parts` of the sentence, the first ones first to be kept, and the sentences around it.

    parts: (rank, words) in the order of time; where the sentence gets too long, the parts of the highest rank go first.
    """

    parts: tuple[tuple[int, str], ...]
    sentences: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The cause in one line of at most `SENTENCE_MAX` characters, without a full stop."""
        parts = [(rank, words) for rank, words in self.parts if words]
        while len(parts) > 1 and len(_joined(parts)) > SENTENCE_MAX:
            worst = max(rank for rank, _ in parts)
            # Among parts of one rank the later one goes: the beginning of a cause explains more than its end.
            place = max(number for number, (rank, _) in enumerate(parts) if rank == worst)
            del parts[place]
        return short(_joined(parts), SENTENCE_MAX)

    @property
    def paragraph(self) -> str:
        return " ".join(as_sentence(text) for text in self.sentences if text)


def _joined(parts: Sequence[tuple[int, str]]) -> str:
    return "; ".join(words for _, words in parts)


def as_sentence(text: str) -> str:
    """The text with a capital at its head, unless a name stands there, and a full stop at its end."""
    ended = text if text.endswith((".", "?", "!")) else f"{text}."
    is_name = ended[:1] == "n" and ended[1:2].isdigit()
    return ended if is_name else ended[:1].upper() + ended[1:]


class Teller:
    """Words about one run."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts

    # Instants and names.

    def at(self, at_ns: int) -> str:
        """An instant, counted from the zero of the run: `14.348 s`."""
        return seconds(self.facts.since_zero(at_ns))

    def length(self, length_ns: int) -> str:
        return plain_duration(length_ns)

    def who(self, entry: Row) -> str:
        """The client of a row: its node, with its task where another task of that node is in the story, too."""
        node, task = str(entry.get("node") or "somebody"), str(entry.get("task") or "")
        if node == OPERATOR:
            return "an operator"
        return short(node if task in ("", "main") or not self._has_tasks(node) else f"{node}/{task}", 40)

    def apart(self, one: Row, other: Row) -> tuple[str, str]:
        """Two clients, as `who`; of two processes of one node the words tell which is which."""
        names = self.who(one), self.who(other)
        ages = self.facts.process_of(one), self.facts.process_of(other)
        if names[0] != names[1] or ages[0] == ages[1]:
            return names
        before, after = f"the former process of {names[0]}", f"{names[0]}, started again,"
        return (after, before) if ages[0] > ages[1] else (before, after)

    def _has_tasks(self, node: str) -> bool:
        return len({call.task for call in self.facts.calls.values() if call.node == node}) > 1

    # Faults.

    def strikes(self, until_ns: int, nodes: Iterable[str] = (), *, since_ns: int | None = None) -> list[Strike]:
        """The strikes that may have led to what happened by an instant, one for each fault that changed something.

        The likeliest cause stands first: what befell `nodes` before what befell others, what was going on after
        `since_ns` before what was over by then, and what stops a client before a clock that is a little off. Where a
        fault struck several times, the last strike counts.
        """
        found: dict[str, Strike] = {}
        for strike in self._struck(until_ns):
            found[strike.fault.id] = strike
        wanted = set(nodes)
        if not self.facts.has_plan:
            # Nobody knows which faults mattered. That a client stood still, or was gone, is a fact of its own.
            found = {name: each for name, each in found.items() if self._stood_still(each, wanted, since_ns)}

        def unlikely(strike: Strike) -> tuple[bool, bool, int, int]:
            is_over = since_ns is not None and strike.end_ns is not None and strike.end_ns < since_ns
            return (
                is_over,
                bool(wanted) and bool(strike.node) and strike.node not in (*wanted, "store"),
                _CLOCKS.get(strike.fault.kind, 0),
                strike.begin_ns,
            )

        return sorted(found.values(), key=unlikely)

    def _stood_still(self, strike: Strike, nodes: set[str], since_ns: int | None) -> bool:
        """True for a pause or a crash of one of these clients that was not over before `since_ns`."""
        is_over = since_ns is not None and strike.end_ns is not None and strike.end_ns < since_ns
        return strike.node in nodes and (strike.is_pause or strike.fault.kind == "crash") and not is_over

    def _struck(self, until_ns: int) -> list[Strike]:
        return [each for each in self.facts.strikes if each.begin_ns <= until_ns and each.fault.mattered != 0]

    def fault(self, strike: Strike) -> str:
        """A strike as a clause with a verb, and when: `n1 was paused for 31 s, from 1.017 s to 32.017 s`."""
        said = self.happened(strike)
        if strike.fault.kind in _CLOCKS and strike.begin_ns <= self.facts.zero_ns:
            return f"{said} from the start"
        if strike.end_ns is not None and strike.end_ns > strike.begin_ns:
            return f"{said}, from {self.at(strike.begin_ns)} to {self.at(strike.end_ns)}"
        same = [each.begin_ns for each in self._struck(strike.begin_ns) if each.fault.id == strike.fault.id]
        if len(same) > 1:
            return f"{said}, {times(len(same))} from {self.at(same[0])} to {self.at(same[-1])}"
        asked = self.facts.struck(strike) if " request" in said else None
        which = f" (the {asked.op} sent at {self.at(asked.sent_ns)})" if asked is not None else ""
        return f"{said}, at {self.at(strike.begin_ns)}{which}"

    def faults(self, until_ns: int, nodes: Iterable[str] = (), *, since_ns: int | None = None) -> str:
        """The faults of the plan that had a part, in one sentence."""
        strikes = self.strikes(until_ns, nodes, since_ns=since_ns)
        if not strikes:
            return "" if self.facts.faults or not self.facts.has_plan else "no fault is needed for what follows"
        told = [self.fault(strike) for strike in strikes[:FAULTS_IN_PARAGRAPH]]
        rest = len(strikes) - len(told)
        return "; ".join(told) + (f"; and {counted(rest, 'more fault')} of the plan" if rest else "")

    def brief_fault(self, until_ns: int, nodes: Iterable[str] = (), *, since_ns: int | None = None) -> str:
        """The likeliest cause among the faults, without its times; empty if there is none."""
        strikes = self.strikes(until_ns, nodes, since_ns=since_ns)
        return self.happened(strikes[0]) if strikes else ""

    def brief_pause(self, pause: Strike) -> str:
        """`n1 was paused for 31 s (40 s planned) under a lease of 20 s`."""
        return self.happened(pause) + self.lease()

    def happened(self, strike: Strike) -> str:
        """A strike as a clause with a verb: in the words of the plan, or, without a plan, by what was recorded."""
        if self.facts.has_plan:
            return plain(strike.fault.happened)
        who = short(strike.node, 40)
        if strike.is_pause:
            lasted = f" for {self.length(strike.end_ns - strike.begin_ns)}" if strike.end_ns is not None else ""
            return f"{who} was paused{lasted}"
        return f"{who} crashed" if strike.fault.kind == "crash" else plain(strike.fault.happened)

    # Holders.

    def lease(self) -> str:
        """` under a lease of 20 s`; empty for locks without one."""
        validity_ns = self.facts.validity_ns
        if all(grant["valid_until_true_ns"] is None for grant in self.facts.grants):
            # What lasts as long as a session has no lease, whatever timing the scenario gives.
            return ""
        return f" under a lease of {plain_duration(validity_ns)}" if validity_ns else ""

    def held(self, grant: Row) -> str:
        """From when on a client had the lock, and until when its record was good, on both clocks that count."""
        who = self.who(grant)
        token = f" under token {grant['token']}" if grant["token"] is not None else ""
        said = f"{who} was granted the lock at {self.at(grant['begin_hi_ns'])}{token}"
        until_ns = grant["valid_until_true_ns"]
        if until_ns is None:
            return said
        renewals = int(grant["renewals"])
        often = f", renewed {times(renewals)}," if renewals else ""
        said += f"; its record{often} was good until {self.at(until_ns)}"
        successor = self.facts.successor(grant)
        stamp_ns = self.facts.stamp_of(grant)
        if successor is None or stamp_ns is None:
            return said
        other_ns = self.facts.on_clock_ns(successor["node"], stamp_ns)
        if other_ns is None or abs(other_ns - until_ns) < _AT_ONCE_NS:
            return said
        if other_ns <= self.facts.zero_ns:
            return f"{said} on its own clock, and was over from the start on the clock of {successor['node']}"
        return f"{said} on its own clock, and until {self.at(other_ns)} on the clock of {successor['node']}"

    def maker(self, grant: Row) -> Exchange | None:
        """The request that made a grant."""
        return self.facts.exchanges.get(grant["request"]) if grant["request"] is not None else None

    def blindly(self, grant: Row) -> str:
        """` without a condition`, of a grant by a record that was written so; empty otherwise."""
        maker = self.maker(grant)
        is_record = maker is not None and maker.is_write and grant["valid_until_true_ns"] is not None
        return " without a condition" if is_record and maker is not None and not maker.condition else ""

    def took_over(self, grant: Row) -> str:
        """The begin of a grant: `n3 took the lock over at 12.702 s, 1.7 s after the lease of n1 had ended`."""
        begin_ns = grant["begin_hi_ns"]
        before = self.facts.predecessor(grant)
        blindly = self.blindly(grant)
        if before is None:
            return f"{self.who(grant)} was granted the lock at {self.at(begin_ns)}{blindly}"
        who, whose = self.apart(grant, before)
        if before["end_kind"] == "taken_over":
            until_ns = before["valid_until_true_ns"]
            said = f"{who} took the lock over at {self.at(begin_ns)}{blindly}"
            if until_ns is None:
                return said
            if until_ns <= begin_ns:
                return f"{said}, {self.length(begin_ns - until_ns)} after the lease of {whose} had ended"
            return f"{said}, {self.length(until_ns - begin_ns)} before the lease of {whose} ended"
        return f"{self.ended(before)}, and {who} was granted the lock at {self.at(begin_ns)}{blindly}"

    def ended(self, grant: Row) -> str:
        """The end of a grant, and who ended it."""
        kind, at_ns = grant["end_kind"], grant["end_hi_ns"]
        if at_ns is None:
            return f"the grant of {self.who(grant)} was not ended"
        writer = self.writer_at(grant, at_ns)
        by, whose = self.apart(writer or grant, grant)
        verb = {"released": "released", "deleted": "deleted", "overwritten": "overwrote", "handed_over": "handed on"}
        if by != whose:
            return f"{by} {verb.get(kind, 'ended')} the record of {whose} at {self.at(at_ns)}"
        what = "the lock" if kind == "handed_over" else "its own record"
        return f"{whose} {verb.get(kind, 'ended')} {what} at {self.at(at_ns)}"

    def writer_at(self, grant: Row, at_ns: int) -> Row | None:
        """The client, or the operator, whose write of this lock landed at an instant, as a row that names it."""
        for exchange in self.facts.exchanges.values():
            if exchange.key == grant["lock"] and any(
                when == at_ns and what == "applied" for when, what in exchange.applied
            ):
                return {"node": exchange.node, "task": exchange.task, "request": exchange.number}
        return next((row for row in self.facts.tampered if row["at_ns"] == at_ns), None)

    def brief_takeover(self, grant: Row) -> str:
        """`n3 took over at 12.702 s`."""
        before = self.facts.predecessor(grant)
        if before is None or before["end_kind"] != "taken_over":
            return f"{self.who(grant)} was granted the lock at {self.at(grant['begin_hi_ns'])}"
        who, whose = self.apart(grant, before)
        left_ns = (before["valid_until_true_ns"] or 0) - grant["begin_hi_ns"]
        early = f", {self.length(left_ns)} before the lease of {whose} ended" if left_ns > 0 else ""
        return f"{who} took over at {self.at(grant['begin_hi_ns'])}{early}"

    def bound(self) -> str:
        """` and the clock bound of 500 ms`; empty where the lock is promised exact clocks, or nothing."""
        bound_ns = self.facts.run.get("drift_bound_ns")
        return f" and the clock bound of {plain_duration(int(bound_ns))}" if bound_ns else ""

    # Beside every cause.

    def store_before(self) -> str:
        """The sentence on a fault of the store itself before the failure; empty if there was none."""
        fault = self.facts.witness.get("after_store_fault")
        if not isinstance(fault, dict):
            return ""
        at_ns = fault.get("at_ns")
        when = f" at {self.at(at_ns)}" if isinstance(at_ns, int) else ""
        return f"the store had broken its own promise before{when}: {plain(str(fault.get('text')))}"

    def departures(self) -> list[str]:
        """Departures of this run from what its lock is promised, a sentence each, and what they change."""
        left = entries(self.facts.witness, "beyond_promise")
        told = [f"this run departs from what the lock is promised: {each.get('text')}" for each in left]
        return [*told, "that excuses nothing: the scenario asks for the clause all the same"] if told else []


_LONG_NS: Final = re.compile(r"\b(\d{4,19}) ns\b")


def plain(text: str) -> str:
    """A sentence of the checks or of a plan with its nanoseconds in units that people read, without needless zeros."""
    return _LONG_NS.sub(lambda match: plain_duration(int(match.group(1))), text)


def times(count: int) -> str:
    """`once`, `twice`, `1,000 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def with_article(noun: str) -> str:
    """`a renew`, `an acquire`."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def entries(witness: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The rows of a witness under one name."""
    found = witness.get(name)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
