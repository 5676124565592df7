"""What is made with every request takes its fields by position, and each stands where those that make one think it is.

Names would cost time with every request. Neighbours of one type could change places, and no type checker would tell.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lockref.history import Recorder, to_table
from lockref.lab.recording import content_id
from lockref.locks.values import Attempt, Deadline, Moment
from lockref.ports import Reply, Request, of_fields
from lockref.provider import Grant, LockEvent, LockEventKind, LockView, RecordView
from lockref.runtime import MonoNs, WallNs
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.words import Kind, Op, Outcome
from scenarios.workloads.resource import Effect, Write
from sim.machine.network import Draw
from tests.quality.source_trees import READS_SOURCES, tree

GRANT = Grant("ann", 1)
MOMENT = Moment(WallNs(1), MonoNs(2))

FIELDS: Mapping[type, Mapping[str, Any]] = {
    Attempt: {
        "record": "text", "sent": MOMENT, "deadline": Deadline(WallNs(3), MonoNs(4)), "wall_estimate_ns": 5,
        "if_version": Version("6"),
    },
    Draw: {"to_service_ns": 1, "to_client_ns": 2, "is_request_lost": True, "is_reply_lost": False, "resend_ns": 3},
    Effect: {"outcome": Outcome.APPLIED, "if_version": "1", "version": "2"},
    Grant: {"owner": "ann", "token": 1, "version": Version("2"), "deadline_ns": MonoNs(3)},
    LockEvent: {"kind": LockEventKind.METRIC, "name": "n", "value": 2.0, "grant": GRANT, "reason": "r"},
    LockView: {
        "owner": "ann", "token": 1, "lock": "l", "valid_until_ns": WallNs(2), "duration_ns": 3, "is_released": True,
        "nonce": "n",
    },
    ReadReply: {"outcome": Outcome.APPLIED, "body": b"b", "version": Version("1"), "status": 200, "reason": "r"},
    RecordView: {"owner": "ann", "token": 1, "valid_until_ns": WallNs(2), "is_released": True, "nonce": "n"},
    Reply: {
        "outcome": Outcome.APPLIED, "version": "1", "body": b"b", "missing": True, "status": 200, "reason": "r",
    },
    Request: {
        "client": "n1", "service": "s", "verb": "put", "key": "k", "condition": "1", "body": b"b", "op": Op.WRITE,
        "number": 2, "ops": (Op.RENEW,), "gives_back": True, "serves": Op.ACQUIRE,
    },
    Write: {"node": "n1", "task": "t", "tenure": 1, "attempt": 2, "based_on": "3", "token": 4, "owner": "ann"},
    WriteReply: {
        "outcome": Outcome.APPLIED, "version": Version("1"), "missing": True, "status": 200, "reason": "r",
    },
}  # fmt: skip
"""Each class with all its fields, in the order in which they are given by position."""

EVENT: Mapping[str, Any] = {
    "kind": Kind.REPLIED, "stamp": (1, 2, 3, "t"), "node": "n1", "lock": "l", "op": Op.RENEW,
    "outcome": Outcome.APPLIED, "request": 4, "attempt": 5, "if_version": "6", "version": "7",
    "content": content_id(b"8"), "token": 9, "owner": "ann", "valid_until_ns": 10, "detail": "d",
}  # fmt: skip
"""The arguments of `Recorder.event`, in their order."""


@pytest.mark.parametrize("made", FIELDS)
def test_a_value_by_position_is_the_value_by_name(made: type) -> None:
    """No two fields have one value, so two that change places make another object."""
    given = FIELDS[made]
    by_name = made(**given)
    assert {name: getattr(by_name, name) for name in given} == given
    assert made(*given.values()) == by_name
    if issubclass(made, tuple):
        assert of_fields(made, tuple(given.values())) == by_name


def test_a_row_by_position_is_the_row_by_name_and_has_each_value_in_its_column() -> None:
    by_name, by_position = Recorder(), Recorder()
    by_name.event(**EVENT)
    by_position.event(*EVENT.values())
    assert by_position.digest() == by_name.digest()
    (row,) = to_table([by_name]).to_pylist()
    at_ns, wall_ns, mono_ns, task = EVENT["stamp"]
    told = {"at_ns": at_ns, "wall_ns": wall_ns, "mono_ns": mono_ns, "task": task}
    told |= {name: value for name, value in EVENT.items() if name not in ("stamp", "kind", "op", "outcome")}
    told |= {name: EVENT[name].name.lower() for name in ("kind", "op", "outcome")}
    assert {name: row[name] for name in told} == told


ORDER = {made.__name__: list(given) for made, given in FIELDS.items()}
ROOT = Path(__file__).parents[3]


def given_by_position(path: Path) -> Iterator[tuple[str, int, str, str]]:
    """What the calls of a file that make such a value or row give by position, where it is called as a field is.

    Each with what is made, the line, the name of what is given, and the field that it fills.
    """
    for call in ast.walk(tree(path)):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        made, first = ast.unparse(call.func), ast.unparse(call.args[0])
        arguments = call.args
        if made == "of_fields" and isinstance(call.args[1], ast.Tuple):
            made, arguments = first, call.args[1].elts
        elif made.endswith("recorder.event") or (made == "record" and first.startswith("_KIND_")):
            made = "event"
        order = list(EVENT) if made == "event" else ORDER.get(made, [])
        for argument, field in zip(arguments, order, strict=False):
            if isinstance(argument, ast.Starred):
                break
            name = ast.unparse(argument).rpartition(".")[2].lstrip("_")
            if name in order:
                yield made, call.lineno, name, field


@READS_SOURCES
def test_what_is_called_as_a_field_is_given_for_that_field() -> None:
    """`record(…, token, owner, …)` where the order is owner, token would write one into the column of the other."""
    places = [
        (f"{path.relative_to(ROOT)}:{line}", made, name, field)
        for room in ("lockref", "sim", "scenarios")
        for path in (ROOT / room).rglob("*.py")
        for made, line, name, field in given_by_position(path)
    ]
    assert {made for _, made, _, _ in places} >= {"event", "LockView", "Reply", "Request", "Write"}
    assert [place for place in places if place[2] != place[3]] == []


def test_each_field_and_argument_is_in_these_tables() -> None:
    for made, given in FIELDS.items():
        assert list(inspect.signature(made).parameters) == list(given), made
    assert list(inspect.signature(Recorder.event).parameters)[1:] == list(EVENT)
