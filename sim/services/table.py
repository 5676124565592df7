"""A modelled table: conditional put, update and delete of items, with one linearization point.

DynamoDB's answers: a failed condition is a 400; removing nothing succeeds; an update of no item makes one.
"""

from __future__ import annotations

import json
from typing import Any

from lockref.dynamodb.table import DELETE, GET, PUT, UPDATE
from lockref.errors import ConfigError
from lockref.history import IF_ABSENT, Op
from lockref.ports import Reply, Request
from lockref.stores.port import Outcome
from sim.services.service import ServiceContext, refused, unknown_act


class TableService:
    """One table."""

    capabilities = None
    refuse = staticmethod(refused)

    def __init__(self) -> None:
        # By key, newest last: (since, item or None).
        self._states: dict[str, list[tuple[int, bytes | None]]] = {}

    def start(self, context: ServiceContext) -> None:
        self._context = context

    def present_keys(self) -> list[str]:
        return sorted(key for key, states in self._states.items() if states[-1][1] is not None)

    def _item(self, key: str, as_of_ns: int) -> bytes | None:
        return next((item for since_ns, item in reversed(self._states.get(key, ())) if since_ns <= as_of_ns), None)

    def apply(self, request: Request, at_ns: int) -> Reply:
        key, verb, present = request.key, request.verb, self._item(request.key, at_ns)
        assert verb in (GET, PUT, UPDATE, DELETE), f"a table knows no {verb!r}"
        if verb == GET:
            return Reply(Outcome.APPLIED, _version(present), present, status=200)
        if request.condition and request.condition != (IF_ABSENT if present is None else _version(present)):
            return Reply(Outcome.PRECONDITION_FAILED, missing=present is None, status=400, reason="condition not met")
        item: bytes | None = request.body
        if verb == UPDATE:
            item = json.dumps({**json.loads(present or b"{}"), **json.loads(request.body)}).encode()
        self._states.setdefault(key, []).append((at_ns, item))
        return Reply(Outcome.APPLIED, _version(item), item, status=200)

    def past(self, key: str, lag_ns: int) -> Reply:
        item = self._item(key, self._context.now_ns - lag_ns)
        return Reply(Outcome.APPLIED, _version(item), item, status=200)

    def tamper(self, act: str, key: str, **how: Any) -> int:
        """`put` overwrites with `body`, `delete` removes; no condition is asked."""
        if act not in (PUT, DELETE):
            raise unknown_act(act, (PUT, DELETE))
        now_ns, item = self._context.now_ns, how.get("body")
        if item is None and self._item(key, now_ns) is None:
            return 0
        self._context.changed(Op.DELETE if item is None else Op.WRITE, key, _version(item) or "", item)
        self._states.setdefault(key, []).append((now_ns, item))
        return 1


def _version(item: bytes | None) -> str | None:
    """What a condition compares. Raises ConfigError for what an operator puts there and is no item."""
    try:
        return None if item is None else str(json.loads(item).get("version", ""))
    except (ValueError, AttributeError):
        raise ConfigError(f"a table holds items; expected a JSON object, got {item!r}") from None
