"""The causes of broken liveness and fairness clauses: who waited for what, and whose record stood in the way."""

from __future__ import annotations

from typing import Final

from lockref.durations import plain_duration
from lockref.words import counted
from reports.explanation.own_clocks import late_yes
from reports.explanation.run_records import Row
from reports.explanation.telling import Cause, Teller, entries, plain, times, with_article

_WAITS: Final = {
    "L1": "a correct lock lets waiters take over once the time of a record is over, and clears away what it left",
    "L2": "a correct lock gives each record an end, so that a waiter takes over when its holder has died",
    "L3": "a correct lock lets its waiters look again at least once in each poll interval",
}
"""By clause, what a correct lock does for its waiters."""


def waited(tell: Teller) -> Cause:
    """L1 to L3: a client waited while nobody was granted the lock."""
    facts, witness = tell.facts, tell.facts.witness
    call = next(iter(entries(witness, "calls")), {})
    node = str(witness.get("node") or call.get("node"))
    begin_ns, end_ns = witness["interval_ns"]
    bound_ns, size_ns = witness.get("bound_ns"), witness.get("size_ns")
    allowed = f", {_allowed(size_ns, bound_ns)}" if isinstance(bound_ns, int) else ""
    said = f"{node} waited {plain_duration(size_ns) if isinstance(size_ns, int) else 'too long'}"
    stands = witness.get("stands")
    way, stood = _in_the_way(tell, stands, end_ns) if isinstance(stands, dict) else ("nobody held the lock", "")
    involved = [str(stands.get("node"))] if isinstance(stands, dict) else [node]
    short_lives = plain(str(witness["because"])) if witness.get("because") else ""
    since_ns = int(stands["at_ns"]) if isinstance(stands, dict) else begin_ns
    return Cause(
        parts=((1, tell.brief_fault(end_ns, involved, since_ns=since_ns)), (0, way), (0, f"{said}{allowed}")),
        sentences=(
            stood or way,
            tell.faults(end_ns, involved, since_ns=since_ns),
            f"{said}, until {tell.at(end_ns)}{allowed}",
            short_lives or _tries(tell, node, begin_ns, end_ns),
            _WAITS.get(facts.finding.clause, ""),
        ),
    )


def _allowed(took_ns: object, bound_ns: int) -> str:
    """The bound that was exceeded; by how much, where both would read alike."""
    bound = plain_duration(bound_ns)
    if isinstance(took_ns, int) and plain_duration(took_ns) == bound and took_ns > bound_ns:
        return f"{plain_duration(took_ns - bound_ns)} longer than the {bound} that are allowed"
    return f"at most {bound} are allowed"


def _in_the_way(tell: Teller, stands: Row, end_ns: int) -> tuple[str, str]:
    """The record that stood in the way, for the sentence and for the paragraph."""
    node, whose, written_ns = str(stands.get("node")), tell.who(stands), int(stands["at_ns"])
    crashed_ns, given_up_ns = stands.get("crashed_ns"), stands.get("given_up_ns")
    stood = f"the record of {whose}, last written at {tell.at(written_ns)}, stood in the way"
    brief = f"the record of {whose} stood in the way"
    if isinstance(crashed_ns, int):
        brief = f"the record of {whose} stayed after its process had ended at {tell.at(crashed_ns)}"
        stood += f", although its process had ended at {tell.at(crashed_ns)}"
    elif isinstance(given_up_ns, int):
        brief = f"the record of {whose}, given up at {tell.at(given_up_ns)}, stood in the way"
        stood += f", although {whose} had not used it since {tell.at(given_up_ns)}"
        if left := _left_behind(tell, node, written_ns, given_up_ns):
            stood = f"{left}; {stood}"
        elif failed := _not_removed(tell, node, written_ns, given_up_ns):
            brief = f"{failed}, so its record stood in the way"
            stood = f"{failed}; {stood}"
    grant = tell.facts.grant_of(node, end_ns)
    until_ns = grant["valid_until_true_ns"] if grant is not None else None
    if isinstance(until_ns, int) and until_ns < end_ns:
        stood += f"; its lease had ended at {tell.at(until_ns)}"
    elif grant is not None and until_ns is None:
        stood += "; it promises no end"
    return brief, stood


