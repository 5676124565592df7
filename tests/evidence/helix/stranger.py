"""A participant made by hand, which writes what the original does not expect: so do clients in other languages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError

from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import ZNRecord
from tests.evidence.helix.beliefs import Told
from tests.evidence.helix.tree import Tree


def unchanged(record: ZNRecord) -> ZNRecord:
    return record


def of_another_session(record: ZNRecord) -> ZNRecord:
    """SESSION_ID is not the session under which the znode stands."""
    return replace(record, simple={**record.simple, "SESSION_ID": "f00"})


def of_another_name(record: ZNRecord) -> ZNRecord:
    """`id` is not the name of the znode."""
    return replace(record, id="somebody-else")


def of_no_model(record: ZNRecord) -> ZNRecord:
    """STATE_MODEL_DEF is missing."""
    return replace(record, simple={name: text for name, text in record.simple.items() if name != "STATE_MODEL_DEF"})


def without_states(record: ZNRecord) -> ZNRecord:
    """No entry has a CURRENT_STATE."""
    return replace(record, maps={lock: {"INFO": ""} for lock in record.maps})


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a stranger changes its record in LIVEINSTANCES, and its current states, before it writes them.

    is_mute: it writes no current states at all, and removes its messages all the same.
    """

    live: Callable[[ZNRecord], ZNRecord] = unchanged
    states: Callable[[ZNRecord], ZNRecord] = unchanged
    is_mute: bool = False


class Stranger:
    """It takes every lock that it is told to take, and gives back every one that it is told to give back.

    model: of its only resource. told: what it believes. It lives until `close`.
    """

    def __init__(self, hosts: str, cluster: str, instance: str, *, model: str, top: str, habits: Habits) -> None:
        self.told = Told(instance)
        self._model = model
        self._top = top
        self._habits = habits
        self._states: dict[str, str] = {}
        self._is_closing = False
        self._client = KazooClient(hosts=hosts, timeout=4)
        self._client.start(timeout=30)
        self._tree = Tree(self._client, cluster)
        self._paths = layout.InstancePaths(cluster, instance)
        self._session = layout.session_name(self._client.client_id[0])
        live = ZNRecord(instance, {"SESSION_ID": self._session, "LIVE_INSTANCE": "1@localhost"})
        self._client.ensure_path(self._paths.current_states(self._session))
        self._tree.put(self._paths.live, habits.live(live), is_ephemeral=True)
        self._client.ChildrenWatch(self._paths.messages, self._take)

    def _take(self, names: list[str]) -> None:
        try:
            for name in names:
                self._execute(self._paths.message(name))
        except (ConnectionLoss, SessionExpiredError, ConnectionClosedError):
            # Messages go on to come while it ends.
            if not self._is_closing:
                raise

    def _execute(self, path: str) -> None:
        with contextlib.suppress(NoNodeError):
            body, stat = self._client.get(path)
            message = Message.from_record(ZNRecord.from_json(body, path))
            self._move(message, stat.creation_transaction_id)
            self._client.delete(path)

    def _move(self, message: Message, token: int) -> None:
        if message.source == self._top:
            self.told.revoked(message.lock)
        elif message.target == self._top and self._states.get(message.lock) != self._top:
            self.told.granted(message.lock, token)
        self._states[message.lock] = message.target
        if self._habits.is_mute:
            return
        kept = {lock: {"CURRENT_STATE": state} for lock, state in self._states.items() if state != "DROPPED"}
        simple = {"SESSION_ID": self._session, "STATE_MODEL_DEF": self._model}
        record = ZNRecord(message.resource, simple, kept)
        self._tree.put(self._paths.current_state(self._session, message.resource), self._habits.states(record))

    def close(self) -> None:
        """End the session."""
        self._is_closing = True
        self._client.stop()
        self._client.close()
