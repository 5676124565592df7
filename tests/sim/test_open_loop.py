"""An open loop: calls are intended by a clock, and not by the end of the call before."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest

from lockref.errors import ConfigError
from lockref.history import to_table
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_MS, NS_PER_S
from scenarios.definition.draw import draw_scenario, profile_of
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.workloads.cycles import loop
from scenarios.worlds.contention import arriving
from scenarios.worlds.simulated import run_simulated

TEXT = """
version: 1
name: open-loop
about: one client that works three times as long as its calls are apart
clients: 1
duration: 10s
network: {{latency: 1ms}}
lock: {{validity: 60s, renew_every: 5s}}
workload: {{{life}arrivals: {arrivals}, cycles: 100, hold: 3s, writes: 1, wait: 5s}}
expect: {{hardened: held}}
must_happen: [grant]
"""


def scenario(*, arrivals: str = "1s", life: str = ""):
    return parse_scenario(TEXT.format(arrivals=arrivals, life=life))


def calls(text) -> list[tuple[int, int]]:
    """When each acquire was called, and when it was intended, in nanoseconds."""
    recorder = run_simulated(text, load_provider("hardened"), 1).recorder
    rows = [row for row in to_table([recorder]).to_pylist() if (row["kind"], row["op"]) == ("call", "acquire")]
    return [(row["at_ns"], row["at_ns"] - json.loads(row["detail"])["late_ns"]) for row in rows]


def test_a_slow_call_moves_no_later_one():
    """The intended starts stand a second apart, although each cycle takes three; a call that is late begins at once."""
    found = calls(scenario())
    first_ns = found[0][1]
    assert 0 <= first_ns <= NS_PER_S
    assert [intended for _, intended in found] == [first_ns + number * NS_PER_S for number in range(len(found))]
    assert len(found) in (3, 4)
    for (before, _), (called, intended) in pairwise(found):
        assert called - before < 3 * NS_PER_S + 100 * NS_PER_MS
        assert called > intended
    assert found[0][0] == found[0][1]


def test_a_client_with_time_waits_for_its_next_intended_start():
    """An open loop with time between is on time: nothing is late."""
    found = calls(scenario(arrivals="4s"))
    first_ns = found[0][0]
    assert first_ns <= 4 * NS_PER_S
    assert found == [(at_ns, at_ns) for at_ns in range(first_ns, 10 * NS_PER_S, 4 * NS_PER_S)]


@pytest.mark.parametrize(("life", "arrivals"), [("life: members, ", "1s"), ("life: unlocked, ", "1s"), ("", "0s")])
def test_an_open_loop_without_lock_calls_or_end_is_refused(life, arrivals):
    """A file that cannot mean anything is an error, with its place."""
    with pytest.raises(ConfigError, match="arrivals"):
        scenario(life=life, arrivals=arrivals)


@pytest.mark.parametrize("think", ["think: 1s, ", "clients: {n1: {think: 1s}}, "])
def test_a_think_time_of_an_open_loop_is_refused(think):
    """It would not be heeded. A rate that the command line gives takes its place."""
    with pytest.raises(ConfigError, match=r"arrivals: .* think"):
        scenario(life=think)
    closed = parse_scenario(TEXT.format(arrivals="1s", life=think).replace("arrivals: 1s, ", ""))
    workload = arriving(closed, 10, clients=1).workload
    assert workload.arrivals is not None
    assert not [name for name, work in workload.clients.items() if work.think]


def test_a_rate_is_that_of_all_clients():
    """Twenty a second over ten clients: each intends one every half second in the mean, a second at most."""
    changed = arriving(load_scenario("contention"), 20, clients=10)
    arrivals = changed.workload.arrivals
    assert arrivals is not None
    assert (arrivals.least, arrivals.most) == (0, NS_PER_S)
    assert changed.workload.hold == load_scenario("contention").workload.hold
    with pytest.raises(ConfigError, match="open loop"):
        arriving(load_scenario("contention"), 1e12, clients=1)


class Clock:
    """A runtime whose time is only what was slept."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, duration_ns: int) -> None:
        self.now_ns += duration_ns


class Asking:
    """A client whose lock never has a grant, and answers at once."""

    tenure = None

    def __init__(self) -> None:
        self.runtime = Clock()
        self.intended_ns: list[int] = []

    def intended(self, *, late_ns: int) -> None:
        self.intended_ns.append(self.runtime.now_ns - late_ns)

    def patience(self, wait_ns: int, left_ns: int) -> int:
        return min(wait_ns, left_ns)

    def acquire(self, wait_ns: int) -> None:
        """Nothing is granted."""


def intended_of(clients: int, per_s: float, *, seed: int) -> list[int]:
    """The intended starts of all clients in ten seconds, in nanoseconds."""
    scenario = arriving(load_scenario("contention"), per_s, clients=clients)
    drawn = draw_scenario(scenario, seed).lasting(10 * NS_PER_S)
    found: list[int] = []
    for number in range(clients):
        client = Asking()
        loop(client, profile_of(scenario, drawn, f"n{number}"), random.Random(f"{seed} {number}"))
        found += client.intended_ns
    return found


@pytest.mark.parametrize("clients", [1, 32, 64])
def test_as_many_calls_are_intended_as_the_rate_says(clients):
    """Ten a second for ten seconds are a hundred, however many clients share them, and ten in the first second."""
    seeds = range(40)
    found = [intended_of(clients, 10, seed=seed) for seed in seeds]
    assert sum(map(len, found)) / len(seeds) == pytest.approx(100, abs=5)
    first = [at_ns for each in found for at_ns in each if at_ns < NS_PER_S]
    assert len(first) / len(seeds) == pytest.approx(10, abs=2)
