"""One order of cut points in both worlds: the kernel and an event loop drive the same journey to the same end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lockref.ports import Reply, Request
from lockref.words import Op, Outcome
from scenarios.injection.carriage import Carriage
from sim.journey import APPLY, END, Back, InFlight, Reach, Refusal, Step, journey
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


def test_after_a_retry_the_client_hears_the_second_answer():
    """Whatever became of the first one: the SDK has not heard it (A2)."""
    for script in (Script(retry_after_ns=MS), Script(retry_after_ns=MS, instead=(503, "injected"))):
        assert on_the_kernel(Script(**vars(script) | {"asked": []})) == 412
        assert on_an_event_loop(script) == 412
        assert "retried APPLIED PRECONDITION_FAILED" in script.asked


@given(scripts)
def test_a_journey_ends_and_at_most_one_reply_leaves(script):
    """Whatever the faults do: at most two sendings, one reply or one refusal, and then the end."""

    class Store:
        name = "store"

        def past(self, key: str, lag_ns: int = 0) -> Reply:
            raise AssertionError("nobody asks for the past here")

    in_flight = InFlight(_Process(), Store(), REQUEST, Draw(1, 1, False, False, None))
    script.on_send(in_flight)
    steps = journey(in_flight, script)
    taken: list[Step] = []
    said: Reply | None = None
    while (step := steps.send(said)) is not END:
        taken.append(step)
        said = DONE if step is APPLY else None
    backs = [step for step in taken if isinstance(step, Back)]
    assert len(backs) == (not script.lost and not script.reply_lost)
    assert all((back.reply is None) != (back.refusal is None) for back in backs)
    assert taken.count(APPLY) <= 2
    assert len([step for step in taken if isinstance(step, Reach)]) <= 2