def _not_removed(tell: Teller, node: str, written_ns: int, given_up_ns: int) -> str:
    """The request by which a client meant to give its record up, and that the store never applied."""
    meant = [
        exchange
        for exchange in tell.facts.exchanges_of(node, begin_ns=written_ns, end_ns=given_up_ns)
        if exchange.op in ("release", "delete") and tell.facts.never_landed(exchange)
    ]
    return f"the {meant[-1].op} of {node} at {tell.at(meant[-1].sent_ns)} was never applied" if meant else ""


def _tries(tell: Teller, node: str, begin_ns: int, end_ns: int) -> str:
    """The requests that a waiter sent in its time, in words."""
    asked = tell.facts.exchanges_of(node, begin_ns=begin_ns, end_ns=end_ns)
    tried = sum(exchange.is_write for exchange in asked)
    said = []
    if len(asked) > tried:
        said.append(f"looked at the record {times(len(asked) - tried)}")
    if tried:
        said.append(f"tried to write it {times(tried)}")
    return f"{node} {' and '.join(said)}" if said else f"{node} sent no request in that time"


def _left_behind(tell: Teller, node: str, written_ns: int, given_up_ns: int) -> str:
    """The write of a client that left its record there, where that write was late or got no answer."""
    for exchange in tell.facts.exchanges.values():
        is_behind = exchange.is_unanswered or written_ns > given_up_ns
        if exchange.node == node and exchange.landed_ns == written_ns and is_behind:
            applied = f"was applied at {tell.at(written_ns)}"
            return f"the {exchange.op} that {node} sent at {tell.at(exchange.sent_ns)} {applied} and never answered"
    return ""


def loss_notice(tell: Teller) -> Cause:
    """L4: a holder learned of its loss too late, not at all, or without a cause."""
    facts, witness = tell.facts, tell.facts.witness
    kind = str(witness.get("kind"))
    call = next(iter(entries(witness, "calls")), {})
    node, who = str(call.get("node")), tell.who(call)
    due_ns, at_ns = int(witness["valid_until_true_ns"]), facts.moment_ns
    apart = plain_duration(abs(at_ns - due_ns))
    write = next(iter(entries(witness, "writes")), None)
    last = f"the lease of {who} ended at {tell.at(due_ns)}"
    if write is not None:
        last = f"{who} last wrote its record at {tell.at(int(write['at_ns']))}, which was good until {tell.at(due_ns)}"
    told, demand = {
        "told without cause": (
            f"{who} was told at {tell.at(at_ns)} that it had lost the lock, {apart} before its lease ended",
            "a correct lock keeps its grant while its lease is good and nothing speaks against it",
        ),
        "loss not reported": (
            f"{who} was not told of the loss, {apart} after its lease had ended",
            "a correct lock that reports losses does so when its deadline comes, without waiting for the store",
        ),
    }.get(
        kind,
        (
            f"the guard of {who} still said yes at {tell.at(at_ns)}, {apart} after its lease had ended",
            "a correct lock compares its own clock with its deadline before each yes, and says no from then on",
        ),
    )
    grant, misled = facts.grant_of(node, min(due_ns, at_ns)), ""
    if grant is not None and kind not in ("told without cause", "loss not reported"):
        by_clock = late_yes(tell, grant, at_ns)
        if by_clock.said:
            misled, demand = by_clock.said, by_clock.demand
    successor = facts.successor(grant) if grant is not None else None
    if kind == "told without cause" or (successor is not None and successor["begin_hi_ns"] > max(at_ns, due_ns)):
        successor = None
    since_ns = grant["begin_hi_ns"] if grant is not None else due_ns
    until_ns = max(at_ns, due_ns)
    pause = facts.pause_over(node, since_ns, until_ns)
    cause = tell.brief_fault(until_ns, [node], since_ns=since_ns)
    return Cause(
        parts=(
            (1, tell.brief_pause(pause) if pause is not None else cause),
            (2, tell.brief_takeover(successor) if successor is not None else ""),
            (0, told),
        ),
        sentences=(
            last,
            tell.faults(until_ns, [node], since_ns=since_ns),
            tell.took_over(successor) if successor is not None else "",
            f"{told}: {misled}" if misled else told,
            demand,
        ),
    )


