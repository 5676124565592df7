"""What a client asked a table and what it was told, in a form that is the same for an original and for its model.

Random names are numbered by first appearance, epoch seconds are counted from the beginning of the situation, and the
time before a request is told in whole periods of the client, by which it waits. One line of JSON is one situation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from lockref.delta.record import DURATION
from lockref.dynamodb.table import KEY, Comparison, Condition, Item
from lockref.runtime import NS_PER_MS
from tests.evidence.delta.situations import KEY_VALUE, Situation

Trace = dict[str, Any]
Clauses = list[list[Any]]

_RANDOM: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_ABOUT_NOW_S: Final = 10**6
"""Numbers so near to the present are epoch seconds."""
_TERM: Final = re.compile(
    r"attribute_exists\((?P<exists>#\w+)\)|attribute_not_exists\((?P<absent>#\w+)\)|(?P<name>#\w+) = (?P<value>:\w+)"
)

_SETTING: Final = re.compile(r"(?P<name>#\w+) = (?P<value>:\w+)")


def clauses_of(expression: str, names: Mapping[str, str], values: Mapping[str, Any]) -> Clauses:
    """A condition expression taken apart: `[attribute, "exists" or "absent"]` or `[attribute, "equals", value]`.

    Errors: ValueError for an expression of another form.
    """
    if expression.startswith("NOT(") and " AND " not in expression:
        return clauses_of(expression[4:-1].replace("_exists", "_not_exists"), names, values)
    found: Clauses = []
    for term in expression.split(" AND "):
        match = _TERM.fullmatch(term.strip())
        if match is None:
            raise ValueError(f"condition {expression!r}: {term!r} is none of the known forms")
        if match["exists"]:
            found.append([names[match["exists"]], Comparison.EXISTS.value])
        elif match["absent"]:
            found.append([names[match["absent"]], Comparison.ABSENT.value])
        else:
            found.append([names[match["name"]], Comparison.EQUALS.value, dict(values[match["value"]])])
    return sorted(found, key=json.dumps)


def attributes_set(expression: str, names: Mapping[str, str], values: Mapping[str, Any]) -> Item:
    """What an update sets, by attribute. Errors: ValueError for an expression that does more."""
    found: dict[str, Any] = {}
    for part in expression.removeprefix("SET ").split(","):
        match = _SETTING.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"update {expression!r}: {part!r} is not of the known form")
        found[names[match["name"]]] = dict(values[match["value"]])
    return found


def clauses_in(condition: object) -> Clauses:
    """The same of a condition of ours."""
    if not isinstance(condition, Condition):
        return []
    return sorted(
        (
            [clause.attribute, clause.test.value, *([] if clause.value is None else [dict(clause.value)])]
            for clause in condition.clauses
        ),
        key=json.dumps,
    )


class Script:
    """One situation while it is played: does what happens at each request, and writes it down.

    plant: makes this the row, or removes it. epoch_s: when the situation began, by the client's wall clock.
    """

    def __init__(self, situation: Situation, plant: Callable[[Item | None], None], epoch_s: int) -> None:
        self.situation = situation
        self._plant = plant
        self._epoch_s = epoch_s
        self._names: dict[str, str] = {}
        self._numbers: dict[str, str] = {}
        self._asked_ns: int | None = None
        self.requests: list[Trace] = []
        self.calls: list[Trace] = []
        if situation.row is not None:
            plant(self._row(situation.row))

    def arrives(self, request: Trace, *, now_ns: int, wall_s: float) -> str | None:
        """A request comes in. Returns its fate. now_ns: by a clock that never goes back. wall_s: by the client's."""
        number = len(self.requests) + 1
        if number in self.situation.before:
            row = self.situation.before[number]
            self._plant(None if row is None else self._row(row))
        gap_ns = 0 if self._asked_ns is None else now_ns - self._asked_ns
        self._asked_ns = now_ns
        self._name_lease(request, wall_s)
        periods = round(gap_ns / (self.situation.refresh_ms * NS_PER_MS))
        self.requests.append({"periods": periods, **request})
        return self.situation.fates.get(number)

    def answered(self, answer: Trace) -> None:
        """What the client was told to its last request."""
        self.requests[-1]["answer"] = answer

    def called(self, call: Mapping[str, Any], answer: Trace) -> None:
        """A call of the client is over."""
        self.calls.append({"call": dict(call), "requests": self.requests[self._told :], "answer": answer})

    @property
    def _told(self) -> int:
        return sum(len(call["requests"]) for call in self.calls)

    def trace(self) -> Trace:
        """All of it, in the form that is compared."""
        normal: Trace = self._normal({"situation": self.situation.name, "calls": self.calls})
        return normal

    def _row(self, row: Item) -> Item:
        """A row with its key, and with epoch seconds in the place of "now+N"."""
        lease = row.get(DURATION, {}).get("N", "")
        if lease.startswith("now+"):
            stamp = str(self._epoch_s + int(lease.removeprefix("now+")))
            self._numbers[stamp] = lease
            row = {**row, DURATION: {"N": stamp}}
        return {KEY: {"S": KEY_VALUE}, **row}

    def _name_lease(self, request: Trace, wall_s: float) -> None:
        """An epoch second that the client writes gets a name: the request's time plus the lease, to a second."""
        stamp = request.get("item", {}).get(DURATION, {}).get("N", "")
        if stamp.isdecimal() and abs(int(stamp) - wall_s) < _ABOUT_NOW_S:
            lease_s = self.situation.lease_s
            ahead_s = int(stamp) - int(wall_s)
            is_exact = -1 <= ahead_s - lease_s <= 0
            self._numbers.setdefault(stamp, f"its time+{lease_s}" if is_exact else f"{ahead_s} s ahead")

    def _normal(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            if set(value) == {"N"}:
                return {"N": self._numbers.get(value["N"], value["N"])}
            return {name: self._normal(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self._normal(each) for each in value]
        if isinstance(value, str) and _RANDOM.fullmatch(value):
            return self._names.setdefault(value, f"#{len(self._names) + 1}")
        return value


def to_lines(traces: Iterable[Trace]) -> str:
    """A file of traces."""
    return "".join(json.dumps(trace, ensure_ascii=False) + "\n" for trace in traces)


def from_lines(lines: str) -> list[Trace]:
    """The traces of a file."""
    return [json.loads(line) for line in lines.splitlines()]
