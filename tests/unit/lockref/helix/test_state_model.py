"""State models: the way from state to state, and what a valid model is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.state_model import BUILT_IN, DROPPED, ERROR, StateModel, Transition

GOLDEN = Path(__file__).parents[3] / "data" / "helix_golden"
LOCK_UNLOCK = json.loads((GOLDEN / "0-configured.json").read_text())["/hx-golden/STATEMODELDEFS/lock-unlock"]["data"]


def recipe() -> StateModel:
    """The state model of the recipe, as real Helix stored it."""
    return StateModel.from_record(ZNRecord.from_json(json.dumps(LOCK_UNLOCK).encode(), "/lock-unlock"))


def edge(key: str, *, name: str = "") -> Transition:
    """A transition by the name that Helix gives it."""
    source, _, target = key.partition("-")
    return Transition(name=name or key, source=source, target=target)


def test_the_recipes_model_is_stored_as_helix_stores_it():
    """T1: the record of STATEMODELDEFS equals the golden one."""
    assert json.loads(recipe().to_record().to_json()) == LOCK_UNLOCK


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_models_equal_helix_own(name: str):
    """Same states, priorities, counts and next hops; Helix' builder leaves out the ways from a state to itself."""
    golden = json.loads((GOLDEN / "builtin-state-models.json").read_text())[name]
    model = BUILT_IN[name]
    assert model.problems() == []
    made: dict[str, Any] = json.loads(model.to_record().to_json())
    assert made["simpleFields"] == golden["simpleFields"]
    assert made["listFields"] == golden["listFields"]
    for field, entries in golden["mapFields"].items():
        assert entries.items() <= made["mapFields"][field].items()


def test_the_only_indirect_way_of_the_recipe_is_back_from_dropped():
    """Section 4: DROPPED to LOCKED goes by RELEASED; everything else is one step."""
    model = recipe()
    hops = {(a, b): model.next_hop(a, b) for a in model.states for b in model.states if a != b}
    assert {edge: hop for edge, hop in hops.items() if hop != edge[1]} == {("DROPPED", "LOCKED"): "RELEASED"}
    assert [model.next_hop(ERROR, state) for state in ("DROPPED", "RELEASED", "LOCKED")] == [
        DROPPED,
        "RELEASED",
        "RELEASED",
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"states": ("LOCKED", "RELEASED")}, "states: state DROPPED is missing"),
        ({"states": ()}, "states: is empty"),
        ({"states": ("LOCKED", "RE-LEASED", "DROPPED")}, "states.1: is 'RE-LEASED'; a state's name has no '-'"),
        ({"states": ("LOCKED", "LOCKED", "RELEASED", "DROPPED")}, "states.1: state 'LOCKED' is listed twice"),
        ({"name": ""}, "name: is empty"),
        ({"initial": "OPEN"}, "initial: is 'OPEN'; expected one of LOCKED, RELEASED, DROPPED"),
        ({"counts": {"LOCKED": "0"}}, "counts.LOCKED.count: is '0'; expected -1, a number from 1, N or R"),
        ({"counts": {"OPEN": "1"}}, "counts.OPEN.name: is 'OPEN'; expected one of"),
        ({"transitions": ()}, "transitions: state LOCKED cannot be reached from the initial state RELEASED"),
        ({"transitions": (edge("RELEASED-LOCKED"),)}, "transitions: there is no way from LOCKED to DROPPED"),
        (
            {"transitions": (edge("LOCKED-LOCKED"),)},
            "transitions.0.target: is 'LOCKED'; transition 'LOCKED-LOCKED' leads",
        ),
        ({"transitions": (edge("LOCKED-OPEN"),)}, "transitions.0.target: is 'OPEN'; expected one of"),
        ({"transitions": (edge("OPEN-LOCKED"),)}, "transitions.0.source: is 'OPEN'; expected one of"),
        (
            {"transitions": (edge("RELEASED-LOCKED"), edge("RELEASED-LOCKED"))},
            "transitions.1: two transitions lead from RELEASED to LOCKED",
        ),
        (
            {"transitions": (edge("RELEASED-LOCKED", name="X"), edge("LOCKED-DROPPED", name="X"))},
            "transitions.1.name: is 'X'; another transition has that name",
        ),
    ],
)
def test_an_invalid_model_says_what_is_wrong(change: dict[str, Any], problem: str):
    """The rules of Helix' validator, in words."""
    valid = recipe()
    assert valid.problems() == []
    fields = {name: getattr(valid, name) for name in ("name", "states", "initial", "transitions", "counts")}
    assert any(problem in each for each in StateModel(**{**fields, **change}).problems())


def test_limits_count_live_instances_and_replicas():
    """Counts -1, n, N and R."""
    model = StateModel(
        name="m", states=("A", "B", "C", "D"), initial="D", transitions=(), counts={"A": "2", "B": "N", "C": "R"}
    )
    assert [model.limit(state, replicas=3, live=5) for state in "ABCD"] == [2, 5, 3, None]
