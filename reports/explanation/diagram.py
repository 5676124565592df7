"""The space-time diagram as values: lanes, requests, beliefs, pauses and leases of the scene."""

from __future__ import annotations

from typing import Final

from lockref.words import counted
from reports.explanation.explanation import Bar, Diagram, Mark, Message
from reports.explanation.facts import natural
from reports.explanation.run_records import PAUSES, Exchange
from reports.explanation.scene import Scene
from reports.explanation.table import RESOURCE, STORE, Step, condition_of, fate_of, steps_of
from reports.explanation.telling import Teller, plain
from reports.formats.text import short

MESSAGES_MAX: Final = 44
"""Requests that are drawn; routine ones are counted instead where there are more, and then those farthest away."""
ALIKE_MAX: Final = 3
"""So many routine requests of one client in a row are all drawn."""
FEW: Final = 60
"""Routine requests are drawn, too, in a window that has no more requests than this."""


def diagram_of(tell: Teller) -> Diagram:
    """The diagram of the scene around one failure."""
    facts, scene = tell.facts, Scene(tell.facts)
    asked = [each for each in scene.exchanges if each.node in scene.nodes or each.number in scene.guilty_requests]
    drawn = _worth_drawing(scene, asked) if len(asked) <= FEW else [each for each in asked if scene.is_notable(each)]
    drawn.sort(key=lambda each: (each.number not in scene.guilty_requests, abs(each.sent_ns - facts.moment_ns)))
    drawn = sorted(drawn[:MESSAGES_MAX], key=lambda each: each.seq)
    numbers = {each.number for each in drawn}
    messages = [_message(tell, scene, each) for each in drawn]
    writes = _writes(tell, scene)
    marks = _marks(tell, scene)
    bars = _bars(tell, scene)
    used = (
        {message.lane for message in (*messages, *writes)} | {mark.lane for mark in marks} | {bar.lane for bar in bars}
    )
    used -= {STORE, RESOURCE, ""}
    lanes = [*sorted(used, key=natural)]
    lanes += [STORE] if messages or any(mark.lane == STORE for mark in marks) else []
    lanes += [RESOURCE] if writes else []
    folded = _folded(tell, [each for each in asked if each.number not in numbers])
    return Diagram(
        lanes=tuple(lanes),
        begin_ns=facts.since_zero(scene.begin_ns),
        end_ns=facts.since_zero(scene.end_ns),
        messages=(*messages, *writes),
        bars=tuple(bar for bar in bars if bar.lane in lanes),
        marks=tuple(mark for mark in marks if mark.lane in lanes or not mark.lane),
        folded=tuple(folded),
        notices=tuple(_notices(tell, scene)),
    )


def _worth_drawing(scene: Scene, asked: list[Exchange]) -> list[Exchange]:
    """The requests without the middle of each row of like ones: a waiter looks ten times, and the first looks tell."""
    drawn: list[Exchange] = []
    rows: dict[str, list[Exchange]] = {}

    def close(node: str) -> None:
        row = rows.pop(node, [])
        drawn.extend(row if len(row) <= ALIKE_MAX else (row[0], row[-1]))

    for exchange in asked:
        row = rows.get(exchange.node)
        if scene.is_notable(exchange):
            close(exchange.node)
            drawn.append(exchange)
        elif row and (row[0].op, row[0].outcome) == (exchange.op, exchange.outcome):
            row.append(exchange)
        else:
            close(exchange.node)
            rows[exchange.node] = [exchange]
    for node in list(rows):
        close(node)
    return drawn


def _message(tell: Teller, scene: Scene, exchange: Exchange) -> Message:
    facts = tell.facts
    landed = next((at_ns for at_ns, _ in exchange.applied), None)
    if exchange.is_unanswered:
        end = "lost reply" if exchange.applied else "lost request" if exchange.is_write else "open"
    elif not exchange.is_write:
        end = "read"
    else:
        end = "applied" if exchange.outcome == "applied" else "refused"
    fate = fate_of(tell, exchange)
    label = exchange.op if end == "read" else f"{exchange.op}: {fate}"
    replied = exchange.replied_ns
    answered = f", answered at {tell.at(replied)}" if replied is not None and not exchange.is_unanswered else ""
    arrived = f", taken up at {tell.at(landed)}" if landed is not None else ""
    sent = f"{exchange.op}{condition_of(exchange)}, sent at {tell.at(exchange.sent_ns)}"
    text = f"request {exchange.number} of {exchange.node}: {sent}{arrived}{answered}: {fate}"
    return Message(
        lane=exchange.node, service=STORE, label=short(label, 44), text=text, end=end,
        sent_ns=facts.since_zero(exchange.sent_ns),
        applied_ns=None if landed is None else facts.since_zero(landed),
        replied_ns=None if replied is None else facts.since_zero(replied),
        is_guilty=exchange.number in scene.guilty_requests,
    )  # fmt: skip


