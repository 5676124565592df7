"""Fault plans as data: round trips, refusals with a way out, and what a swarm may draw."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockref.errors import ConfigError
from sim.faults.answers import AMBIGUOUS_STATUSES
from sim.faults.drawing import ENVELOPE_KINDS, Shape
from sim.faults.generators import swarm
from sim.faults.plan import FAULT_TYPES, FaultPlan, parse_fault
from sim.faults.process import Pause
from sim.faults.stores import CorruptObject
from sim.kernel.clocks import PPM
from sim.kernel.streams import stream

S = 1_000_000_000


def shape(**changes) -> Shape:
    return Shape(
        **{
            "clients": ("n1", "n2", "n3"),
            "duration_ns": 30 * S,
            "validity_ns": 10 * S,
            "drift_bound_ns": S // 2,
            **changes,
        }
    )


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_plans_survive_writing_and_reading(seed):
    """Whatever a swarm draws, its JSON reads back as the same plan."""
    plan = swarm(stream(seed, "faults"), shape(kinds=tuple(FAULT_TYPES), heal_ns=40 * S))
    assert FaultPlan.from_json(plan.to_json()) == plan


def test_arbitrary_bytes_survive():
    """The body of a corrupted object may be anything."""
    plan = FaultPlan.of(CorruptObject(id="f", at_ns=1, body=bytes(range(256))))
    assert FaultPlan.from_json(plan.to_json()) == plan


PAUSE = {"id": "f", "kind": "pause", "client": "n1", "at_ns": 1, "for_ns": 2}


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ([{**PAUSE, "kind": "freez"}], r"faults\.0\.kind is 'freez'; expected one of .*Did you mean 'freeze'\?"),
        ([{**PAUSE, "fro_ns": 3}], r"faults\.0\.fro_ns is no known key; .*Did you mean 'for_ns'\?"),
        ([{**PAUSE, "at_ns": -1}], r"faults\.0\.at_ns: .*\(got -1\)"),
        ([{**PAUSE, "at_ns": 1.5}], r"faults\.0\.at_ns: .*\(got 1\.5\)"),
        ([{k: PAUSE[k] for k in ("id", "kind", "client", "for_ns")}], "exactly one of 'at_ns' and 'when'"),
        ([{**PAUSE, "when": {"client": "n1"}}], "exactly one of 'at_ns' and 'when'"),
        ([PAUSE, PAUSE], "fault id 'f' occurs twice"),
        (
            [{"id": "f", "kind": "pause", "client": "n1", "for_ns": 1, "when": {"client": "n1", "opp": "read"}}],
            r"when\.opp is no known key; .*Did you mean 'op'\?",
        ),
        ([{"id": "f", "kind": "error", "status": 200}], r"faults\.0\.status"),
        ([{"id": "f", "kind": "lose_reply", "when": {"client": "n1"}, "nth": 2}], "names one request"),
        ([{"id": "f", "kind": "drift", "client": "n1", "at_ns": 0, "rate_ppm": -PPM}], "rate_ppm"),
        (
            [{"id": "f", "kind": "partition", "groups": [["n1"], ["n1", "store"]], "at_ns": 0, "for_ns": 1}],
            "groups share a member",
        ),
        ([{"id": "f", "kind": "delay", "by_ns": 1, "probability": 1.5}], "probability"),
    ],
)
def test_bad_plans_are_refused_with_a_way_out(faults, message):
    """One line: the place, the value, what is accepted, the nearest good word."""
    with pytest.raises(ConfigError, match=message) as caught:
        FaultPlan.from_json(json.dumps({"faults": faults}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[", "[]", '{"format": 2}', '{"fautls": []}', "\x00"])
def test_what_is_no_plan_is_refused(text):
    """Garbage, another format and unknown top-level keys are ConfigErrors, never tracebacks."""
    with pytest.raises(ConfigError):
        FaultPlan.from_json(text)


def test_single_faults_are_parsed_with_the_same_care():
    """Scenarios hand over one fault at a time."""
    assert parse_fault(PAUSE) == Pause(id="f", client="n1", at_ns=1, for_ns=2)
    with pytest.raises(ConfigError, match="Did you mean 'pause'"):
        parse_fault({**PAUSE, "kind": "pauze"})


def plans(count: int = 600, **changes) -> list[FaultPlan]:
    return [swarm(stream(seed, "faults"), shape(**changes)) for seed in range(count)]


def test_swarm_switches_kinds_off_and_on():
    """Every kind occurs; no plan has all; some plans have none; the same seed gives the same plan."""
    drawn = plans()
    kinds = [{fault.kind for fault in plan.faults} for plan in drawn]
    assert set().union(*kinds) == set(ENVELOPE_KINDS)
    assert max(len(k) for k in kinds) <= 8
    assert any(not k for k in kinds)
    assert drawn == plans()


def test_swarm_durations_surround_validity():
    """Pauses shorter, near and longer than a lease all occur: that is where locks break."""
    lengths = [fault.for_ns / (10 * S) for plan in plans() for fault in plan.faults if fault.kind == "pause"]
    assert min(lengths) < 0.05
    assert max(lengths) > 1.5
    assert sum(0.9 <= length <= 1.15 for length in lengths) > len(lengths) / 5


def test_swarm_keeps_clocks_within_the_envelope():
    """Two nodes' walls never differ by more than the drift bound, whatever is added up."""
    for plan in plans(2000):
        off = dict.fromkeys(("n1", "n2", "n3"), 0)
        for fault in plan.faults:
            if fault.kind in ("offset", "step"):
                off[fault.client] += abs(fault.by_ns)
            elif fault.kind == "drift":
                off[fault.client] += abs(fault.rate_ppm) * fault.for_ns // PPM
        assert max(off.values()) <= S // 4


def test_swarm_store_lies_about_no_write():
    """Inside the envelope, 409, 412 and 429 are never said of a write that was applied."""
    errors = [fault for plan in plans(2000) for fault in plan.faults if fault.kind == "error"]
    assert {fault.cut for fault in errors} == {"c1", "c2"}
    assert all(fault.status in AMBIGUOUS_STATUSES for fault in errors if fault.cut == "c2")


def test_unbounded_swarm_leaves_the_envelope():
    """is_bounded=False: clocks go where they like, for runs that must break."""
    offsets = [abs(fault.by_ns) for plan in plans(is_bounded=False, kinds=("offset",)) for fault in plan.faults]
    assert max(offsets) > 10 * S


def test_unknown_swarm_kind_is_refused():
    """The message lists the kinds."""
    with pytest.raises(ConfigError, match="'gc'; expected one of pause"):
        swarm(stream(1, "swarm"), shape(kinds=("gc",)))


def test_drawn_clocks_stay_within_half_the_bound():
    """Envelope: offsets, steps and what drifts add up to leave each node at most half the drift bound off."""
    seen = 0
    for plan in plans(400, kinds=("drift", "offset", "step"), drift_bound_ns=S // 100, rate_error_ppm=1000):
        off_ns: dict[str, int] = {}
        for fault in plan.faults:
            by_ns = abs(fault.rate_ppm) * fault.for_ns // 1_000_000 if fault.kind == "drift" else abs(fault.by_ns)
            off_ns[fault.client] = off_ns.get(fault.client, 0) + by_ns
            seen += fault.kind == "drift"
        assert max(off_ns.values(), default=0) <= S // 200
    assert seen > 100
