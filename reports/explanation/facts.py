"""The facts of one run from which an explanation is told: requests, calls, beliefs, faults, clocks and grants.

The judge works on columns of many runs. An explanation is about one run and a handful of events, so that rows as
dictionaries are short and fast enough here. Times stay those of the history; whoever tells them subtracts `zero_ns`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lockref.strict_json import NotJson, read_object
from lockref.words import OPERATOR
from reports.checks.summary import Finding
from reports.explanation.explanation import ToldFault
from reports.explanation.run_records import Call, Exchange, Reading, Row, Strike, Tenure

ROWS_MAX: Final = 20_000
"""A longer run is looked at only around the failure: so many of its events, those nearest to it."""


class RunFacts:
    """One run, read once."""

    def __init__(
        self,
        events: pa.Table,
        grants: pa.Table,
        run: Mapping[str, Any],
        finding: Finding,
        faults: Sequence[ToldFault] | None,
    ) -> None:
        """faults: the plan of the run, with what of it mattered; None where nobody has the plan."""
        self.finding = finding
        self.witness: dict[str, Any] = finding.witness
        self.run = run
        self.zero_ns = finding.begin_ns
        self.moment_ns = finding.at_ns if finding.at_ns is not None else self.zero_ns
        self.lock = str(finding.witness.get("lock") or "")
        self.is_cut = len(events) > ROWS_MAX
        self.rows: list[Row] = sorted(_near(events, self.moment_ns).to_pylist(), key=lambda row: row["seq"])
        self.end_ns = max((row["at_ns"] for row in self.rows), default=self.moment_ns)
        self.grants = sorted(
            (row for row in grants.to_pylist() if not self.lock or row["lock"] == self.lock),
            key=lambda row: row["begin_hi_ns"],
        )
        self.exchanges: dict[int, Exchange] = {}
        self.calls: dict[int, Call] = {}
        self.effects: list[Row] = []
        self.tampered: list[Row] = []
        self.has_plan = faults is not None
        self.faults = tuple(faults or ())
        self._told = {fault.id: fault for fault in self.faults}
        self.strikes: list[Strike] = []
        self._yes: dict[int, list[Row]] = {}
        self.noes: list[Row] = []
        self._readings: dict[str, list[Reading]] = {}
        self._read()
        self.tenures = self._tenures()

    # Reading.

    def _read(self) -> None:
        open_strikes: dict[str, tuple[int, str]] = {}
        for row in self.rows:
            kind, node = row["kind"], row["node"]
            if node and kind not in ("applied", "fault") and (read := _reading_of(row)) is not None:
                self._readings.setdefault(node, []).append(read)
            if kind == "call":
                self._call(row)
            elif kind == "return":
                self._return(row)
            elif kind == "sent":
                self._sent(row)
            elif kind in ("applied", "replied"):
                self._answered(row)
            elif kind == "believed" and row["request"] is not None:
                self._yes.setdefault(row["request"], []).append(row)
            elif kind == "disbelieved":
                self.noes.append(row)
            elif kind == "effect":
                self.effects.append(row)
            elif kind == "fault":
                self._fault(row, open_strikes)
        for fault_id, (begin_ns, node) in open_strikes.items():
            self.strikes.append(Strike(fault=self._fault_of(fault_id), node=node, begin_ns=begin_ns))
        self.strikes.sort(key=lambda strike: (strike.begin_ns, strike.fault.id))

    def _call(self, row: Row) -> None:
        if row["op"] in ("acquire", "release", "commit"):
            self.calls[row["request"]] = Call(
                number=row["request"], node=row["node"], task=row["task"] or "", key=row["lock"] or "",
                op=row["op"], begin_ns=row["at_ns"],
            )  # fmt: skip

    def _return(self, row: Row) -> None:
        call = self.calls.get(row["request"])
        if call is not None and call.end_ns is None:
            call.end_ns, call.outcome = row["at_ns"], row["outcome"]
            call.token, call.owner = row["token"], row["owner"] or ""

    def _sent(self, row: Row) -> None:
        number = row["request"]
        if number is None or number in self.exchanges:
            return
        self.exchanges[number] = Exchange(
            number=number, seq=row["seq"], node=row["node"], task=row["task"] or "", key=row["lock"] or "",
            op=row["op"], condition=row["if_version"] or "", sent_ns=row["at_ns"], owner=row["owner"] or "",
            token=row["token"], stamp_ns=row["valid_until_ns"], clocks=_reading_of(row),
        )  # fmt: skip

    def _answered(self, row: Row) -> None:
        exchange = self.exchanges.get(row["request"]) if row["request"] is not None else None
        if exchange is None:
            if row["kind"] == "applied" and row["node"] == OPERATOR:
                self.tampered.append(row)
            return
        if row["kind"] == "applied":
            if (row["at_ns"], row["outcome"]) not in exchange.applied:
                exchange.applied.append((row["at_ns"], row["outcome"]))
        elif exchange.replied_ns is None:
            exchange.replied_ns, exchange.outcome = row["at_ns"], row["outcome"]
            exchange.version = row["version"] or ""
            exchange.owner = exchange.owner or row["owner"] or ""

    def _fault(self, row: Row, open_strikes: dict[str, tuple[int, str]]) -> None:
        told = detail_of(row)
        fault_id, phase = str(told.get("id", "")), told.get("phase")
        if phase == "end" and fault_id in open_strikes:
            begin_ns, node = open_strikes.pop(fault_id)
            strike = Strike(fault=self._fault_of(fault_id), node=node, begin_ns=begin_ns, end_ns=row["at_ns"])
            self.strikes.append(strike)
        elif phase == "begin":
            kind = str(told.get("kind", ""))
            self._told.setdefault(fault_id, _unplanned(fault_id, kind, row["node"]))
            open_strikes[fault_id] = (row["at_ns"], row["node"])
        elif phase == "fired":
            kind = str(told.get("kind", ""))
            self._told.setdefault(fault_id, _unplanned(fault_id, kind, row["node"]))
            self.strikes.append(Strike(fault=self._fault_of(fault_id), node=row["node"], begin_ns=row["at_ns"]))

    def _fault_of(self, fault_id: str) -> ToldFault:
        return self._told[fault_id]

    def _tenures(self) -> dict[int, Tenure]:
        found = {}
        for number, rows in self._yes.items():
            call = self.calls.get(number)
            first = rows[0]
            found[number] = Tenure(
                number=number,
                node=first["node"],
                task=call.task if call else first["task"] or "",
                key=first["lock"] or "",
                token=next((row["token"] for row in rows if row["token"] is not None), None),
                yes=tuple((row["at_ns"], row["op"]) for row in rows),
            )
        return found

    # Questions.

    def since_zero(self, at_ns: int) -> int:
        return at_ns - self.zero_ns

    @property
    def validity_ns(self) -> int | None:
        """The length of a lease, where the lock has one."""
        found = self.run.get("validity_ns")
        return int(found) if found else None

    def pauses(self, node: str) -> Iterator[Strike]:
        return (strike for strike in self.strikes if strike.is_pause and strike.node == node)

    def pause_over(self, node: str, begin_ns: int, end_ns: int) -> Strike | None:
        """The longest pause of this node that meets a stretch of time."""
        met = [
            strike
            for strike in self.pauses(node)
            if strike.begin_ns <= end_ns and (strike.end_ns is None or strike.end_ns >= begin_ns)
        ]
        return max(met, key=lambda strike: (strike.end_ns or self.end_ns) - strike.begin_ns, default=None)

    def process_of(self, entry: Row) -> int:
        """The number of restarts of a row's node before its process asked for, or did, what the row tells."""
        asked = self.exchanges.get(entry["request"]) if entry.get("request") is not None else None
        at_ns = asked.sent_ns if asked is not None else begin_of(entry, self.moment_ns)
        return sum(
            strike.fault.kind == "crash" and strike.node == entry.get("node") and strike.end_ns <= at_ns
            for strike in self.strikes
            if strike.end_ns is not None
        )

    def struck(self, strike: Strike) -> Exchange | None:
        """The request that a fault of requests struck: of that node, under way at that instant."""
        under_way = [
            exchange
            for exchange in self.exchanges.values()
            if (not strike.node or exchange.node == strike.node)
            and exchange.sent_ns <= strike.begin_ns
            and (exchange.replied_ns is None or exchange.replied_ns >= strike.begin_ns)
        ]
        return max(under_way, key=lambda exchange: exchange.seq, default=None)

    def grant_of(self, node: str, at_ns: int) -> Row | None:
        """The last grant of this node that began by an instant."""
        mine = [grant for grant in self.grants if grant["node"] == node and grant["begin_hi_ns"] <= at_ns]
        return mine[-1] if mine else None

    def successor(self, grant: Row) -> Row | None:
        """The next grant of the same lock by another client."""
        later = [
            other
            for other in self.grants
            if other["lock"] == grant["lock"]
            and other["ordinal"] > grant["ordinal"]
            and (other["node"], other["task"]) != (grant["node"], grant["task"])
        ]
        return later[0] if later else None

    def predecessor(self, grant: Row) -> Row | None:
        """The grant of the same lock just before."""
        earlier = [
            other for other in self.grants if other["lock"] == grant["lock"] and other["ordinal"] < grant["ordinal"]
        ]
        return earlier[-1] if earlier else None

    def exchanges_of(self, node: str, *, begin_ns: int, end_ns: int) -> list[Exchange]:
        """Requests of a node that were sent within a stretch of time, in order."""
        return [
            exchange
            for exchange in self.exchanges.values()
            if exchange.node == node and begin_ns <= exchange.sent_ns <= end_ns
        ]

    def never_landed(self, exchange: Exchange) -> bool:
        """True where it is known that the store never did what a request asks.

        The history of a real server has the answers that clients got, and mostly nothing of the store itself.
        """
        return exchange.landed_ns is None and (self.has_store_record or not exchange.is_unanswered)

    @property
    def has_store_record(self) -> bool:
        """True where the history has what the store did, not only what clients were answered."""
        return any(exchange.applied for exchange in self.exchanges.values())

    def yes_from(self, request: int | None, at_ns: int) -> Row | None:
        """The first yes from an instant on that the client itself heard. request: of its granted call; None: of nobody.

        An observer asks a guard, too, even that of a client that is paused: nobody acts upon what it hears.
        """
        said = self._yes.get(request, []) if request is not None else []
        return next((row for row in said if row["at_ns"] >= at_ns and row["op"] != "none"), None)

    def looked(self, node: str, *, begin_ns: int, end_ns: int) -> bool:
        """True if the node asked the store something within a stretch of time, and had the answer in it."""
        return any(
            exchange.replied_ns is not None and exchange.replied_ns <= end_ns and not exchange.is_unanswered
            for exchange in self.exchanges_of(node, begin_ns=begin_ns, end_ns=end_ns)
        )

    def reading(self, node: str, at_ns: int) -> Reading | None:
        """The last reading of a node's clocks by an instant, else its first one; None where nobody recorded any."""
        readings = self._readings.get(node)
        if not readings:
            return None
        return readings[max(0, bisect_right(readings, at_ns, key=lambda read: read.at_ns) - 1)]

    def reading_after(self, node: str, at_ns: int) -> Reading | None:
        """The first reading of a node's clocks from an instant on; None where there is none."""
        readings = self._readings.get(node, [])
        place = bisect_left(readings, at_ns, key=lambda read: read.at_ns)
        return readings[place] if place < len(readings) else None

    def clock_ahead_ns(self, node: str, at_ns: int) -> int | None:
        """The lead of this node's wall clock over true time at an instant; None where nobody recorded it.

        Only clocks of a simulation can be compared with true time: there the world's own rows have both.
        """
        read = self.reading(node, at_ns)
        if read is None or self._epoch_ns is None:
            return None
        return read.wall_ns - read.at_ns - self._epoch_ns

    @property
    def _epoch_ns(self) -> int | None:
        """The wall time at true time 0, by the rows that the world itself writes."""
        for row in self.rows:
            if row["kind"] == "applied" and row["wall_ns"] is not None:
                return int(row["wall_ns"] - row["at_ns"])
        return None

    def on_clock_ns(self, node: str, stamp_ns: int) -> int | None:
        """The true time at which this node's wall clock shows a stamp; None where nobody knows."""
        readings = self._readings.get(node)
        if not readings or self._epoch_ns is None:
            return None
        for read, following in pairwise(readings):
            if read.wall_ns <= stamp_ns < following.wall_ns:
                share = (stamp_ns - read.wall_ns) / (following.wall_ns - read.wall_ns)
                return read.at_ns + round(share * (following.at_ns - read.at_ns))
        nearest = readings[-1] if stamp_ns >= readings[-1].wall_ns else readings[0]
        return nearest.at_ns + stamp_ns - nearest.wall_ns

    def _writes_of(self, grant: Row) -> list[Exchange]:
        """The requests of its holder that wrote the records of a grant, in the order in which they took effect."""
        end_ns = grant["end_hi_ns"] if grant["end_hi_ns"] is not None else self.end_ns + 1
        landed = [
            (exchange.landed_ns, exchange.number, exchange)
            for exchange in self.exchanges.values()
            if exchange.is_write
            and exchange.owner == grant["owner"]
            and exchange.landed_ns is not None
            and grant["begin_lo_ns"] <= exchange.landed_ns < end_ns
        ]
        return [exchange for _, _, exchange in sorted(landed, key=lambda each: each[:2])]

    def first_write_of(self, grant: Row) -> Exchange | None:
        """The holder's request that made the first record of a grant; None where nobody knows."""
        return next(iter(self._writes_of(grant)), None)

    def last_write_of(self, grant: Row) -> Exchange | None:
        """The holder's request that made the last record of a grant; None where nobody knows."""
        return next(reversed(self._writes_of(grant)), None)

    def stamp_of(self, grant: Row) -> int | None:
        """The stamp of the last record of a grant: until when it is valid, on its writer's clock."""
        stamps = [exchange.stamp_ns for exchange in self._writes_of(grant) if exchange.stamp_ns is not None]
        return stamps[-1] if stamps else None

    @property
    def nodes(self) -> list[str]:
        """Clients, in natural order."""
        names = {call.node for call in self.calls.values()} | {each.node for each in self.exchanges.values()}
        return sorted(names, key=natural)


