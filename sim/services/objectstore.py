"""A modelled object store: conditional writes with one linearization point.

A request is applied at one instant of true time. The dialect decides statuses
and version tokens; which requests get here, and what the client hears, is
decided on the wire. RFC-91's operations are `put` under a condition, `read`
and `delete`.
"""

from __future__ import annotations

import hashlib
from http import HTTPStatus

from lockref.clouds.statuses import ServerStatuses, Versions
from lockref.ports import Reply, Request, of_fields
from lockref.stores.client import DELETE, PUT, READ
from lockref.words import IF_ABSENT, Op, Outcome
from sim.kernel.clocks import WALL_EPOCH_NS
from sim.services.service import EXPIRE, ServiceContext, refused, unknown_act

# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_OUTCOME_APPLIED = Outcome.APPLIED
_OUTCOME_PRECONDITION_FAILED = Outcome.PRECONDITION_FAILED
_VERSIONS_CONTENT = Versions.CONTENT

Stored = tuple[bytes, str]
"""A body and its version."""


class ObjectStoreService:
    """One bucket."""

    def __init__(self, dialect: ServerStatuses) -> None:
        self._dialect = dialect
        self.capabilities = dialect.capabilities
        self._objects: dict[str, Stored] = {}
        # States by key, newest last, for stale reads: (since, state).
        self._states: dict[str, list[tuple[int, Stored | None]]] = {}
        self._writes = 0
        self.refuse = refused

    def start(self, context: ServiceContext) -> None:
        self._context = context

    def present_keys(self) -> list[str]:
        return sorted(self._objects)

    def apply(self, request: Request, at_ns: int) -> Reply:
        _client, _service, verb, key, condition, body, _, _, _, _, _ = request
        if verb == READ:
            return _read(self._objects.get(key))
        if verb == PUT:
            assert body is not None, "what is put has a body"
            return self._put(key, condition, body, at_ns)
        assert verb == DELETE, f"an object store knows no {verb!r}"
        return self._delete(request, at_ns)

    def _put(self, key: str, condition: str, body: bytes, at_ns: int) -> Reply:
        dialect = self._dialect
        present = self._objects.get(key)
        if condition:
            status = self._failed_status(present, condition)
            if status is not None:
                missing = present is None and dialect.tells_absence
                return Reply(_OUTCOME_PRECONDITION_FAILED, missing=missing, status=status, reason="condition not met")
        return of_fields(Reply, (_OUTCOME_APPLIED, self._set(key, body, at_ns), None, False, dialect.created, ""))

    def _failed_status(self, present: Stored | None, condition: str) -> int | None:
        """The status with which a condition fails; None if it holds."""
        if condition == IF_ABSENT:
            return None if present is None else self._dialect.exists
        if present is None:
            return self._dialect.absent
        return None if present[1] == condition else self._dialect.stale

    def _delete(self, request: Request, at_ns: int) -> Reply:
        condition, dialect = request.condition, self._dialect
        if condition and not dialect.deletes_by_version:
            return self.refuse(request, (HTTPStatus.NOT_IMPLEMENTED.value, "no delete by version"))
        present = self._objects.get(request.key)
        if present is None:
            status = dialect.delete_conditional_absent if condition else dialect.delete_absent
            outcome = _OUTCOME_APPLIED if status < 300 else _OUTCOME_PRECONDITION_FAILED
            return Reply(outcome, missing=True, status=status, reason="no such object")
        if condition and condition != present[1]:
            return Reply(_OUTCOME_PRECONDITION_FAILED, status=dialect.stale, reason="condition not met")
        del self._objects[request.key]
        self._remember(request.key, None, at_ns)
        return Reply(_OUTCOME_APPLIED, status=dialect.deleted)

    def _set(self, key: str, body: bytes, at_ns: int) -> str:
        """Write an object; its new version."""
        self._writes += 1
        versions = self._dialect.versions
        if versions is _VERSIONS_CONTENT:
            version = hashlib.md5(body, usedforsecurity=False).hexdigest()
        elif versions is Versions.RISING:
            version = str(WALL_EPOCH_NS // 1000 + self._writes)
        else:
            version = f"0x8DC{self._writes:012X}"
        self._objects[key] = (body, version)
        self._remember(key, (body, version), at_ns)
        return version

    def _remember(self, key: str, state: Stored | None, at_ns: int) -> None:
        states = self._states.setdefault(key, [])
        assert not states or states[-1][0] <= at_ns, "states are applied in the order of time"
        states.append((at_ns, state))

    def past(self, key: str, lag_ns: int) -> Reply:
        if not lag_ns:
            return _read(self._objects.get(key))
        as_of_ns = self._context.now_ns - lag_ns
        return _read(next((state for since, state in reversed(self._states.get(key, ())) if since <= as_of_ns), None))

    def tamper(self, act: str, key: str, *, body: bytes | None = None, attribute: str = "") -> int:
        """`put` overwrites with `body`, `delete` removes; no condition is asked.

        `expire` does nothing: a bucket's lifecycle asks for the age of an object, never for what is in it.
        """
        context = self._context
        if act == PUT:
            assert body is not None, "what is put has a body"
            version = self._set(key, body, context.now_ns)
            context.changed(Op.WRITE, key, version, body)
            return 1
        if act == DELETE:
            if self._objects.pop(key, None) is None:
                return 0
            self._remember(key, None, context.now_ns)
            context.changed(Op.DELETE, key)
            return 1
        if act == EXPIRE:
            return 0
        raise unknown_act(act, (PUT, DELETE, EXPIRE))


def _read(state: Stored | None) -> Reply:
    if state is None:
        return Reply(_OUTCOME_APPLIED, status=404)
    return of_fields(Reply, (_OUTCOME_APPLIED, state[1], state[0], False, 200, ""))
