"""Faults as a scenario writes them: times with units, names, values that a seed may draw.

Nothing is declared here: each kind is declared once, in `sim/faults/*`, and
its form in files is derived from what its fields hold (`sim.faults.quantities`).
A length of nanoseconds `for_ns` is written `for: 10s`, a rate `rate_ppm` as
`rate: 200ppm`, and both may be a range or a list from which a seed draws. Each
kind is a model of its own, so that an unknown key or a missing length is
refused where it stands. `plan_entry` goes the other way: from what was written
to the simulator's form, which is whole numbers only.

A fault strikes at an instant (`at:`, for some kinds `for:`) or when a client
gets somewhere (`when: {client: n1, op: acquire, nth: 1, cut: c2}`). The five
cut points of a request: c0 not sent, c1 sent and not applied, c2 applied and
not answered, c3 answer on its way, c4 answered.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args

from annotated_types import Ge, Le
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.fields import FieldInfo

from lockref.errors import shown
from scenarios.definition.units import Count, Drawn, Duration, Probability, Rate, Shift, constant
from sim.faults.fault import Fault, RequestFault, Trigger
from sim.faults.plan import FAULT_TYPES
from sim.faults.quantities import Quantity, fields_holding, in_file, quantity_of

ClientName = Annotated[str, Field(pattern=r"^n[1-9][0-9]{0,3}$")]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
"""The name of a node or a service. A name that the scenario does not have is found once the whole file is read."""

Text = Annotated[str, Field(max_length=4096)]

_WRITTEN: dict[Quantity, Any] = {
    Quantity.DURATION: Duration,
    Quantity.INSTANT: Duration,
    Quantity.SHIFT: Shift,
    Quantity.RATE: Rate,
    Quantity.COUNT: Count,
    Quantity.PROBABILITY: Probability,
    Quantity.BYTES: Text | Annotated[list[Text], Field(min_length=1, max_length=64)],
    Quantity.NODE: Name,
    Quantity.SERVICE: Name,
    Quantity.MEMBERS: Annotated[list[list[str]], Field(min_length=2, max_length=16)],
}
"""How a file writes what a field holds. What is not here is written as it is stored."""

_UNITS = {"ns", "ppm"}
"""Last parts of names that a file leaves out, because its values carry the unit."""

Draw = Callable[[Drawn, str], int]
"""(quantity, place in the file) -> the number that the seed gives it."""


class Model(BaseModel):
    """Strict: unknown keys are errors; frozen: a scenario is read by many runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, arbitrary_types_allowed=True)


class WrittenFault(Model):
    """What all faults of a file share. `id` is optional: without one a fault is called after its kind and place."""

    fault_type: ClassVar[type[Fault]]
    if TYPE_CHECKING:
        kind: str

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")] | None = None
    at: Duration | None = None
    when: When | None = None


class _OfState(WrittenFault):
    @model_validator(mode="after")
    def _strikes_once(self) -> _OfState:
        if self.at is not None and self.when is not None:
            raise ValueError("has both 'at' and 'when'; a fault strikes in one way")
        if self.at is None and self.when is None:
            raise ValueError("needs 'at: 2s' or 'when: {client, op, nth, cut}'")
        return self


class _OfRequests(WrittenFault):
    @model_validator(mode="after")
    def _strikes_once(self) -> _OfRequests:
        if self.when is not None and (self.at is not None or getattr(self, "for_", None) is not None):
            raise ValueError("has both 'at' and 'when'; a fault strikes in one way")
        return self


class _WithText(Model):
    """A field that the plan holds as bytes. charset: how its characters become bytes; in latin-1 each is one byte."""

    charset: Literal["utf-8", "latin-1"] = "utf-8"

    @model_validator(mode="after")
    def _has_bytes(self) -> _WithText:
        for name in fields_holding(self.fault_type, Quantity.BYTES):  # type: ignore[attr-defined]
            for text in _choices(getattr(self, name)):
                try:
                    text.encode(self.charset)
                except UnicodeEncodeError:
                    raise ValueError(f"has a {name} with a character that is not in {self.charset}") from None
        return self


def _choices(text: str | list[str]) -> tuple[str, ...]:
    """What a seed may choose from."""
    return (text,) if isinstance(text, str) else tuple(text)


def written_name(field: str) -> str:
    """How a file calls a field of a plan: `for_ns` is `for`."""
    head, _, unit = field.rpartition("_")
    return head if unit in _UNITS else field


def _attribute(field: str) -> str:
    """How Python calls it in the model of the file: no keyword is a name."""
    word = written_name(field)
    return f"{word}_" if word == "for" else word


def _written_field(field: str, info: FieldInfo, *, is_required: bool = False) -> tuple[Any, Any]:
    """Annotation and default of a field in files."""
    quantity = quantity_of(info)
    word = written_name(field)
    alias = None if word == _attribute(field) else word
    # A number with a unit has no default in files: what is left out is left to the plan.
    is_left_out = info.default is None or (quantity in _WRITTEN and word != field)
    annotation: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    annotation = _within(_WRITTEN[quantity], info) if quantity in _WRITTEN else in_file(info) or annotation
    if info.is_required() or is_required:
        return annotation, Field(alias=alias)
    if is_left_out:
        return annotation | None, Field(default=None, alias=alias)
    default = info.default.decode() if quantity is Quantity.BYTES else info.default
    return annotation, Field(default=default, alias=alias)


