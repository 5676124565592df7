"""The causes of broken safety clauses (S1 to S7): who held what until when, what struck, who did what then."""

from __future__ import annotations

from typing import Any, Final

from lockref.words import IF_ABSENT
from reports.explanation.facts import begin_of
from reports.explanation.own_clocks import ASK_BEFORE_YES, early_takeover, late_yes
from reports.explanation.run_records import Row, Tenure
from reports.explanation.scene import late_belief, wrong_yes
from reports.explanation.telling import Cause, Teller, entries, plain
from reports.formats.text import short

ASK_THE_SERVICE: Final = (
    "a correct lock says no from the moment at which the service may have given the lock to another"
)
TOKEN_HELPS: Final = "a token that rises with each grant lets the resource refuse what comes late all the same"
NAME_OWN_VERSION: Final = (
    "a correct lock sends the version of its own last write as the condition, so that the store refuses what is late"
)
_LATE_NS: Final = 100_000_000
"""A request that takes longer than that to land was held up."""
GIVE_TOKEN: Final = (
    "a correct lock says no once its lease is over, and gives a token that rises with each grant, so that the resource "
    "can refuse a late write"
)
TOKEN_ALONE: Final = (
    "no guard stops a write that is under way when the lease ends: only a token that rises with each grant, and that "
    "the resource compares, does"
)


def store_fault(tell: Teller) -> Cause:
    """S1: the store applied a write against its condition."""
    witness = tell.facts.witness
    requests = entries(witness, "requests")
    text = plain(str(witness.get("text")))
    moment_ns = tell.facts.moment_ns
    told = []
    for entry in requests:
        sent, done = entry.get("sent_ns"), entry.get("in_effect_ns")
        if isinstance(sent, int) and isinstance(done, int):
            condition = str(entry.get("if_version") or "")
            asked = (
                "no object" if condition == IF_ABSENT else f"version {short(condition, 12)}" if condition else "nothing"
            )
            told.append(
                f"the {entry.get('op')} of {tell.who(entry)} asked for {asked} and took effect at {tell.at(done)}"
            )
    who = tell.who(requests[-1]) if requests else "a client"
    return Cause(
        parts=(
            (2, tell.brief_fault(moment_ns)),
            (0, f"the store applied a write of {who} at {tell.at(moment_ns)} against the condition that it carried"),
        ),
        sentences=(
            "; ".join(told),
            tell.faults(moment_ns),
            f"at {tell.at(moment_ns)} {text}",
            "this is the store's fault, and no lock is safe on a store that does so",
        ),
    )


def token_order(tell: Teller) -> Cause:
    """S2: a grant came with a token that was used before, or with a smaller one."""
    witness, moment_ns = tell.facts.witness, tell.facts.moment_ns
    rows = entries(witness, "writes") or entries(witness, "calls")
    earlier, later = (rows[0], rows[-1]) if len(rows) > 1 else ({}, rows[0] if rows else {})
    who, was = tell.apart(later, earlier)
    before = f"{was} had token {earlier.get('token')} since {tell.at(begin_of(earlier))}" if earlier else ""
    given = f"{who} was given token {later.get('token')} at {tell.at(begin_of(later, moment_ns))}"
    grant = tell.facts.grant_of(str(later.get("node")), moment_ns)
    lost = tell.took_over(grant) if grant is not None and tell.facts.predecessor(grant) is not None else ""
    return Cause(
        parts=((2, tell.brief_fault(moment_ns)), (0, before), (0, given)),
        sentences=(
            before,
            tell.faults(moment_ns),
            lost,
            f"{given}, so a resource that compares tokens cannot tell the two apart"
            if earlier.get("token") == later.get("token")
            else f"{given}, which is smaller, so a resource that compares tokens refuses the wrong one",
            "a correct lock counts its tokens where no release, expiry or deletion of the record can set them back",
        ),
    )


