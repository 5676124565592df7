"""A survey over a made-up lock whose edge is known: which cells it asks for, and what it says of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pytest

from lockref.cli.jobs.envelope.picture import badge_of
from lockref.lab.loading import load_provider
from scenarios.envelope import survey as surveying
from scenarios.envelope.axes import Axis, axes_of, parse_axis
from scenarios.envelope.cells import Cell, CellToRun
from scenarios.envelope.contended import Point
from scenarios.envelope.document import document_of
from scenarios.envelope.sentences import answer
from scenarios.envelope.survey import Survey, Surveyed

S = 1_000_000_000
SEEDS = range(1, 11)
HUDI, HARDENED = load_provider("hudi"), load_provider("hardened")
PLANE = ("pause=0s..20s", "offset=0s..2s")

Frequency = Callable[[Point], float]


def made_up(
    frequency: Frequency, *, ended_after: int | None = None, clause: str = "S3"
) -> Callable[..., Iterator[Cell]]:
    """What stands in the place of `measured`: the share of broken runs is a function of the point."""

    def measured(asked: Sequence[CellToRun], seeds: Sequence[int], **_: object) -> Iterator[Cell]:
        for each in islice(asked, ended_after):
            violated = round(frequency(each.point) * len(seeds))
            yield Cell(
                provider=each.spec.name,
                point=each.point,
                runs=len(seeds),
                violated=violated,
                clauses={clause: violated} if violated else {},
                seeds={clause: seeds[0]} if violated else {},
                shows_tokens=each.spec is HARDENED,
                is_judged=True,
            )

    return measured


def surveyed(
    monkeypatch: pytest.MonkeyPatch, measured: Callable[..., object], *lines: str, specs: Sequence[object] = (HUDI,)
) -> tuple[Survey, list[Surveyed], tuple[Axis, ...]]:
    monkeypatch.setattr(surveying, "measured", measured)
    axes = axes_of([parse_axis(line) for line in lines])
    survey = Survey(
        specs=specs, axes=axes, seeds=SEEDS, processes=1, is_over=lambda: False, tell=lambda *_: None,
    )  # fmt: skip
    return survey, survey.run(), axes


def test_the_boundary_of_each_row_and_column_is_found_to_the_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up lock breaks from 9.6 s less the offset on: a straight edge, searched along both axes."""
    edge = 9_600_000_000
    _, (found,), axes = surveyed(monkeypatch, made_up(lambda point: float(point.pause + point.offset >= edge)), *PLANE)
    resolution = {axis.of.name: axis.resolution for axis in axes}
    assert len(found.grid) == 11 * 9
    assert [each.along for each in found.boundaries] == ["pause"] * 9 + ["offset"] * 11
    for each in found.boundaries:
        other = each.at.offset if each.along == "pause" else each.at.pause
        held, broke = each.bracket.held, each.bracket.broke
        if held is not None and broke is not None:
            assert held + other < edge <= broke + other
            assert broke - held <= resolution[each.along] == each.resolution
    assert sum(each.bracket.broke is None for each in found.boundaries) == 4, "pauses of 0 s to 6 s never break"


def test_a_survey_asks_for_the_same_cells_whatever_the_number_of_locks_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = made_up(lambda point: float(point.pause >= 7 * S))
    _, (alone,), _ = surveyed(monkeypatch, measured, *PLANE)
    _, (_, beside), _ = surveyed(monkeypatch, measured, *PLANE, specs=(HARDENED, HUDI))
    assert beside == alone


