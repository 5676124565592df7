"""One order of cut points in both worlds: the kernel and an event loop drive the same journey to the same end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockref.ports import Reply, Request
from lockref.words import Op, Outcome
from scenarios.injection.carriage import Carriage
from sim.faults.fault import InFlight
from sim.journey import ANSWER, APPLY, LOSE, REPEAT, Journey, Refusal, Step
from sim.machine.network import Draw, NetworkModel
from sim.world import World
from tests.sim.scripted import KEY, MS

DONE = Reply(Outcome.APPLIED, version="v1", status=200)
AGAIN = Reply(Outcome.PRECONDITION_FAILED, status=412)
REQUEST = Request("n1", "store", "put", KEY, body=b"{}", op=Op.WRITE)


@dataclass
class Script:
    """What the faults of one request do, and at which of its cut points they were asked."""

    lost: bool = False
    resend_ns: int | None = None
    retry_after_ns: int | None = None
    at_arrival: Refusal | None = None
    instead: Refusal | None = None
    reply_lost: bool = False
    asked: list[str] = field(default_factory=list)
    # It wants to be asked about each request.
    concerns_all: bool = True

    def concerns(self, in_flight: Any) -> bool:
        return self.concerns_all

    def at_c0(self, in_flight: Any) -> None:
        self.asked.append("c0")

    def on_send(self, in_flight: Any) -> None:
        in_flight.is_request_lost = self.lost
        in_flight.resend_ns = self.resend_ns
        in_flight.retry_after_ns = self.retry_after_ns

    def at_c1(self, in_flight: Any) -> Refusal | None:
        self.asked.append("c1")
        return self.at_arrival

    def at_c2(self, in_flight: Any, reply: Reply) -> Refusal | None:
        self.asked.append(f"c2 {reply.outcome.name}")
        return self.instead

    def on_retried(self, in_flight: Any, first: Reply, second: Reply) -> None:
        self.asked.append(f"retried {first.outcome.name} {second.outcome.name}")

    def on_duplicate(self, in_flight: Any, reply: Reply) -> None:
        self.asked.append(f"copy {reply.outcome.name}")

    def overruled(self, in_flight: Any, reply: Reply) -> None:
        return None

    def is_reply_lost(self, in_flight: Any) -> bool:
        return self.reply_lost

    def is_cut(self, source: str, destination: str) -> bool:
        return False

    def at_c3(self, in_flight: Any) -> None:
        self.asked.append("c3")

    def at_c4(self, in_flight: Any) -> None:
        self.asked.append("c4")


refusals = st.sampled_from([None, (503, "injected"), (None, "reset")])
scripts = st.builds(
    Script,
    lost=st.booleans(),
    # Later than the request itself in both worlds, so that nobody has to say who of two comes first at one instant.
    resend_ns=st.sampled_from([None, 3 * MS]),
    retry_after_ns=st.sampled_from([None, MS]),
    at_arrival=refusals,
    instead=refusals,
    reply_lost=st.booleans(),
)


def on_the_kernel(script: Script) -> int | str | None:
    """What a simulated client hears: a status, `reset` or None for nothing."""
    world = World(seed=1, network=NetworkModel(latency_ns=(MS, MS)))
    world.object_store(decode=lambda _key, _body: ())
    world.wire._injector = script  # type: ignore[assignment]  # No fault of a plan leaves every choice open.
    heard: list[Reply] = []
    node = world.node("n1")
    channel = world.wire.connect(node.process, world.services["store"])
    node.start(lambda: heard.append(channel.send(REQUEST._replace(condition="absent"), 100 * MS)))
    world.run(1000 * MS, linger_ns=None)
    (reply,) = heard
    return reply.status if reply.status is not None else {"reset": "reset"}.get(reply.reason)


class _Process:
    number = 1

    def __init__(self) -> None:
        self.node = self
        self.name = "n1"


class _Nowhere:
    name = "store"

    def past(self, key: str, lag_ns: int = 0) -> Reply:
        raise AssertionError("nobody asks for the past here")


def on_an_event_loop(script: Script) -> int | str | None:
    """What a real client hears of a store that accepts one write, then none."""
    answers = iter([DONE, *[AGAIN] * 9])

    async def run() -> int | str | None:
        alone: list[asyncio.Task[None]] = []
        carriage = Carriage(script, lambda work: alone.append(asyncio.ensure_future(work)))  # type: ignore[arg-type]
        process: Any = _Process()
        process.process = process
        in_flight = carriage.depart(process, REQUEST)
        carriage.leave(in_flight)

        async def apply() -> Reply:
            return next(answers)

        delivered = await carriage.carry(in_flight, apply, lambda reply: reply)
        if not delivered.is_lost:
            carriage.arrive(in_flight)
        await asyncio.gather(*alone)
        if delivered.refusal is not None:
            return delivered.refusal[0] or delivered.refusal[1]
        return None if delivered.answer is None else delivered.answer.status

    return asyncio.run(run())


@given(scripts)
def test_both_drivers_ask_the_same_cut_points_and_the_client_hears_the_same(script):
    """They had an order each, and disagreed about a retry whose first answer was a refusal."""
    simulated, real = Script(**vars(script) | {"asked": []}), Script(**vars(script) | {"asked": []})
    assert on_the_kernel(simulated) == on_an_event_loop(real)
    # A copy travels beside the request: where it comes among the others is the network's choice.
    for one in (simulated, real):
        one.asked.sort(key=lambda cut: cut.startswith("copy"))
    assert simulated.asked == real.asked


def test_nobody_is_asked_about_a_request_that_no_fault_concerns():
    """The client hears the same, also where it is the network that loses the answer."""
    script = Script(concerns_all=False)
    assert on_the_kernel(script) == on_the_kernel(Script()) == 200
    assert script.asked == ["c0"]


def test_after_a_retry_the_client_hears_the_second_answer():
    """Whatever became of the first one: the SDK has not heard it (A2)."""
    for script in (Script(retry_after_ns=MS), Script(retry_after_ns=MS, instead=(503, "injected"))):
        assert on_the_kernel(Script(**vars(script) | {"asked": []})) == 412
        assert on_an_event_loop(script) == 412
        assert "retried APPLIED PRECONDITION_FAILED" in script.asked


@given(scripts)
def test_a_journey_ends_and_at_most_one_reply_leaves(script):
    """Whatever the faults do: at most two sendings, one reply or one refusal, and then the end."""
    request: Journey[str] = Journey(_Process(), _Nowhere(), REQUEST, Draw(1, 1, False, False, None))
    script.on_send(request)
    taken: list[Step] = []
    if not request.is_request_lost:
        taken.append(request.arrives(script))
        while taken[-1] not in (ANSWER, LOSE):
            taken.append(request.applied(script, DONE) if taken[-1] is APPLY else request.arrives(script))
        request.left(script)
    is_applied = not script.lost and script.at_arrival is None
    is_retried = is_applied and script.retry_after_ns is not None
    assert taken[:-1] == ([APPLY, REPEAT, APPLY] if is_retried else [APPLY] * is_applied)
    assert taken[-1:] == ([] if script.lost else [LOSE if script.reply_lost else ANSWER])
    # The first sending of a retry is never heard; a request that was not applied is always refused.
    assert request.refusal == (None if script.lost or is_retried else script.at_arrival or script.instead)
    # Whatever became of the reply, it has left, or was lost on leaving.
    assert script.asked[:1] + script.asked[-1:] == ([] if script.lost else ["c1", "c3"])


def test_a_server_that_is_gone_refuses_a_request_of_which_no_fault_is_asked_at_c1():
    """Nobody has read it there. The way back is asked for as usual, also after a retry."""
    for retried in (False, True):
        script = Script(retry_after_ns=MS)
        request: Journey[str] = Journey(_Process(), _Nowhere(), REQUEST, Draw(1, 1, False, False, None))
        script.on_send(request)
        if retried:
            assert request.arrives(script) is APPLY
            assert request.applied(script, DONE) is REPEAT
        assert request.arrives(script, (None, "reset")) is ANSWER
        assert request.refusal == (None, "reset")
        request.left(script)
        assert script.asked == (["c1", "c2 APPLIED", "c3"] if retried else ["c3"])


def carried(script: Script, monkeypatch: pytest.MonkeyPatch, draw: Draw) -> tuple[list[float], Any, InFlight]:
    """What an event loop does with a request: its waits in seconds, what the client hears, and the request."""
    waits: list[float] = []

    async def sleep(for_s: float) -> None:
        waits.append(for_s)

    async def apply() -> Reply:
        return DONE

    async def run() -> tuple[Any, InFlight]:
        alone: list[Any] = []
        carriage = Carriage(script, alone.append)  # type: ignore[arg-type]
        process: Any = _Process()
        process.process = process
        in_flight = carriage.depart(process, REQUEST)
        carriage.leave(in_flight)
        in_flight.to_service_ns, in_flight.to_client_ns = draw.to_service_ns, draw.to_client_ns
        in_flight.drip_ns = 2 * MS
        delivered = await carriage.carry(in_flight, apply, lambda reply: reply)
        for each in alone:
            await each
        carriage.arrive(in_flight)
        return delivered, in_flight

    monkeypatch.setattr("scenarios.injection.carriage.asyncio.sleep", sleep)
    return waits, *asyncio.run(run())


def test_an_event_loop_waits_on_each_part_of_the_way(monkeypatch):
    """5 ms there, the retry's 1 ms, and 9 ms back, of which the answer drips for the last two."""
    script = Script(retry_after_ns=MS)
    waits, delivered, in_flight = carried(script, monkeypatch, Draw(5 * MS, 9 * MS, False, False, None))
    assert waits == [0.005, 0.001, 0.007]
    assert delivered.answer is DONE
    assert delivered.drip_ns == 2 * MS
    assert in_flight.is_over


def test_on_an_event_loop_a_copy_sets_out_with_its_request(monkeypatch):
    """The copy arrives 3 ms after the request, which takes 5 ms; it comes back to nobody."""
    waits, _, _ = carried(Script(resend_ns=3 * MS), monkeypatch, Draw(5 * MS, 9 * MS, False, False, None))
    assert waits == [0.005, 0.007, 0.008]


@pytest.mark.parametrize(("lost", "strikes", "expected"), [(False, (), False), (True, (), True), (False, ("x",), True)])
def test_a_request_that_a_fault_strikes_says_so_when_it_leaves(lost, strikes, expected):
    class Striking(Script):
        def on_send(self, in_flight: Any) -> None:
            super().on_send(in_flight)
            in_flight.struck = dict.fromkeys(strikes)

    process: Any = _Process()
    process.process = process
    carriage = Carriage(Striking(lost=lost), lambda _work: None)  # type: ignore[arg-type]
    assert carriage.leave(carriage.depart(process, REQUEST)) is expected
