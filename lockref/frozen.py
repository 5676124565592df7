"""Frozen dataclasses that are made with every request or for every client of a seed, and made quickly.

Python's own `__init__` of a frozen dataclass sets each field through `object.__setattr__`, which searches the class for
the field. Here the new object is of an open class with the same slots while its fields are set, by plain assignments,
and then of its own class, frozen. That is all that differs: such an object still cannot be changed; it is copied,
pickled, compared and printed as before. Rejected: named tuples, which are made in less time, and which
`dataclasses.replace` refuses; the descriptors of the slots, a call of which takes ten times as long as an assignment.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from types import FunctionType
from typing import Any, ClassVar, Protocol, TypeVar


class _Dataclass(Protocol):
    """A dataclass, by the mark that `dataclasses` leaves on it."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


T = TypeVar("T", bound=_Dataclass)


def filled_by_slots(made: type[T]) -> type[T]:
    """Give a class that `@dataclass(frozen=True, slots=True)` has made an `__init__` that fills its slots directly.

    All its fields are arguments of `__init__`, all by name only or all by position, too; none has a default factory.
    """
    assert made.__bases__ == (object,), "an open class of the same layout is made from the slots alone"
    known: dict[str, object] = {
        "frozen": made,
        "opened": type(f"Open{made.__name__}", (), {"__slots__": tuple(field.name for field in fields(made))}),
        # The frozen class refuses the plain assignment.
        "set_class": vars(object)["__class__"].__set__,
        "usual_init": made.__init__,
    }
    parameters: list[str] = ["*"] if fields(made)[0].kw_only else []
    steps: list[str] = []
    for field in fields(made):
        name = field.name
        assert field.init, f"{name} is no argument"
        assert field.kw_only is fields(made)[0].kw_only, f"{name} is given in another way than the first field"
        assert field.default_factory is MISSING, f"{name} has a default factory"
        known[f"default_{name}"] = field.default
        parameters.append(name if field.default is MISSING else f"{name}=default_{name}")
        steps.append(f"self.{name} = {name}")
    # A subclass may have another layout.
    given = ", ".join(f"{field.name}={field.name}" for field in fields(made))
    steps = [f"if type(self) is not frozen: return usual_init(self, {given})", "set_class(self, opened)", *steps]
    steps.append("self.__class__ = frozen")
    if hasattr(made, "__post_init__"):
        steps.append("self.__post_init__()")
    # Written as text, as `dataclasses` does it: a function that loops over the fields would take longer than theirs.
    exec(f"def __init__(self, {', '.join(parameters)}):\n    " + "\n    ".join(steps), known)
    init = known["__init__"]
    assert isinstance(init, FunctionType)
    init.__annotations__ = made.__init__.__annotations__
    init.__qualname__ = f"{made.__qualname__}.__init__"
    type.__setattr__(made, "__init__", init)
    return made
