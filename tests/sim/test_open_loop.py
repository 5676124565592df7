"""An open loop: calls are intended by a clock, and not by the end of the call before."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from lockref.errors import ConfigError
from lockref.history import to_table
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_MS, NS_PER_S
from scenarios.definition.load import load_scenario, parse_scenario
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
    assert [intended for _, intended in found] == [number * NS_PER_S for number in range(1, len(found) + 1)]
    assert len(found) == 3
    for (before, _), (called, intended) in pairwise(found):
        assert called - before < 3 * NS_PER_S + 100 * NS_PER_MS
        assert called > intended
    assert found[0][0] == found[0][1]


def test_a_client_with_time_waits_for_its_next_intended_start():
    """An open loop with time between is on time: nothing is late."""
    found = calls(scenario(arrivals="4s"))
    assert found == [(4 * NS_PER_S, 4 * NS_PER_S), (8 * NS_PER_S, 8 * NS_PER_S)]


@pytest.mark.parametrize(("life", "arrivals"), [("life: members, ", "1s"), ("life: unlocked, ", "1s"), ("", "0s")])
def test_an_open_loop_without_lock_calls_or_end_is_refused(life, arrivals):
    """A file that cannot mean anything is an error, with its place."""
    with pytest.raises(ConfigError, match="arrivals"):
        scenario(life=life, arrivals=arrivals)


def test_a_rate_is_that_of_all_clients():
    """Twenty a second over ten clients: each intends one every half second in the mean, a second at most."""
    changed = arriving(load_scenario("contention"), 20, clients=10)
    arrivals = changed.workload.arrivals
    assert arrivals is not None
    assert (arrivals.least, arrivals.most) == (0, NS_PER_S)
    assert changed.workload.hold == load_scenario("contention").workload.hold
    with pytest.raises(ConfigError, match="open loop"):
        arriving(load_scenario("contention"), 1e12, clients=1)