def belief(tell: Teller) -> Cause:
    """S3: two clients believed at one instant."""
    facts, witness = tell.facts, tell.facts.witness
    late, fresh, is_belated = late_belief(facts)
    begin_ns, end_ns = _overlap(witness, facts.moment_ns)
    one, other = tell.who(late), tell.who(fresh)
    nodes = [str(late.get("node")), str(fresh.get("node"))]
    since_ns = begin_of(late, begin_ns)
    if nodes[0] == nodes[1] and late.get("task") != fresh.get("task"):
        return _two_tasks(tell, one, other, since_ns=since_ns, begin_ns=begin_ns)
    wrong = wrong_yes(facts)
    yes_ns = int(wrong["at_ns"]) if wrong is not None else end_ns
    last_yes_ns = yes_ns if wrong is not None or is_belated else _until(late, end_ns)
    grant, taken = facts.grant_of(nodes[0], since_ns), facts.grant_of(nodes[1], begin_ns)
    # Who took the lock over may have given it back since, and a third client may have it.
    lost_to = facts.successor(grant) if grant is not None else None
    if lost_to is not None and taken is not None and lost_to["ordinal"] < taken["ordinal"]:
        taken = lost_to
    until_ns = grant["valid_until_true_ns"] if grant is not None else None
    is_early = until_ns is not None and taken is not None and until_ns > taken["begin_hi_ns"]
    is_over = until_ns is not None and until_ns < last_yes_ns
    since_ns = min(since_ns, grant["begin_hi_ns"]) if grant is not None else since_ns
    pause = facts.pause_over(nodes[0], since_ns, last_yes_ns)
    woke_ns = pause.end_ns if pause is not None else None
    said = "said yes" if is_belated else "still said yes"
    if woke_ns is not None and woke_ns <= last_yes_ns and (is_belated or woke_ns >= begin_ns):
        yes = f"{one} woke at {tell.at(woke_ns)} and {said}"
    else:
        yes = f"{one} {said} at {tell.at(begin_ns if is_belated else yes_ns)}"
    overlap = f", {tell.length(yes_ns - begin_ns)} after {other} had begun to" if yes_ns > begin_ns else ""
    if yes_ns < end_ns:
        overlap += f", and both went on until {tell.at(end_ns)}"
    if is_belated:
        overlap = f" while {other} did, too"
    why, demand = "", ASK_BEFORE_YES if until_ns is not None else ASK_THE_SERVICE
    foreign, misled = _foreign_end(tell, grant), ""
    if foreign:
        demand = NAME_OWN_VERSION
    elif is_early:
        assert taken is not None, "asked above"
        by_clock = early_takeover(tell, taken, grant, taken["begin_hi_ns"])
        misled, demand = by_clock.said, by_clock.demand
    elif is_over:
        assert grant is not None, "asked above"
        by_clock = late_yes(tell, grant, last_yes_ns, end_ns)
        demand = by_clock.demand
        why = f": {by_clock.said or 'it did not ask whether its lease was over'}"
    cause = tell.brief_fault(last_yes_ns, nodes, since_ns=since_ns)
    entered = tell.brief_takeover(taken) if taken is not None else f"{other} said yes from {tell.at(begin_ns)} on"
    began = f"{one} was granted the lock and said yes from {tell.at(since_ns)} on"
    return Cause(
        parts=((1, tell.brief_pause(pause) if pause is not None else cause), (1, foreign), (0, entered), (0, yes)),
        sentences=(
            tell.held(grant) if grant is not None else began,
            tell.faults(last_yes_ns, nodes, since_ns=since_ns),
            tell.took_over(taken) if taken is not None else "",
            misled,
            f"{yes}{overlap}{why}",
            demand,
        ),
    )


def _two_tasks(tell: Teller, one: str, other: str, *, since_ns: int, begin_ns: int) -> Cause:
    """S3 between two tasks of one process: no record tells them apart, and no lease ended."""
    first = f"{one} said yes from {tell.at(since_ns)} on"
    second = f"{other}, another task of the same process, said yes from {tell.at(begin_ns)} on, too"
    return Cause(
        parts=((0, first), (0, second)),
        sentences=(
            first,
            tell.faults(begin_ns, ()),
            second,
            "a correct lock lets one task of a process in at a time, or tells its caller that it is held here already",
        ),
    )


