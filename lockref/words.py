"""The words that ports and the history share: kinds of events, operations, outcomes, and what stands for nothing.

The numbers are part of the history format. This module needs the standard library alone: a lock that an application
opens speaks these words, and must not load what records and judges histories.
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Final

ABSENT: Final = -(2**63)
"""Stands for "no value" in integer columns while recording; null in Arrow."""

OPERATOR: Final = "operator"
"""The node name in records of changes that no client made: an operator's, a timer's, a fault's. No clause binds it."""

IF_ABSENT: Final = "absent"
"""`if_version` of a write that requires that there is no object; "" is a write without condition."""


class Kind(IntEnum):
    """The kind of an event. The numbers are part of the format.

    CALL, RETURN         a client calls the lock, and gets an answer
    SENT, APPLIED, REPLIED   a request leaves the client, takes effect, is answered
    BELIEVED, DISBELIEVED    the guard said yes, said no (see docs/history.md)
    EFFECT               a protected write reached its resource
    FAULT                the world was disturbed; `detail` says how
    CLOCK                a clock was stepped or frozen
    """

    CALL = 0
    RETURN = 1
    SENT = 2
    APPLIED = 3
    REPLIED = 4
    BELIEVED = 5
    DISBELIEVED = 6
    EFFECT = 7
    FAULT = 8
    CLOCK = 9


class Op(IntEnum):
    """Which operation. ACQUIRE, RENEW and RELEASE serve calls and the store writes behind them."""

    NONE = 0
    ACQUIRE = 1
    RENEW = 2
    RELEASE = 3
    READ = 4
    WRITE = 5
    DELETE = 6
    GUARD = 7
    APPEND = 8
    INCREMENT = 9
    COMMIT = 10


class Outcome(IntEnum):
    """The closed set of answers to a request. Order and numbers are part of the history format."""

    NONE = 0
    APPLIED = 1
    PRECONDITION_FAILED = 2
    CONFLICT = 3
    THROTTLED = 4
    REJECTED = 5
    AMBIGUOUS = 6


APPLIED: Final = Outcome.APPLIED
REJECTED: Final = Outcome.REJECTED
"""Second names for the core, which asks for these two after every answer: Python 3.11 takes long to find a member."""


def detail(**fields: object) -> str:
    """The text of the column `detail`: small canonical JSON for what only people read."""
    return _DETAIL.encode(fields)


_DETAIL: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=True)


def counted(number: int, noun: str) -> str:
    """`1 run`, `2,000 runs`, `3 losses`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
