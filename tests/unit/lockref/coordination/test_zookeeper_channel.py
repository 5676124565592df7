"""The channel to ZooKeeper where kazoo's own thread is faster, or slower, than ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kazoo.exceptions import AuthFailedError, WriterNotClosedException
from kazoo.protocol.states import KazooState, KeeperState

from lockref.coordination.port import CONNECT, GET, Call, SessionBound, SessionState
from lockref.coordination.session import COORDINATION
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.errors import BackendUnavailable
from lockref.ports import Request
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.words import Outcome

IDENTITY = (7, b"password")


class ScriptedClient:
    """kazoo's client. Its whole life is told while it starts, as by a connection thread that nothing holds up.

    wakes: who waits for the event of `start_async` hears that it was set, also when it is cleared since.
    """

    life: Sequence[str] = ()
    wakes = True
    hangs = False

    def __init__(self, *, logger: Any, **_settings: Any) -> None:
        self._logger = logger
        self._listeners: list[Callable[[Any], object]] = []
        self._live = threading.Event()
        self.client_state = KeeperState.CONNECTING
        self.is_closed = False

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        return IDENTITY if self._live.is_set() else None

    def add_listener(self, listener: Callable[[Any], object]) -> None:
        self._listeners.append(listener)

    def start_async(self) -> Any:
        self._logger.log(5, "Session created, session_id: %r session_passwd: %s\n timeout %s", 7, b"", 4000)
        for each in self.life:
            self._enter(each)
        return _Woken(self._live) if self.wakes else self._live

    def _enter(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self.client_state = KeeperState.CONNECTED
            self._live.set()
        else:
            self.client_state = KeeperState.AUTH_FAILED if state == "refused" else KeeperState.EXPIRED_SESSION
            self._live.clear()
            state = KazooState.LOST
        for listener in self._listeners:
            listener(state)

    def get_async(self, path: str, watch: Any = None) -> Any:
        raise AuthFailedError

    def stop(self) -> None:
        if self.hangs:
            raise WriterNotClosedException("Writer still open from prior connection")

    def close(self) -> None:
        self.is_closed = True


class _Woken:
    """An event that was set while somebody waited, and was cleared before he ran on."""

    def __init__(self, event: threading.Event) -> None:
        self.is_set = event.is_set

    def wait(self, _timeout: float | None = None) -> bool:
        return True


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[ScriptedClient]:
    class Client(ScriptedClient):
        pass

    monkeypatch.setattr("lockref.coordination.zookeeper.KazooClient", Client)
    return Client


def channel() -> ZooKeeperChannel:
    return ZooKeeperChannel("127.0.0.1:1", auth=(("nosuch", "thing"),))


@pytest.mark.parametrize("wakes", [True, False])
def test_credentials_that_are_refused_before_anybody_looks(client: type[ScriptedClient], wakes: bool):
    """A typed error with the reason. It was a TypeError (exit 70), or "no server answered" after the whole time."""
    client.life, client.wakes = (KazooState.CONNECTED, "refused"), wakes
    session = COORDINATION.over(channel(), NS_PER_S // 4)
    with pytest.raises(BackendUnavailable, match=r"AuthFailed: the credentials for 127\.0\.0\.1:1 were refused$"):
        session.start(ThreadRuntime(), timeout_ns=4 * NS_PER_S)
    session.close()


def test_a_session_that_ends_before_anybody_looks(client: type[ScriptedClient]):
    """It is no session, and no TypeError; the server is asked again."""
    client.life = (KazooState.CONNECTED, KazooState.LOST)
    session = COORDINATION.over(channel(), NS_PER_S // 20)
    with pytest.raises(BackendUnavailable, match=r"answered within 0\.05 s \(4 attempts\)"):
        session.start(ThreadRuntime(), timeout_ns=4 * NS_PER_S)
    session.close()


def test_a_session_that_lives_is_told_and_its_end_pushed(client: type[ScriptedClient]):
    """The way that nearly every session goes: its state at the start is an answer and no push."""
    client.life = (KazooState.CONNECTED,)
    to_server = channel()
    reply = to_server.send(Request("n1", "store", CONNECT, "/", body=Call(0, timeout_ms=4000)), NS_PER_S)
    assert reply.outcome is Outcome.APPLIED
    assert SessionBound.from_bytes(reply.body or b"") == (7, 4000, b"password")
    assert to_server.receive(0) is None
    to_server._kazoo._enter("refused")
    assert to_server.receive(0) is SessionState.LOST
    refused = to_server.send(Request("n1", "store", GET, "/", body=Call(7)), NS_PER_S)
    assert (refused.outcome, refused.reason.split(":")[0]) == (Outcome.REJECTED, "AuthFailed")
    to_server.close()


def test_a_client_whose_thread_does_not_end_is_left_alone(client: type[ScriptedClient]):
    """kazoo refuses to close what still runs: closing the channel raises nothing."""
    client.life, client.hangs = (KazooState.CONNECTED,), True
    to_server = channel()
    to_server.send(Request("n1", "store", CONNECT, "/", body=Call(0, timeout_ms=4000)), NS_PER_S)
    kazoo = to_server._kazoo
    to_server.close()
    assert not kazoo.is_closed
