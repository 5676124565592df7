"""A table in the memory of this process: the yardstick for the others, and a place for tests.

Tables of one name share their items until the process ends; a table without a name is private.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lockref.dynamodb.table import GET, GET_EVENTUAL, answer, applied
from lockref.ports import Reply, Request
from lockref.runtime import Mutex, Runtime, ThreadRuntime
from lockref.words import Outcome


@dataclass(slots=True)
class _Items:
    """The rows that all tables of one name share."""

    mutex: Mutex
    states: dict[str, bytes] = field(default_factory=dict)


_shared: dict[str, _Items] = {}
_shared_mutex = ThreadRuntime().mutex()


class MemoryTable:
    """A channel to a table in memory. Each request takes effect at one instant, under one mutex.

    name: tables of one name share their items within this process; "" gives a private table.
    runtime: where the mutex comes from; the first table of a name decides.
    """

    capabilities = None

    def __init__(self, name: str = "", *, runtime: Runtime | None = None, client: str = "", service: str = "table"):
        self.client = client
        self.service = service
        mutex = (runtime or ThreadRuntime()).mutex
        if not name:
            self._items = _Items(mutex())
            return
        with _shared_mutex:
            self._items = _shared.setdefault(name, _Items(mutex()))

    def send(self, request: Request, _timeout_ns: int) -> Reply:
        """Every read is consistent here: nothing is ever late."""
        items, key = self._items, request.key
        with items.mutex:
            state = items.states.get(key)
            if request.verb in (GET, GET_EVENTUAL):
                return applied(state)
            reply, after = answer(request, state)
            if reply.outcome is Outcome.APPLIED:
                if after is None:
                    items.states.pop(key, None)
                else:
                    items.states[key] = after
            return reply

    def close(self) -> None:
        """Nothing to give back."""
