"""Reading scenario files: YAML 1.2, every complaint with file, line and column.

The file is parsed to nodes rather than to values, because nodes know where
they stand; values and their places are then built side by side. YAML 1.2, so
`on`, `off` and `no` are words and `1:30` is no number of seconds. Anchors and
aliases are refused: nothing here needs them, and a few lines of them can
unfold into gigabytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lockref.errors import ConfigError, Location, did_you_mean
from reports.checks.spec import CLAUSES
from scenarios.definition.faults import FAULT_KINDS, FaultSpec
from scenarios.definition.schema import CLAUSE_PATTERN, NAME_PATTERN, Scenario, contradictions
from scenarios.definition.schema import Path as KeyPath
from scenarios.definition.units import shown

BYTES_MAX = 1_000_000
DEPTH_MAX = 24
COMPLAINTS_MAX = 10
CATALOGUE = Path(__file__).parent.parent / "catalogue"

_ITEM = re.compile(r"([A-Za-z])([0-9]{1,2})")
_INTEGER = re.compile(r"[-+]?[0-9]{1,20}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


@dataclass(slots=True)
class _Places:
    """Where each value stands, and where each key does."""

    file: str
    values: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    keys: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)

    def of(self, path: KeyPath, *, key: bool) -> Location:
        """The place of `path`, or of the nearest part of it that is in the file."""
        for length in range(len(path), -1, -1):
            part = path[:length]
            found = (self.keys.get(part) if key else None) or self.values.get(part) or self.keys.get(part)
            if found is not None:
                return Location(self.file, *found)
        return Location(self.file, 1, 1)


def load_scenario(path: str | Path) -> Scenario:
    """The scenario in a file, or of that name in the catalogue: `e08-paused-holder` (`.yaml` or not), `e08`, `E8`.

    Errors: ConfigError with the place, for anything that is wrong with it.
    """
    found = _find(Path(path))
    try:
        with found.open("rb") as file:
            body = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {found}: {error.strerror or error}") from error
    if len(body) > BYTES_MAX:
        raise ConfigError(f"is larger than {BYTES_MAX} bytes; that is no scenario", location=Location(str(found)))
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"is not UTF-8 text (byte {error.start}); that is no scenario", location=Location(str(found), line)
        ) from error
    return parse_scenario(text, file=str(found))


def _find(path: Path) -> Path:
    files = catalogue()
    if path.exists() or path.suffix or path.parent != Path():
        if path.is_dir():
            raise ConfigError(f"{path} is a folder, expected a scenario file (.yaml)")
        if not path.exists():
            if path.parent == Path() and path.name in {file.name for file in files}:
                return CATALOGUE / path.name
            raise ConfigError(f"there is no scenario file {path}{_nearest(path)}")
        return path
    name = path.name
    if item := _ITEM.fullmatch(name):
        # The notes and verdicts write E8, the file's name begins with e08.
        name = f"{item[1].lower()}{int(item[2]):02d}"
    # A whole name is meant as such: `swarm` is not short for `swarm-overload`.
    matches = [file for file in files if file.stem == name] or [
        file for file in files if file.stem.split("-")[0] == name
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ConfigError(f"{name!r} could be {', '.join(file.stem for file in matches)}: write one of them")
    stems = [file.stem for file in files]
    words = [*stems, *(stem.split("-")[0] for stem in stems)]
    raise ConfigError(
        f"there is no scenario {path.name!r} in the catalogue and no such file.{did_you_mean(name, words)} "
        "`lockref scenario list` shows the catalogue"
    )


def _nearest(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    near = did_you_mean(path.name, sorted(file.name for file in path.parent.glob("*.yaml")))
    return f".{near}" if near else ""


def catalogue() -> list[Path]:
    """The scenario files that come with lockref, by name."""
    return sorted(CATALOGUE.glob("*.yaml"))


def parse_scenario(text: str, *, file: str = "<text>") -> Scenario:
    """The scenario that `text` says; `file` is what complaints call it."""
    places = _Places(file)
    value = _values(_compose(text, file), places)
    if not isinstance(value, dict):
        raise ConfigError("a scenario is a mapping that begins with 'version: 1'", location=places.of((), key=False))
    try:
        scenario = Scenario.model_validate(value)
    except ValidationError as error:
        complaints = [_complaint(detail, value, places) for detail in _meant(error.errors(include_url=False))]
    else:
        complaints = [(places.of(path, key=False), _at(path, text)) for path, text in contradictions(scenario)]
        if not complaints:
            return scenario
    complaints.sort(key=lambda complaint: (complaint[0].line or 0, complaint[0].column or 0))
    first, *rest = complaints[:COMPLAINTS_MAX]
    lines = [first[1], *(f"{location}: {message}" for location, message in rest)]
    if len(complaints) > COMPLAINTS_MAX:
        lines.append(f"and {len(complaints) - COMPLAINTS_MAX} more")
    raise ConfigError("\n".join(lines), location=first[0])


def _at(path: KeyPath, message: str) -> str:
    # One complaint is one line, whatever a quoted key contains.
    words = [str(part) if str(part).isprintable() else repr(part) for part in path]
    return f"{'.'.join(words)}: {' '.join(message.splitlines())}"


def _compose(text: str, file: str) -> Node:
    """The one document of the file as nodes; bounded in depth, without aliases."""
    yaml = YAML(typ="safe", pure=True)
    try:
        depth = 0
        for event in yaml.parse(text):
            if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
                mark = event.start_mark
                raise ConfigError(
                    "anchors and aliases are not read; write the value out",
                    location=Location(file, mark.line + 1, mark.column + 1),
                )
            if isinstance(event, CollectionStartEvent):
                depth += 1
                if depth > DEPTH_MAX:
                    mark = event.start_mark
                    raise ConfigError(
                        f"is nested deeper than {DEPTH_MAX} levels",
                        location=Location(file, mark.line + 1, mark.column + 1),
                    )
            elif isinstance(event, CollectionEndEvent):
                depth -= 1
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = Location(file, mark.line + 1, mark.column + 1) if mark else Location(file)
        raise ConfigError(f"is not YAML: {error.problem or error.context}", location=where) from error
    except YAMLError as error:
        line = text[: getattr(error, "position", 0)].count("\n") + 1
        reason = getattr(error, "reason", None) or str(error).splitlines()[0]
        raise ConfigError(f"is not YAML: {reason}", location=Location(file, line)) from error
    if node is None:
        raise ConfigError("is empty; a scenario begins with 'version: 1'", location=Location(file, 1, 1))
    return node


def _values(node: Node, places: _Places, path: KeyPath = ()) -> Any:
    mark = node.start_mark
    places.values[path] = (mark.line + 1, mark.column + 1)
    if not str(node.tag).startswith("tag:yaml.org,2002:") or "python" in str(node.tag):
        raise ConfigError(
            _at(path, f"has the tag {node.tag}; tags are not read"),
            location=Location(places.file, *places.values[path]),
        )
    if isinstance(node, ScalarNode):
        return _scalar(node)
    if isinstance(node, SequenceNode):
        return [_values(item, places, (*path, number)) for number, item in enumerate(node.value)]
    assert isinstance(node, MappingNode), "YAML has three kinds of nodes"
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        here = Location(places.file, key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        if not isinstance(key_node, ScalarNode):
            raise ConfigError("a key is a word", location=here)
        key = str(key_node.value)
        if key in result:
            raise ConfigError(_at((*path, key), "appears a second time"), location=here)
        places.keys[(*path, key)] = (here.line or 1, here.column or 1)
        result[key] = _values(value_node, places, (*path, key))
    return result


def _scalar(node: ScalarNode) -> str | int | float | bool | None:
    text: str = node.value
    if node.style is not None:  # Quoted or block text is text.
        return text
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if text in ("null", "Null", "NULL", "~", ""):
        return None
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


_FRIENDLIER = {
    "missing": "is missing",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "string_type": "expected text",
    "dict_type": "expected a mapping such as {n1: …}",
    "model_type": "expected a mapping",
    "model_attributes_type": "expected a mapping",
    "list_type": "expected a list",
    "too_long": "expected fewer entries",
    "too_short": "expected an entry",
}

_PATTERNS = {
    NAME_PATTERN: "expected lower case letters, digits and hyphens, at most 80",
    CLAUSE_PATTERN: f"expected one of {', '.join(CLAUSES)}",
}


def _meant(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without complaints about the other form of what may be a word or a mapping: a mapping was not meant as a word."""
    words = {error["loc"][:-1] for error in errors if error["type"] == "literal_error"}
    return [
        error
        for error in errors
        if not (error["type"] == "literal_error" and isinstance(error["input"], dict))
        and not (error["type"] == "dict_type" and error["loc"][:-1] in words and isinstance(error["input"], str))
    ]


