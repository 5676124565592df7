"""The cluster file: one YAML document that declares a cluster, its locks and the instances that may hold them.

The keys are those of Helix' `YAMLClusterSetup`. Helix applies a file while it reads it, so an error in line 50 leaves
in ZooKeeper what lines 1 to 49 said. And Helix never tells some slips (Z17): an unknown rebalance mode becomes
SEMI_AUTO, an unknown transition in a priority list is overlooked. Here the whole file is read and checked first. Every
problem is told at once, with line and column, and there is no cluster unless there is no problem.

Two checks are ours. A count is accepted wherever it means something: Helix refuses two states with the count 1, and
"LOCKED 2, the rest -1". And the top state must be bounded: a lock that any number may hold is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lockref.coordination.port import ZNODE_BYTES_MAX
from lockref.errors import ConfigError, Location, did_you_mean, quote
from lockref.helix import rebalancers
from lockref.helix.cluster.configured import creates
from lockref.helix.cluster.declared import Cluster, Instance, RebalanceMode, Resource
from lockref.helix.cluster.declared_model import DeclaredModels
from lockref.helix.cluster.file_values import FileValues, Problem, said_of
from lockref.helix.state_model import LIVE, REPLICAS, StateModel
from lockref.located_yaml import KeyPath, parse, read_text

DOCUMENT: Final = "cluster file"
BEGINNING: Final = "clusterName: my-locks"

OPERATION_BYTES: Final = 64
"""What a transaction adds to the path and the body of each znode, at most."""

LOCKS_MAX: Final = ZNODE_BYTES_MAX // 17
"""No ideal state has more locks: the shortest name takes 17 bytes there."""

_PORTS: Final = (1, 65_535)


class ClusterFileError(ConfigError):
    """The cluster file is wrong: mend every one of `problems`, in the order of the file. Nothing was written."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first, *rest = problems
        super().__init__("\n".join([first.message, *map(str, rest)]), location=first.location)
        self.problems = tuple(problems)


