"""The tree of a configured cluster: the znodes before anybody joins, and differences from an existing cluster.

Writing is one transaction: all or nothing. To apply a file a second time writes nothing. A file that contradicts the
cluster that is there is refused, with every difference. What is only missing is made, so that a set-up that real Helix
began and did not finish is completed (T11).

Source: what real Helix wrote for the recipe's file (tests/data/helix_golden/0-configured.json).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lockref.coordination.port import Operation
from lockref.errors import ConfigError, quote
from lockref.grammar import decimal
from lockref.helix.cluster.declared import Cluster, Instance, RebalanceMode, Resource
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.state_model import StateModel

Tree = Mapping[str, ZNRecord | None]
"""Path to record; None for a znode without data."""

FOLDERS: Final = (
    "CONFIGS", "CONFIGS/CLUSTER", "CONFIGS/CUSTOMIZED_STATE", "CONFIGS/PARTICIPANT", "CONFIGS/RESOURCE", "CONTROLLER",
    "CONTROLLER/ERRORS", "CONTROLLER/HISTORY", "CONTROLLER/MESSAGES", "CONTROLLER/STATUSUPDATES", "EXTERNALVIEW",
    "IDEALSTATES", "INSTANCES", "LIVEINSTANCES", "PROPERTYSTORE", "STATEMODELDEFS",
)  # fmt: skip
"""What stands below the cluster's root, parents first."""

DECLARED: Final = (
    layout.AUTO_JOIN, layout.HOST, layout.PORT, "INITIAL_STATE", "NUM_PARTITIONS", "REBALANCER_CLASS_NAME",
    "REBALANCE_MODE", "REPLICAS", "STATE_MODEL_DEF_REF",
)  # fmt: skip
"""The simple fields that a cluster file decides. Operators change others while a cluster runs (HELIX_ENABLED)."""


def configured(cluster: Cluster) -> dict[str, ZNRecord | None]:
    """Every znode of the cluster, parents before children."""
    paths = layout.ClusterPaths(cluster.name)
    tree: dict[str, ZNRecord | None] = {paths.root: None}
    tree.update((f"{paths.root}/{folder}", None) for folder in FOLDERS)
    tree[paths.leader_history] = ZNRecord("HISTORY", lists={cluster.name: []})
    tree[paths.config] = ZNRecord(cluster.name, {layout.AUTO_JOIN: "true"} if cluster.allows_joining else {})
    for instance in cluster.instances:
        tree.update(layout.instance_tree(cluster.name, instance.name, host=instance.host, port=instance.port))
    for resource in cluster.resources:
        tree[paths.state_model(resource.model.name)] = resource.model.to_record()
        tree[paths.ideal_state(resource.name)] = ideal_state(resource)
    return tree


def ideal_state(resource: Resource) -> ZNRecord:
    """IDEALSTATES/<resource>: how many locks there are, and who decides about them."""
    simple = {
        "NUM_PARTITIONS": str(resource.locks),
        "REPLICAS": str(resource.replicas),
        "REBALANCE_MODE": resource.mode.value,
        "IDEAL_STATE_MODE": "AUTO",
        "REBALANCER_CLASS_NAME": resource.rebalancer,
        "REBALANCE_STRATEGY": "DEFAULT",
        "STATE_MODEL_DEF_REF": resource.model.name,
        "STATE_MODEL_FACTORY_NAME": "DEFAULT",
    }
    return ZNRecord(
        resource.name,
        simple,
        {lock: {} for lock in resource.lock_names},
        {lock: [] for lock in resource.lock_names},
    )


def creates(cluster: Cluster) -> list[Operation]:
    """The transaction that configures a cluster that is not there."""
    return layout.tree_creates(configured(cluster))


def cluster_of(name: str, tree: Tree) -> Cluster:
    """The cluster that a tree configures; resources and instances by name.

    Helix stores no names of transitions: each is named by its edge. Errors: ConfigError naming the path and the field.
    """
    paths = layout.ClusterPaths(name)
    if paths.root not in tree:
        raise ConfigError(f"there is no cluster {name!r}: {paths.root} is missing")
    config = tree.get(paths.config)
    return Cluster(
        name=name,
        resources=tuple(_resource(paths, path, tree) for path in _children(paths.ideal_states, tree)),
        instances=tuple(_instance(path, tree) for path in _children(paths.instance_configs, tree)),
        allows_joining=config is not None and config.simple.get(layout.AUTO_JOIN) == "true",
    )


def _children(parent: str, tree: Tree) -> list[str]:
    return sorted(path for path in tree if path.rpartition("/")[0] == parent)


def _resource(paths: layout.ClusterPaths, path: str, tree: Tree) -> Resource:
    record = _record(path, tree)
    model = StateModel.from_record(_record(paths.state_model(_text(record, path, "STATE_MODEL_DEF_REF")), tree))
    mode = _text(record, path, "REBALANCE_MODE")
    if mode not in [each.value for each in RebalanceMode]:
        raise ConfigError(f"{path}: REBALANCE_MODE is {mode!r}; expected one of {', '.join(RebalanceMode)}")
    return Resource(
        name=record.id,
        locks=_number(record, path, "NUM_PARTITIONS"),
        replicas=_number(record, path, "REPLICAS"),
        mode=RebalanceMode(mode),
        rebalancer=record.simple.get("REBALANCER_CLASS_NAME", ""),
        model=model,
    )