def effect(tell: Teller) -> Cause:
    """S4: the resource accepted a write of a client that no longer held the lock, or never held it."""
    facts, witness = tell.facts, tell.facts.witness
    shown = entries(witness, "effects")
    guilty = [entry for entry in shown if entry.get("is_guilty")] or shown
    if not guilty:
        text = plain(str(witness.get("text")))
        return Cause(parts=((0, text),), sentences=(text, GIVE_TOKEN))
    wrong = guilty[0]
    rival = next((entry for entry in shown if not entry.get("is_guilty")), None)
    kind, node, who = str(witness.get("kind")), str(wrong.get("node")), tell.who(wrong)
    at_ns = begin_of(wrong, facts.moment_ns)
    tenure = facts.tenures.get(int(wrong["request"])) if wrong.get("request") is not None else None
    begun_ns = tenure.first_ns if tenure is not None else at_ns
    grant = facts.grant_of(node, begun_ns)
    since_ns = min(begun_ns, grant["begin_hi_ns"]) if grant is not None else begun_ns
    successor = facts.successor(grant) if grant is not None else None
    if successor is not None and successor["begin_hi_ns"] > at_ns:
        successor = None
    until_ns = grant["valid_until_true_ns"] if grant is not None else None
    pause = facts.pause_over(node, since_ns, at_ns)
    woke_ns = pause.end_ns if pause is not None and pause.end_ns is not None and pause.end_ns <= at_ns else None
    yes_ns = _last_guard_yes(tenure, at_ns)
    is_late = kind in ("stale token", "stale grant")
    asked_nothing = is_late and not facts.looked(
        node,
        begin_ns=begun_ns if woke_ns is None else woke_ns,
        end_ns=at_ns if yes_ns is None else yes_ns,
    )
    wrote = _wrote(tell, wrong, rival, kind)
    looking = " without looking" if asked_nothing else ""
    if is_late and woke_ns is not None:
        brief = f"{who} woke at {tell.at(woke_ns)} and wrote{looking}"
    elif is_late:
        brief = f"{who} wrote at {tell.at(at_ns)}{looking}"
    else:
        brief = wrote
    reasons, misled = [], ""
    demand = GIVE_TOKEN if until_ns is not None else f"{ASK_THE_SERVICE}; {TOKEN_HELPS}"
    if grant is not None and yes_ns is not None and until_ns is not None and yes_ns > until_ns:
        reasons.append(f"its guard had just said yes, {tell.length(yes_ns - until_ns)} after its lease was over")
        by_clock = late_yes(tell, grant, yes_ns)
        if by_clock.said:
            reasons.append(by_clock.said)
            demand = f"{by_clock.demand}; {TOKEN_HELPS}"
    elif yes_ns is not None:
        reasons.append(f"its guard had said yes at {tell.at(yes_ns)}")
        if successor is not None and until_ns is not None and successor["begin_hi_ns"] < until_ns:
            by_clock = early_takeover(tell, successor, grant, successor["begin_hi_ns"])
            misled, demand = by_clock.said, f"{by_clock.demand}; {TOKEN_HELPS}"
        elif until_ns is not None:
            demand = TOKEN_ALONE
    if asked_nothing:
        began = "woke" if woke_ns is not None else "was granted the lock"
        reasons.append(f"it had no certain answer of the store since it {began}")
    why = ": " + ", and ".join(reasons) if reasons else ""
    return Cause(
        parts=(
            (1, tell.brief_pause(pause) if pause is not None else tell.brief_fault(at_ns, [node], since_ns=since_ns)),
            (0, tell.brief_takeover(successor) if successor is not None else ""),
            (0, brief),
        ),
        sentences=(
            tell.held(grant) if grant is not None else "",
            tell.faults(at_ns, [node], since_ns=since_ns),
            tell.took_over(successor) if successor is not None else "",
            misled,
            f"{wrote}{why}",
            _EFFECTS.get(kind, demand),
        ),
    )


def _last_guard_yes(tenure: Tenure | None, at_ns: int) -> int | None:
    """When the guard of a client last said yes to a write, until `at_ns`; None if it did not."""
    said = [when for when, op in tenure.yes if op == "guard" and when <= at_ns] if tenure is not None else []
    return max(said, default=None)


_EFFECTS: Final = {
    "lost update": "a correct lock keeps others from writing between the read and the write that is based on it",
    "no grant": "a correct lock says yes only after the store has confirmed a record of its own",
}


def _wrote(tell: Teller, wrong: Row, rival: Row | None, kind: str) -> str:
    """The guilty write in words: who wrote when, and what it hit."""
    said = f"{tell.who(wrong)} wrote at {tell.at(begin_of(wrong, tell.facts.moment_ns))}"
    if kind == "no grant":
        return f"{said}, and no record of its own was ever in force"
    if kind == "outside its grant":
        return f"{said} and did not hold the lock then"
    if rival is None:
        return said
    other, when = tell.who(rival), tell.at(begin_of(rival))
    if kind == "stale token":
        taken = f"with token {wrong.get('token')}, after the resource had taken token {rival.get('token')} from {other}"
        return f"{said} {taken} at {when}"
    if kind == "lost update":
        return f"{said} over the write of {other} at {when}, which it had not read"
    return f"{said}, after {other}, whose grant is the later one, had written at {when}"