def _complaint(error: ErrorDetails, value: Any, places: _Places) -> tuple[Location, str]:
    """A pydantic error as one located line."""
    path = _known_path(error["loc"], value)
    kind, context, given = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        near = did_you_mean(str(path[-1]), _siblings(path[:-1], value))
        return places.of(path, key=True), _at(path, f"is no key here.{near}")
    if kind == "union_tag_invalid":
        expected = [name.strip(" '") for name in str(context["expected_tags"]).split(",")]
        near = did_you_mean(str(context["tag"]), expected)
        path = (*path, "kind")
        return places.of(path, key=False), _at(
            path, f"is {context['tag']!r}; expected one of {', '.join(expected)}.{near}"
        )
    if kind == "union_tag_not_found":
        return places.of(path, key=False), _at((*path, "kind"), "is missing")
    if kind == "missing":
        return places.of(path[:-1], key=False), _at(path, "is missing")
    if kind == "value_error":
        message = str(context["error"])
    elif kind == "literal_error":
        near = did_you_mean(str(given), re.findall(r"'([^']*)'", str(context["expected"])))
        message = f"is {shown(given)}; expected {context['expected']}.{near}"
    else:
        said = _PATTERNS.get(str(context.get("pattern"))) or _FRIENDLIER.get(kind) or _lower(error["msg"])
        message = f"is {shown(given)}; {said}"
    return places.of(path, key=False), _at(path, message)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _known_path(loc: tuple[str | int, ...], value: Any) -> KeyPath:
    """`loc` without the steps that pydantic adds for unions: those that are nowhere in the file."""
    path: list[str | int] = []
    here = value
    for number, step in enumerate(loc):
        if isinstance(here, dict):
            if step in here:
                path.append(step)
                here = here[str(step)]
            elif number == len(loc) - 1 and not _is_union_step(str(step)):
                path.append(step)
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            path.append(step)
            here = here[step]
    return tuple(path)


def _is_union_step(step: str) -> bool:
    return "[" in step or step == "str" or step in FAULT_KINDS


def _siblings(path: KeyPath, value: Any) -> list[str]:
    """The keys that the model at `path` knows, for a suggestion."""
    model: type[BaseModel] | None = Scenario
    here = value
    for step in path:
        here = here[step]
        if isinstance(step, int) or model is None:
            candidates = _models(FaultSpec) if path[0] == "faults" else [model] if model is not None else []
        elif step in model.model_fields:
            candidates = _models(model.model_fields[str(step)].annotation)
        else:
            continue  # A client's name in a mapping: the model behind it stays.
        kind = here.get("kind", "") if isinstance(here, dict) else ""
        model = next((each for each in candidates if len(candidates) == 1 or _kind_of(each) == kind), None)
    return [name.alias or key for key, name in model.model_fields.items()] if model is not None else []


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _kind_of(model: type[BaseModel]) -> str:
    field = model.model_fields.get("kind")
    return str(get_args(field.annotation)[0]) if field is not None and get_args(field.annotation) else ""
