"""Histories by hand: a small builder, so that a test reads like the story it tells.

    h = History()
    a = h.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=10)
    h.believes(a, 3, 8)
    h.effect(a, at=5)

Times are small integers, taken as nanoseconds; clocks agree with true time
unless `wall_ahead` or `mono_ahead` says otherwise for a node.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lockref.history import Recorder, runs_table, to_table
from lockref.words import ABSENT, IF_ABSENT, Kind, Op, Outcome, detail
from reports.checks import Judgement, judge
from reports.checks.summary import Summary

LOCK = "table.lock"
TIMING = {
    "validity_ns": 100,
    "poll_interval_ns": 10,
    "request_timeout_ns": 5,
    "wait_timeout_ns": 400,
    "drift_bound_ns": 0,
    "faults_end_ns": 0,
}
"""Hand-over within 10 + 2 · 5 = 20; a grant within 120 of the last write; a call within 405."""


@dataclass(frozen=True)
class Held:
    """A granted acquire: who, under which number, which record."""

    node: str
    task: str
    request: int
    owner: str
    token: int | None
    version: str


@dataclass
class History:
    """One run under construction. Events may be added in any order; they are recorded by time.

    wall_ahead: by node, how far its wall clock is ahead of true time. mono_ahead: the same of its monotonic clock, from
    each of some instants on. A clock that stood still from 10 to 30 is `{30: -20}`. wall_steps: likewise, on top of
    `wall_ahead`.
    """

    run: dict[str, Any] = field(default_factory=dict)
    is_simulated: bool = True
    lock: str = LOCK
    wall_ahead: dict[str, int] = field(default_factory=dict)
    mono_ahead: dict[str, dict[int, int]] = field(default_factory=dict)
    wall_steps: dict[str, dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._events: list[tuple[int, int, dict[str, Any]]] = []
        self._requests = 0
        self._versions = 0
        self.version = ""
        self._lengths: dict[Op, int] = {}

    def number(self) -> int:
        self._requests += 1
        return self._requests

    def new_version(self) -> str:
        self._versions += 1
        return f"v{self._versions}"

    def event(self, kind: Kind, at: int, node: str, **fields: Any) -> None:
        if fields.get("token") is None:
            fields.pop("token", None)
        if fields.get("valid_until_ns") is None:
            fields.pop("valid_until_ns", None)
        row = {"task": "main", "lock": self.lock, **fields}
        self._events.append((at, len(self._events), {"kind": kind, "node": node, **row}))

    def write(
        self,
        node: str,
        op: Op,
        *,
        sent: int,
        applied: int | None = None,
        replied: int | None = None,
        owner: str = "",
        token: int | None = None,
        valid_until: int | None = None,
        if_version: str | None = None,
        version: str | None = None,
        content: str = "",
        outcome: Outcome = Outcome.APPLIED,
        reply: Outcome | None = None,
        task: str = "main",
    ) -> str:
        """A request at the store. `if_version` None: on the current state; `reply`: what the client hears."""
        request = self.number()
        condition = (self.version or IF_ABSENT) if if_version is None else if_version
        made = ""
        if outcome is Outcome.APPLIED and op is not Op.DELETE:
            made = self.new_version() if version is None else version
        applied = sent if applied is None else applied
        common: dict[str, Any] = {
            "request": request, "op": op, "if_version": condition, "content": content or made, "owner": owner,
            "token": token, "valid_until_ns": valid_until, "task": task,
        }  # fmt: skip
        self.event(Kind.SENT, sent, node, **common)
        if self.is_simulated:
            self.event(Kind.APPLIED, applied, node, **{**common, "task": ""}, outcome=outcome, version=made)
        heard = outcome if reply is None else reply
        told = made if heard is Outcome.APPLIED else ""
        self.event(Kind.REPLIED, applied if replied is None else replied, node, **common, outcome=heard, version=told)
        if outcome is Outcome.APPLIED:
            self.version = made
        return made

    def operator(self, op: Op, at: int, *, owner: str = "") -> None:
        """Somebody deletes or overwrites the object by hand (simulation only)."""
        made = "" if op is Op.DELETE else self.new_version()
        self.event(Kind.APPLIED, at, "operator", op=op, outcome=Outcome.APPLIED, version=made, owner=owner, task="")
        self.version = made

    def read(self, node: str, at: int, *, version: str = "", content: str = "", owner: str = "", task: str = "main",
             outcome: Outcome = Outcome.APPLIED, sent: int | None = None) -> None:  # fmt: skip
        request = self.number()
        self.event(Kind.SENT, at if sent is None else sent, node, op=Op.READ, request=request, task=task)
        self.event(
            Kind.REPLIED, at, node, op=Op.READ, request=request, outcome=outcome, version=version,
            content=content or version, owner=owner, task=task,
        )  # fmt: skip

    def call(self, node: str, op: Op, at: int, *, task: str = "main", timeout_ns: int | None = None,
             late_ns: int | None = None) -> int:  # fmt: skip
        request = self.number()
        told = {"timeout_ns": timeout_ns, "late_ns": late_ns}
        told = {name: value for name, value in told.items() if value is not None}
        said = detail(**told) if told else ""
        self.event(Kind.CALL, at, node, op=op, request=request, task=task, detail=said)
        return request

    def returns(self, node: str, op: Op, at: int, request: int, outcome: Outcome, *, task: str = "main",
                owner: str = "", token: int | None = None, version: str = "") -> None:  # fmt: skip
        self.event(
            Kind.RETURN, at, node, op=op, request=request, outcome=outcome, task=task, owner=owner, token=token,
            version=version,
        )  # fmt: skip

    def granted(
        self,
        node: str,
        *,
        call: int,
        applied: int,
        returned: int,
        sent: int | None = None,
        token: int | None = None,
        owner: str | None = None,
        valid_for: int | None = 100,
        if_version: str | None = None,
        version: str | None = None,
        task: str = "main",
        late_ns: int | None = None,
    ) -> Held:
        """A call that acquires: CALL, its write, RETURN. Validity counts from the sending."""
        owner = f"owner-{node}" if owner is None else owner
        sent = applied if sent is None else sent
        request = self.call(node, Op.ACQUIRE, call, task=task, late_ns=late_ns)
        until = None if valid_for is None else sent + self._wall_ahead(node, sent) + valid_for
        made = self.write(
            node, Op.ACQUIRE, sent=sent, applied=applied, replied=returned, owner=owner, token=token,
            valid_until=until, if_version=if_version, version=version, task=task,
        )  # fmt: skip
        self.returns(node, Op.ACQUIRE, returned, request, Outcome.APPLIED, task=task, owner=owner, token=token,
                     version=made)  # fmt: skip
        return Held(node, task, request, owner, token, made)

    def renewed(self, held: Held, *, at: int, valid_for: int = 100, if_version: str | None = None) -> None:
        until = at + self._wall_ahead(held.node, at) + valid_for
        self.write(held.node, Op.RENEW, sent=at, owner=held.owner, token=held.token, valid_until=until,
                   if_version=if_version, task="heartbeat")  # fmt: skip

    def released(self, held: Held, *, call: int, applied: int | None = None, returned: int | None = None,
                 if_version: str | None = None, outcome: Outcome = Outcome.APPLIED) -> None:  # fmt: skip
        """An unlock; `applied` None: nothing reaches the store."""
        request = self.call(held.node, Op.RELEASE, call, task=held.task)
        end = call if applied is None else applied
        if applied is not None:
            self.write(held.node, Op.RELEASE, sent=call, applied=applied, owner=held.owner, token=held.token,
                       if_version=if_version, task=held.task)  # fmt: skip
        self.returns(held.node, Op.RELEASE, end if returned is None else returned, request, outcome, task=held.task)

    def fails(self, node: str, *, call: int, returned: int, outcome: Outcome = Outcome.PRECONDITION_FAILED,
              task: str = "main") -> int:  # fmt: skip
        """An acquire that is not granted: denied (the default) or ended in an error."""
        request = self.call(node, Op.ACQUIRE, call, task=task)
        self.returns(node, Op.ACQUIRE, returned, request, outcome, task=task)
        return request

    def believes(self, held: Held, first: int, last: int, *, lost: int | None = None, why: Op = Op.GUARD) -> None:
        """Belief from its first to its last yes. lost, why: when it ended, and what was asked then."""
        common: dict[str, Any] = {"request": held.request, "owner": held.owner, "token": held.token, "task": held.task}
        self.event(Kind.BELIEVED, first, held.node, op=Op.ACQUIRE, **common)
        if last != first:
            self.event(Kind.BELIEVED, last, held.node, op=Op.GUARD, **common)
        if lost is not None:
            self.event(Kind.DISBELIEVED, lost, held.node, op=why, **common)

    def effect(self, held: Held, *, at: int, op: Op = Op.APPEND, base: int | None = None, is_accepted: bool = True,
               attempt: int = 0) -> None:  # fmt: skip
        """A protected write; `base`: the state it was made from, the current one by default."""
        length = self._lengths.get(op, 0)
        based_on = length if base is None else base
        if is_accepted:
            self._lengths[op] = length + 1
        self.event(
            Kind.EFFECT, at, held.node, op=op, request=held.request, attempt=attempt, owner=held.owner,
            token=held.token, outcome=Outcome.APPLIED if is_accepted else Outcome.PRECONDITION_FAILED,
            if_version=str(based_on), version=str(length + 1) if is_accepted else "",
        )  # fmt: skip

    def fault(self, node: str, at: int, kind: str, phase: str, fault_id: str = "f1") -> None:
        self.event(Kind.FAULT, at, node, detail=detail(id=fault_id, kind=kind, phase=phase), lock="")

    def recorder(self) -> Recorder:
        recorder = Recorder()
        for at, _, row in sorted(self._events, key=lambda entry: entry[:2]):
            event = dict(row)
            node = event["node"]
            wall = ABSENT if node == "operator" else at + self._wall_ahead(node, at)
            recorder.event(stamp=(at, wall, at + _since(self.mono_ahead.get(node, {}), at), event.pop("task")), **event)
        return recorder

    def _wall_ahead(self, node: str, at: int) -> int:
        return self.wall_ahead.get(node, 0) + _since(self.wall_steps.get(node, {}), at)

    def tables(self) -> tuple[pa.Table, pa.Table]:
        return tables(self)

    def judged(self) -> Judgement:
        return judge(*self.tables())

    def verdict(self, clause: str) -> dict[str, Any]:
        """The one verdict of this run for a clause, `witness` parsed."""
        return verdict(self.judged(), clause)


def _since(changes: dict[int, int], at: int) -> int:
    """The last of some changes by an instant; 0 before all of them."""
    return changes[max(begun)] if (begun := [since for since in changes if since <= at]) else 0


def tables(*histories: History) -> tuple[pa.Table, pa.Table]:
    """Events and runs of several histories, numbered 0, 1, …"""
    rows = [
        {"run": number, "scenario": "by hand", "provider": "by hand",
         "world": "simulated" if history.is_simulated else "real", **history.run}
        for number, history in enumerate(histories)
    ]  # fmt: skip
    return to_table([history.recorder() for history in histories]), runs_table(rows)


def timed(**run: object) -> History:
    """A history of a run with the timing above."""
    return History(run={**TIMING, **run})


def summarised(*histories: History) -> Summary:
    """What the judge says of these histories, added up."""
    events, runs = tables(*histories)
    return Summary.of(judge(events, runs), events, runs)


def verdict(judgement: Judgement, clause: str, run: int = 0) -> dict[str, Any]:
    """One row of the verdict table."""
    for row in judgement.verdicts.to_pylist():
        if row["clause"] == clause and row["run"] == run:
            witness = json.loads(row["witness"]) if row["witness"] else {}
            if row["verdict"] == "violated":
                assert incomplete_rows(witness) == []
            return {**row, "witness": witness}
    raise AssertionError(f"no verdict on {clause} for run {run}")


def rows_of(witness: dict[str, Any]) -> list[dict[str, Any]]:
    """Every row that a witness shows, in whichever of its lists. A departure from the promise is no event."""
    lists = [value for name, value in witness.items() if isinstance(value, list) and name != "beyond_promise"]
    return [row for value in lists for row in value if isinstance(row, dict)]


def incomplete_rows(witness: dict[str, Any]) -> list[str]:
    """What a reader cannot know of this violation: rows without client, time, request (or a reason) or key."""
    rows = rows_of(witness)
    found = [] if rows else ["no row at all"]
    for row in rows:
        found += [f"no {name}: {row}" for name in ("node", "key") if not row.get(name)]
        found += [] if "task" in row else [f"no task: {row}"]
        span = row.get("interval_ns") or [row.get("at_ns")]
        found += [] if isinstance(span[0], int) else [f"no time: {row}"]
        found += [] if row.get("request") is not None or row.get("no_request") else [f"no request: {row}"]
    return found