def takeover(tell: Teller) -> Cause:
    """S5: a grant was replaced before its validity ended."""
    facts, witness = tell.facts, tell.facts.witness
    writes = entries(witness, "writes")
    held, ending = (writes[0], writes[-1]) if writes else ({}, {})
    who, whose = tell.apart(ending, held)
    nodes = [str(ending.get("node")), str(held.get("node"))]
    at_ns, until_ns = begin_of(ending, facts.moment_ns), witness.get("valid_until_true_ns")
    grant = facts.grant_of(nodes[1], at_ns)
    verb = "removed" if ending.get("state") in ("deleted", "released") else "replaced"
    blindly = "" if ending.get("is_conditional", True) else " without a condition"
    early = ", which nobody had given back"
    if isinstance(until_ns, int):
        early = f", {tell.length(until_ns - at_ns)} before its lease ended"
    told = f"{who} {verb} the record of {whose} at {tell.at(at_ns)}{blindly}{early}"
    stamp_ns = facts.stamp_of(grant) if grant is not None else None
    own_ns = facts.on_clock_ns(nodes[0], stamp_ns) if stamp_ns is not None else None
    clock = ""
    if own_ns is not None and own_ns > at_ns:
        clock = f"on its own clock, too, the record of {whose} was good until {tell.at(own_ns)}"
    elif own_ns is not None:
        ahead_ns = facts.clock_ahead_ns(nodes[0], at_ns)
        off = f", {tell.length(abs(ahead_ns))} {'ahead' if ahead_ns > 0 else 'behind'}," if ahead_ns else ""
        shown = (
            f"had shown the end of that record at {tell.at(own_ns)}"
            if own_ns > facts.zero_ns
            else "showed a time past its end from the start"
        )
        clock = f"the clock of {who}{off} {shown}"
    by_clock = early_takeover(tell, ending, grant, at_ns)
    return Cause(
        parts=((1, tell.brief_fault(at_ns, nodes)), (0, told)),
        sentences=(
            tell.held(grant) if grant is not None else "",
            tell.faults(at_ns, nodes),
            told,
            clock,
            by_clock.said,
            by_clock.demand,
        ),
    )


def ownership(tell: Teller) -> Cause:
    """S6: a client changed the grant of another, or an ended grant came back."""
    facts, witness = tell.facts, tell.facts.witness
    writes = entries(witness, "writes")
    before, wrong = (writes[0], writes[-1]) if len(writes) > 1 else ({}, writes[0] if writes else {})
    node, who, at_ns = str(wrong.get("node")), tell.who(wrong), begin_of(wrong, facts.moment_ns)
    text = plain(str(witness.get("text"))).replace(", without a condition", " without a condition")
    told = f"{text} at {tell.at(at_ns)}"
    owner, mine = facts.grant_of(str(before.get("node")), at_ns), facts.grant_of(node, at_ns)
    is_anothers = owner is not None and owner["node"] != node
    since_ns = mine["begin_hi_ns"] if mine is not None else None
    over_ns = mine["end_hi_ns"] if mine is not None else None
    ended = f"the grant of {who} had ended at {tell.at(over_ns)}" if over_ns is not None and over_ns < at_ns else ""
    pause = facts.pause_over(node, since_ns, at_ns) if since_ns is not None else None
    sent = facts.exchanges.get(int(wrong["request"])) if wrong.get("request") is not None else None
    if sent is not None and at_ns - sent.sent_ns > _LATE_NS:
        told += f"; {who} had sent that {sent.op} at {tell.at(sent.sent_ns)}"
    if str(witness.get("kind")) == "revived":
        how = f"a write of {who} that belongs to the ended grant made it good again"
    elif not wrong.get("is_conditional", True):
        how = f"the write carried no condition, so the store could not see that the record was not the one of {who}"
    else:
        how = "the write named the version of that record, so its sender had read it and did not ask whose it was"
    return Cause(
        parts=(
            (1, tell.brief_pause(pause) if pause is not None else tell.brief_fault(at_ns, [node], since_ns=since_ns)),
            (0, tell.brief_takeover(owner) if is_anothers and owner is not None else ended),
            (0, told),
        ),
        sentences=(
            tell.held(mine) if mine is not None and is_anothers else ended,
            tell.faults(at_ns, [node], since_ns=since_ns),
            tell.took_over(owner) if is_anothers and owner is not None else "",
            f"{told}: {how}",
            NAME_OWN_VERSION,
        ),
    )


_ANSWERS: Final = {
    "false grant": "a correct lock says granted only after the store has confirmed its own record, while it is good",
    "false denial": "a correct lock denies only while it sees the good record of another; else it says what it knows",
    "own grant denied": "a correct lock reads the record after a request without an answer, and knows its own name",
    "false release": "a correct lock says released only after the store has confirmed that, and else reports a failure",
    "wrong token": "a correct lock returns the token that stands in its own record",
    "wrong token shown": "a correct lock shows the resource the token that stands in its own record",
}
"""By kind of wrong answer, what a correct lock does."""


