"""A plan of faults: all that goes wrong in one run, as data that is stored with a failure.

A plan survives edits of the code that move random draws. It is checked when it
is written and again when it is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from lockref.errors import ConfigError, did_you_mean
from sim.faults import answers, clocks, network, process, servers, stores
from sim.faults.fault import DEFINED, Fault, Model, Trigger
from sim.faults.quantities import Instant

FAMILIES = (process, clocks, network, answers, stores, servers)
"""The modules whose faults a plan may hold."""

_OURS = {kind: fault for family in FAMILIES for kind, fault in DEFINED.items() if fault.__module__ == family.__name__}

FAULT_TYPES: Mapping[str, type[Fault]] = _OURS | DEFINED
"""Every kind and its class, in the order of families and of their definition.

Kinds of other modules follow, where these were imported before.
"""

PLAN_FORMAT: Literal[1] = 1
"""Written into every plan; another number is refused."""

if TYPE_CHECKING:
    AnyFault = Fault
else:
    AnyFault = Annotated[Union[tuple(FAULT_TYPES.values())], Field(discriminator="kind")]  # noqa: UP007 - made at run time


class FaultPlan(Model):
    """All faults of one run, in order of their writing.

    heal_ns: true time from which nothing disturbs any more: windows end, later
        faults never begin, the network stops losing. None: no such promise.
    """

    format: Literal[1] = PLAN_FORMAT
    faults: tuple[AnyFault, ...] = ()
    heal_ns: Instant | None = None

    @model_validator(mode="after")
    def _ids_are_unique(self) -> FaultPlan:
        ids = [fault.id for fault in self.faults]
        for position, fault_id in enumerate(ids):
            if fault_id in ids[:position]:
                raise ValueError(f"fault id {fault_id!r} occurs twice")
        return self

    @classmethod
    def of(cls, *faults: Fault, heal_ns: int | None = None) -> FaultPlan:
        """A plan of these faults. Raises ConfigError."""
        try:
            return cls.model_validate({"faults": faults, "heal_ns": heal_ns})
        except ValidationError as error:
            raise ConfigError(_explain(error)) from None

    @classmethod
    def from_json(cls, text: str | bytes) -> FaultPlan:
        """Read a plan. Raises ConfigError that names the place, the value and what is accepted."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ConfigError(_explain(error)) from None

    def to_json(self) -> str:
        """Write a plan; what is written can be read, checked here and again when it is loaded."""
        text = self.model_dump_json(exclude_defaults=False, exclude_none=True)
        assert FaultPlan.from_json(text) == self, "a plan did not survive its own writing"
        return text

    def without(self, fault_ids: Sequence[str]) -> FaultPlan:
        """The same plan less these faults."""
        return self.model_copy(update={"faults": tuple(f for f in self.faults if f.id not in fault_ids)})

    def replacing(self, fault: Fault) -> FaultPlan:
        """The same plan with the fault of that id replaced."""
        return self.model_copy(update={"faults": tuple(fault if f.id == fault.id else f for f in self.faults)})


EMPTY_PLAN = FaultPlan()
"""Nothing goes wrong."""

_FAULT: TypeAdapter[Fault] = TypeAdapter(AnyFault)


def parse_fault(entry: Mapping[str, Any]) -> Fault:
    """One fault from plain data. Raises ConfigError with a suggestion for unknown kinds and keys."""
    try:
        return _FAULT.validate_python(entry)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def complaint_about(entry: Mapping[str, Any]) -> str:
    """The error in one fault of plain data, whose field names are known; empty if there is none."""
    try:
        _FAULT.validate_python(entry)
    except ValidationError as error:
        return error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
    return ""


def _explain(error: ValidationError) -> str:
    """The first complaint as one line: place, value, what is accepted, the nearest good word."""
    first = error.errors(include_url=False)[0]
    path = [part for part in first["loc"] if part not in FAULT_TYPES]
    place = ".".join(str(part) for part in path) or "plan"
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        kind = str((first.get("ctx") or {}).get("tag", "missing"))
        return f"{place}.kind is {kind!r}; expected one of {', '.join(FAULT_TYPES)}.{did_you_mean(kind, FAULT_TYPES)}"
    if first["type"] == "extra_forbidden":
        kind = next((str(part) for part in first["loc"] if part in FAULT_TYPES), "")
        model: type[BaseModel] = FAULT_TYPES[kind] if kind else FaultPlan
        if "when" in path[:-1]:
            model = Trigger
        known = list(model.model_fields)
        return f"{place} is no known key; expected one of {', '.join(known)}.{did_you_mean(str(path[-1]), known)}"
    return f"{place}: {first['msg']} (got {first.get('input')!r})"
