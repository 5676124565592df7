"""A damaged record accuses nobody: whatever is lost, doubled or moved, a lock that kept every clause breaks none."""

from __future__ import annotations

import random
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockref.history import RUNS_SCHEMA, SCHEMA
from lockref.lab.loading import load_provider
from reports.checks import decide, judge, measure
from reports.checks.summary import Summary
from scenarios.batch import simulate_many
from scenarios.definition.load import load_scenario
from tests.damage import ALWAYS_SEEN, DAMAGES, damaged, without_row
from tests.thoroughness import examples

SCENARIOS = ("e01", "e08", "h15", "swarm")
SEEDS = range(1, 5)


@cache
def sound(scenario: str, seed: int) -> tuple[pa.Table, pa.Table]:
    """A history in which the hardened lock keeps every clause."""
    batch = simulate_many(load_scenario(scenario), load_provider("hardened"), [seed])
    return batch.events, batch.runs


def broken(events: pa.Table, runs: pa.Table) -> list[str]:
    """The clauses that are said to be violated."""
    verdicts = judge(events, runs).verdicts
    return verdicts.filter(pc.equal(verdicts["verdict"], "violated"))["clause"].to_pylist()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_histories_are_sound(scenario: str) -> None:
    """What is damaged below was in order before; otherwise it would prove nothing."""
    for seed in SEEDS:
        assert broken(*sound(scenario, seed)) == []
        assert judge(*sound(scenario, seed)).records["state"].to_pylist() == ["whole"]


@given(
    scenario=st.sampled_from(SCENARIOS),
    seed=st.sampled_from(SEEDS),
    kind=st.sampled_from(sorted(DAMAGES)),
    chance=st.integers(0, 10**6),
    told=st.sampled_from(["all", "no digest", "no count"]),
)
@settings(deadline=None, max_examples=examples(300))
def test_no_damage_accuses_a_sound_lock(scenario: str, seed: int, kind: str, chance: int, told: str) -> None:
    """Damage that the key shows is inconclusive, everything else at worst held; never violated."""
    events, runs = sound(scenario, seed)
    if told == "no count":
        runs = blank(runs, "event_count")
    if told == "no digest" and kind in ALWAYS_SEEN:
        runs = blank(runs, "digest")
    if told == "no count" and kind in ("append a copy", "cut the end off"):
        # Nobody knows how many events there were: nothing tells such a record from a whole one.
        return
    events = damaged(kind, chance, events)
    assert broken(events, runs) == []
    verdicts = decide(Summary.of(judge(events, runs), events, runs))
    if kind in ALWAYS_SEEN:
        assert verdicts.safety == "inconclusive"
        assert verdicts.reasons == ("1 run could not be judged: the record is damaged",)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_lost_description_accuses_nobody(scenario: str) -> None:
    """Without its row nobody knows a run's bounds: among described runs it is damaged, alone it is judged without."""
    first, others = sound(scenario, 1), sound(scenario, 2)
    events = pa.concat_tables([first[0], others[0]]).unify_dictionaries()
    runs = pa.concat_tables([first[1], others[1]])
    judgement = judge(events, without_row(runs, 1))
    assert judgement.records["state"].to_pylist() == ["damaged", "whole"]
    assert broken(events, without_row(runs, 1)) == []
    assert broken(first[0], without_row(first[1], 1)) == []
    assert broken(events, pa.concat_tables([runs, runs.slice(0, 1)])) == []


@given(
    chance=st.integers(0, 10**6), column=st.sampled_from([name for name in SCHEMA.names if name not in ("run", "seq")])
)
@settings(deadline=None, max_examples=40)
def test_no_altered_record_breaks_an_invariant(chance: int, column: str) -> None:
    """Assertions are about the checks: whatever an altered record says, it is judged and measured without an error."""
    events, runs = sound("swarm", 1 + chance % len(SEEDS))
    draw = random.Random(chance)
    places = list(range(len(events)))
    for place in draw.sample(places, draw.choice([1, 4, len(places) // 4])):
        places[place] = draw.randrange(len(events))
    altered = events.set_column(
        events.column_names.index(column), events.schema.field(column), events[column].take(places)
    )
    for history in (altered, altered.filter(pc.equal(altered["kind"].cast(pa.string()), "fault"))):
        described = blank(blank(runs, "digest"), "event_count")
        counted = Summary.of(judge(history, described), history, described)
        assert counted.runs + counted.damaged == len(runs)
        assert set(decide(counted).clauses.values()) <= {"held", "violated", "inconclusive", "not_applicable"}
        measure(history, described)


def blank(runs: pa.Table, name: str) -> pa.Table:
    place = runs.column_names.index(name)
    return runs.set_column(place, RUNS_SCHEMA.field(name), pa.nulls(len(runs), RUNS_SCHEMA.field(name).type))
