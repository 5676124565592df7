"""The table of events: what each client did in the window of the failure, routine work folded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lockref.words import IF_ABSENT
from reports.explanation.explanation import EventRow
from reports.explanation.facts import RunFacts
from reports.explanation.run_records import Exchange, Row
from reports.explanation.scene import Scene
from reports.explanation.telling import Teller, entries, plain

ROWS_MAX: Final = 48
"""Rows of the table; those farthest from the failure are left out first."""
STORE, RESOURCE, WORLD = "store", "resource", "world"
READS: Final = "reads the record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event of the scene.

    kind: `call`, `return`, `request`, `yes`, `no`, `effect`, `fault`, `lease`, `late`.
    fold: steps of one client with the same words are counted, not listed; empty: listed.
    """

    kind: str
    at_ns: int
    seq: int
    node: str
    what: str
    fold: str = ""
    is_guilty: bool = False

    @property
    def is_fault(self) -> bool:
        return self.kind == "fault"


def event_rows(tell: Teller) -> tuple[tuple[EventRow, ...], int]:
    """The rows of the table, in the order of time, and how many were left out."""
    facts, scene = tell.facts, Scene(tell.facts)
    rows = _folded(sorted(steps_of(tell, scene), key=lambda step: (step.at_ns, step.seq)), tell)
    left_out = max(0, len(rows) - ROWS_MAX)
    if left_out:
        far = sorted(
            rows,
            key=lambda row: (not (row.is_guilty or row.is_fault), abs(row.at_ns - facts.since_zero(facts.moment_ns))),
        )
        kept = set(map(id, far[:ROWS_MAX]))
        rows = [row for row in rows if id(row) in kept]
    return tuple(rows), left_out


def _folded(steps: list[Step], tell: Teller) -> list[EventRow]:
    """The steps, where routine steps of one client between two others are one row."""
    rows: list[EventRow] = []
    waiting: dict[tuple[str, str], list[Step]] = {}

    def flush() -> None:
        for (node, fold), those in waiting.items():
            many = f", {len(those)} times until {tell.at(those[-1].at_ns)}" if len(those) > 1 else ""
            what = those[0].what if len(those) == 1 else f"{fold}{many}"
            rows.append(EventRow(at_ns=tell.facts.since_zero(those[0].at_ns), node=node, what=what))
        waiting.clear()

    for step in steps:
        if step.fold:
            waiting.setdefault((step.node, step.fold), []).append(step)
            continue
        flush()
        rows.append(
            EventRow(
                at_ns=tell.facts.since_zero(step.at_ns), node=step.node, what=step.what,
                is_guilty=step.is_guilty, is_fault=step.is_fault,
            )
        )  # fmt: skip
    flush()
    return rows


def steps_of(tell: Teller, scene: Scene) -> list[Step]:
    """Every step of the scene, in no order."""
    requests = [
        _request(tell, scene, exchange)
        for exchange in scene.exchanges
        if exchange.node in scene.nodes or exchange.number in scene.guilty_requests
    ]
    return [
        *_calls(tell, scene),
        *requests,
        *_answers_of_guard(tell, scene),
        *_effects(tell, scene),
        *_faults(scene),
        *_tampered(scene),
        *_leases(tell, scene),
        *_waited(tell),
    ]


_CALLED: Final = {"acquire": "asks for the lock", "release": "gives the lock back", "commit": "begins a commit"}


def _calls(tell: Teller, scene: Scene) -> list[Step]:
    steps = []
    for row in tell.facts.rows:
        if row["kind"] not in ("call", "return") or row["node"] not in scene.nodes or not scene.shows(row["at_ns"]):
            continue
        call = tell.facts.calls.get(row["request"])
        if call is not None:
            what = _CALLED[call.op] if row["kind"] == "call" else answer_of(call.op, row)
            is_guilty = row["seq"] in scene.guilty_seqs
            steps.append(_step(row["kind"], row, tell.who(row), what, is_guilty=is_guilty))
    return steps


def _step(kind: str, row: Row, node: str, what: str, *, fold: str = "", is_guilty: bool = False) -> Step:
    return Step(
        kind=kind, at_ns=row["at_ns"], seq=row["seq"], node=node, what=what, fold=fold, is_guilty=is_guilty
    )  # fmt: skip


