"""The tree of a configured cluster: equal to what real Helix wrote, written once, and compared with what is there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockref.errors import ConfigError
from lockref.helix.cluster.configured import ClusterDiffers, cluster_of, configured, creates, differences, to_apply
from lockref.helix.cluster.declared import Cluster, Instance, RebalanceMode, Resource
from lockref.helix.rebalancers import RECIPES_CLASS
from lockref.helix.records.layout import instance_creates
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.state_model import BUILT_IN, StateModel, Transition
from tests.unit.lockref.helix.pipeline_driver import lock_unlock

GOLDEN = Path(__file__).parents[3] / "data" / "helix_golden"
GOLDENS_CLASS = "demo.LockManagerRebalancer"
PHASES = ("0-configured", "1-three-live", "2-two-live", "3-rejoined", "4-none-live")


def golden(phase: str) -> dict[str, ZNRecord | None]:
    """What real Helix had in ZooKeeper: each path with its record."""
    found = json.loads((GOLDEN / f"{phase}.json").read_text())
    return {
        path: None
        if node is None or node.get("data") is None
        else ZNRecord.from_json(json.dumps(node["data"]).encode(), path)
        for path, node in found.items()
    }


def hx_golden() -> Cluster:
    """The cluster of the golden trees: the recipe's, with another name and class."""
    model = lock_unlock()
    resource = Resource(
        name="lock-group", locks=12, replicas=1, mode=RebalanceMode.USER_DEFINED, rebalancer=GOLDENS_CLASS,
        model=replace(model, counts={"LOCKED": "1", "RELEASED": "-1", "DROPPED": "-1"}),
    )  # fmt: skip
    names = ("localhost_12001", "localhost_12002", "localhost_12003")
    instances = tuple(Instance(name=name, host="localhost", port=int(name[-5:])) for name in names)
    return Cluster(name="hx-golden", resources=(resource,), instances=instances)


def test_the_configured_tree_equals_helix_own():
    """T1: every path and every record of phase 0; only versions are not compared."""
    assert configured(hx_golden()) == golden("0-configured")


def test_parents_are_made_before_their_children():
    """One transaction in order: each parent is the root or was created before."""
    made = {""}
    for operation in creates(hx_golden()):
        assert operation.path.rpartition("/")[0] in made
        made.add(operation.path)
    assert made - {""} == set(golden("0-configured"))


def test_an_instance_that_joins_by_itself_is_configured_as_a_listed_one():
    """The same znodes with the same bodies, whoever writes them."""
    own = instance_creates("hx-golden", "localhost_12002", host="localhost", port=12002)
    assert [each for each in creates(hx_golden()) if "localhost_12002" in each.path] == own


@pytest.mark.parametrize("phase", PHASES)
def test_applying_a_file_again_writes_nothing(phase: str):
    """T11: neither to a fresh cluster nor to one that has run, with sessions, views and Helix' own state models."""
    tree = golden(phase)
    assert to_apply(hx_golden(), tree) == []


@pytest.mark.parametrize("kept", [0, 1, 5, 20, 40])
def test_an_interrupted_set_up_is_completed(kept: int):
    """T11: real Helix writes node by node. What is missing is made, and nothing else."""
    operations = creates(hx_golden())
    whole = configured(hx_golden())
    begun = {each.path: whole[each.path] for each in operations[:kept]}
    assert to_apply(hx_golden(), begun) == operations[kept:]


def changed(**fields: object) -> Cluster:
    """The cluster with another resource."""
    cluster = hx_golden()
    return replace(cluster, resources=(replace(cluster.resources[0], **fields),))  # type: ignore[arg-type]


IDEAL = "/hx-golden/IDEALSTATES/lock-group"
MODEL = "/hx-golden/STATEMODELDEFS/lock-unlock"


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (
            changed(locks=13),
            [
                f"{IDEAL}: NUM_PARTITIONS: the file says 13, the cluster has 12",
                f"{IDEAL}: locks (lock-group_12): the file says 13, the cluster has 12",
            ],
        ),
        (
            changed(rebalancer="sticky"),
            [f"{IDEAL}: REBALANCER_CLASS_NAME: the file says sticky, the cluster has {GOLDENS_CLASS}"],
        ),
        (
            changed(model=lock_unlock("2"), replicas=2),
            [
                f"{IDEAL}: REPLICAS: the file says 2, the cluster has 1",
                f"{MODEL}: LOCKED.meta.count: the file says 2, the cluster has 1",
            ],
        ),
        (
            changed(name="other"),
            [f"{IDEAL}: the file says nothing, the cluster has a resource that the file does not have"],
        ),
        (
            replace(hx_golden(), instances=hx_golden().instances[:2]),
            [
                "/hx-golden/CONFIGS/PARTICIPANT/localhost_12003: the file says nothing, "
                "the cluster has an instance that the file does not have"
            ],
        ),
        (
            replace(hx_golden(), instances=(replace(hx_golden().instances[0], port=1), *hx_golden().instances[1:])),
            ["/hx-golden/CONFIGS/PARTICIPANT/localhost_12001: HELIX_PORT: the file says 1, the cluster has 12001"],
        ),
        (
            replace(hx_golden(), allows_joining=True),
            [
                "/hx-golden/CONFIGS/CLUSTER/hx-golden: allowParticipantAutoJoin: "
                "the file says true, the cluster has nothing"
            ],
        ),
    ],
)
def test_another_file_is_refused_with_every_difference(cluster: Cluster, said: list[str]):
    """Section 5, clusterName: an existing cluster differs, with the differences; nothing is written."""
    with pytest.raises(ClusterDiffers) as caught:
        to_apply(cluster, golden("1-three-live"))
    assert [str(each) for each in caught.value.differences] == said
    assert str(caught.value).splitlines() == [
        "cluster 'hx-golden' is there and differs from the file; nothing was written",
        *said,
    ]


