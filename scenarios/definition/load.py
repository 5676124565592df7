"""Reading scenario files: every complaint with file, line and column (`lockref.located_yaml`)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lockref.errors import ConfigError, Location, did_you_mean, quote
from lockref.located_yaml import KeyPath, Places, at, parse, read_text
from reports.checks.spec import CLAUSES
from scenarios.definition.contradictions import contradictions
from scenarios.definition.fault_forms import FaultSpec
from scenarios.definition.faults import FAULT_KINDS
from scenarios.definition.schema import CLAUSE_PATTERN, NAME_PATTERN, Scenario

COMPLAINTS_MAX = 10
CATALOGUE = Path(__file__).parent.parent / "catalogue"
SEARCHED = Path(__file__).parent.parent / "search"
"""The folder of the small worlds that searches take: known by name, and in no catalogue."""

_ITEM = re.compile(r"([A-Za-z])([0-9]{1,2})")


def load_scenario(path: str | Path, *, may_import: bool = True) -> Scenario:
    """The scenario in a file, or of that name in the catalogue: `e08-paused-holder` (`.yaml` or not), `e08`, `E8`.

    So are the worlds of searches (`scenarios.search.worlds`).
    may_import: also look at the locks and programs that it names, which imports them.
    Errors: ConfigError with the place, for anything that is wrong with it.
    """
    found = find_scenario(Path(path))
    # The catalogue's files do not change while a program runs, and a gate asks for each of them several times.
    read = _read_once if found.parent == CATALOGUE else _read
    return read(found, may_import)


def _read(file: Path, may_import: bool) -> Scenario:
    return parse_scenario(read_text(file, document="scenario"), file=str(file), may_import=may_import)


_read_once = cache(_read)


def find_scenario(path: Path) -> Path:
    """The file that `load_scenario` reads for this name. Raises ConfigError if there is none."""
    if path.exists() or path.suffix or path.parent != Path():
        if path.is_dir():
            raise ConfigError(f"{path} is a folder, expected a scenario file (.yaml)")
        if not path.exists():
            if path.parent == Path() and path.name in {file.name for file in catalogue()}:
                return CATALOGUE / path.name
            raise ConfigError(f"there is no scenario file {path}{_nearest(path)}")
        return path
    name = path.name
    if item := _ITEM.fullmatch(name):
        # The notes and verdicts write E8, the file's name begins with e08.
        name = f"{item[1].lower()}{int(item[2]):02d}"
    if (small := SEARCHED / f"{name}.yaml").is_file():
        return small
    files = catalogue()
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


def is_own_file(path: str) -> bool:
    """True if the name that `load_scenario` takes means a file of the user's, not one of the catalogue.

    Errors: ConfigError if there is no such scenario.
    """
    return find_scenario(Path(path)).resolve().parent != CATALOGUE.resolve()


def catalogue() -> list[Path]:
    """The scenario files that come with lockref, by name."""
    return list(_files_of(CATALOGUE))


@cache
def _files_of(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("*.yaml")))


def judged_catalogue() -> dict[str, Scenario]:
    """The scenarios that come with lockref, by name: those in which some clause is demanded of a lock."""
    known = {path.stem: load_scenario(path.stem) for path in catalogue()}
    return {name: scenario for name, scenario in known.items() if scenario.not_demanded() < set(CLAUSES)}


def parse_scenario(text: str, *, file: str = "<text>", may_import: bool = True) -> Scenario:
    """The scenario that `text` says; `file` is what complaints call it. may_import: see `load_scenario`."""
    value, places = parse(text, file=file, document="scenario", beginning="version: 1")
    try:
        scenario = Scenario.model_validate(value)
    except ValidationError as error:
        complaints = [_complaint(detail, value, places) for detail in _meant(error.errors(include_url=False))]
    else:
        complaints = [
            (places.of(path, key=False), at(path, text))
            for path, text in contradictions(scenario, may_import=may_import)
        ]
        if not complaints:
            return scenario
    complaints.sort(key=lambda complaint: (complaint[0].line or 0, complaint[0].column or 0))
    first, *rest = complaints[:COMPLAINTS_MAX]
    lines = [first[1], *(f"{location}: {message}" for location, message in rest)]
    if len(complaints) > COMPLAINTS_MAX:
        lines.append(f"and {len(complaints) - COMPLAINTS_MAX} more")
    raise ConfigError("\n".join(lines), location=first[0])


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


def _complaint(error: ErrorDetails, value: Any, places: Places) -> tuple[Location, str]:
    """A pydantic error as one located line."""
    path = _known_path(error["loc"], value)
    kind, context, given = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        near = did_you_mean(str(path[-1]), _siblings(path[:-1], value))
        return places.of(path, key=True), at(path, f"is no key here.{near}")
    if kind == "union_tag_invalid":
        expected = [name.strip(" '") for name in str(context["expected_tags"]).split(",")]
        near = did_you_mean(str(context["tag"]), expected)
        path = (*path, "kind")
        return places.of(path, key=False), at(
            path, f"is {context['tag']!r}; expected one of {', '.join(expected)}.{near}"
        )
    if kind == "union_tag_not_found":
        return places.of(path, key=False), at((*path, "kind"), "is missing")
    if kind == "missing":
        return places.of(path[:-1], key=False), at(path, "is missing")
    if kind == "value_error":
        message = str(context["error"])
    elif kind == "literal_error":
        near = did_you_mean(str(given), re.findall(r"'([^']*)'", str(context["expected"])))
        message = f"is {quote(given)}; expected {context['expected']}.{near}"
    else:
        said = _PATTERNS.get(str(context.get("pattern"))) or _FRIENDLIER.get(kind) or _lower(error["msg"])
        message = f"is {quote(given)}; {said}"
    return places.of(path, key=False), at(path, message)


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
