"""The faults of a scenario file: the names that they use, what a seed draws in them, and the plan that they become.

Each kind has a form, which says how a file writes it (`fault_forms`). `plan_entry` goes the other way: from what was
written to the simulator's fault, which holds whole numbers only.

A fault strikes at an instant (`at:`, for some kinds `for:`) or when a client gets somewhere
(`when: {client: n1, op: acquire, nth: 1, cut: c2}`). The five cut points of a request: c0 not sent, c1 sent and not
applied, c2 applied and not answered, c3 answer on its way, c4 answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel

from scenarios.definition.fault_forms import Model, WrittenFault, python_name, texts_of, written_name
from scenarios.definition.units import DrawnNumber, constant
from sim.faults.fault import Trigger
from sim.faults.plan import FAULT_TYPES
from sim.faults.quantities import Quantity, fields_holding, quantity_of

Draw = Callable[[DrawnNumber, str], int]
"""(quantity, place in the file) -> the number that the seed gives it."""

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


def quantities_of(fault: WrittenFault) -> Iterator[DrawnNumber]:
    """Everything in a fault that a seed may draw."""
    for model in (fault, fault.when):
        if model is not None:
            yield from (value for _, value in model if isinstance(value, DrawnNumber))
    for field in fields_holding(fault.fault_type, Quantity.BYTES):
        yield _choice_of(getattr(fault, field))


def rates_of(fault: WrittenFault) -> list[DrawnNumber]:
    """The rate errors that a fault gives a clock; where a file leaves one out, the plan's."""
    fields = fault.fault_type.model_fields
    return [
        getattr(fault, python_name(name)) or constant(fields[name].default)
        for name in fields_holding(fault.fault_type, Quantity.RATE)
    ]


def plan_entry(fault: WrittenFault, *, number: int, draw: Draw) -> dict[str, Any]:
    """One fault in the simulator's words. `number` counts from 1 and names it where it has no id."""
    entry = _plan_fields(fault, fault.fault_type, f"faults.{number - 1}", draw)
    return {**entry, "id": id_of(fault, number=number), "kind": fault.kind}


def id_of(fault: WrittenFault, *, number: int) -> str:
    """The name of a fault: its own, or its kind and place, counted from 1."""
    return fault.id or f"{fault.kind}-{number}"


def _plan_fields(written: Model, stored: type[BaseModel], place: str, draw: Draw) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for field, info in stored.model_fields.items():
        word = written_name(field)
        value = getattr(written, python_name(field))
        if value is None:
            continue
        if isinstance(value, DrawnNumber):
            value = draw(value, f"{place}.{word}")
        elif quantity_of(info) is Quantity.BYTES:
            choice = draw(_choice_of(value), f"{place}.{word}")
            value = texts_of(value)[choice].encode(written.charset)  # type: ignore[attr-defined]
        elif isinstance(value, BaseModel):
            value = _plan_fields(value, Trigger, f"{place}.{word}", draw)  # type: ignore[arg-type]
        entry[field] = value
    return entry


def _choice_of(text: str | list[str]) -> DrawnNumber:
    """Which of several texts: a position that a seed draws."""
    return DrawnNumber("", tuple(range(len(texts_of(text)))))