def load_cluster(path: str | Path) -> Cluster:
    """The cluster that a file declares. Errors: ClusterFileError with every problem."""
    path = Path(path)
    if path.is_dir():
        raise ClusterFileError([Problem(Location(str(path)), f"is a folder; expected a {DOCUMENT} (.yaml)")])
    if path.is_symlink() and not path.exists():
        raise ClusterFileError([Problem(Location(str(path)), "is a link that leads to no file")])
    if not path.exists():
        beside = sorted(each.name for each in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
        words = f"there is no such file.{did_you_mean(path.name, beside)}"
        raise ClusterFileError([Problem(Location(str(path)), words)])
    try:
        text = read_text(path, document=DOCUMENT)
    except ConfigError as error:
        raise _only(error, str(path)) from error
    return parse_cluster(text, file=str(path))


def parse_cluster(text: str, *, file: str = "<text>") -> Cluster:
    """The cluster that `text` declares; `file` is what problems call it. Errors: ClusterFileError."""
    try:
        value, places = parse(text, file=file, document=DOCUMENT, beginning=BEGINNING)
    except ConfigError as error:
        raise _only(error, file) from error
    values = FileValues(places)
    cluster = _Reader(values).cluster(value)
    if cluster is not None and not values.problems:
        return cluster
    assert values.problems, "no cluster, and nothing said about it"
    order = sorted(values.problems, key=lambda each: (each.location.line or 0, each.location.column or 0))
    raise ClusterFileError(order)


def _only(error: ConfigError, file: str) -> ClusterFileError:
    return ClusterFileError([Problem(error.location or Location(file), error.message)])


class _Reader:
    """Walks through the file once and has its values collect what is wrong."""

    def __init__(self, values: FileValues) -> None:
        self._values = values
        self._models = DeclaredModels(values)

    def cluster(self, value: Mapping[str, Any]) -> Cluster | None:
        """The cluster, or None and at least one problem."""
        found = self._values.keys((), value)
        name = self._values.name((), found, "clusterName")
        if name == "zookeeper":
            self._values.wrong(("clusterName",), "is 'zookeeper'; the server keeps its own znodes there")
        resources = self._resources(found)
        instances = self._instances(found)
        may_join = found.get("autoJoinAllowed", False)
        if not isinstance(may_join, bool):
            self._values.wrong(("autoJoinAllowed",), f"{said_of(may_join)}; expected true or false")
        if self._values.problems or name is None:
            return None
        cluster = Cluster(name=name, resources=resources, instances=instances, allows_joining=may_join)
        size = sum(len(each.path.encode()) + len(each.body) + OPERATION_BYTES for each in creates(cluster))
        if size > ZNODE_BYTES_MAX:
            words = f"the cluster takes {size} bytes; one transaction holds {ZNODE_BYTES_MAX}. Declare less"
            self._values.wrong(("resources",), words)
        return cluster

    # Resources.

    def _resources(self, found: Mapping[str, Any]) -> tuple[Resource, ...]:
        if "resources" not in found:
            self._values.wrong(("resources",), "is missing; at least one resource is required")
            return ()
        items = self._values.items(("resources",), found["resources"], "at least one resource")
        names: set[str] = set()
        made = [self._resource(("resources", number), item, names) for number, item in enumerate(items)]
        return tuple(each for each in made if each is not None)

    def _resource(self, path: KeyPath, value: Any, names: set[str]) -> Resource | None:
        found = self._values.mapping(path, value)
        if found is None:
            return None
        name = self._values.name(path, found, "name", names)
        rebalancer = self._rebalancer(path, found)
        model = self._models.model(path, found)
        locks, replicas = self._partitions(path, found, model)
        if name is None or rebalancer is None or model is None or locks is None or replicas is None:
            return None
        return Resource(
            name=name,
            locks=locks,
            replicas=replicas,
            mode=RebalanceMode.USER_DEFINED,
            rebalancer=rebalancer,
            model=model,
        )

    def _rebalancer(self, path: KeyPath, resource: Mapping[str, Any]) -> str | None:
        path = (*path, "rebalancer")
        found = self._values.mapping(path, resource.get("rebalancer", {}))
        if found is None:
            return None
        served = RebalanceMode.USER_DEFINED.value
        mode = self._values.text(path, found, "mode", f"; expected {served}")
        if mode is not None and mode != served:
            if mode in list(RebalanceMode):
                words = f"is {mode!r}, which lockref does not serve; expected {served}, with a class such as sticky"
            else:
                words = f"is {quote(mode)}; expected {served}.{did_you_mean(mode, [served])}"
            self._values.wrong((*path, "mode"), words)
            if "class" not in found:
                return None
        known = ", ".join(rebalancers.REBALANCERS)
        expected = f"; expected one of {known}, or module:function or path/file.py:function"
        name = self._values.text(path, found, "class", expected)
        if name is None:
            return None
        try:
            rebalancers.load(name)
        except ConfigError as error:
            self._values.wrong((*path, "class"), error.message)
            return None
        return name

    def _partitions(
        self, path: KeyPath, resource: Mapping[str, Any], model: StateModel | None
    ) -> tuple[int | None, int | None]:
        """The number of locks, and the number of holders that each lock may have."""
        path = (*path, "partitions")
        found = self._values.mapping(path, resource.get("partitions", {}))
        if found is None:
            return None, None
        locks = self._values.whole((*path, "count"), found.get("count", 1), 1)
        if locks is not None and locks > LOCKS_MAX:
            self._values.wrong((*path, "count"), f"is {locks}; one resource holds at most {LOCKS_MAX} locks")
        replicas = self._values.whole((*path, "replicas"), found.get("replicas", 1), 1)
        if replicas is None or model is None:
            return locks, replicas
        path, count = (*path, "replicas"), model.count(model.top)
        if count == LIVE:
            if "replicas" in found:
                words = (
                    f"is {replicas}, but the count N of {model.top} lets every live instance hold; leave replicas out"
                )
                self._values.wrong(path, words)
        elif count != REPLICAS and replicas != int(count):
            # Where a state below the top one has the count R, replicas counts its instances too (MasterSlave's SLAVE).
            if REPLICAS in model.counts.values() and 0 < int(count) < replicas:
                return locks, replicas
            given = f"is {replicas}" if "replicas" in found else "is missing, which means 1"
            self._values.wrong(path, f"{given}; the top state {model.top} has the count {count}, expected {count}")
        return locks, replicas

    # Participants.

    def _instances(self, found: Mapping[str, Any]) -> tuple[Instance, ...]:
        path: KeyPath = ("participants",)
        names: set[str] = set()
        made = []
        items = self._values.items(path, found["participants"]) if "participants" in found else ()
        for number, item in enumerate(items):
            here = (*path, number)
            fields = self._values.mapping(here, item)
            if fields is None:
                continue
            name, host = self._values.name(here, fields, "name", names), self._values.text(here, fields, "host")
            port = None
            if "port" not in fields:
                self._values.wrong((*here, "port"), "is missing")
            else:
                port = self._values.whole((*here, "port"), fields["port"], *_PORTS)
            if name is not None and host is not None and port is not None:
                made.append(Instance(name=name, host=host, port=port))
        return tuple(made)
