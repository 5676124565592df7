"""The scene of a failure: the window of time, the clients that have a part, and the events that break the clause."""

from __future__ import annotations

from typing import Any, Final

from lockref.words import OPERATOR
from reports.explanation.facts import RunFacts, natural
from reports.explanation.run_records import Exchange, Row, Strike
from reports.explanation.telling import entries

LENGTHS: Final = frozenset({"size_ns", "bound_ns", "origin_ns", "off_ns", "promised_ns"})
"""Keys of a witness that end in `_ns` and are lengths, no instants."""
STRUCK_MAX: Final = 2
"""At most so many clients that faults struck are drawn beside those that the witness names; if more, none of them."""
_ROWS: Final = ("intervals", "calls", "effects", "writes", "requests", "entries")
_MARGIN: Final = 0.04


def late_belief(facts: RunFacts) -> tuple[Row, Row, bool]:
    """The late one of two clients that believed at once (S3), the other one, and whether the late one came last.

    The late one has the older grant. Mostly its belief began first; where a pause kept the answer from it, last.
    """
    intervals = entries(facts.witness, "intervals")
    if len(intervals) < 2:
        return {}, next(iter(intervals), {}), False
    holder, intruder = intervals[0], intervals[1]
    mine = facts.grant_of(str(holder.get("node")), int(holder["interval_ns"][0]))
    taken = facts.grant_of(str(intruder.get("node")), int(intruder["interval_ns"][0]))
    if mine is not None and taken is not None and taken["ordinal"] < mine["ordinal"]:
        return intruder, holder, True
    return holder, intruder, False


def wrong_yes(facts: RunFacts) -> Row | None:
    """The first yes that the late client heard and that breaks S3; None where it heard none, or believed last."""
    late, fresh, came_last = late_belief(facts)
    others = fresh.get("interval_ns")
    if came_last or not others:
        return None
    return facts.yes_from(late.get("request"), others[0])


