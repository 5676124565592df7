"""The questions that an operator asks of a cluster, and the changes that are made in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockref.cli.jobs.cluster.places import operator_at, place_of
from lockref.cli.jobs.cluster.tables import say_status
from lockref.errors import ConfigError
from lockref.helix.cluster.declared import Instance
from lockref.helix.operations import adding, dropping, enabling
from lockref.helix.operations.operator import Operator
from lockref.helix.operations.reading import read_status
from lockref.runtime import ThreadRuntime

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console


def show_status(console: Console, target: str, *, zookeeper: str | None, cluster: str, zombie_after_ns: int) -> int:
    """Print the status of a cluster, as tables or as one document. Returns 0."""
    place = place_of(target, zookeeper=zookeeper, cluster=cluster)
    with operator_at(place, ThreadRuntime()) as (operator, name):
        status = read_status(operator, name, zombie_after_ns=zombie_after_ns)
    if console.as_json:
        console.document(status.document())
    else:
        say_status(console, status, place.hosts)
    return 0


def change(
    console: Console,
    target: str,
    act: Callable[[Operator, str], bool],
    *,
    zookeeper: str | None,
    cluster: str,
    done: str,
    already: str,
) -> int:
    """Change a cluster, and tell whether anything had to be changed. Returns 0. done, already: the words for it."""
    with operator_at(place_of(target, zookeeper=zookeeper, cluster=cluster), ThreadRuntime()) as (operator, name):
        console.say(f"{name}: {done if act(operator, name) else already}")
    return 0


def enable(
    console: Console,
    target: str,
    *,
    is_wanted: bool,
    instance: str,
    resource: str,
    lock: str,
    whole_cluster: bool,
    reason: str = "",
    zookeeper: str | None,
    cluster: str,
) -> int:
    """Enable or disable an instance, one lock on an instance, a resource, or the cluster. Returns 0."""
    if whole_cluster == bool(instance or resource or lock) or (lock and not (instance and resource)):
        raise ConfigError(
            "say what: --instance I, --resource R, --instance I --resource R --lock L, or --whole-cluster"
        )
    if instance and resource and not lock:
        raise ConfigError("--instance with --resource needs --lock: Helix disables single locks on an instance")
    if reason and not (whole_cluster or (instance and not lock)):
        raise ConfigError("--reason is kept for an instance and for the whole cluster alone")

    def act(operator: Operator, name: str) -> bool:
        if whole_cluster:
            return enabling.enable_cluster(operator, name, is_wanted=is_wanted, reason=reason)
        if lock:
            return enabling.enable_lock(
                operator, name, instance=instance, resource=resource, lock=lock, is_wanted=is_wanted
            )
        if instance:
            return enabling.enable_instance(operator, name, instance, is_wanted=is_wanted, reason=reason)
        return enabling.enable_resource(operator, name, resource, is_wanted=is_wanted)

    what = f"resource {resource}" if resource else f"instance {instance}"
    if whole_cluster:
        what = "the whole cluster"
    elif lock:
        what = f"{lock} of {resource} on {instance}"
    word = "enabled" if is_wanted else "disabled"
    already = f"{what} is {word} already; nothing was written"
    return change(
        console, target, act, zookeeper=zookeeper, cluster=cluster, done=f"{what} is {word} now", already=already
    )


def add_instance(
    console: Console, target: str, name: str, *, host: str, port: int, zookeeper: str | None, cluster: str
) -> int:
    """Configure an instance. Returns 0."""
    instance = Instance(name=name, host=host, port=port)
    return change(
        console, target, lambda operator, found: adding.add_instance(operator, found, instance), zookeeper=zookeeper,
        cluster=cluster, done=f"instance {name} is configured at {host}:{port}",
        already=f"instance {name} is configured already, at {host}:{port}; nothing was written",
    )  # fmt: skip


def add_resource(
    console: Console,
    target: str,
    name: str,
    *,
    locks: int,
    model: str,
    rebalancer: str,
    replicas: int | None,
    zookeeper: str | None,
    cluster: str,
) -> int:
    """Configure a resource. Returns 0."""

    def act(operator: Operator, found: str) -> bool:
        resource = adding.resource_of(
            operator, found, name, locks=locks, model=model, rebalancer=rebalancer, replicas=replicas
        )
        return adding.add_resource(operator, found, resource)

    return change(
        console, target, act, zookeeper=zookeeper, cluster=cluster,
        done=f"resource {name} is configured: {locks} locks, {name}_0 to {name}_{locks - 1}, by {rebalancer}",
        already=f"resource {name} is configured already, and equal; nothing was written",
    )  # fmt: skip


def drop(
    console: Console,
    target: str,
    *,
    instance: str,
    resource: str,
    whole_cluster: bool,
    is_forced: bool,
    zookeeper: str | None,
    cluster: str,
) -> int:
    """Remove an instance, a resource, or the cluster. Returns 0."""
    if [bool(instance), bool(resource), whole_cluster].count(True) != 1:
        raise ConfigError("say what to drop: one of --instance I, --resource R and --whole-cluster")
    if whole_cluster and not cluster and target.startswith("zookeeper://"):
        raise ConfigError("--whole-cluster removes everything: name the cluster with --cluster")

    def act(operator: Operator, name: str) -> bool:
        if instance:
            return dropping.drop_instance(operator, name, instance, is_forced=is_forced)
        if resource:
            return dropping.drop_resource(operator, name, resource, is_forced=is_forced)
        return dropping.drop_cluster(operator, name, is_forced=is_forced)

    what = f"instance {instance}" if instance else f"resource {resource}" if resource else "the cluster"
    return change(
        console, target, act, zookeeper=zookeeper, cluster=cluster, done=f"{what} was dropped",
        already=f"there is no {what}; nothing was removed",
    )  # fmt: skip