def test_what_an_operator_changed_is_no_difference():
    """Disabling an instance writes into its configuration; the file says nothing about that."""
    tree = golden("1-three-live")
    path = "/hx-golden/CONFIGS/PARTICIPANT/localhost_12001"
    before = tree[path]
    assert before is not None
    tree[path] = replace(before, simple={**before.simple, "HELIX_ENABLED": "false"})
    assert differences(hx_golden(), tree) == []


def test_instances_that_joined_by_themselves_are_no_difference():
    """Where the file lets unlisted instances join, it does not list them."""
    cluster = replace(hx_golden(), allows_joining=True)
    tree = configured(cluster)
    few = replace(cluster, instances=cluster.instances[:1])
    assert differences(few, tree) == []


@pytest.mark.parametrize(
    ("path", "record", "said"),
    [
        (IDEAL, ZNRecord("lock-group"), f"{IDEAL}: STATE_MODEL_DEF_REF is missing"),
        (MODEL, None, f"{MODEL} is without data; expected a Helix record"),
        (
            "/hx-golden/CONFIGS/PARTICIPANT/localhost_12001",
            ZNRecord("localhost_12001", {"HELIX_HOST": "h", "HELIX_PORT": "x"}),
            "/hx-golden/CONFIGS/PARTICIPANT/localhost_12001: HELIX_PORT is 'x'; expected a whole number",
        ),
    ],
)
def test_a_damaged_tree_is_refused_by_path(path: str, record: ZNRecord | None, said: str):
    """A typed error that names path and field, no traceback of a lookup."""
    with pytest.raises(ConfigError) as caught:
        cluster_of("hx-golden", {**golden("0-configured"), path: record})
    assert str(caught.value) == said


def test_a_cluster_that_is_not_there_is_said():
    """An empty tree configures nothing."""
    with pytest.raises(ConfigError, match="there is no cluster 'c': /c is missing"):
        cluster_of("c", {})


NAMES = st.text("abcXYZ019_-.é", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))
COUNTS = st.sampled_from(("-1", "1", "2", "7", "N", "R"))


@st.composite
def models(draw: st.DrawFn) -> StateModel:
    """State models with transitions between any two of their states, valid or not."""
    states = tuple(draw(st.lists(st.text("ABCD_1", min_size=1, max_size=4), min_size=2, max_size=5, unique=True)))
    pairs = draw(st.lists(st.tuples(st.sampled_from(states), st.sampled_from(states)), unique=True, max_size=8))
    return StateModel(
        name=draw(NAMES),
        states=states,
        initial=draw(st.sampled_from(states)),
        transitions=tuple(Transition(name=f"{a}-{b}", source=a, target=b) for a, b in pairs),
        counts={state: draw(COUNTS) for state in states},
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Clusters whose resources have state models of different names, or the same model."""
    by_name: dict[str, StateModel] = {}
    resources = []
    for name in sorted(draw(st.sets(NAMES, min_size=1, max_size=3))):
        model = draw(models())
        model = by_name.setdefault(model.name, model)
        resources.append(
            Resource(
                name=name,
                locks=draw(st.integers(1, 25)),
                replicas=draw(st.integers(1, 9)),
                mode=draw(st.sampled_from(RebalanceMode)),
                rebalancer=draw(st.sampled_from(("mod", "sticky", "hrw", "m:f", RECIPES_CLASS))),
                model=model,
            )
        )
    instances = tuple(
        Instance(name=name, host=draw(NAMES), port=draw(st.integers(1, 65535)))
        for name in sorted(draw(st.sets(NAMES, max_size=4)))
    )
    return Cluster(
        name=draw(NAMES), resources=tuple(resources), instances=instances, allows_joining=draw(st.booleans())
    )


@given(clusters())
def test_a_cluster_survives_being_written_and_read(cluster: Cluster):
    """cluster -> bytes -> cluster is the identity, and applying it again writes nothing."""
    tree = {each.path: ZNRecord.from_json(each.body, each.path) if each.body else None for each in creates(cluster)}
    assert cluster_of(cluster.name, tree) == cluster
    assert to_apply(cluster, tree) == []


@pytest.mark.parametrize("name", BUILT_IN)
def test_helix_own_model_in_the_tree_is_the_built_in_one(name: str):
    """A cluster whose built-in model real Helix wrote does not differ from a file that names the model."""
    cluster = changed(model=BUILT_IN[name])
    tree = configured(cluster)
    stored = json.loads((GOLDEN / "builtin-state-models.json").read_text())[name]
    path = f"/hx-golden/STATEMODELDEFS/{name}"
    tree[path] = ZNRecord.from_json(json.dumps(stored).encode(), path)
    assert to_apply(cluster, tree) == []
