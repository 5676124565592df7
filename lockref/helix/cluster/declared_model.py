"""The state model that a resource of the cluster file declares, with its constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lockref.errors import did_you_mean, quote
from lockref.helix.cluster.file_values import FileValues
from lockref.helix.state_model import BUILT_IN, DROPPED, ERROR, UNBOUNDED, StateModel, Transition
from lockref.located_yaml import KeyPath

_PARTS: Final = {"source": "from", "target": "to"}
"""The ends of a transition, and what the file calls them."""


class DeclaredModels:
    """Reads the model of one resource after the other: a later one may name the model of an earlier one."""

    def __init__(self, values: FileValues) -> None:
        self._values = values
        self._models: dict[str, StateModel | None] = {}  # None for one that is wrong.

    def model(self, path: KeyPath, resource: Mapping[str, Any]) -> StateModel | None:
        """The model of the resource at a path."""
        here = (*path, "stateModel")
        if "stateModel" not in resource:
            self._values.wrong(here, "is missing")
            return None
        found = self._values.mapping(here, resource["stateModel"])
        if found is None:
            return None
        name = self._values.name(here, found, "name")
        parts = [(*here, key) for key in ("states", "transitions", "initialState") if key in found]
        if name is not None and name in BUILT_IN:
            parts += [(*path, "constraints")] if "constraints" in resource else []
            for part in parts:
                self._values.wrong(
                    part, f"is declared already: {name} is a built-in model. Leave it out, or rename the model"
                )
            return BUILT_IN[name]
        if name is not None and not parts:
            if name in self._models:
                if "constraints" in resource:
                    words = f"is declared already, with the model {name} of an earlier resource. Leave it out"
                    self._values.wrong((*path, "constraints"), words)
                return self._models[name]
            words = f"is {name!r}; expected {', '.join(BUILT_IN)}, or a list of states beside it"
            self._values.wrong((*here, "name"), f"{words}.{did_you_mean(name, [*BUILT_IN, *self._models])}")
            return None
        before = len(self._values.problems)
        model = self._declared(
            path, found, self._values.mapping((*path, "constraints"), resource.get("constraints", {}))
        )
        if len(self._values.problems) > before:
            model = None
        if name is not None:
            earlier = self._models.setdefault(name, model)
            if model and earlier and model.to_record() != earlier.to_record():
                self._values.wrong(
                    (*here, "name"), f"is {name!r}; an earlier resource declares another model of that name"
                )
        return model

    def _declared(
        self, path: KeyPath, found: Mapping[str, Any], constraints: Mapping[str, Any] | None
    ) -> StateModel | None:
        """The state model that a resource declares. None, or anything, if a problem was found."""
        here, before = (*path, "stateModel"), len(self._values.problems)
        states = self._values.texts((*here, "states"), found, "a list such as [LOCKED, RELEASED, DROPPED]")
        initial = self._values.text(
            here, found, "initialState", f"; expected one of {', '.join(states or ())}" if states else ""
        )
        transitions = self._transitions(here, found)
        counts = self._counts((*path, "constraints"), constraints or {})
        if not states:
            if states is not None:
                self._values.wrong((*here, "states"), "is empty; expected a list of states")
            return None
        model = StateModel(
            name=str(found.get("name")) or "unnamed",
            states=tuple(states),
            initial=initial or "",
            transitions=tuple(transitions.values()),
            counts={state: count for state, (_, count) in counts.items()},
        )
        is_whole = len(self._values.problems) == before
        numbers = list(transitions)
        for part, words in model.flaws():
            if part == ("name",) or (part == ("initial",) and initial is None):
                continue  # Told already.
            if part == ("transitions",) and not is_whole:
                continue  # Whether a state can be reached is asked of complete transitions alone.
            self._values.wrong(_place(path, part, numbers, counts), words)
        order = self._state_order(path, states, constraints or {})
        items = found.get("transitions")
        fields = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        named = [str(each["name"]) for each in fields if "name" in each]
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
            self._values.wrong(path, "is missing; expected a list of {name, from, to}")
            return {}
        made = {}
        for number, item in enumerate(self._values.items(path, found["transitions"], "at least one transition")):
            fields = self._values.mapping((*path, number), item)
            if fields is None:
                continue
            name, source, target = (self._values.text((*path, number), fields, key) for key in ("name", "from", "to"))
            if name is not None and source is not None and target is not None:
                made[number] = Transition(name=name, source=source, target=target)
        return made

    def _counts(self, path: KeyPath, constraints: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
        """State to its number in the list and its count, whatever it says."""
        state = self._values.mapping((*path, "state"), constraints.get("state", {})) or {}
        made: dict[str, tuple[int, str]] = {}
        path = (*path, "state", "counts")
        for number, item in enumerate(self._values.items(path, state["counts"]) if "counts" in state else ()):
            fields = self._values.mapping((*path, number), item)
            if fields is None:
                continue
            name = self._values.text((*path, number), fields, "name")
            if "count" not in fields:
                self._values.wrong((*path, number, "count"), "is missing; expected -1, a number from 1, N or R")
                if name is not None:
                    made[name] = (number, "1")  # Stands in, so that nothing more is said about this state.
            elif name is not None and name in made:
                self._values.wrong((*path, number, "name"), f"is {name!r}; a count of that state stands above")
            elif name is not None:
                count = fields["count"]
                is_number = isinstance(count, int) and not isinstance(count, bool)
                made[name] = (number, str(count) if is_number or isinstance(count, str) else quote(count))
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
            self._values.wrong(path, f"lacks {', '.join(missing)}; expected every state once")
        return None if listed is None or missing else tuple(listed)

    def _transition_order(
        self, path: KeyPath, transitions: Sequence[Transition], named: Sequence[str], constraints: Mapping[str, Any]
    ) -> tuple[Transition, ...] | None:
        """The transitions by priority; those that the list omits come last, in the order of the file.

        named: the names of all transitions, also of those that lack something.
        """
        path = (*path, "constraints", "transition")
        found = self._values.mapping(path, constraints.get("transition", {}))
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
        names = self._values.texts(path, found, "a list of names")
        if names is None:
            return None
        before = len(self._values.problems)
        for number, name in enumerate(names):
            if name not in known:
                words = f"is {quote(name)}; expected one of {', '.join(known)}.{did_you_mean(name, known)}"
                self._values.wrong((*path, number), words)
            elif name in names[:number]:
                self._values.wrong((*path, number), f"{name!r} is listed twice")
        return names if len(self._values.problems) == before else None

    def _check_top(
        self, path: KeyPath, order: Sequence[str], initial: str | None, counts: Mapping[str, tuple[int, str]]
    ) -> None:
        """The first state is that of a holder: it is taken by a transition, and only so many may be in it."""
        top = order[0]
        place: KeyPath = (*path, "constraints", "state", "priorityList", 0)
        if not self._values.is_there(place):
            place = (*path, "stateModel", "states", 0)
        for other, words in ((initial, "the initial state"), (DROPPED, "no holder's"), (ERROR, "no holder's")):
            if top == other:
                self._values.wrong(
                    place, f"is {top!r}, {words}; the first state is that in which an instance holds the lock"
                )
                return
        number, count = counts.get(top, (None, UNBOUNDED))
        if count == UNBOUNDED:
            place = (*path, "constraints", "state", "counts")
            given = "is missing" if number is None else f"is {count!r}"
            place = (*place, top) if number is None else (*place, number, "count")
            words = f"{given}; {top} is the state of a holder, expected how many may hold: a number from 1, N or R"
            self._values.wrong(place, words)


def _place(
    path: KeyPath, part: Sequence[str | int], numbers: Sequence[int], counts: Mapping[str, tuple[int, str]]
) -> KeyPath:
    """The place of a part of a state model in the file. numbers: of the transitions there."""
    kind, *rest = part
    if kind == "counts":
        return (*path, "constraints", "state", "counts", counts[str(rest[0])][0], *rest[1:])
    if kind == "initial":
        return (*path, "stateModel", "initialState")
    if kind == "transitions" and rest:
        rest = [numbers[int(rest[0])], *(_PARTS.get(str(each), each) for each in rest[1:])]
    return (*path, "stateModel", kind, *rest)