def _writes(tell: Teller, scene: Scene) -> list[Message]:
    """The protected writes: guilty and refused ones, and the first and last good one of each client beside them."""
    facts = tell.facts
    guilty = [row for row in facts.effects if row["seq"] in scene.guilty_seqs]
    shown = [row for row in facts.effects if row["node"] in scene.nodes and scene.shows(row["at_ns"])]
    if len(shown) > FEW // 2:
        near = sorted(
            shown,
            key=lambda row: (
                row["seq"] not in scene.guilty_seqs,
                row["outcome"] == "applied",
                abs(row["at_ns"] - facts.moment_ns),
            ),
        )
        shown = sorted(near[: FEW // 2], key=lambda row: row["seq"])
    shown = sorted({row["seq"]: row for row in (*guilty, *shown)}.values(), key=lambda row: row["seq"])
    found = []
    for row in shown:
        yes_ns = _yes_before(tell, row["request"], row["attempt"], row["at_ns"])
        accepted = row["outcome"] == "applied"
        token = f" with token {row['token']}" if row["token"] is not None else ""
        said = f", after a yes of its guard at {tell.at(yes_ns)}" if yes_ns is not None else ""
        is_guilty = row["seq"] in scene.guilty_seqs
        fate = "accepted" if accepted else "refused"
        found.append(
            Message(
                lane=row["node"], service=RESOURCE, label=f"write{token}: {fate}",
                text=f"protected write of {row['node']}{token}, {fate} at {tell.at(row['at_ns'])}{said}",
                end="applied" if accepted else "refused",
                sent_ns=facts.since_zero(yes_ns if yes_ns is not None and scene.shows(yes_ns) else row["at_ns"]),
                applied_ns=facts.since_zero(row["at_ns"]), is_guilty=is_guilty,
            )
        )  # fmt: skip
    return found


def _yes_before(tell: Teller, number: int | None, attempt: int | None, at_ns: int) -> int | None:
    tenure = tell.facts.tenures.get(number) if number is not None else None
    if tenure is None:
        return None
    yes = [when for when, op in tenure.yes if op == "guard"]
    place = (attempt or 1) - 1
    return yes[place] if place < len(yes) and yes[place] <= at_ns else None


def _marks(tell: Teller, scene: Scene) -> list[Mark]:
    """The instants that are no requests: faults, calls that returned, what the guard said, ends of leases."""
    shown = [step for step in steps_of(tell, scene) if _is_mark(step)]
    return [
        Mark(
            lane=step.node.split("/")[0],
            kind=step.kind,
            at_ns=tell.facts.since_zero(step.at_ns),
            label=short(step.what, 60),
            is_guilty=step.is_guilty,
        )
        for step in sorted(shown, key=lambda step: (step.at_ns, step.seq))
    ]


def _is_mark(step: Step) -> bool:
    return step.kind in ("fault", "return", "no", "lease", "late") or (step.is_guilty and step.kind == "yes")


_BAR_OF_FAULT: Final = {**dict.fromkeys(PAUSES, "pause"), "crash": "down", "partition": "cut"}
"""By kind of fault, the kind of its bar. Other faults have none."""


def _bars(tell: Teller, scene: Scene) -> list[Bar]:
    facts = tell.facts

    def bar(lane: str, kind: str, begin_ns: int, end_ns: int, label: str) -> Bar:
        begin_ns, end_ns = max(begin_ns, scene.begin_ns), min(end_ns, scene.end_ns)
        begin, end = facts.since_zero(begin_ns), facts.since_zero(end_ns)
        return Bar(lane=lane, kind=kind, label=label, begin_ns=begin, end_ns=end)

    bars = [
        bar(
            tenure.node,
            "belief",
            tenure.first_ns,
            tenure.last_ns,
            f"token {tenure.token}" if tenure.token is not None else "believes",
        )
        for tenure in facts.tenures.values()
        if tenure.node in scene.nodes and tenure.first_ns <= scene.end_ns and tenure.last_ns >= scene.begin_ns
    ]
    for strike in scene.strikes:
        end_ns = strike.end_ns if strike.end_ns is not None else facts.end_ns
        if strike.end_ns is None and strike.fault.kind != "crash":
            continue
        if end_ns < scene.begin_ns or strike.node not in facts.nodes:
            continue
        kind = _BAR_OF_FAULT.get(strike.fault.kind)
        if kind is not None:
            bars.append(bar(strike.node, kind, strike.begin_ns, end_ns, plain(strike.fault.happened)))
    for grant in facts.grants:
        end_ns = grant["end_hi_ns"] if grant["end_hi_ns"] is not None else facts.end_ns
        if grant["begin_hi_ns"] <= scene.end_ns and end_ns >= scene.begin_ns:
            bars.append(bar(STORE, "grant", grant["begin_hi_ns"], end_ns, grant["node"]))
    return bars


def _folded(tell: Teller, left_out: list[Exchange]) -> list[tuple[int, str]]:
    """The requests that are not drawn, in words: which client sent how many of which kind; from when on."""
    counts: dict[tuple[str, str], list[Exchange]] = {}
    for each in left_out:
        counts.setdefault((each.node, each.op), []).append(each)
    told = []
    for (node, op), those in sorted(counts.items(), key=lambda item: (item[1][0].seq, natural(item[0][0]))):
        until = f", until {tell.at(those[-1].sent_ns)}" if len(those) > 1 else ""
        told.append((tell.facts.since_zero(those[0].sent_ns), f"{node}: {counted(len(those), f'routine {op}')}{until}"))
    return told


def _notices(tell: Teller, scene: Scene) -> list[str]:
    facts = tell.facts
    notices = []
    run_begin = min((row["at_ns"] for row in facts.rows), default=scene.begin_ns)
    if scene.begin_ns > run_begin or scene.end_ns < facts.end_ns:
        part = f"from {tell.at(scene.begin_ns)} to {tell.at(scene.end_ns)}"
        notices.append(f"shown is the part {part} of a run of {tell.length(facts.end_ns - run_begin)}")
    if scene.bystanders:
        names = ", ".join(scene.bystanders[:6]) + (
            f" and {len(scene.bystanders) - 6} more" if len(scene.bystanders) > 6 else ""
        )
        count = sum(each.node in set(scene.bystanders) for each in scene.exchanges)
        notices.append(f"without a part in it, and not drawn: {names} ({count} requests)")
    return notices