def _within(written: Any, info: FieldInfo) -> Any:
    """`written`, held to the least and the most that the plan takes, where files know that of a whole number."""
    # Pydantic takes the outermost Annotated apart, and leaves those within a union as they are.
    parts = [
        *info.metadata,
        *(each for part in get_args(info.annotation) for each in getattr(part, "__metadata__", ())),
    ]
    parts += [each for part in parts if isinstance(part, FieldInfo) for each in part.metadata]
    floors: list[Any] = [part.ge for part in parts if isinstance(part, Ge)]
    ceilings: list[Any] = [part.le for part in parts if isinstance(part, Le)]
    least, most = max(floors, default=None), min(ceilings, default=None)
    unit = {Quantity.RATE: "ppm", Quantity.COUNT: ""}.get(quantity_of(info) or Quantity.COUNT, "ns")

    def check(value: object) -> object:
        # What a seed may draw has to fit as a whole: else one seed of many would end the run.
        if isinstance(value, Drawn):
            if least is not None and value.least < least:
                raise ValueError(f"is {shown(value.text)}; expected at least {least}{unit}")
            if most is not None and value.most > most:
                raise ValueError(f"is {shown(value.text)}; expected at most {most}{unit}")
        return value

    return Annotated[written, AfterValidator(check)] if floors or ceilings else written


def _model_of(trigger: type[Trigger]) -> type[Model]:
    fields: dict[str, Any] = {
        _attribute(name): _written_field(name, info, is_required=name == "cut")
        for name, info in trigger.model_fields.items()
    }
    return create_model("When", __base__=Model, __module__=__name__, __doc__=inspect.getdoc(trigger), **fields)


def _written(kind: str, fault_type: type[Fault]) -> type[WrittenFault]:
    """The model of one kind in files."""
    bases: list[type[Model]] = [_OfRequests if issubclass(fault_type, RequestFault) else _OfState]
    if fields_holding(fault_type, Quantity.BYTES):
        bases.insert(0, _WithText)
    own = {name: info for name, info in fault_type.model_fields.items() if name not in Fault.model_fields}
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    fields |= {_attribute(name): _written_field(name, info) for name, info in own.items() if name != "kind"}
    model = create_model(
        fault_type.__name__,
        __base__=tuple(bases),
        __module__=__name__,
        __doc__=inspect.getdoc(fault_type),
        **fields,
    )
    assert issubclass(model, WrittenFault)
    model.fault_type = fault_type
    # A scenario crosses to worker processes by pickling, and pickle finds a class by its name in its module.
    globals()[model.__name__] = model
    return model


if TYPE_CHECKING:

    class When(Model):
        """A place in a client's life, as files write it."""

        client: str
        after: Drawn | None
        before: Drawn | None

    FaultSpec = WrittenFault
else:
    When = _model_of(Trigger)
    WrittenFault.model_rebuild()
    FaultSpec = Annotated[
        Union[tuple(_written(kind, fault_type) for kind, fault_type in FAULT_TYPES.items())],  # noqa: UP007 - as above
        Field(discriminator="kind"),
    ]

FAULT_KINDS: tuple[str, ...] = tuple(FAULT_TYPES)
"""The kinds that a scenario may name."""


def named_in(fault: WrittenFault) -> Iterator[tuple[tuple[str | int, ...], str, Quantity]]:
    """Every name that a fault uses: its place below the fault, and whether it is a node, a service or either."""
    for quantity in (Quantity.NODE, Quantity.SERVICE):
        for field in fields_holding(fault.fault_type, quantity):
            name = getattr(fault, field)
            if name is not None:
                yield (field,), name, quantity
        for field in fields_holding(Trigger, quantity):
            name = getattr(fault.when, field, None)
            if name is not None:
                yield ("when", field), name, quantity
    for field in fields_holding(fault.fault_type, Quantity.MEMBERS):
        for place, group in enumerate(getattr(fault, field)):
            for seat, member in enumerate(group):
                yield (field, place, seat), member, Quantity.MEMBERS


def quantities_of(fault: WrittenFault) -> Iterator[Drawn]:
    """Everything in a fault that a seed may draw."""
    for model in (fault, fault.when):
        if model is not None:
            yield from (value for _, value in model if isinstance(value, Drawn))
    for field in fields_holding(fault.fault_type, Quantity.BYTES):
        yield _choice_of(getattr(fault, field))


def rates_of(fault: WrittenFault) -> list[Drawn]:
    """The rate errors that a fault gives a clock; where a file leaves one out, the plan's."""
    fields = fault.fault_type.model_fields
    return [
        getattr(fault, _attribute(name)) or constant(fields[name].default)
        for name in fields_holding(fault.fault_type, Quantity.RATE)
    ]


def plan_entry(fault: WrittenFault, *, number: int, draw: Draw) -> dict[str, Any]:
    """One fault in the simulator's words. `number` counts from 1 and names it where it has no id."""
    entry = _plan_fields(fault, fault.fault_type, f"faults.{number - 1}", draw)
    return {**entry, "id": fault.id or f"{fault.kind}-{number}", "kind": fault.kind}


def _plan_fields(written: Model, stored: type[BaseModel], place: str, draw: Draw) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for field, info in stored.model_fields.items():
        word = written_name(field)
        value = getattr(written, _attribute(field))
        if value is None:
            continue
        if isinstance(value, Drawn):
            value = draw(value, f"{place}.{word}")
        elif quantity_of(info) is Quantity.BYTES:
            choice = draw(_choice_of(value), f"{place}.{word}")
            value = _choices(value)[choice].encode(written.charset)  # type: ignore[attr-defined]
        elif isinstance(value, BaseModel):
            value = _plan_fields(value, Trigger, f"{place}.{word}", draw)  # type: ignore[arg-type]
        entry[field] = value
    return entry


def _choice_of(text: str | list[str]) -> Drawn:
    """Which of several texts: a position that a seed draws."""
    return Drawn("", tuple(range(len(_choices(text)))))