class Scene:
    """The part of a run that a reader must see."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        witness = facts.witness
        self.nodes = self._nodes(witness)
        self.begin_ns, self.end_ns = self._window(witness)
        self.guilty_requests, self.guilty_seqs = self._guilty(witness)

    def _nodes(self, witness: dict[str, Any]) -> set[str]:
        """The clients that the witness names, those that faults struck before it, and whose grants stood between."""
        named = {str(entry["node"]) for name in _ROWS for entry in entries(witness, name) if entry.get("node")}
        stands = witness.get("stands")
        if isinstance(stands, dict):
            named.add(str(stands.get("node")))
        if witness.get("node"):
            named.add(str(witness["node"]))
        struck = {strike.node for strike in self.strikes if strike.node in self.facts.nodes}
        # A plan that was not shrunk strikes many that have no part in the failure.
        named |= struck if len(struck) <= STRUCK_MAX else set()
        for node in sorted(named):
            grant = self.facts.grant_of(node, self.facts.moment_ns)
            successor = self.facts.successor(grant) if grant is not None else None
            if successor is not None and successor["begin_hi_ns"] <= self.facts.moment_ns:
                named.add(str(successor["node"]))
        return named - {OPERATOR}

    @property
    def strikes(self) -> list[Strike]:
        """The strikes of the plan until the failure that changed something."""
        return [
            strike
            for strike in self.facts.strikes
            if strike.begin_ns <= self.facts.moment_ns and strike.fault.mattered != 0
        ]

    def _window(self, witness: dict[str, Any]) -> tuple[int, int]:
        facts = self.facts
        run_begin = min((row["at_ns"] for row in facts.rows), default=facts.moment_ns)
        told = {name: value for name, value in witness.items() if name not in ("store", "beyond_promise")}
        if facts.finding.clause == "S3":
            # The end of a belief is left out: the client that holds the lock rightly may hold it for long.
            told["intervals"] = [{"at_ns": each.get("at_ns")} for each in entries(witness, "intervals")]
            if (wrong := wrong_yes(facts)) is not None:
                told["yes"] = {"at_ns": wrong["at_ns"]}
        times = [facts.moment_ns, *_times(told)]
        times = [at_ns for at_ns in times if run_begin <= at_ns <= facts.end_ns] or [facts.moment_ns]
        for node in self.nodes:
            grant = facts.grant_of(node, min(times))
            if grant is not None and grant["end_hi_ns"] is None:
                times.append(grant["begin_hi_ns"])
        # Faults of clocks from the start on are told without the time before.
        times += [
            strike.begin_ns for strike in self.strikes if strike.node in self.nodes and strike.begin_ns > run_begin
        ]
        margin = max(20_000_000, int(_MARGIN * (max(times) - min(times))))
        return max(run_begin, min(times) - margin), min(facts.end_ns, max(times) + margin)

    def _guilty(self, witness: dict[str, Any]) -> tuple[set[int], set[int]]:
        """Numbers of requests, and of events, that break the clause."""
        clause = self.facts.finding.clause
        requests: set[int] = set()
        seqs: set[int] = set()
        for entry in entries(witness, "effects"):
            if entry.get("is_guilty") and isinstance(entry.get("seq"), int):
                seqs.add(entry["seq"])
        if clause in ("S2", "S5", "S6") and (writes := entries(witness, "writes")):
            requests |= _request_numbers(writes[-1])
        if clause == "S1" and (asked := entries(witness, "requests")):
            requests |= _request_numbers(asked[-1])
        if clause == "S3":
            late, _, came_last = late_belief(self.facts)
            edges, wrong = late.get("seq"), wrong_yes(self.facts)
            if wrong is not None:
                seqs.add(wrong["seq"])
            elif isinstance(edges, list) and len(edges) == 2:
                seqs.add(edges[0 if came_last else 1])
        if clause in ("S7", "L5", "L6"):
            seqs |= {
                call["returned_seq"] for call in entries(witness, "calls") if isinstance(call.get("returned_seq"), int)
            }
        if clause == "L4" and isinstance(witness.get("told_seq"), int):
            seqs.add(witness["told_seq"])
        if clause.startswith("DL"):
            seqs |= {entry["seq"] for entry in entries(witness, "entries")[-1:] if isinstance(entry.get("seq"), int)}
        return requests, seqs

    def shows(self, at_ns: int) -> bool:
        """True if an instant lies in the window."""
        return self.begin_ns <= at_ns <= self.end_ns

    def is_notable(self, exchange: Exchange) -> bool:
        """True for a request that a reader must see. Renewals that succeed, and reads of waiters, are routine."""
        if exchange.number in self.guilty_requests or exchange.node not in self.nodes:
            return exchange.number in self.guilty_requests
        has_no_answer = exchange.is_unanswered and not self._is_open_at_end(exchange)
        if not exchange.is_write:
            return has_no_answer
        if exchange.op == "renew":
            return has_no_answer or exchange.outcome != "applied"
        if exchange.op in ("acquire", "write"):
            return has_no_answer or exchange.landed_ns is not None
        return True

    def _is_open_at_end(self, exchange: Exchange) -> bool:
        return exchange.replied_ns is None and exchange.sent_ns > self.end_ns - 1_000_000_000

    @property
    def exchanges(self) -> list[Exchange]:
        """The requests that were sent, or took effect, within the window, in the order of sending."""
        return [
            exchange
            for exchange in self.facts.exchanges.values()
            if self.shows(exchange.sent_ns) or any(self.shows(at_ns) for at_ns, _ in exchange.applied)
        ]

    @property
    def bystanders(self) -> list[str]:
        """Clients without a part in the failure."""
        return sorted((node for node in self.facts.nodes if node not in self.nodes), key=natural)


def _request_numbers(entry: Row) -> set[int]:
    """The number of the request that a row of a witness names; empty where it names none."""
    number = entry.get("request")
    return set() if number is None else {int(number)}


def _times(value: Any, name: str = "") -> list[int]:
    """Every instant of a witness, however deep."""
    if isinstance(value, dict):
        return [time for key, inner in value.items() for time in _times(inner, key)]
    if isinstance(value, list):
        return [time for inner in value for time in _times(inner, name)]
    is_time = name.endswith("_ns") and name not in LENGTHS and type(value) is int
    return [value] if is_time else []
