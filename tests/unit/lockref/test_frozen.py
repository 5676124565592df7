"""A frozen dataclass whose slots are filled directly behaves as Python makes it."""

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from lockref.frozen import filled_by_slots
from lockref.provider import Grant, LockEvent, RecordView
from lockref.stores.port import ReadReply, WriteReply


@dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: str = "b"

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError("negative")


AS_PYTHON_MAKES_IT = Pair.__init__
filled_by_slots(Pair)


@filled_by_slots
@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    first: int
    second: str = "b"


def test_it_has_an_initialiser_of_its_own_with_the_same_arguments():
    assert Pair.__init__ is not AS_PYTHON_MAKES_IT
    assert inspect.signature(Pair.__init__) == inspect.signature(AS_PYTHON_MAKES_IT)


def test_its_fields_hold_what_was_given_by_position_by_name_and_by_default():
    assert [(pair.first, pair.second) for pair in (Pair(1), Pair(1, "c"), Pair(second="d", first=2))] == [
        (1, "b"), (1, "c"), (2, "d"),
    ]  # fmt: skip


def test_fields_that_are_given_by_name_only_stay_so():
    assert Named(second="c", first=1).second == "c"
    with pytest.raises(TypeError, match="positional"):
        Named(1)


def test_it_cannot_be_changed():
    pair = Pair(1)
    with pytest.raises(FrozenInstanceError):
        pair.first = 2
    assert pair.first == 1


def test_a_subclass_keeps_its_class_and_its_own_layout():
    class Triple(Pair):
        """It has a dictionary, which the slots' class has not."""

    triple = Triple(1, "c")
    assert (type(triple), triple.first, triple.second) == (Triple, 1, "c")
    with pytest.raises(FrozenInstanceError):
        triple.first = 2
    with pytest.raises(ValueError, match="negative"):
        Triple(-1)


def test_it_is_copied_pickled_compared_and_printed_as_before():
    pair = Pair(1, "c")
    assert replace(pair, second="b") == Pair(1)
    assert pickle.loads(pickle.dumps(pair)) == pair
    assert {pair: 1}[Pair(1, "c")] == 1
    assert repr(pair) == "Pair(first=1, second='c')"


def test_what_the_class_checks_of_its_fields_is_still_checked():
    with pytest.raises(ValueError, match="negative"):
        Pair(-1)


@pytest.mark.parametrize("made", [Grant, LockEvent, RecordView, ReadReply, WriteReply])
def test_what_is_made_with_every_request_is_made_so(made):
    assert "__setattr__" not in made.__init__.__code__.co_names
