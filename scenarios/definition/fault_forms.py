"""The form of each kind of fault in a scenario file, made from the one declaration of that kind.

A kind of fault is declared once, in `sim/faults/*`, as the simulator reads it: whole numbers of nanoseconds and parts
per million. A file is written by people. So this module makes a second model of each kind, the *form*, which pydantic
checks the file against and the JSON Schema is printed from:

    the declaration       in a file
    for_ns: Duration      for: 10s, for: 5s..10s or for: [1s, 5s]: a unit in the value, and a seed may draw it
    rate_ppm: Rate        rate: 200ppm
    body: Body            body: some text, and `charset: latin-1` where its bytes are no UTF-8
    node: NodeName        node: n1
    nth: Ordinal          nth: 2, as it is declared

`_WRITTEN` has the type of a value in a file for each quantity (`sim.faults.quantities`); what is not there is written
as it is declared. `_field` makes one field of a form of one declared field, and `_form` the model of a kind.

Rejected: forms written by hand. Each fault would be declared twice, and a bound that changed in one place alone would
let a file through that no run can carry out.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Union, get_args

from annotated_types import Ge, Le
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.fields import FieldInfo

from lockref.errors import quote
from scenarios.definition.units import Count, DrawnNumber, Duration, Probability, Rate, Shift
from sim.faults.fault import Fault, RequestFault, Trigger
from sim.faults.plan import FAULT_TYPES
from sim.faults.quantities import Quantity, fields_holding, in_file, quantity_of

ClientName = Annotated[str, Field(pattern=r"^n[1-9][0-9]{0,3}$")]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
"""The name of a node or a service. A name that the scenario does not have is found once the whole file is read."""

Text = Annotated[str, Field(max_length=4096)]

_WRITTEN: Final[dict[Quantity, Any]] = {
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
"""The type of a value in a file, by what the field holds."""

_UNITS: Final = {"ns", "ppm"}
"""Last parts of declared names that a file leaves out, because its values carry the unit."""


class Model(BaseModel):
    """Strict: unknown keys are errors; frozen: a scenario is read by many runs."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, arbitrary_types_allowed=True, defer_build=True
    )