def answer_of(op: str, row: Row) -> str:
    """The answer of a call, in the words of its caller."""
    outcome = str(row["outcome"])
    granted = "is granted the lock" + (f" under token {row['token']}" if row["token"] is not None else "")
    known = {
        ("acquire", "applied"): granted,
        ("acquire", "precondition_failed"): "is denied the lock",
        ("release", "applied"): "is told that the lock is released",
        ("commit", "applied"): f"is told that its commit is version {row['version']}",
    }
    if (op, outcome) in known:
        return known[op, outcome]
    if outcome == "ambiguous":
        return f"{op} ends without a certain answer"
    return f"{op} ends in an error" if outcome == "rejected" else f"{op} ends: {outcome.replace('_', ' ')}"


def condition_of(exchange: Exchange) -> str:
    """The condition of a write, as words after its verb."""
    if not exchange.is_write:
        return ""
    if exchange.condition == IF_ABSENT:
        return " if absent"
    return " if unchanged" if exchange.condition else " without a condition"


def fate_of(tell: Teller, exchange: Exchange) -> str:
    """The fate of a request, in words."""
    landed = exchange.landed_ns
    if exchange.is_write and landed is not None:
        late = f" at {tell.at(landed)}" if landed - exchange.sent_ns > 100_000_000 else ""
        again = " twice" if sum(outcome == "applied" for _, outcome in exchange.applied) > 1 else ""
        if exchange.is_unanswered:
            return f"applied{again}{late}, the answer never came"
        if exchange.outcome != "applied":
            return f"applied{again}{late}, but answered with {exchange.outcome.replace('_', ' ')}"
        return f"applied{again}{late}"
    if exchange.is_unanswered:
        return "no answer" if not exchange.is_write else "never applied, no answer"
    return {
        "applied": "read" if not exchange.is_write else "applied",
        "precondition_failed": "refused",
        "conflict": "refused (conflict)",
        "throttled": "refused (throttled)",
        "rejected": "refused (error)",
    }.get(exchange.outcome, exchange.outcome.replace("_", " "))


def _request(tell: Teller, scene: Scene, exchange: Exchange) -> Step:
    what = f"{exchange.op}{condition_of(exchange)}: {fate_of(tell, exchange)}" if exchange.is_write else READS
    is_notable = scene.is_notable(exchange)
    return Step(
        kind="request",
        at_ns=exchange.sent_ns,
        seq=exchange.seq,
        node=exchange.node,
        what=f"{READS}: {fate_of(tell, exchange)}" if is_notable and not exchange.is_write else what,
        fold="" if is_notable else what,
        is_guilty=exchange.number in scene.guilty_requests,
    )


def _answers_of_guard(tell: Teller, scene: Scene) -> list[Step]:
    """The last yes of each tenure, each yes that breaks the clause, and each no."""
    last: dict[int, int] = {}
    for row in tell.facts.rows:
        if row["kind"] == "believed" and row["request"] is not None and row["op"] != "acquire":
            last[row["request"]] = row["seq"]
    told = {*last.values(), *scene.guilty_seqs}
    steps = []
    for row in tell.facts.rows:
        if row["node"] not in scene.nodes or not scene.shows(row["at_ns"]):
            continue
        is_guilty = row["seq"] in scene.guilty_seqs
        if row["kind"] == "believed" and row["seq"] in told:
            what = "its guard says yes" + {"none": " to an observer", "guard": " to a write"}.get(row["op"], "")
            steps.append(_step("yes", row, tell.who(row), what, is_guilty=is_guilty))
        elif row["kind"] == "disbelieved" and row["op"] != "release":
            what = "reports that the lock is lost" if row["op"] == "none" else "its guard says no"
            steps.append(_step("no", row, tell.who(row), what, is_guilty=is_guilty))
    return steps