def answers(tell: Teller) -> Cause:
    """S7: a call returned what was not so."""
    witness = tell.facts.witness
    kind, node = str(witness.get("kind")), str(witness.get("node"))
    begin_ns, end_ns = witness["interval_ns"]
    who = tell.who({"node": node, "task": witness.get("task")})
    call = next(iter(entries(witness, "calls")), {})
    op = "unlock" if call.get("op") == "release" else "acquire"
    brief, stood = _stood(tell, entries(witness, "writes"), node, kind)
    what = {
        "false grant": "was told that it has the lock",
        "false denial": "was denied the lock",
        "own grant denied": "was denied the lock",
        "false release": "was told that the lock is released",
        "wrong token": f"was told token {witness.get('token')} in place of {witness.get('recorded')}",
        "wrong token shown": f"showed the resource token {witness.get('token')} in place of {witness.get('recorded')}",
    }.get(kind, "was told something wrong")
    told = f"{who} {what} at {tell.at(end_ns)}"
    return Cause(
        parts=((1, tell.brief_fault(end_ns, [node], since_ns=begin_ns)), (0, told), (0, brief)),
        sentences=(
            f"{who} called {op} at {tell.at(begin_ns)}",
            tell.faults(end_ns, [node], since_ns=begin_ns),
            _unanswered(tell, node, begin_ns, end_ns),
            f"{told}, but {stood}" if stood else told,
            _ANSWERS.get(kind, ""),
        ),
    )


def _unanswered(tell: Teller, node: str, begin_ns: int, end_ns: int) -> str:
    """The last write of a client within its call that got no answer, and what became of it."""
    asked = tell.facts.exchanges_of(node, begin_ns=begin_ns, end_ns=end_ns)
    unanswered = [exchange for exchange in asked if exchange.is_write and exchange.is_unanswered]
    if not unanswered:
        return ""
    exchange = unanswered[-1]
    landed = exchange.landed_ns
    fate = f"the store applied it at {tell.at(landed)}" if landed is not None else "the store never applied it"
    if landed is None and not tell.facts.never_landed(exchange):
        fate = "nobody recorded whether the store applied it"
    return f"the {exchange.op} that {node} sent at {tell.at(exchange.sent_ns)} got no answer, and {fate}"


def _stood(tell: Teller, writes: list[dict[str, Any]], node: str, kind: str) -> tuple[str, str]:
    """The true state of the record, for the sentence and for the paragraph."""
    last = writes[-1] if writes else None
    if kind in ("own grant denied", "false release"):
        live = [each for each in writes if each.get("node") == node and each.get("state") == "live"]
        grant = tell.facts.grant_of(node, begin_of(live[0])) if live else None
        verb, when = ("came into force", "at") if kind == "own grant denied" else ("was in force", "since")
        begin = f" {when} {tell.at(grant['begin_hi_ns'])}" if grant is not None else ""
        said = f"its own grant {verb}{begin}"
        return said, said
    if kind == "false denial":
        if last is None:
            return "nobody held it", "nobody held it"
        state = {
            "released": "had given it back",
            "deleted": "had deleted the record",
            "live": "had written the last record",
            "foreign": "had overwritten the record",
        }.get(str(last.get("state")), "wrote last")
        return "nobody else held it", f"nobody else held it: {tell.who(last)} {state} at {tell.at(begin_of(last))}"
    if kind == "false grant":
        is_own = last is None or last.get("node") == node
        said = "no record of its own was in force" if is_own else f"the record was that of {tell.who(last or {})}"
        return said, said
    return "", ""


def _foreign_end(tell: Teller, grant: Row | None) -> str:
    """The clause that tells of a grant that somebody else released or deleted; empty if nobody did."""
    if grant is None or grant["end_kind"] not in ("released", "deleted", "overwritten") or grant["end_hi_ns"] is None:
        return ""
    writer = tell.writer_at(grant, grant["end_hi_ns"])
    by, whose = tell.apart(writer or grant, grant)
    return tell.ended(grant) if by != whose else ""


def _overlap(witness: dict[str, Any], moment_ns: int) -> tuple[int, int]:
    edges = witness.get("overlap_ns")
    if isinstance(edges, list) and len(edges) == 2 and all(isinstance(edge, int) for edge in edges):
        return edges[0], edges[1]
    return moment_ns, moment_ns


def _until(entry: Row, otherwise: int) -> int:
    interval = entry.get("interval_ns")
    end_ns = interval[1] if isinstance(interval, list) and len(interval) == 2 else None
    return int(end_ns) if isinstance(end_ns, int) else otherwise