def test_a_survey_that_is_ended_early_has_a_coarse_picture_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second value of each axis comes first; the boundary is told where a row is whole, and nowhere else."""
    survey, (found,), axes = surveyed(monkeypatch, made_up(lambda _: 0.0, ended_after=30), *PLANE)
    assert survey.is_cut
    assert {cell.point.pause for cell in found.grid} == {step * 4 * S for step in range(6)}
    assert {cell.point.offset for cell in found.grid} == {step * S // 2 for step in range(5)}
    assert (found.boundaries, answer(found, axes).headline) == ([], "not finished")


def test_ctrl_c_leaves_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **kwargs: object) -> Iterator[Cell]:
        yield from made_up(lambda _: 1.0, ended_after=3)(*args, **kwargs)
        raise KeyboardInterrupt

    survey, (found,), _ = surveyed(monkeypatch, interrupted, *PLANE)
    assert survey.is_interrupted
    assert len(found.grid) == 3


def test_only_what_is_promised_there_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 at a long pause is promised by hardened and not by hudi; S5 is promised by both while clocks agree."""
    everywhere = made_up(lambda _: 0.5)
    _, (hudi, hardened), _ = surveyed(monkeypatch, everywhere, *PLANE, specs=(HUDI, HARDENED))
    assert {clauses for _, clauses in ((cell.point, tuple(clauses)) for cell, clauses in hudi.broken_promises)} == {
        ("S3",)
    }
    assert max(cell.point.pause for cell, _ in hudi.broken_promises) <= 9_490_000_000
    assert max(cell.point.pause for cell, _ in hardened.broken_promises) == 20 * S
    assert max(cell.point.offset for cell, _ in hardened.broken_promises) <= S // 2
    _, (early,), _ = surveyed(monkeypatch, made_up(lambda _: 0.5, clause="S5"), *PLANE)
    assert max(cell.point.pause for cell, _ in early.broken_promises) == 20 * S


def test_the_sentence_of_a_lock_that_breaks_by_a_pause_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    frequency = lambda point: float(point.pause + point.offset >= 10 * S)  # noqa: E731 - a function in one line
    _, (found,), axes = surveyed(monkeypatch, made_up(frequency), *PLANE)
    told = answer(found, axes)
    assert told.headline == "broke from a pause of 10 s on; from 8 s with clocks 2 s apart"
    assert told.sentences[0].startswith(
        "It broke from a pause of 10 s on with clocks that agree (at 9.75 s 0 of 10 runs"
    )
    assert told.sentences[0].endswith(
        "broke, so fewer than 30 % do); with clocks 2 s apart it broke from a pause of 8 s on."
    )
    assert told.sentences[-1].startswith(
        "It promises to hold: while no pause is longer than 9.49 s, with clocks that agree; "
        "or while clocks agree within 500 ms, with no pause. There 0 of"
    )


def test_the_sentence_of_a_lock_that_breaks_by_clocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    frequency = lambda point: float(point.offset > S and point.pause > 8 * S)  # noqa: E731 - a function in one line
    _, (found,), axes = surveyed(monkeypatch, made_up(frequency), *PLANE, specs=(HARDENED,))
    told = answer(found, axes)
    assert told.headline == "held at any pause while clocks agree within 500 ms"
    assert told.sentences[0] == (
        "Your writers may pause as long as they like while clocks agree within 500 ms (promised; 20 s was the worst "
        "that was tried); it broke with clocks 1.031 s apart, at a pause of 10 s (at 1 s 0 of 10 runs broke, so fewer "
        "than 30 % do)."
    )