def long_call(tell: Teller) -> Cause:
    """L5: a call took longer than its time and its requests allow, or never returned."""
    facts, witness = tell.facts, tell.facts.witness
    call = next(iter(entries(witness, "calls")), {})
    node, who = str(call.get("node")), tell.who(call)
    begin_ns, end_ns = witness["interval_ns"]
    op = "unlock" if call.get("op") == "release" else "acquire"
    bound_ns = witness.get("bound_ns")
    bound = f"; {_allowed(end_ns - begin_ns, bound_ns)}" if isinstance(bound_ns, int) else ""
    requests = facts.exchanges_of(node, begin_ns=begin_ns, end_ns=end_ns)
    waiting = f"{who} sent no request in that time"
    if requests:
        longest = max(requests, key=lambda each: (each.replied_ns or end_ns) - each.sent_ns)
        took = plain_duration((longest.replied_ns or end_ns) - longest.sent_ns)
        unanswered = sum(each.is_unanswered for each in requests)
        without = f", {unanswered} of them without an answer" if unanswered else ""
        asked = f"it sent {counted(len(requests), 'request')}{without}"
        waiting = f"{asked}; the longest, {with_article(longest.op)}, took {took}"
    took = plain_duration(end_ns - begin_ns)
    lasted = "never returned" if str(witness.get("kind")) == "call never returned" else f"took {took}"
    told = f"the {op} that {who} called at {tell.at(begin_ns)} {lasted}"
    return Cause(
        parts=((1, tell.brief_fault(end_ns, [node], since_ns=begin_ns)), (0, f"{told}{bound}")),
        sentences=(
            tell.faults(end_ns, [node], since_ns=begin_ns),
            f"{told}{bound}",
            waiting,
            "a correct lock bounds each request and the whole call, and says in time that it does not know",
        ),
    )


def orphan(tell: Teller) -> Cause:
    """L6: an acquire that ended in an error left a grant behind."""
    witness = tell.facts.witness
    node = str(witness.get("node"))
    who = tell.who({"node": node})
    call = next(iter(entries(witness, "calls")), {})
    begin_ns, end_ns = witness["interval_ns"]
    returned_ns = int(witness["returned_ns"])
    outcome = "without a certain answer" if call.get("outcome") == "unknown" else "in an error"
    landed = f"its write took effect at {tell.at(begin_ns)}"
    stood = f"the grant stood until {tell.at(end_ns)}" if end_ns < 2**60 else "the grant stood to the end of the run"
    told = f"the acquire of {who} ended at {tell.at(returned_ns)} {outcome}, and left a grant behind"
    return Cause(
        parts=((1, tell.brief_fault(returned_ns, [node])), (0, told), (1, stood)),
        sentences=(
            tell.faults(max(returned_ns, begin_ns), [node]),
            f"{told}: {landed}",
            f"{stood}, and kept everybody else out",
            "a correct lock takes back what a failed acquire may have written, or gives it an end within one validity",
        ),
    )


def fairness(tell: Teller) -> Cause:
    """F1, F2: a waiter was passed over too often, or never served."""
    facts, witness = tell.facts, tell.facts.witness
    call = next(iter(entries(witness, "calls")), {})
    node = str(call.get("node"))
    interval = call.get("interval_ns") or [facts.moment_ns, facts.moment_ns]
    begin_ns, end_ns = interval[0], interval[1] if isinstance(interval[1], int) else facts.end_ns
    granted: dict[str, int] = {}
    for grant in facts.grants:
        if begin_ns <= grant["begin_hi_ns"] <= end_ns and grant["node"] != node:
            granted[grant["node"]] = granted.get(grant["node"], 0) + 1
    most = sorted(granted.items(), key=lambda each: (-each[1], each[0]))[:3]
    others = ", ".join(f"{name} {times(count)}" for name, count in most)
    meanwhile = f"meanwhile the lock went to {others}" if others else ""
    allowed = f"; the lock claims at most {witness['allowed']}" if "allowed" in witness else ""
    text = plain(str(witness.get("text")))
    return Cause(
        parts=(
            (1, tell.brief_fault(end_ns, [node])),
            (0, f"{text}{allowed}"),
            (1, meanwhile),
        ),
        sentences=(
            f"{node} asked for the lock from {tell.at(begin_ns)} to {tell.at(end_ns)}",
            meanwhile,
            f"{text}{allowed}",
            tell.faults(end_ns, [node]),
            "a fair lock serves its waiters in some order, so that none is passed over for ever",
        ),
    )
