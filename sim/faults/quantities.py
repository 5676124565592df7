"""The quantity in a fault's field: the meaning of its number, or of its name.

A plan holds whole numbers: nanoseconds, parts per million, counts. A scenario
file writes the same fields with units, and lets a seed draw them. So a field
says once what it holds, and everybody else derives from that:

    the YAML form and its JSON Schema   scenarios/definition/fault_forms.py
    what shrinking may change           sim/explore/shrink.py
    which names a plan uses             sim/faults/injector.py

Rejected: the units in the field itself (`for: 10s` in a plan). A stored plan
has to replay for years, and a number of nanoseconds means one thing only.
"""

from __future__ import annotations

import functools
from enum import StrEnum
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

M = TypeVar("M")


class Quantity(StrEnum):
    """The kind of value that a field of a fault holds."""

    DURATION = "duration"  # Nanoseconds, not negative.
    INSTANT = "instant"  # True time in nanoseconds from the start of the run.
    SHIFT = "shift"  # Nanoseconds of either sign: how far a clock is moved.
    RATE = "rate"  # Parts per million of either sign.
    COUNT = "count"  # A whole number that a seed may draw, at least 1.
    PROBABILITY = "probability"  # From 0 to 1.
    BYTES = "bytes"  # The body of an object; a file writes it as text.
    NODE = "node"  # The name of a client, or of another node of the scenario.
    SERVICE = "service"  # The name of a service of the scenario.
    MEMBERS = "members"  # Groups of names, each of a node or of a service.


class InFile:
    """The annotation that a scenario file uses in place of the plan's, because it allows less."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation


Duration = Annotated[int, Field(ge=0, le=2**60), Quantity.DURATION]
Instant = Annotated[int, Field(ge=0, le=2**60), Quantity.INSTANT]
Shift = Annotated[int, Field(ge=-(2**60), le=2**60), Quantity.SHIFT]
Rate = Annotated[int, Field(gt=-1_000_000, lt=1_000_000), Quantity.RATE]
Count = Annotated[int, Field(ge=1, le=1_000_000_000), Quantity.COUNT]
Ordinal = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""The n-th of something: a constant in files, too."""
Probability = Annotated[float, Field(ge=0.0, le=1.0), Quantity.PROBABILITY]
Body = Annotated[bytes, Field(max_length=65_536), Quantity.BYTES]
NodeName = Annotated[str, Quantity.NODE]
ServiceName = Annotated[str, Quantity.SERVICE]
Groups = Annotated[tuple[tuple[str, ...], ...], Field(min_length=2, max_length=16), Quantity.MEMBERS]


@functools.cache
def fields_holding(model: type[BaseModel], *quantities: Quantity) -> tuple[str, ...]:
    """The names of the model's fields that hold one of these, in the order of their declaration."""
    return tuple(name for name, field in model.model_fields.items() if quantity_of(field) in quantities)


def quantity_of(field: FieldInfo) -> Quantity | None:
    """The quantity that a field of a model holds; None for words and switches. Looks behind `| None`."""
    return _marker(field, Quantity)


def in_file(field: FieldInfo) -> Any:
    """The annotation that files use for the field, if that is another one than the plan's."""
    narrower = _marker(field, InFile)
    return None if narrower is None else narrower.annotation


def _marker(field: FieldInfo, kind: type[M]) -> M | None:
    # Pydantic takes the outermost Annotated apart, and leaves those within a union as they are.
    candidates = [*field.metadata]
    for part in get_args(field.annotation):
        candidates += getattr(part, "__metadata__", ())
    return next((each for each in candidates if isinstance(each, kind)), None)
