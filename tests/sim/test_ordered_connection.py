"""A service with one connection to each client, as ZooKeeper is: what travels on it arrives in order, or it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lockref.ports import TIMED_OUT, Reconnected, Reply, Request
from lockref.words import Op, Outcome
from sim.journey import Refusal
from sim.machine.network import Draw
from sim.services.hosting import HostedService
from sim.services.service import refused
from sim.wire import NodeChannel
from sim.world import World
from tests.sim.scripted import MS

USUAL = Draw(MS, MS, False, False, None)


class Echo:
    """Answers each request with its key, and notes when it acted."""

    capabilities = None
    is_ordered = True

    def __init__(self) -> None:
        self.acted: list[tuple[str, int]] = []

    def start(self, context: Any) -> None:
        self.context = context

    def apply(self, request: Request, at_ns: int) -> Reply:
        self.acted.append((request.key, at_ns))
        return Reply(Outcome.APPLIED, version=request.key, status=200)

    def refuse(self, request: Request, refusal: Refusal) -> Reply:
        return refused(request, refusal)

    def present_keys(self) -> list[str]:
        return []

    def past(self, key: str, lag_ns: int) -> Reply:
        return Reply(Outcome.APPLIED)

    def tamper(self, act: str, key: str, **how: Any) -> int:
        return 0


class Scripted:
    """A network whose draws are listed: those of requests, and those of pushes."""

    def __init__(self, requests: list[Draw], pushes: list[Draw]) -> None:
        self._requests, self._pushes = requests, pushes

    def draw(self, source: str, _destination: str, number: int) -> Draw:
        draws = self._pushes if source == "echo" else self._requests
        return draws[number] if number < len(draws) else USUAL


Act = Callable[[NodeChannel, HostedService], object]


def play(*acts: tuple[int, Act], requests: list[Draw] | None = None, pushes: list[Draw] | None = None) -> Echo:
    """Each act is a task of one process, which begins at its instant."""
    world = World(seed=1)
    echo = Echo()
    hosted = world.add("echo", echo, decode=None)
    world.wire._network = Scripted(requests or [], pushes or [])  # type: ignore[assignment]
    node = world.node("n1")
    channel = world.wire.connect(node.process, hosted)

    def begin(at_ns: int, act: Act) -> None:
        if at_ns:
            node.runtime.sleep(at_ns)
        act(channel, hosted)

    for number, (at_ns, act) in enumerate(acts):
        node.start(lambda at_ns=at_ns, act=act: begin(at_ns, act), name=f"task {number}")
    world.run(1000 * MS, linger_ns=None)
    return echo


def asks(key: str, heard: list[Any] | None = None) -> Act:
    """Send a request, and note the answer's version, or that none came."""

    def act(channel: NodeChannel, _hosted: HostedService) -> None:
        reply = channel.send(Request("n1", "echo", "put", key, op=Op.WRITE), 100 * MS)
        if heard is not None:
            heard.append(None if reply is TIMED_OUT else reply.version or reply.reason)

    return act


def takes(count: int, heard: list[Any]) -> Act:
    def act(channel: NodeChannel, _hosted: HostedService) -> None:
        heard.extend(channel.receive(300 * MS) for _ in range(count))

    return act


def says(message: str) -> Act:
    return lambda _channel, hosted: hosted.push("n1", message)


def test_no_request_overtakes_another() -> None:
    """The second one alone would be there at 2 ms, before the first."""
    echo = play((0, asks("first")), (MS, asks("second")), requests=[USUAL._replace(to_service_ns=5 * MS), USUAL])
    assert echo.acted == [("first", 5 * MS), ("second", 5 * MS + 1)]


def test_a_connection_carries_no_copy() -> None:
    echo = play((0, asks("once")), requests=[USUAL._replace(resend_ns=MS)])
    assert echo.acted == [("once", MS)]


def test_a_lost_answer_breaks_the_connection_before_anything_else_arrives() -> None:
    """The client is told before it hears the next message."""
    heard: list[Any] = []
    play(
        (0, asks("lost")),
        (10 * MS, says("next")),
        (0, takes(2, heard)),
        requests=[USUAL._replace(is_reply_lost=True)],
    )
    assert heard == [Reconnected(), "next"]


def test_a_lost_push_breaks_the_connection() -> None:
    heard: list[Any] = []
    play((0, says("lost")), (10 * MS, says("next")), (0, takes(2, heard)), pushes=[USUAL._replace(is_reply_lost=True)])
    assert heard == [Reconnected(), "next"]


def test_what_a_service_says_while_it_is_down_is_lost() -> None:
    heard: list[Any] = []

    def fails(_channel: NodeChannel, hosted: HostedService) -> None:
        hosted.crash(5 * MS, lambda: None)

    play((0, fails), (2 * MS, says("lost")), (10 * MS, says("next")), (0, takes(2, heard)))
    assert heard == [Reconnected(), "next"]


@pytest.mark.parametrize(("way_ns", "expected"), [(5 * MS - 1, ["reset"]), (5 * MS, ["key"])])
def test_a_service_is_down_until_the_end_of_its_time_and_no_longer(way_ns: int, expected: list[str]) -> None:
    heard: list[Any] = []

    def fails(_channel: NodeChannel, hosted: HostedService) -> None:
        hosted.crash(5 * MS, lambda: None)

    play((0, fails), (0, asks("key", heard)), requests=[USUAL._replace(to_service_ns=way_ns)])
    assert heard == expected


@pytest.mark.parametrize("way_ns", [MS, 5 * MS - 1, 5 * MS])
def test_a_frozen_service_holds_what_arrives_until_it_thaws(way_ns: int) -> None:
    def freezes(_channel: NodeChannel, hosted: HostedService) -> None:
        hosted.freeze(5 * MS, lambda: None)

    echo = play((0, freezes), (0, asks("key")), requests=[USUAL._replace(to_service_ns=way_ns)])
    assert echo.acted == [("key", 5 * MS)]