def test_no_more_is_said_of_an_unpromised_lock_than_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs of a cell bound nothing, and a pause that held at 20 s is not a pause of any length."""
    monkeypatch.setattr(sys.modules[__name__], "SEEDS", range(1, 4))
    silent = replace(HUDI, claims=(), record_format=None)
    frequency = lambda point: float(point.offset > S and point.pause > 8 * S)  # noqa: E731 - a function in one line
    _, (found,), axes = surveyed(monkeypatch, made_up(frequency), *PLANE, specs=(silent,))
    told = answer(found, axes)
    assert not found.promises
    assert told.headline == "held up to a pause of 20 s while clocks agree within 1 s"
    runs = sum(cell.runs for cell in found.cells if cell.point.offset <= S)
    assert told.sentences[0] == (
        f"No run of {runs} broke up to a pause of 20 s while clocks agree within 1 s, and nothing worse was tried; it "
        "broke with clocks 1.031 s apart, at a pause of 10 s (at 1 s 0 of 3 runs broke, too few to say more)."
    )
    assert "`claims`" in told.sentences[-1]


def test_an_unfinished_survey_tells_between_which_values_it_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = made_up(lambda point: float(point.pause >= 12 * S), ended_after=6)
    survey, (found,), axes = surveyed(monkeypatch, measured, "pause=0s..20s/2s")
    assert survey.is_cut
    assert answer(found, axes).sentences[0] == (
        "It was ended before the boundary could be told; it held at a pause of 8 s (0 of 10), and it broke at a pause "
        "of 12 s (in 10 of 10 runs)."
    )


def test_only_a_lock_that_broke_nowhere_has_a_green_badge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hudi keeps its promise of 9.49 s and breaks at each longer pause: its badge says both, and is not green."""
    found = {}
    for edge in (4, 12, 30):
        measured = made_up(lambda point, edge=edge: float(point.pause >= edge * S))
        _, (found[edge],), _ = surveyed(monkeypatch, measured, "pause=0s..20s/2s")
    assert badge_of(found[4]) == ("violated", "broke its promise")
    assert badge_of(found[12]) == ("inconclusive", "kept its promise, broke beyond it")
    assert badge_of(found[30]) == ("held", "kept its promise")
    assert badge_of(replace(found[30], promises={})) == ("not_applicable", "promises nothing")


def test_the_sentence_of_a_validity_counts_downwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long validity is the mild one; what is promised from 5.0111 s on is told as from 5.02 s, no less."""
    measured = made_up(lambda point: float(point.validity < 5 * S))
    _, (found,), axes = surveyed(monkeypatch, measured, "validity=2s..20s/2s", "pause=5s")
    told = answer(found, axes)
    assert told.headline == "broke from a validity of 4.75 s down"
    assert told.sentences[-1].startswith("It promises to hold: while the validity is at least 5.02 s.")


def test_a_broken_promise_is_told_in_the_place_of_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (found,), axes = surveyed(monkeypatch, made_up(lambda point: float(point.pause >= 4 * S)), "pause=0s..8s/4s")
    told = " ".join(answer(found, axes).sentences)
    assert "It broke its promise: S3 in 10 of 10 runs at a pause of 4 s" in told
    assert "It promises to hold" not in told


def test_nothing_is_ever_called_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (found,), axes = surveyed(monkeypatch, made_up(lambda _: 0.0), *PLANE)
    told = answer(found, axes)
    assert told.sentences[0].startswith("It held in all of 990 runs, so fewer than 0.3 % break, at 95 %")
    assert "safe" not in " ".join(told.sentences)


def test_the_document_says_of_each_cell_what_was_measured_and_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found, axes = surveyed(monkeypatch, made_up(lambda point: 0.3 * (point.pause >= 4 * S)), "pause=0s..8s/4s")
    document = document_of(found, axes, SEEDS, failures={}, ending="finished", exit_code=1)
    (hudi,) = document["providers"]
    held, broke, _ = hudi["grid"]
    assert (document["format"], document["axes"][0]["values"]) == ("lockref.envelope/1", [0, 4 * S, 8 * S])
    assert (held["violated"], held["low_95"], held["high_95"]) == (0, 0.0, 0.3)
    # Wilson's interval of 3 in 10.
    assert (broke["violated"], broke["low_95"], broke["high_95"]) == (3, 0.107791, 0.603222)
    assert broke["promised"] == ["S1", "S2", "S3", "S4", "S5", "S6", "S7"]
    (boundary,) = hudi["boundaries"]
    assert 3_500_000_000 <= boundary["held"] < boundary["broke"] == 4 * S
