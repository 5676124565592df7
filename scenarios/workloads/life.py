"""The lives that clients lead: cycles of thinking, locking, working and unlocking.

One definition for both worlds; the world behind `Client` decides what a second
is. Durations are drawn anew in each cycle, from the client's own stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scenarios.units import Chooser, Drawn
from scenarios.workloads.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What one client does; see `scenarios.schema.Work`. Durations in nanoseconds.

    last_start_ns: on the client's monotonic clock, counted from its first
        moment: no cycle begins later. Calls end by themselves (L5).
    """

    start: Drawn
    cycles: Drawn
    think: Drawn
    hold: Drawn
    writes: Drawn
    wait: Drawn
    last_start_ns: int


def work_under_lock(client: Client, habits: Habits, stream: Chooser) -> None:
    """The critical section: the hold is spread over the writes, and the guard is asked before each."""
    hold_ns, writes = habits.hold.draw(stream), habits.writes.draw(stream)
    if writes == 0:
        client.runtime.sleep(hold_ns)
        return
    for _ in range(writes):
        client.runtime.sleep(hold_ns // writes)
        if not client.guard():
            return
        client.write()


def cycle(client: Client, habits: Habits, stream: Chooser) -> None:
    client.runtime.sleep(habits.think.draw(stream))
    if client.acquire(habits.wait.draw(stream)):
        work_under_lock(client, habits, stream)
        client.release()


def _cycles(client: Client, habits: Habits, stream: Chooser, one: Callable[[], None]) -> None:
    runtime = client.runtime
    deadline_ns = runtime.monotonic_ns() + habits.last_start_ns
    runtime.sleep(habits.start.draw(stream))
    for _ in range(habits.cycles.draw(stream)):
        if runtime.monotonic_ns() >= deadline_ns:
            return
        one()


def loop(client: Client, habits: Habits, stream: Chooser) -> None:
    """The common life."""
    _cycles(client, habits, stream, lambda: cycle(client, habits, stream))


def owner_ends(client: Client, habits: Habits, stream: Chooser) -> None:
    """The thread that locked ends, and its work goes on elsewhere (U10, H13)."""

    def one() -> None:
        client.runtime.sleep(habits.think.draw(stream))
        wait_ns = habits.wait.draw(stream)
        owner = client.runtime.spawn(lambda: _ignore(client.acquire(wait_ns)), name="owner")
        owner.join()
        if client.tenure is not None:
            work_under_lock(client, habits, stream)
            client.release()

    _cycles(client, habits, stream, one)


def _ignore(_granted: bool) -> None:
    """A task returns nothing; the tenure tells."""


def two_threads(clients: tuple[Client, Client], habits: Habits, streams: tuple[Chooser, Chooser]) -> None:
    """Two threads share one provider, each convinced that the lock is its own (U6, H9)."""
    second = clients[0].runtime.spawn(lambda: loop(clients[1], habits, streams[1]), name="second")
    loop(clients[0], habits, streams[0])
    second.join()
