"""A stored failure as a scenario file: the shrunk plan in the words of files, to be kept beside one's tests.

A file has no place for the decisions of a schedule: `lockref sim` draws them from the seed. So the file that is written
is run here, and the seed that it pins is one under which the clause really breaks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from lockref.lab.loading import ProviderSpec
from reports.explanation.explanation import Explanation
from scenarios.definition.fault_forms import written_name
from scenarios.definition.load import parse_scenario
from scenarios.definition.schema import Scenario
from scenarios.failures.judged_run import JudgedRun
from scenarios.failures.stored_failures import load_failed
from scenarios.worlds.simulated import run_simulated
from sim.faults.fault import Fault
from sim.faults.quantities import Quantity, quantity_of

SEEDS_TRIED: Final = 40
"""So many seeds are tried where the stored one does not break the clause under the schedule that it draws."""
NAME_MAX: Final = 80
_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_/-]*|-?[0-9]+(s|ms|us|ns|ppm)")
"""Text that YAML reads as the same text without quotes; `:` and `.` mean something in some places."""
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCase:
    """A scenario file. seed: the one that it pins. breaks: the clause breaks under that seed in `lockref sim`."""

    text: str
    seed: int
    breaks: bool


def kept_case(
    path: Path, explanation: Explanation, *, provider: str | None = None, may_import: bool = False
) -> KeptCase:
    """The stored failure in a file, as a scenario file.

    explanation: of that failure; its sentence is what the file says of itself. provider, may_import: see `load_failed`,
    also for the errors.
    """
    failure, scenario, spec = load_failed(path, provider=provider, may_import=may_import)
    head = _head(scenario, explanation, spec, failure.clause)
    body = _body(scenario, failure.plan.faults, failure.plan.heal_ns)

    def text_with(seed: int) -> str:
        return _document({**head, "seed": seed, **body}, explanation)

    for seed in (failure.seed, *(seed for seed in range(1, SEEDS_TRIED + 1) if seed != failure.seed)):
        text = text_with(seed)
        kept = parse_scenario(text, file="the kept case", may_import=may_import)
        if failure.clause in JudgedRun(run_simulated(kept, spec, seed)).broken:
            return KeptCase(text=text, seed=seed, breaks=True)
    return KeptCase(text=text_with(failure.seed), seed=failure.seed, breaks=False)


def _head(scenario: Scenario, explanation: Explanation, spec: ProviderSpec, clause: str) -> dict[str, Any]:
    name = f"{scenario.name}-{re.sub('[^a-z0-9]+', '-', explanation.id.lower())}".strip("-")
    return {
        "version": 1,
        "name": name[-NAME_MAX:].strip("-"),
        "ids": list(scenario.ids),
        "about": f"{explanation.sentence}. Kept from {explanation.id} of {scenario.name}, which broke {clause}.",
        "expect": {spec.name: {clause: "violated"}},
    }


def _body(scenario: Scenario, faults: Iterable[Fault], heal_ns: int | None) -> dict[str, Any]:
    """The scenario, with the plan of the failure in the place of all that a seed would draw for it."""
    kept = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # What the run must show was asked of the whole plan, not of what is left of it.
    asks_token = {"token"} & set(map(str, scenario.must_happen))
    for name in ("version", "name", "ids", "about", "seed", "clock", "swarm", "heal_at", "expect", "must_happen"):
        kept.pop(name, None)
    kept["faults"] = [written(fault) for fault in faults]
    if heal_ns is not None:
        kept["heal_at"] = _duration(heal_ns)
    if asks_token:
        kept["must_happen"] = sorted(asks_token)
    return {name: value for name, value in kept.items() if value not in ([], {}, None)}


def written(fault: Fault) -> dict[str, Any]:
    """A fault of a plan as a file writes it."""
    entry = {"id": fault.id, "kind": fault.kind, **_fields(fault)}
    if isinstance(body := getattr(fault, "body", None), bytes):
        try:
            entry["body"] = body.decode("utf-8")
        except UnicodeDecodeError:
            entry |= {"body": body.decode("latin-1"), "charset": "latin-1"}
    return entry


def _fields(model: BaseModel) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for name, declared in type(model).model_fields.items():
        value = getattr(model, name)
        quantity = quantity_of(declared)
        if name in ("id", "kind", "body") or value is None:
            continue
        # The cut point of a trigger has to be said in a file; what else is left at its default need not be.
        if value == declared.default and name != "cut":
            continue
        if isinstance(value, BaseModel):
            value = _fields(value)
        elif quantity in (Quantity.DURATION, Quantity.INSTANT, Quantity.SHIFT):
            value = _duration(value)
        elif quantity is Quantity.RATE:
            value = f"{value}ppm"
        elif quantity is Quantity.MEMBERS:
            value = [list(group) for group in value]
        written[written_name(name)] = value
    return written


def _duration(nanoseconds: int) -> str:
    """The exact duration, in the largest unit in which it is a whole number."""
    for unit_ns, unit in _UNITS:
        if nanoseconds % unit_ns == 0:
            return f"{nanoseconds // unit_ns}{unit}"
    return f"{nanoseconds}ns"


def _document(content: Mapping[str, Any], explanation: Explanation) -> str:
    """The file: a key to a line, each fault on a line of its own."""
    lines = [f"# Shown again by: lockref sim FILE --provider {json.dumps(explanation.provider)[1:-1]}"]
    for name, value in content.items():
        if name == "faults" and value:
            lines += ["faults:", *(f"  - {_flow(fault)}" for fault in value)]
        else:
            lines.append(f"{name}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """A value on one line. Text that could be read as something else is quoted, as in JSON, which is YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(str(key))}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)
