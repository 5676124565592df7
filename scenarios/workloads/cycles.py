"""The work of clients: cycles of thinking, locking, working and unlocking.

One definition for both worlds; the world behind `Client` decides what a second
is. Durations are drawn anew in each cycle, from the client's own stream.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from lockref.runtime import Event, Task
from scenarios.definition.client_profile import ClientProfile
from scenarios.definition.units import Chooser, DrawnNumber
from scenarios.workloads.client import Client

Together = Callable[[Sequence[Client], ClientProfile, Sequence[Chooser]], None]
"""What several clients of one process do together; a stream for each."""


def work_under_lock(client: Client, profile: ClientProfile, stream: Chooser) -> bool:
    """The critical section: the hold is spread over the writes, and the lock is asked before each (`workload.asks`).

    False if it gave no leave to write, which ends the section.
    """
    hold_ns, writes = profile.hold.draw(stream), profile.writes.draw(stream)
    if writes == 0:
        client.runtime.sleep(hold_ns)
        return True
    for _ in range(writes):
        client.runtime.sleep(hold_ns // writes)
        if not client.may_write():
            return False
        client.write()
    return True


def _arrivals(gap: DrawnNumber, stream: Chooser) -> Iterator[int]:
    """Nanoseconds to the first intended start, then from each to the next one.

    The loop is under way when the run begins. So the begin falls anywhere into a gap, and into a long one as much more
    often as it is longer: then a client intends `t / mean` calls in each time `t`, also in the first second.
    """
    under_way_ns = gap.draw(stream)
    while stream.randint(1, gap.most) > under_way_ns:
        under_way_ns = gap.draw(stream)
    yield stream.randint(0, under_way_ns)
    while True:
        yield gap.draw(stream)


def _cycles(
    client: Client,
    profile: ClientProfile,
    stream: Chooser,
    acquire: Callable[[int], object],
    *,
    relocks: bool = False,
    unlocks_always: bool = False,
    closes_last: bool = False,
) -> None:
    """Think, lock by `acquire`, work, unlock; until the cycles or the time are used up."""
    runtime = client.runtime
    began_ns = runtime.monotonic_ns()
    deadline_ns = began_ns + profile.last_start_ns
    start_ns = profile.start.draw(stream)
    runtime.sleep(start_ns)
    intended_ns = began_ns + start_ns
    arrivals = _arrivals(profile.arrivals, stream) if profile.arrivals is not None else None
    for left_cycles in reversed(range(profile.cycles.draw(stream))):
        if arrivals is None:
            runtime.sleep(profile.think.draw(stream))
        else:
            # An open loop: the next call is intended, whether the last one was slow or not.
            intended_ns += next(arrivals)
            runtime.sleep(max(0, intended_ns - runtime.monotonic_ns()))
        now_ns = runtime.monotonic_ns()
        left_ns = deadline_ns - now_ns
        if left_ns <= 0:
            return
        if arrivals is not None:
            client.intended(late_ns=max(0, now_ns - intended_ns))
        acquire(client.patience(profile.wait.draw(stream), left_ns))
        if client.tenure is not None:
            has_kept_it = work_under_lock(client, profile, stream)
            if relocks and not has_kept_it:
                acquire(client.patience(profile.wait.draw(stream), max(0, deadline_ns - runtime.monotonic_ns())))
                if client.tenure is not None and client.tenure.believes:
                    work_under_lock(client, profile, stream)
            if closes_last and left_cycles == 0:
                client.close()
            else:
                client.release()
        elif unlocks_always:
            client.release()


def loop(client: Client, profile: ClientProfile, stream: Chooser) -> None:
    """The life of most clients."""
    _cycles(client, profile, stream, client.acquire)


def relock(client: Client, profile: ClientProfile, stream: Chooser) -> None:
    """A client that lost its lock asks for it again before it gives it back (U7)."""
    _cycles(client, profile, stream, client.acquire, relocks=True)


def owner_ends(client: Client, profile: ClientProfile, stream: Chooser) -> None:
    """The thread that locked ends, and its work goes on elsewhere (U10, H13)."""

    def acquire(wait_ns: int) -> None:
        owner = client.runtime.spawn(lambda: client.acquire(wait_ns), name="owner")
        owner.join()

    _cycles(client, profile, stream, acquire)


def reentrant(client: Client, profile: ClientProfile, stream: Chooser) -> None:
    """Locks what it holds once more, as a function does that is called from another one with the lock (H9).

    Lock, lock, work, unlock, work, unlock. A lock that refuses the second entry
    is not re-entrant, which it may be: then the client works on with the first.
    """

    def acquire(wait_ns: int) -> None:
        client.acquire(wait_ns)
        outer = client.tenure
        if outer is None or not work_under_lock(client, profile, stream):
            return
        client.acquire(0, is_nested=True)
        if client.tenure is not outer:
            work_under_lock(client, profile, stream)
            client.release()
            client.go_on_with(outer)

    _cycles(client, profile, stream, acquire)


def forks(client: Client, profile: ClientProfile, stream: Chooser) -> None:
    """A life whose process forks as soon as it holds, and goes on; what the child does is `forked_child`."""

    def acquire(wait_ns: int) -> None:
        client.acquire(wait_ns)
        if client.tenure is not None:
            client.fork()

    _cycles(client, profile, stream, acquire)


def unlocked(client: Client, profile: ClientProfile, stream: Chooser) -> None:
    """Never asks its lock: what it writes must be safe by itself."""
    runtime = client.runtime
    deadline_ns = runtime.monotonic_ns() + profile.last_start_ns
    runtime.sleep(profile.start.draw(stream))
    attempts = itertools.count(1)
    for _ in range(profile.cycles.draw(stream)):
        runtime.sleep(profile.think.draw(stream))
        hold_ns, writes = profile.hold.draw(stream), profile.writes.draw(stream)
        for _ in range(writes):
            if runtime.monotonic_ns() >= deadline_ns:
                return
            runtime.sleep(hold_ns // writes)
            client.write_without_lock(next(attempts))


def forked_child(client: Client, profile: ClientProfile, stream: Chooser) -> None:
    """The life of a child that takes itself for its parent: work behind the guard, unlock in a `finally`, lock."""
    work_under_lock(client, profile, stream)
    client.release()
    client.acquire(0)
    if client.tenure is not None:
        work_under_lock(client, profile, stream)
        client.release()


def closes(client: Client, profile: ClientProfile, stream: Chooser) -> None:
    """Ends its last cycle by closing the lock that it holds, and lives on (U16)."""
    runtime = client.runtime
    until_ns = runtime.monotonic_ns() + profile.last_start_ns
    _cycles(client, profile, stream, client.acquire, closes_last=True)
    # A heartbeat that outlives the close has time to show it.
    runtime.sleep(max(0, until_ns - runtime.monotonic_ns()))


ONE_TASK: dict[str, Callable[[Client, ClientProfile, Chooser], None]] = {
    "loop": loop,
    "relock": relock,
    "owner_ends": owner_ends,
    "reentrant": reentrant,
    "closes": closes,
    "forks": forks,
    "unlocked": unlocked,
}
"""The lives of a client with a provider of its own, by the name that a scenario gives as `workload.life`."""


def careless(client: Client, profile: ClientProfile, stream: Chooser) -> None:
    """Unlocks in a `finally`, granted or not (H9)."""
    _cycles(client, profile, stream, client.acquire, unlocks_always=True)


def _side_by_side(second: Callable[[Client, ClientProfile, Chooser], None]) -> Together:
    """Two tasks share one provider, each convinced that the lock is its own (U6, H9): what the second one does."""

    def together(clients: Sequence[Client], profile: ClientProfile, streams: Sequence[Chooser]) -> None:
        beside = clients[0].runtime.spawn(lambda: second(clients[1], profile, streams[1]), name="second")
        loop(clients[0], profile, streams[0])
        beside.join()

    return together


def closed_by_another(clients: Sequence[Client], profile: ClientProfile, streams: Sequence[Chooser]) -> None:
    """While the first task works under the lock, the second one closes it, as a part does that shuts down (U16)."""
    holder, other = clients
    closing: list[Task] = []

    def close() -> None:
        other.runtime.sleep(profile.hold.draw(streams[1]) // 3)
        other.close()

    def acquire(wait_ns: int) -> None:
        holder.acquire(wait_ns)
        if holder.tenure is not None:
            closing.append(holder.runtime.spawn(close, name="second"))

    _cycles(holder, profile, streams[0], acquire)
    for task in closing:
        task.join()


def members(clients: Sequence[Client], profile: ClientProfile, streams: Sequence[Chooser]) -> None:
    """A task for each lock asks for it, and works under it if it is given; then all are given back (T5, per lock)."""
    first, choose = clients[0].runtime, streams[0]
    deadline_ns = first.monotonic_ns() + profile.last_start_ns
    first.sleep(profile.start.draw(choose))
    for _ in range(profile.cycles.draw(choose)):
        first.sleep(profile.think.draw(choose))
        left_ns = deadline_ns - first.monotonic_ns()
        if left_ns <= 0:
            return
        patience_ns = profile.wait.draw(choose)

        # Each gives back in the task that locked, and none before all have worked: they leave together.
        worked = [first.event() for _ in clients]

        def turn(number: int, wait: tuple[int, int] = (patience_ns, left_ns), worked: Sequence[Event] = worked) -> None:
            client = clients[number]
            client.acquire(client.patience(*wait))
            if client.tenure is not None:
                work_under_lock(client, profile, streams[number])
            worked[number].set()
            for each in worked:
                each.wait(None)
            if client.tenure is not None:
                client.release()

        tasks = [first.spawn(partial(turn, number), name=client.task) for number, client in enumerate(clients)]
        for task in tasks:
            task.join()


TWO_TASKS: dict[str, Together] = {
    "two_threads": _side_by_side(loop),
    "careless_thread": _side_by_side(careless),
    "closed_by_another": closed_by_another,
}
"""The lives of two tasks that share one provider."""


MEMBERS = "members"


def tasks_of(behaviour: str, locks: int = 1) -> tuple[str, ...]:
    """The tasks of one process that behaves so (`workload.life`), the first one first. locks: of `members`."""
    if behaviour == MEMBERS:
        return tuple(f"lock-{number}" for number in range(1, locks + 1))
    return ("main", "second") if behaviour in TWO_TASKS else ("main",)


def run_clients(behaviour: str, clients: Sequence[Client], profile: ClientProfile, streams: Sequence[Chooser]) -> None:
    """One process from its first cycle to its last; a client and a stream for each of `tasks_of(behaviour)`."""
    if behaviour == MEMBERS:
        members(clients, profile, streams)
    elif behaviour in ONE_TASK:
        ONE_TASK[behaviour](clients[0], profile, streams[0])
    else:
        TWO_TASKS[behaviour](clients, profile, streams)
