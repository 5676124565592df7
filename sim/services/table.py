"""A modelled DynamoDB table: conditional put, update and delete of items, with one linearization point.

DynamoDB's answers: a failed condition is a 400; removing nothing succeeds; an update of no item makes one; an item may
have 400 kB. Reads are strongly consistent unless they ask not to be; those show the state of `lag_ns` ago.
"""

from __future__ import annotations

import json

from lockref.clouds.dynamodb import facts as dynamodb
from lockref.dynamodb import table as port
from lockref.dynamodb.objects import bytes_item
from lockref.dynamodb.table import DELETE, GET, GET_EVENTUAL, PUT, UPDATE
from lockref.ports import Reply, Request
from lockref.runtime import NS_PER_S
from lockref.strict_json import NotJson, read_json
from lockref.words import Op, Outcome
from sim.journey import Refusal
from sim.kernel.clocks import WALL_EPOCH_NS
from sim.services.service import EXPIRE, ServiceContext, refused, unknown_act


class TableService:
    """One table. lag_ns: how old the state is that a read which is not consistent shows."""

    capabilities = None

    def __init__(self, *, lag_ns: int = 0) -> None:
        self._lag_ns = lag_ns
        # By key, newest last: (since, item as bytes, or None).
        self._states: dict[str, list[tuple[int, bytes | None]]] = {}

    def start(self, context: ServiceContext) -> None:
        self._context = context

    def present_keys(self) -> list[str]:
        return sorted(key for key, states in self._states.items() if states[-1][1] is not None)

    def _state(self, key: str, as_of_ns: int) -> bytes | None:
        for since_ns, state in reversed(self._states.get(key, ())):
            if since_ns <= as_of_ns:
                return state
        return None

    def apply(self, request: Request, at_ns: int) -> Reply:
        key, verb = request.key, request.verb
        if verb in (GET, GET_EVENTUAL):
            return port.applied(self._state(key, at_ns if verb == GET else at_ns - self._lag_ns))
        assert verb in (PUT, UPDATE, DELETE), f"a table knows no {verb!r}"
        reply, state = port.answer(request, self._state(key, at_ns))
        if reply.outcome is Outcome.APPLIED:
            self._states.setdefault(key, []).append((at_ns, state))
        return reply

    def refuse(self, request: Request, refusal: Refusal) -> Reply:
        """As `refused`; a reason that begins with an error code of DynamoDB's is answered as DynamoDB answers it."""
        code = refusal[1].partition(":")[0]
        return dynamodb.refusal(code) if code in dynamodb.CODES else refused(request, refusal)

    def past(self, key: str, lag_ns: int) -> Reply:
        return port.applied(self._state(key, self._context.now_ns - lag_ns))

    def tamper(self, act: str, key: str, *, body: bytes | None = None, attribute: str = "") -> int:
        """`put` overwrites with `body`, `delete` removes, `expire` removes by time to live; no condition is asked.

        A table holds items only. Bytes that are none become an item with one binary attribute, `bytes`.
        attribute: for `expire`, which one holds the epoch seconds after which the item may go.
        """
        if act not in (PUT, DELETE, EXPIRE):
            raise unknown_act(act, (PUT, DELETE, EXPIRE))
        now_ns, state = self._context.now_ns, body
        if act == EXPIRE and not _has_expired(self._state(key, now_ns), attribute, now_ns):
            return 0
        if state is not None and not _is_item(state):
            state = port.to_bytes(bytes_item(key, state))
        if state is None and self._state(key, now_ns) is None:
            return 0
        self._context.changed(Op.DELETE if state is None else Op.WRITE, key, _version(state) or "", state)
        self._states.setdefault(key, []).append((now_ns, state))
        return 1


def _has_expired(state: bytes | None, attribute: str, now_ns: int) -> bool:
    """By DynamoDB's rule: the attribute is a number of epoch seconds, and that second has passed."""
    value = {} if state is None else json.loads(state).get(attribute, {})
    return "N" in value and port.number_of(value) * NS_PER_S < WALL_EPOCH_NS + now_ns


def _version(state: bytes | None) -> str | None:
    return None if state is None else port.version_of(json.loads(state))


def _is_item(body: bytes) -> bool:
    """Does every attribute have a type?"""
    try:
        found = read_json(body)
    except NotJson:
        return False
    return isinstance(found, dict) and all(isinstance(value, dict) and len(value) == 1 for value in found.values())