def natural(name: str) -> tuple[str, int, str]:
    """The key by which n10 follows n9."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return (head, int(digits[:9]) if digits else -1, name)


def begin_of(entry: Row, otherwise: int = 0) -> int:
    """The instant of a row of a witness or of a grant; the begin of one that lasts."""
    interval = entry.get("interval_ns")
    if isinstance(interval, list) and interval and isinstance(interval[0], int):
        return int(interval[0])
    at_ns = entry.get("at_ns", entry.get("begin_hi_ns"))
    return int(at_ns) if isinstance(at_ns, int) else otherwise


def detail_of(row: Row) -> dict[str, Any]:
    """The detail of a row; empty for what is no JSON object."""
    try:
        return read_object(row["detail"] or "{}")
    except NotJson:
        return {}


def _reading_of(row: Row) -> Reading | None:
    """The clocks of a row's client; None where they were not recorded."""
    if row["wall_ns"] is None or row["mono_ns"] is None:
        return None
    return Reading(at_ns=row["at_ns"], wall_ns=row["wall_ns"], mono_ns=row["mono_ns"])


def _unplanned(fault_id: str, kind: str, node: str) -> ToldFault:
    """A fault that the history tells of, and no plan."""
    words = kind.replace("_", " ") or "a fault"
    about = f" of {node}" if node else ""
    return ToldFault(
        id=fault_id, kind=kind, target=node, text=f"{words}{about}", happened=f"{words} struck{about and ' ' + node}"
    )


def _near(events: pa.Table, moment_ns: int) -> pa.Table:
    if len(events) <= ROWS_MAX:
        return events
    apart = pc.abs(pc.subtract(events["at_ns"], moment_ns))
    kept = pc.sort_indices(apart)[:ROWS_MAX]
    return events.take(kept)
