"""The cluster file: one YAML document that declares a cluster, its locks and the instances that may hold them.

The keys are those of Helix' `YAMLClusterSetup`. Helix applies a file while it reads it, so an error in line 50 leaves
in ZooKeeper what lines 1 to 49 said. And Helix never tells some slips (Z17): an unknown rebalance mode becomes
SEMI_AUTO, an unknown transition in a priority list is overlooked. Here the whole file is read and checked first. Every
problem is told at once, with line and column, and there is no cluster unless there is no problem.

Two checks are ours. A count is accepted wherever it means something: Helix refuses two states with the count 1, and
"LOCKED 2, the rest -1". And the top state must be bounded: a lock that any number may hold is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from lockref.coordination.port import ZNODE_BYTES_MAX
from lockref.errors import ConfigError, Location, did_you_mean, shown
from lockref.helix import rebalancers
from lockref.helix.cluster import Cluster, Instance, RebalanceMode, Resource
from lockref.helix.configured import creates
from lockref.helix.state_model import BUILT_IN, DROPPED, ERROR, LIVE, REPLICAS, UNBOUNDED, StateModel, Transition
from lockref.located_yaml import KeyPath, Places, at, parse, read_text

DOCUMENT: Final = "cluster file"
BEGINNING: Final = "clusterName: my-locks"

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("clusterName", "resources", "participants", "autoJoinAllowed"),
    "resources": ("name", "rebalancer", "partitions", "stateModel", "constraints"),
    "rebalancer": ("mode", "class"),
    "partitions": ("count", "replicas"),
    "stateModel": ("name", "states", "transitions", "initialState"),
    "transitions": ("name", "from", "to"),
    "constraints": ("state", "transition"),
    "state": ("counts", "priorityList"),
    "counts": ("name", "count"),
    "transition": ("priorityList",),
    "participants": ("name", "host", "port"),
}
"""The keys of each mapping, by the key that leads to it."""

UNSUPPORTED: Final = {"batchMessageMode": "is not supported: every message carries one transition. Leave the key out"}
"""Keys that some version of Helix has, and why they are refused."""

OPERATION_BYTES: Final = 64
"""What a transaction adds to the path and the body of each znode, at most."""

LOCKS_MAX: Final = ZNODE_BYTES_MAX // 17
"""No ideal state has more locks: the shortest name takes 17 bytes there."""

_PORTS = (1, 65_535)
_PARTS = {"source": "from", "target": "to"}
_NO_ZNODE = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""What ZooKeeper does not allow in a path, and the separator itself."""


class Problem(NamedTuple):
    """One thing that is wrong in the file, with its place."""

    location: Location
    message: str

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


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
    reader = _Reader(places)
    cluster = reader.cluster(value)
    if cluster is not None and not reader.problems:
        return cluster
    assert reader.problems, "no cluster, and nothing said about it"
    order = sorted(reader.problems, key=lambda each: (each.location.line or 0, each.location.column or 0))
    raise ClusterFileError(order)


def _only(error: ConfigError, file: str) -> ClusterFileError:
    return ClusterFileError([Problem(error.location or Location(file), error.message)])


