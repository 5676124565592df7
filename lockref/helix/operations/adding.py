"""Add an instance, a resource, or everything that a cluster file declares. What is there already and equal stays."""

from __future__ import annotations

from collections.abc import Sequence

from lockref.coordination.port import Operation, create
from lockref.errors import ConfigError, did_you_mean, quote
from lockref.helix import rebalancers
from lockref.helix.cluster.configured import ClusterDiffers, between, configured, ideal_state, to_apply
from lockref.helix.cluster.declared import Cluster, Instance, RebalanceMode, Resource
from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.operations.operator import Operator
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.state_model import BUILT_IN, LIVE, REPLICAS, UNBOUNDED, StateModel

KNOWN_MODELS = {LOCK_UNLOCK.name: LOCK_UNLOCK, **BUILT_IN}
"""The models that a resource may name although the cluster does not have them yet: they are added with it."""


def apply_cluster(operator: Operator, cluster: Cluster) -> int:
    """Write what a cluster file declares and is not there yet, as one transaction. Returns how many znodes were made.

    Errors: ClusterDiffers if the cluster that is there is another one; ConfigError if the folder is not there.
    """
    made = 0

    def plan() -> Sequence[Operation]:
        nonlocal made
        operations = to_apply(cluster, _tree(operator, cluster))
        made = max(made, len(operations))
        return operations

    if operator.read("/").missing:
        raise ConfigError(f"{operator.hosts} has no folder /{operator.hosts.partition('/')[2]}; make it first")
    operator.carry_out(plan, f"write the cluster {cluster.name!r}")
    return made


def _tree(operator: Operator, cluster: Cluster) -> dict[str, ZNRecord | None]:
    """Every znode of the cluster; nothing if there is none. Of a znode that it does not declare, any text will do.

    Errors: ConfigError where one that it declares holds no record.
    """
    # What the file does not decide is not read: a leader writes HISTORY anew, whatever it holds.
    declared = {path for path, record in configured(cluster).items() if record and not path.endswith("/HISTORY")}
    found: dict[str, ZNRecord | None] = {}
    for path in operator.below(layout.ClusterPaths(cluster.name).root):
        reply = operator.read(path)
        if not reply.missing:
            found[path] = ZNRecord.from_json(reply.body, path) if reply.body and path in declared else None
    return found


def add_instance(operator: Operator, cluster: str, instance: Instance) -> bool:
    """Configure an instance. Returns whether anything of it was missing.

    Errors: ConfigError for a name that cannot be one; ClusterDiffers if there is an instance of that name with another
    host or port.
    """
    _require_name("instance", instance.name)
    paths = layout.ClusterPaths(cluster)
    tree = layout.instance_tree(cluster, instance.name, host=instance.host, port=instance.port)
    path = paths.instance(instance.name).config

    def plan() -> Sequence[Operation]:
        _require_equal(operator, paths, path, tree[path])
        replies = operator.read_all(tree)
        missing = [each for each, reply in zip(tree, replies, strict=True) if reply.missing]
        return layout.tree_creates({each: tree[each] for each in missing})

    return operator.carry_out(plan, f"add instance {instance.name}")


def add_resource(operator: Operator, cluster: str, resource: Resource) -> bool:
    """Configure a resource, and its state model with it if the cluster does not have that. Returns whether it was new.

    Errors: ConfigError for a name that cannot be one, or for a lock that another resource has; ClusterDiffers if there
    is another resource of that name, or another model.
    """
    _require_name("resource", resource.name)
    paths = layout.ClusterPaths(cluster)
    tree = {
        paths.state_model(resource.model.name): resource.model.to_record(),
        paths.ideal_state(resource.name): ideal_state(resource),
    }

    def plan() -> Sequence[Operation]:
        found = {path: _require_equal(operator, paths, path, record) for path, record in tree.items()}
        if not found[paths.ideal_state(resource.name)]:
            _require_own_locks(operator, paths, resource)
        return [create(path, record.to_json()) for path, record in tree.items() if not found[path]]

    return operator.carry_out(plan, f"add resource {resource.name}")


def resource_of(
    operator: Operator, cluster: str, name: str, *, locks: int, model: str, rebalancer: str, replicas: int | None
) -> Resource:
    """A resource as an operator describes it. replicas: None for as many as the model's top state may have.

    model: of the cluster, or one of KNOWN_MODELS. Errors: ConfigError for a model or a rule that is not known, for a
    top state without a bound, and for replicas that contradict the model.
    """
    rebalancers.load(rebalancer)
    path = layout.ClusterPaths(cluster).state_model(model)
    found = operator.record(path)
    if found is None and model not in KNOWN_MODELS:
        known = sorted({*KNOWN_MODELS, *operator.children(layout.ClusterPaths(cluster).state_models)})
        words = f"there is no state model {quote(model)}; expected one of {', '.join(known)}"
        raise ConfigError(f"{words}.{did_you_mean(model, known)}")
    chosen = KNOWN_MODELS[model] if found is None else StateModel.from_record(found[0])
    if problems := chosen.problems():
        raise ConfigError(f"{path} holds no state model: {problems[0]}")
    count = chosen.count(chosen.top)
    if count == UNBOUNDED:
        raise ConfigError(f"state model {model!r}: any number may be {chosen.top}, so nobody is locked out")
    least = count if count not in (REPLICAS, LIVE) else "1"
    if replicas is not None and count != REPLICAS and str(replicas) != least:
        raise ConfigError(f"--replicas is {replicas}; the top state {chosen.top} of {model} has the count {count}")
    return Resource(
        name=name,
        locks=locks,
        replicas=chosen.limit(chosen.top, replicas=replicas or 1, live=1) or 1,
        mode=RebalanceMode.USER_DEFINED,
        rebalancer=rebalancer,
        model=chosen,
    )


def _require_equal(operator: Operator, paths: layout.ClusterPaths, path: str, ours: ZNRecord | None) -> bool:
    """True if the znode is there with what we would write; False if there is none. Errors: ClusterDiffers."""
    found = operator.record(path)
    if found is None or ours is None:
        return found is not None
    wrong = list(between(paths, path, ours, found[0]))
    if wrong:
        raise ClusterDiffers(paths.cluster, wrong, source="the command")
    return True


def _require_own_locks(operator: Operator, paths: layout.ClusterPaths, resource: Resource) -> None:
    """Errors: ConfigError for a lock that another resource has, too."""
    own = dict.fromkeys(resource.lock_names)
    for name in operator.children(paths.ideal_states):
        found = operator.record(paths.ideal_state(name))
        if found is None or name == resource.name:
            continue
        shared = next((each for each in {**found[0].maps, **found[0].lists} if each in own), None)
        if shared is not None:
            raise ConfigError(f"resource {resource.name!r} would have the lock {shared!r}, which is one of {name!r}")


def _require_name(what: str, name: str) -> None:
    """Errors: ConfigError for what cannot be a znode's name."""
    if not name or name in (".", "..") or "/" in name or not name.isprintable():
        raise ConfigError(f"{quote(name)} cannot be the name of the {what}: it is the name of a znode, without a slash")
