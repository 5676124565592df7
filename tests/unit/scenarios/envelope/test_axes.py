"""The axes of an envelope: what a user may write, and which values that means."""

from __future__ import annotations

import pytest

from scenarios.envelope.axes import DISTURBANCES, VALUES_MAX, axes_of, parse_axis

S = 1_000_000_000


def test_a_line_without_a_step_has_as_many_steps_as_its_place_gives_it() -> None:
    """The first axis has ten steps, the second eight; each is searched to an eighth of a step."""
    first, second = axes_of([parse_axis("pause=0s..20s"), parse_axis("offset=0s..2s")])
    assert list(first.values) == [step * 2 * S for step in range(11)]
    assert (len(second.values), second.values[-1]) == (9, 2 * S)
    assert (first.resolution, second.resolution) == (S // 4, S // 32)


def test_a_step_is_kept_and_the_end_is_a_value_though_no_step_reaches_it() -> None:
    (axis,) = axes_of([parse_axis("loss=0%..25%/10%")])
    assert list(axis.values) == [0, 100_000, 200_000, 250_000]


def test_one_value_fixes_an_axis_and_counts_as_none() -> None:
    axes = axes_of([parse_axis("latency=50ms"), parse_axis("pause=0s..1s"), parse_axis("rate=0ppm..2%")])
    assert [(axis.of.name, axis.is_fixed) for axis in axes] == [("pause", False), ("rate", False), ("latency", True)]
    assert axes[2].values == (50_000_000,)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("pause", "expected values"),
        ("pauze=0s..1s", "Did you mean 'pause'"),
        ("pause=3s..1s", "not above"),
        ("pause=1s..1s", "not above"),
        ("pause=0s..1s/0s", "step"),
        ("pause=0s..1s/2s", "step"),
        ("pause=0s..1s/1ms", f"2 to {VALUES_MAX} values"),
        ("pause=1s/1s", "no step"),
        ("pause=0s..5", "without a unit"),
        ("pause=-1s..5s", "from 0 s to 600 s"),
        ("loss=0%..95%", "from 0 % to 90 %"),
        ("rate=0s..1s", "share such as"),
        ("rate=0.00001%..1%", "whole number of ppm"),
        ("validity=0s..9s", "from 1 s"),
    ],
)
def test_what_is_no_axis_is_refused_with_what_was_expected(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        parse_axis(text)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["pause=0s..1s", "pause=1s..2s"], "twice"),
        (["pause=1s"], "0 axes"),
        (["pause=0s..1s", "offset=0s..1s", "loss=0%..1%"], "3 axes"),
    ],
)
def test_an_envelope_has_one_or_two_axes(lines: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        axes_of([parse_axis(line) for line in lines])


@pytest.mark.parametrize("name", DISTURBANCES)
def test_what_a_scenario_writes_reads_back_as_the_same_value(name: str) -> None:
    """A cell's file repeats the cell: no digit may be lost on the way."""
    known = DISTURBANCES[name]
    for value in (known.least, known.usual, known.least + 1, known.most - 12_345, known.most):
        assert known.parse(known.exact(value)) == value