def _instance(path: str, tree: Tree) -> Instance:
    record = _record(path, tree)
    return Instance(name=record.id, host=_text(record, path, layout.HOST), port=_number(record, path, layout.PORT))


def _record(path: str, tree: Tree) -> ZNRecord:
    record = tree.get(path)
    if record is None:
        raise ConfigError(f"{path} is {'without data' if path in tree else 'missing'}; expected a Helix record")
    return record


def _text(record: ZNRecord, path: str, field: str) -> str:
    if field not in record.simple:
        raise ConfigError(f"{path}: {field} is missing")
    return record.simple[field]


def _number(record: ZNRecord, path: str, field: str) -> int:
    text = _text(record, path, field)
    found = decimal(text)
    if found is None:
        raise ConfigError(f"{path}: {field} is {quote(text)}; expected a whole number")
    return found


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is declared otherwise than the cluster that is there has it. "" for what one of them lacks."""

    path: str
    field: str
    ours: str
    theirs: str

    def told(self, source: str) -> str:
        """The difference in one line. source: what declares."""
        what = f"{self.path}: {self.field}" if self.field else self.path
        return f"{what}: {source} says {self.ours or 'nothing'}, the cluster has {self.theirs or 'nothing'}"

    def __str__(self) -> str:
        return self.told("the file")


class ClusterDiffers(ConfigError):
    """A thing of that name is there, and it is another one: change what is declared, or choose another name.

    Nothing was written. `differences` has every one. source: what declares, such as "the file".
    """

    def __init__(self, cluster: str, differences: Sequence[Difference], *, source: str = "the file") -> None:
        lines = "\n".join(each.told(source) for each in differences)
        super().__init__(f"cluster {cluster!r} is there and differs from {source}; nothing was written\n{lines}")
        self.differences = tuple(differences)


def to_apply(cluster: Cluster, found: Tree) -> list[Operation]:
    """The transaction that brings what is there to what the file says; empty if nothing is missing.

    found: the cluster that is there, at least all below CONFIGS, IDEALSTATES, STATEMODELDEFS, and every folder; empty
    if there is none. Errors: ClusterDiffers.
    """
    wrong = differences(cluster, found)
    if wrong:
        raise ClusterDiffers(cluster.name, wrong)
    return layout.tree_creates({path: record for path, record in configured(cluster).items() if path not in found})


def differences(cluster: Cluster, found: Tree) -> list[Difference]:
    """The contradictions between the file and the cluster that is there, by path.

    What is missing there is no contradiction. State models that no resource uses are none: Helix adds its own.
    """
    paths = layout.ClusterPaths(cluster.name)
    ours = configured(cluster)
    wrong: list[Difference] = []
    for path, record in ours.items():
        if record is not None and path in found:
            wrong += between(paths, path, record, found[path])
    wrong += [
        Difference(path, "", "", "a resource that the file does not have")
        for path in _children(paths.ideal_states, found)
        if path not in ours
    ]
    if not cluster.allows_joining:  # Otherwise instances enter themselves.
        wrong += [
            Difference(path, "", "", "an instance that the file does not have")
            for path in _children(paths.instance_configs, found)
            if path not in ours
        ]
    return sorted(wrong, key=lambda each: (each.path, each.field))


def between(paths: layout.ClusterPaths, path: str, ours: ZNRecord, theirs: ZNRecord | None) -> Iterator[Difference]:
    """The differences of two records of one path."""
    if theirs is None:
        theirs = ZNRecord(ours.id)
    parent = path.rpartition("/")[0]
    for field in DECLARED:
        mine, other = ours.simple.get(field, ""), theirs.simple.get(field, "")
        if mine != other:
            yield Difference(path, field, mine, other)
    if parent == paths.ideal_states:
        # The bodies of the entries are the controller's business; the names are the locks.
        mine_locks, other_locks = {*ours.maps, *ours.lists}, {*theirs.maps, *theirs.lists}
        if mine_locks != other_locks:
            only = sorted(mine_locks ^ other_locks)
            shown = ", ".join(only[:3]) + (f" and {len(only) - 3} more" if len(only) > 3 else "")
            yield Difference(path, f"locks ({shown})", str(len(mine_locks)), str(len(other_locks)))
    elif parent == paths.state_models:
        for field in sorted({*ours.lists, *theirs.lists}):
            mine, other = ", ".join(ours.lists.get(field, ())), ", ".join(theirs.lists.get(field, ()))
            if mine != other:
                yield Difference(path, field, mine, other)
        # The next hops (`<state>.next`) follow from initial state and transitions; Helix writes some, and we others.
        for field in sorted(each for each in {*ours.maps, *theirs.maps} if each.endswith(".meta")):
            mine, other = ours.maps.get(field, {}).get("count", ""), theirs.maps.get(field, {}).get("count", "")
            if mine != other:
                yield Difference(path, f"{field}.count", mine, other)