class _Reader:
    """Walks through the file once and collects what is wrong.

    What cannot be read is None, and its problem is told where it is read; whatever depends on it is then not checked.
    """

    def __init__(self, places: Places) -> None:
        self.problems: list[Problem] = []
        self._places = places
        self._models: dict[str, StateModel | None] = {}  # Those that earlier resources declare; None for a wrong one.

    def cluster(self, value: Mapping[str, Any]) -> Cluster | None:
        found = self._keys((), value)
        name = self._name((), found, "clusterName")
        if name == "zookeeper":
            self._wrong(("clusterName",), "is 'zookeeper'; the server keeps its own znodes there")
        resources = self._resources(found)
        instances = self._instances(found)
        may_join = found.get("autoJoinAllowed", False)
        if not isinstance(may_join, bool):
            self._wrong(("autoJoinAllowed",), f"{_is(may_join)}; expected true or false")
        if self.problems or name is None:
            return None
        cluster = Cluster(name=name, resources=resources, instances=instances, allows_joining=may_join)
        size = sum(len(each.path.encode()) + len(each.body) + OPERATION_BYTES for each in creates(cluster))
        if size > ZNODE_BYTES_MAX:
            words = f"the cluster takes {size} bytes; one transaction holds {ZNODE_BYTES_MAX}. Declare fewer locks"
            self._wrong(("resources",), words)
        return cluster

    # Resources.

    def _resources(self, found: Mapping[str, Any]) -> tuple[Resource, ...]:
        if "resources" not in found:
            self._wrong(("resources",), "is missing; at least one resource is required")
            return ()
        items = self._list(("resources",), found["resources"], "at least one resource")
        names: set[str] = set()
        made = [self._resource(("resources", number), item, names) for number, item in enumerate(items)]
        return tuple(each for each in made if each is not None)

    def _resource(self, path: KeyPath, value: Any, names: set[str]) -> Resource | None:
        found = self._mapping(path, value)
        if found is None:
            return None
        name = self._name(path, found, "name", names)
        rebalancer = self._rebalancer(path, found)
        model = self._model(path, found)
        locks, replicas = self._partitions(path, found, model)
        if name is None or rebalancer is None or model is None or locks is None or replicas is None:
            return None
        is_recipes = rebalancer == rebalancers.RECIPES_CLASS
        return Resource(
            name=name,
            locks=locks,
            replicas=replicas,
            mode=RebalanceMode.USER_DEFINED,
            rebalancer="mod" if is_recipes else rebalancer,
            model=model,
            java_class=rebalancer if is_recipes else "",
        )

    def _rebalancer(self, path: KeyPath, resource: Mapping[str, Any]) -> str | None:
        path = (*path, "rebalancer")
        found = self._mapping(path, resource.get("rebalancer", {}))
        if found is None:
            return None
        served = RebalanceMode.USER_DEFINED.value
        mode = self._text(path, found, "mode", f"; expected {served}")
        if mode is not None and mode != served:
            if mode in list(RebalanceMode):
                words = f"is {mode!r}, which lockref does not serve; expected {served}, with a class such as sticky"
            else:
                words = f"is {shown(mode)}; expected {served}.{did_you_mean(mode, [served])}"
            self._wrong((*path, "mode"), words)
            if "class" not in found:
                return None
        known = (*rebalancers.REBALANCERS, rebalancers.RECIPES_CLASS)
        expected = f"; expected one of {', '.join(known)}, or module:function or path/file.py:function"
        name = self._text(path, found, "class", expected)
        if name is None:
            return None
        try:
            rebalancers.load(name)
        except ConfigError as error:
            self._wrong((*path, "class"), error.message)
            return None
        return name

    def _partitions(
        self, path: KeyPath, resource: Mapping[str, Any], model: StateModel | None
    ) -> tuple[int | None, int | None]:
        """How many locks, and how many holders each may have."""
        path = (*path, "partitions")
        found = self._mapping(path, resource.get("partitions", {}))
        if found is None:
            return None, None
        locks = self._whole((*path, "count"), found.get("count", 1), 1)
        if locks is not None and locks > LOCKS_MAX:
            self._wrong((*path, "count"), f"is {locks}; one resource holds at most {LOCKS_MAX} locks")
        replicas = self._whole((*path, "replicas"), found.get("replicas", 1), 1)
        if replicas is None or model is None:
            return locks, replicas
        path, count = (*path, "replicas"), model.counts.get(model.top, UNBOUNDED)
        if count == LIVE:
            if "replicas" in found:
                words = (
                    f"is {replicas}, but the count N of {model.top} lets every live instance hold; leave replicas out"
                )
                self._wrong(path, words)
        elif count != REPLICAS and replicas != int(count):
            given = f"is {replicas}" if "replicas" in found else "is missing, which means 1"
            self._wrong(path, f"{given}; the top state {model.top} has the count {count}, expected {count}")
        return locks, replicas

    # State models.

    def _model(self, path: KeyPath, resource: Mapping[str, Any]) -> StateModel | None:
        here = (*path, "stateModel")
        if "stateModel" not in resource:
            self._wrong(here, "is missing")
            return None
        found = self._mapping(here, resource["stateModel"])
        if found is None:
            return None
        name = self._name(here, found, "name")
        parts = [(*here, key) for key in ("states", "transitions", "initialState") if key in found]
        if name in BUILT_IN:
            parts += [(*path, "constraints")] if "constraints" in resource else []
            for part in parts:
                self._wrong(part, f"is declared already: {name} is a built-in model. Leave it out, or rename the model")
            return BUILT_IN[name]
        if name is not None and not parts:
            if name in self._models:
                return self._models[name]
            words = f"is {name!r}; expected {', '.join(BUILT_IN)}, or a list of states beside it"
            self._wrong((*here, "name"), f"{words}.{did_you_mean(name, [*BUILT_IN, *self._models])}")
            return None
        before = len(self.problems)
        model = self._declared(path, found, self._mapping((*path, "constraints"), resource.get("constraints", {})))
        if len(self.problems) > before:
            model = None
        if name is not None:
            earlier = self._models.setdefault(name, model)
            if model and earlier and model.to_record() != earlier.to_record():
                self._wrong((*here, "name"), f"is {name!r}; an earlier resource declares another model of that name")
        return model

    def _declared(
        self, path: KeyPath, found: Mapping[str, Any], constraints: Mapping[str, Any] | None
    ) -> StateModel | None:
        """The state model that a resource declares. None, or anything, if a problem was found."""
        here, before = (*path, "stateModel"), len(self.problems)
        states = self._texts((*here, "states"), found, "a list such as [LOCKED, RELEASED, DROPPED]")
        initial = self._text(
            here, found, "initialState", f"; expected one of {', '.join(states or ())}" if states else ""
        )
        transitions = self._transitions(here, found)
        counts = self._counts((*path, "constraints"), constraints or {})
        if not states:
            if states is not None:
                self._wrong((*here, "states"), "is empty; expected a list of states")
            return None
        model = StateModel(
            name=str(found.get("name")) or "unnamed",
            states=tuple(states),
            initial=initial or "",
            transitions=tuple(transitions.values()),
            counts={state: count for state, (_, count) in counts.items()},
        )
        is_whole = len(self.problems) == before
        numbers = list(transitions)
        for part, words in model.flaws():
            if part == ("name",) or (part == ("initial",) and initial is None):
                continue  # Told already.
            if part == ("transitions",) and not is_whole:
                continue  # Whether a state can be reached is asked of complete transitions alone.
            self._wrong(_place(path, part, numbers, counts), words)
        order = self._state_order(path, states, constraints or {})
        items = found.get("transitions")
        named = [item.get("name") for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        named = [name for name in named if isinstance(name, str)]
        priorities = self._transition_order(path, model.transitions, named, constraints or {})
        if order is None or priorities is None:
            return None
        self._check_top(path, order, initial, counts)
        return StateModel(
            name=model.name, states=order, initial=model.initial, transitions=priorities, counts=model.counts
        )

    def _transitions(self, path: KeyPath, found: Mapping[str, Any]) -> dict[int, Transition]:
        """The complete transitions by their number in the file."""
        path = (*path, "transitions")
        if "transitions" not in found:
            self._wrong(path, "is missing; expected a list of {name, from, to}")
            return {}
        made = {}
        for number, item in enumerate(self._list(path, found["transitions"], "at least one transition")):
            fields = self._mapping((*path, number), item)
            if fields is None:
                continue
            name, source, target = (self._text((*path, number), fields, key) for key in ("name", "from", "to"))
            if name is not None and source is not None and target is not None:
                made[number] = Transition(name=name, source=source, target=target)
        return made

    def _counts(self, path: KeyPath, constraints: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
        """State to its number in the list and its count, whatever it says."""
        state = self._mapping((*path, "state"), constraints.get("state", {})) or {}
        made: dict[str, tuple[int, str]] = {}
        path = (*path, "state", "counts")
        for number, item in enumerate(self._list(path, state["counts"]) if "counts" in state else ()):
            fields = self._mapping((*path, number), item)
            if fields is None:
                continue
            name = self._text((*path, number), fields, "name")
            if "count" not in fields:
                self._wrong((*path, number, "count"), "is missing; expected -1, a number from 1, N or R")
                if name is not None:
                    made[name] = (number, "1")  # Stands in, so that nothing more is said about this state.
            elif name is not None and name in made:
                self._wrong((*path, number, "name"), f"is {name!r}; a count of that state stands above")
            elif name is not None:
                count = fields["count"]
                is_number = isinstance(count, int) and not isinstance(count, bool)
                made[name] = (number, str(count) if is_number or isinstance(count, str) else shown(count))
        return made

    def _state_order(
        self, path: KeyPath, states: Sequence[str], constraints: Mapping[str, Any]
    ) -> tuple[str, ...] | None:
        """The states by priority: as the list says, otherwise as the file declares them."""
        state = constraints.get("state")
        if not isinstance(state, dict) or "priorityList" not in state:
            return tuple(states)
        path = (*path, "constraints", "state", "priorityList")
        listed = self._listed(path, state, states)
        missing = [each for each in states if listed is not None and each not in listed]
        if missing:
            self._wrong(path, f"lacks {', '.join(missing)}; expected every state once")
        return None if listed is None or missing else tuple(listed)

    def _transition_order(
        self, path: KeyPath, transitions: Sequence[Transition], named: Sequence[str], constraints: Mapping[str, Any]
    ) -> tuple[Transition, ...] | None:
        """The transitions by priority; those that the list omits come last, in the order of the file.

        named: the names of all transitions, also of those that lack something.
        """
        path = (*path, "constraints", "transition")
        found = self._mapping(path, constraints.get("transition", {}))
        by_name = {each.name: each for each in transitions}
        if found is None:
            return None
        if "priorityList" not in found:
            return tuple(transitions)
        listed = self._listed((*path, "priorityList"), found, named) if named else None
        if listed is None:
            return None
        return tuple(by_name[name] for name in dict.fromkeys([*listed, *by_name]) if name in by_name)

    def _listed(self, path: KeyPath, found: Mapping[str, Any], known: Sequence[str]) -> list[str] | None:
        """A priority list: known names, none twice. None if it is wrong."""
        names = self._texts(path, found, "a list of names")
        if names is None:
            return None
        before = len(self.problems)
        for number, name in enumerate(names):
            if name not in known:
                words = f"is {shown(name)}; expected one of {', '.join(known)}.{did_you_mean(name, known)}"
                self._wrong((*path, number), words)
            elif name in names[:number]:
                self._wrong((*path, number), f"{name!r} is listed twice")
        return names if len(self.problems) == before else None

    def _check_top(
        self, path: KeyPath, order: Sequence[str], initial: str | None, counts: Mapping[str, tuple[int, str]]
    ) -> None:
        """The first state is that of a holder: it is taken by a transition, and only so many may be in it."""
        top = order[0]
        place: KeyPath = (*path, "constraints", "state", "priorityList", 0)
        if place not in self._places.values:
            place = (*path, "stateModel", "states", 0)
        for other, words in ((initial, "the initial state"), (DROPPED, "no holder's"), (ERROR, "no holder's")):
            if top == other:
                self._wrong(place, f"is {top!r}, {words}; the first state is that in which an instance holds the lock")
                return
        number, count = counts.get(top, (None, UNBOUNDED))
        if count == UNBOUNDED:
            place = (*path, "constraints", "state", "counts")
            given = "is missing" if number is None else f"is {count!r}"
            place = (*place, top) if number is None else (*place, number, "count")
            words = f"{given}; {top} is the state of a holder, expected how many may hold: a number from 1, N or R"
            self._wrong(place, words)

    # Participants.

    def _instances(self, found: Mapping[str, Any]) -> tuple[Instance, ...]:
        path: KeyPath = ("participants",)
        names: set[str] = set()
        made = []
        for number, item in enumerate(self._list(path, found["participants"]) if "participants" in found else ()):
            here = (*path, number)
            fields = self._mapping(here, item)
            if fields is None:
                continue
            name, host = self._name(here, fields, "name", names), self._text(here, fields, "host")
            port = None
            if "port" not in fields:
                self._wrong((*here, "port"), "is missing")
            else:
                port = self._whole((*here, "port"), fields["port"], *_PORTS)
            if name is not None and host is not None and port is not None:
                made.append(Instance(name=name, host=host, port=port))
        return tuple(made)

    # Values of one kind.

    def _wrong(self, path: KeyPath, message: str, *, key: bool = False) -> None:
        self.problems.append(Problem(self._places.of(path, key=key), at(path, message)))

    def _mapping(self, path: KeyPath, value: Any) -> Mapping[str, Any] | None:
        if not isinstance(value, dict):
            keys = ", ".join(self._known(path))
            self._wrong(path, f"{_is(value)}; expected a mapping of {keys}")
            return None
        return self._keys(path, value)

    def _keys(self, path: KeyPath, value: Mapping[str, Any]) -> Mapping[str, Any]:
        known = self._known(path)
        for key in value:
            if key not in known:
                words = UNSUPPORTED.get(key, f"is no key here.{did_you_mean(key, known)}")
                self._wrong((*path, key), words, key=True)
        return value

    def _known(self, path: KeyPath) -> tuple[str, ...]:
        """The keys of the mapping at a path."""
        return KEYS[next((str(part) for part in reversed(path) if isinstance(part, str)), "")]

    def _list(self, path: KeyPath, value: Any, least: str = "") -> Iterable[Any]:
        if not isinstance(value, list):
            self._wrong(path, f"{_is(value)}; expected a list")
            return ()
        if least and not value:
            self._wrong(path, f"is empty; {least} is required")
        return value

    def _texts(self, path: KeyPath, found: Mapping[str, Any], expected: str) -> list[str] | None:
        """A list of names under the last key of the path."""
        if path[-1] not in found:
            self._wrong(path, f"is missing; expected {expected}")
            return None
        value = found[str(path[-1])]
        if not isinstance(value, list):
            self._wrong(path, f"{_is(value)}; expected {expected}")
            return None
        made = [self._text_at((*path, number), item) for number, item in enumerate(value)]
        return None if None in made else [each for each in made if each is not None]

    def _text(self, path: KeyPath, found: Mapping[str, Any], key: str, expected: str = "") -> str | None:
        if key not in found:
            self._wrong((*path, key), f"is missing{expected}")
            return None
        return self._text_at((*path, key), found[key])

    def _text_at(self, path: KeyPath, value: Any) -> str | None:
        if isinstance(value, str) and value:
            return value
        quotes = " in quotes" if isinstance(value, (bool, int, float)) else ""
        self._wrong(path, f"{_is(value)}; expected text{quotes}")
        return None

    def _name(self, path: KeyPath, found: Mapping[str, Any], key: str, names: set[str] | None = None) -> str | None:
        """A name that becomes a znode. names: those of the others of its kind, to which it is added."""
        name = self._text(path, found, key)
        if name is None:
            return None
        if name in (".", "..") or _NO_ZNODE.search(name):
            self._wrong(
                (*path, key), f"is {shown(name)}; a name is part of a path, so it has no '/' and is not '.' or '..'"
            )
            return None
        if names is not None:
            if name in names:
                self._wrong((*path, key), f"is {shown(name)}; another one above has that name")
            names.add(name)
        return name

    def _whole(self, path: KeyPath, value: Any, least: int, most: int | None = None) -> int | None:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and value >= least and (most is None or value <= most):
            return int(value)
        expected = f"from {least}" if most is None else f"from {least} to {most}"
        quotes = " without quotes" if isinstance(value, str) and value.strip("-").isdigit() else ""
        self._wrong(path, f"{_is(value)}; expected a whole number {expected}{quotes}")
        return None


def _is(value: Any) -> str:
    """How a message about a value begins."""
    if value is None:
        return "has no value"
    if isinstance(value, bool):
        return f"is {str(value).lower()}"
    if isinstance(value, (dict, list)):
        return f"is a {'mapping' if isinstance(value, dict) else 'list'}"
    return f"is {shown(value)}"


def _place(
    path: KeyPath, part: Sequence[str | int], numbers: Sequence[int], counts: Mapping[str, tuple[int, str]]
) -> KeyPath:
    """Where a part of a state model stands in the file. numbers: of the transitions there."""
    kind, *rest = part
    if kind == "counts":
        return (*path, "constraints", "state", "counts", counts[str(rest[0])][0], *rest[1:])
    if kind == "initial":
        return (*path, "stateModel", "initialState")
    if kind == "transitions" and rest:
        rest = [numbers[int(rest[0])], *(_PARTS.get(str(each), each) for each in rest[1:])]
    return (*path, "stateModel", kind, *rest)