def _effects(tell: Teller, scene: Scene) -> list[Step]:
    steps = []
    for row in tell.facts.effects:
        if row["node"] not in scene.nodes or not scene.shows(row["at_ns"]):
            continue
        accepted = "accepted" if row["outcome"] == "applied" else "refused"
        token = f" with token {row['token']}" if row["token"] is not None else ""
        is_guilty = row["seq"] in scene.guilty_seqs
        is_commit = row["op"] == "commit" and bool(row["content"])
        what = f"writes to the resource{token}: {accepted}"
        if is_commit:
            what = f"version {row['version']} is put into the log"
        fold = "" if is_guilty or is_commit or accepted == "refused" else what
        steps.append(_step("effect", row, tell.who(row), what, fold=fold, is_guilty=is_guilty))
    return steps


def _faults(scene: Scene) -> list[Step]:
    steps = []
    for strike in scene.strikes:
        node, end_ns = strike.node or WORLD, strike.end_ns
        if end_ns is not None and end_ns < scene.begin_ns:
            continue
        said = plain(strike.fault.happened)
        steps.append(Step(kind="fault", at_ns=max(strike.begin_ns, scene.begin_ns), seq=-1, node=node, what=said))
        if end_ns is not None and scene.shows(end_ns) and end_ns > strike.begin_ns:
            over = f"the {strike.fault.kind.replace('_', ' ')} is over"
            over = {"pause": "goes on", "suspend": "goes on", "crash": "starts again"}.get(strike.fault.kind, over)
            steps.append(Step(kind="fault", at_ns=end_ns, seq=-1, node=node, what=over))
    return steps


def _tampered(scene: Scene) -> list[Step]:
    return [
        _step("fault", row, STORE, f"an operator changes the record ({row['op']})")
        for row in scene.facts.tampered
        if scene.shows(row["at_ns"])
    ]


def _waited(tell: Teller) -> list[Step]:
    """The end of the time that a clause gives, where something did not happen in it."""
    finding = tell.facts.finding
    call = next(iter(entries(finding.witness, "calls")), {})
    node = str(finding.witness.get("node") or call.get("node"))
    what = _LATE.get(finding.kind, "")
    if not what or finding.at_ns is None:
        return []
    return [Step(kind="late", at_ns=finding.at_ns, seq=-1, node=node, what=what, is_guilty=True)]


_LATE: Final = {
    **dict.fromkeys(("waited too long", "bypassed", "starved"), "still waits"),
    **dict.fromkeys(("call took too long", "call never returned"), "its call has taken longer than it may"),
    "loss not reported": "has not been told of its loss",
}
"""By kind of failure, what has not happened when the time of a clause is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEnd:
    """The end of the validity of a grant that nobody renewed or gave back before. on: whose clock shows it."""

    holder: str
    on: str
    at_ns: int

    @property
    def words(self) -> str:
        if self.on == self.holder:
            return "its lease ends on its own clock"
        return f"the lease of {self.holder} ends on the clock of {self.on}"


def lease_ends(facts: RunFacts, scene: Scene) -> list[LeaseEnd]:
    """The ends of leases in the window: on the clock of the holder, and on that of its successor where it differs."""
    found = []
    for grant in facts.grants:
        until_ns, over_ns = grant["valid_until_true_ns"], grant["end_hi_ns"]
        is_given_back = (
            over_ns is not None and until_ns is not None and over_ns < until_ns and grant["end_kind"] != "taken_over"
        )
        if until_ns is None or is_given_back or grant["node"] not in scene.nodes:
            continue
        if scene.shows(until_ns):
            found.append(LeaseEnd(holder=grant["node"], on=grant["node"], at_ns=until_ns))
        successor, stamp_ns = facts.successor(grant), facts.stamp_of(grant)
        if successor is None or stamp_ns is None or successor["node"] == grant["node"]:
            continue
        other_ns = facts.on_clock_ns(successor["node"], stamp_ns)
        if other_ns is not None and scene.shows(other_ns) and abs(other_ns - until_ns) > 1_000_000:
            found.append(LeaseEnd(holder=grant["node"], on=successor["node"], at_ns=other_ns))
    return found


def _leases(tell: Teller, scene: Scene) -> list[Step]:
    return [
        Step(kind="lease", at_ns=end.at_ns, seq=-1, node=end.on, what=end.words)
        for end in lease_ends(tell.facts, scene)
    ]