class WrittenFault(Model):
    """The base of all faults in a file. `id` is optional: a fault without one is named after its kind and place."""

    fault_type: ClassVar[type[Fault]]
    if TYPE_CHECKING:
        kind: str

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")] | None = None
    at: Duration | None = None
    when: When | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to another process as the kind and the values: that process makes its own form of the kind."""
        return _blank, (self.kind,), self.__getstate__()


class _StrikesState(WrittenFault):
    """A fault that strikes once: at an instant, or when a client gets somewhere."""

    @model_validator(mode="after")
    def _strikes_once(self) -> _StrikesState:
        if self.at is not None and self.when is not None:
            raise ValueError("has both 'at' and 'when'; a fault strikes in one way")
        if self.at is None and self.when is None:
            raise ValueError("needs 'at: 2s' or 'when: {client, op, nth, cut}'")
        return self


class _StrikesRequests(WrittenFault):
    """A fault that strikes requests: all of the run, those of a span (`at`, `for`), or the one that `when` names."""

    @model_validator(mode="after")
    def _strikes_once(self) -> _StrikesRequests:
        if self.when is not None and (self.at is not None or getattr(self, "for_", None) is not None):
            raise ValueError("has both 'at' and 'when'; a fault strikes in one way")
        return self


class _HasText(Model):
    """A fault with a field that the plan holds as bytes.

    charset: how the characters of a file become bytes. In latin-1 each character is one byte, so a file can hold any.
    """

    charset: Literal["utf-8", "latin-1"] = "utf-8"

    @model_validator(mode="after")
    def _has_bytes(self) -> _HasText:
        for name in fields_holding(self.fault_type, Quantity.BYTES):  # type: ignore[attr-defined]
            for text in texts_of(getattr(self, name)):
                try:
                    text.encode(self.charset)
                except UnicodeEncodeError:
                    raise ValueError(f"has a {name} with a character that is not in {self.charset}") from None
        return self


def texts_of(value: str | list[str]) -> tuple[str, ...]:
    """The texts from which a seed may choose; one text is a choice of one."""
    return (value,) if isinstance(value, str) else tuple(value)


# Names.


def written_name(field: str) -> str:
    """The name in a file of a declared field: `for_ns` is `for`."""
    head, _, unit = field.rpartition("_")
    return head if unit in _UNITS else field


def python_name(field: str) -> str:
    """The attribute of a form that holds a declared field: `for_ns` is `for_`, because `for` is a word of Python."""
    word = written_name(field)
    return f"{word}_" if word == "for" else word


# Fields.


def _field(name: str, declared: FieldInfo, *, is_required: bool = False) -> tuple[Any, Any]:
    """The type and the default of one field of a form. is_required: a file must give it, though a plan need not."""
    quantity = quantity_of(declared)
    word = written_name(name)
    alias = None if word == python_name(name) else word
    if quantity in _WRITTEN:
        annotation = _bounded(_WRITTEN[quantity], declared)
    else:
        annotation = in_file(declared) or _as_declared(declared)
    if declared.is_required() or is_required:
        return annotation, Field(alias=alias)
    # A number with a unit has no default in a file: what the file leaves out is left to the plan.
    if declared.default is None or (quantity in _WRITTEN and word != name):
        return annotation | None, Field(default=None, alias=alias)
    default = declared.default.decode() if quantity is Quantity.BYTES else declared.default
    return annotation, Field(default=default, alias=alias)


def _as_declared(declared: FieldInfo) -> Any:
    """The declared type with its bounds, which pydantic keeps apart."""
    return Annotated[(declared.annotation, *declared.metadata)] if declared.metadata else declared.annotation


def _bounded(written: Any, declared: FieldInfo) -> Any:
    """The type in a file, held to the least and the most that the declaration takes.

    A file's value may be a range that a seed draws from. It has to fit as a whole: else one seed of many ends the run.
    """
    least, most = _bounds(declared)
    if least is None and most is None:
        return written
    unit = {Quantity.RATE: "ppm", Quantity.COUNT: ""}.get(quantity_of(declared) or Quantity.COUNT, "ns")

    def check(value: object) -> object:
        if isinstance(value, DrawnNumber):
            if least is not None and value.least < least:
                raise ValueError(f"is {quote(value.text)}; expected at least {least}{unit}")
            if most is not None and value.most > most:
                raise ValueError(f"is {quote(value.text)}; expected at most {most}{unit}")
        return value

    return Annotated[written, AfterValidator(check)]


def _bounds(declared: FieldInfo) -> tuple[Any, Any]:
    """The least and the most that a declaration takes; None where it does not say."""
    # Pydantic takes `Annotated[int, ...]` apart into the field's metadata. It leaves `Annotated[int, ...] | None` as it
    # is: there the bounds stand within the members of the union, in a Field of their own.
    marks = [*declared.metadata]
    for member in get_args(declared.annotation):
        marks += getattr(member, "__metadata__", ())
    marks += [inner for mark in marks if isinstance(mark, FieldInfo) for inner in mark.metadata]
    floors: list[Any] = [mark.ge for mark in marks if isinstance(mark, Ge)]
    ceilings: list[Any] = [mark.le for mark in marks if isinstance(mark, Le)]
    return max(floors, default=None), min(ceilings, default=None)


# Models.


def _when() -> type[Model]:
    """The form of a trigger: the place in a client's life at which a fault strikes."""
    fields: dict[str, Any] = {
        # The cut point has a default in a plan. In a file it is the point of the line, and has to be said.
        python_name(name): _field(name, declared, is_required=name == "cut")
        for name, declared in Trigger.model_fields.items()
    }
    return create_model("When", __base__=Model, __module__=__name__, __doc__=inspect.getdoc(Trigger), **fields)


def _form(kind: str, fault_type: type[Fault]) -> type[WrittenFault]:
    """The form of one kind, under the name and with the words of its declaration, which the JSON Schema prints."""
    bases: list[type[Model]] = [_StrikesRequests if issubclass(fault_type, RequestFault) else _StrikesState]
    if fields_holding(fault_type, Quantity.BYTES):
        bases.insert(0, _HasText)
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    for name, declared in fault_type.model_fields.items():
        if name not in Fault.model_fields and name != "kind":
            fields[python_name(name)] = _field(name, declared)
    form = create_model(
        fault_type.__name__,
        __base__=tuple(bases),
        __module__=__name__,
        __doc__=inspect.getdoc(fault_type),
        **fields,
    )
    assert issubclass(form, WrittenFault)
    form.fault_type = fault_type
    return form


if TYPE_CHECKING:

    class When(Model):
        """A place in a client's life, as files write it."""

        client: str
        after: DrawnNumber | None
        before: DrawnNumber | None

else:
    When = _when()
    WrittenFault.model_rebuild()

FORMS: Final[Mapping[str, type[WrittenFault]]] = {kind: _form(kind, declared) for kind, declared in FAULT_TYPES.items()}
"""By kind, the model that a file is checked against."""


def _blank(kind: str) -> WrittenFault:
    """A fault of that kind without values, for pickle to fill."""
    form = FORMS[kind]
    return form.__new__(form)


if TYPE_CHECKING:
    FaultSpec = WrittenFault
else:
    FaultSpec = Annotated[Union[tuple(FORMS.values())], Field(discriminator="kind")]  # noqa: UP007 - a tuple of models
