"""Subjects that were run several times: what the differences between runs tell, how often they err, what is refused."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from lockref.cli.main import run
from lockref.errors import ConfigError
from reports.comparison.comparison import Cell, Comparison, Row, compare
from reports.comparison.differences import (
    _arrangements,
    between_runs,
    chance_of_shares,
    known,
    repeats_least,
    share_seen,
)
from reports.comparison.subjects import (
    UNSERVED,
    Figure,
    Share,
    Subject,
    fingerprint_subject,
    repeated_subject,
    require_different,
)
from reports.comparison.terminal import difference, notices, told
from reports.history_files import write_history
from tests.docs import ROOT
from tests.histories import TIMING, History
from tests.unit.reports.comparison.test_comparison import fingerprint

FIGURES = ("grants per second", "wait, median", "wait, 99 %", "hand-off, median", "hand-off, 99 %", "requests")


def single(title: str, values: Mapping[str, float | None], *, unserved: int = 0, **facts: str) -> Subject:
    """One real run with these figures, of eight clients."""
    return Subject(
        title=title,
        path=Path(title),
        verdict="held",
        statement="held",
        facts={"world": "real", "provider": "hardened", **facts},
        shares={UNSERVED: Share(verdict="", broken=unserved, judged=8)},
        figures=[
            Figure(name=name, unit="ns", drawn=known(np.nan if value is None else value), has_interval=False)
            for name, value in values.items()
        ],
        digest=title,
    )


def repeated(title: str, waits: Sequence[float | None], *, blocks: Sequence[int] | None = None) -> Subject:
    """Runs with these waits, in blocks 1, 2, 3 and so on."""
    numbers = blocks or range(1, len(waits) + 1)
    return repeated_subject(
        {block: single(f"{title}{block}", {"wait": wait}) for block, wait in zip(numbers, waits, strict=True)}
    )


def wait_of(*subjects: Subject) -> tuple[Row, Cell]:
    row = next(row for row in compare(subjects).rows if row.name == "wait")
    return row, row.cells[1]


def anything_told(random: np.random.Generator, repeats: int) -> bool:
    """Whether two equal subjects that were run in blocks are told apart in anything. Blocks differ, and so do runs."""
    slowness = np.exp(random.normal(0.0, 0.3, size=(repeats, 1, 1)))
    figures = slowness * np.exp(random.normal(0.0, 0.2, size=(repeats, 2, len(FIGURES))))
    subjects = [
        repeated_subject(
            {
                block + 1: single(
                    f"{side}{block}",
                    dict(zip(FIGURES, figures[block, side], strict=True)),
                    unserved=int(random.integers(0, 3)),
                )
                for block in range(repeats)
            }
        )
        for side in (0, 1)
    ]
    return any(cell.is_better is not None for row in compare(subjects).rows for cell in row.cells)


@pytest.mark.parametrize("repeats", [2, 6, 10])
def test_equal_subjects_are_called_better_in_any_figure_no_more_often_than_promised(repeats: int):
    """At most 5 of 100 comparisons. Of 200, more than 18 would err once in a hundred trials at that rate."""
    random = np.random.default_rng(repeats)
    assert sum(anything_told(random, repeats) for _ in range(200)) <= 18


@pytest.mark.parametrize("repeats", [4, 6, 12])
def test_the_interval_misses_the_true_ratio_about_as_often_as_it_may(repeats: int):
    """By a trial: not more often than the error, and not so seldom that it says nothing. Runs have a long tail."""
    random = np.random.default_rng(repeats)
    missed = 0
    for _ in range(1_000):
        own, of = 1.7 * random.exponential(size=repeats), random.exponential(size=repeats)
        found = between_runs(np.divide.outer(own, of), error=0.05)
        assert found is not None
        missed += not found.holds(1.7)
    assert 10 <= missed <= 66


@pytest.mark.parametrize(
    ("runs", "of_runs", "critical"), [(4, 4, 0), (5, 5, 2), (6, 6, 5), (5, 8, 6), (7, 7, 8), (8, 8, 13), (10, 10, 23)]
)
def test_the_ends_of_the_interval_are_those_of_the_published_table(runs: int, of_runs: int, critical: int):
    """Mann and Whitney's U at 5 %, both sides: so many pairs and one more lie outside at either end."""
    pairs = np.arange(runs * of_runs, dtype=np.float64).reshape(runs, of_runs)
    found = between_runs(pairs, error=0.05)
    assert found is not None
    assert (found.low, found.high) == (critical, runs * of_runs - 1 - critical)


def test_orders_of_runs_are_counted_as_by_hand():
    """Every choice of three places out of seven, and how many pairs stand the wrong way round in it."""
    counts = [0] * 13
    for places in combinations(range(7), 3):
        counts[sum(place - order for order, place in enumerate(places))] += 1
    assert _arrangements(3, 4) == tuple(counts)


def test_fisher_s_test_is_that_of_the_lady_tasting_tea():
    assert chance_of_shares(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert chance_of_shares(2, 2, 0, 2) == pytest.approx(1 / 3)
    assert chance_of_shares(0, 5, 0, 9) == 1.0
    # More broke than the smaller side has runs: of its two at most two, at least none.
    assert chance_of_shares(9, 10, 1, 2) == pytest.approx(21 / 66)
    assert chance_of_shares(1, 2, 9, 10) == pytest.approx(21 / 66)


def test_two_runs_against_two_tell_no_share_apart():
    """Newcombe's interval leaves "none" out; equal locks that break in every second run show it one time in eight."""
    subjects = [single("a", {}), single("b", {})]
    for subject, broken in zip(subjects, (2, 0), strict=True):
        subject.shares["S3"] = Share(verdict="violated" if broken else "held", broken=broken, judged=2)
    row = next(row for row in compare(subjects).rows if row.name == "S3")
    assert (row.cells[1].apart, row.cells[1].is_better) == ("not_apart", None)
    assert difference(row, row.cells[1]) == "may be chance"


def test_what_is_twice_as_slow_in_every_run_is_worse():
    row, cell = wait_of(repeated("a", [10, 11, 12, 13, 14, 15]), repeated("b", [30, 32, 34, 36, 38, 40]))
    assert (cell.apart, cell.is_better) == ("apart", False)
    assert difference(row, cell).startswith("worse: 2")
    assert (cell.value, cell.low, cell.high) == (35, 30, 40)


def test_too_few_runs_say_so_and_how_many_it_takes():
    subjects = [repeated("a", [10, 11]), repeated("b", [30, 32])]
    row, cell = wait_of(*subjects)
    assert (cell.apart, difference(row, cell)) == ("few_runs", "too few runs to tell")
    told_of = notices(compare(subjects))
    assert told_of[0].startswith("runs of each: 2, 2. ")
    assert told_of[1] == "so few runs cannot tell a difference of figures: it takes 5 of each"


@pytest.mark.parametrize("lacks_first", [True, False])
def test_a_figure_that_some_run_lacks_is_not_known(lacks_first: bool):
    """Of the runs that had a hand-off, the median would be one of a selection, however clear the difference is."""
    full, holed = repeated("a", [10, 11, 12, 13, 14, 15, 16]), repeated("b", [30, None, 34, 36, 38, 40, 41])
    row, cell = wait_of(holed, full) if lacks_first else wait_of(full, holed)
    assert (cell.apart, cell.is_better, difference(row, cell)) == ("unknown", None, "not known")
    assert told(row, row.cells[0 if lacks_first else 1]) == "known in 6 of 7 runs"


def test_a_figure_that_no_run_of_one_subject_has_is_not_known():
    other = repeated_subject({block: single(f"b{block}", {}) for block in (1, 2)})
    row, cell = wait_of(repeated("a", [1, 2]), other)
    assert (told(row, cell), difference(row, cell)) == ("known in 0 of 2 runs", "not known")


def test_a_quantile_of_too_few_samples_in_one_run_is_not_told_apart():
    """The 99th percentile of fifty waits is the longest, whose size says how many there were."""
    runs = {block: single(f"b{block}", {"wait": 30.0 + block}) for block in range(1, 7)}
    few = Figure(name="wait", unit="ns", drawn=known(36.0), has_interval=False, has_samples=False)
    runs[6] = Subject(**{**{name: getattr(runs[6], name) for name in Subject.__slots__}, "figures": [few]})
    row, cell = wait_of(repeated("a", [10, 11, 12, 13, 14, 15]), repeated_subject(runs))
    assert (cell.value, cell.apart, difference(row, cell)) == (33.5, "unknown", "not known")

    row, cell = wait_of(repeated_subject(runs), repeated("a", [10, 11, 12, 13, 14, 15]))
    assert (cell.value, cell.apart, difference(row, cell)) == (12.5, "unknown", "not known")


def test_nothing_is_so_many_times_as_large_as_nothing():
    """A reference of 0 in some run gives no ratio, so the difference is not known, however clear it looks."""
    row, cell = wait_of(repeated("a", [0, 1, 1, 1, 1, 1]), repeated("b", [30, 32, 34, 36, 38, 40]))
    assert (cell.apart, cell.is_better, difference(row, cell)) == ("unknown", None, "not known")


def test_more_grants_in_every_run_are_better():
    """Of most figures the smaller one is the better; not of rates."""

    def rates(title: str, values: Sequence[float]) -> Subject:
        runs = {}
        for block, value in enumerate(values, 1):
            rate = Figure(name="rate", unit="1/s", drawn=known(value), is_less_better=False, has_interval=False)
            runs[block] = replace(single(f"{title}{block}", {}), figures=[rate])
        return repeated_subject(runs)

    rows = compare([rates("a", [10, 11, 12, 13, 14, 15]), rates("b", [30, 32, 34, 36, 38, 40])]).rows
    cell = next(row for row in rows if row.name == "rate").cells[1]
    assert (cell.apart, cell.is_better) == ("apart", True)


def test_two_are_compared_by_the_blocks_that_both_have():
    """A store that ended after six blocks is not measured against the eighth, which was slow for all."""
    reference = repeated("a", [10, 11, 12, 13, 14, 15, 900, 950])
    row, cell = wait_of(reference, repeated("b", [30, 32, 34, 36, 38, 40]))
    assert (cell.apart, cell.is_better) == ("apart", False)
    row, cell = wait_of(reference, repeated("b", [30, 950], blocks=[7, 9]))
    assert cell.apart == "few_runs"
    row, cell = wait_of(reference, repeated("b", [30, 950], blocks=[9, 10]))
    assert (cell.apart, difference(row, cell)) == ("unknown", "not known")


def test_clients_that_were_never_served_are_compared_by_runs():
    """Eight clients of one run are no eight measurements: 48 of 48 against none, in one run each, is not told apart."""

    def runs(title: str, repeats: int, unserved: int) -> Subject:
        return repeated_subject({at: single(f"{title}{at}", {}, unserved=unserved) for at in range(1, repeats + 1)})

    for repeats, apart in ((2, "few_runs"), (4, "apart")):
        found = compare([runs("a", repeats, 0), runs("b", repeats, 8)])
        (row,) = [row for row in found.rows if row.name == UNSERVED]
        assert row.cells[1].apart == apart
    holed = {at: single(f"b{at}", {}, unserved=8) for at in range(1, 5)}
    holed[4] = replace(holed[4], shares={UNSERVED: Share(verdict="", broken=0, judged=0)})
    (row,) = [row for row in compare([runs("a", 4, 0), repeated_subject(holed)]).rows if row.name == UNSERVED]
    assert (row.cells[1].apart, row.cells[1].is_better, row.cells[1].difference_low) == ("unknown", None, None)
    alone = compare([single("a", {}), single("b", {}, unserved=8)])
    assert [row.cells[1].is_better for row in alone.rows] == [None]


@pytest.mark.parametrize(("of_faulty", "verdict", "apart"), [(40, "unsafe", "one_run"), (0, "conforming", "apart")])
def test_rounds_of_a_race_in_one_probe_hang_together(of_faulty: int, verdict: str, apart: str):
    """Two shares of lost rounds may be one store in two hours. That one store lost any, and the other none, is told."""
    documents = []
    for faulty, said in ((90, "unsafe"), (of_faulty, verdict)):
        one = fingerprint("http://a", C2=said)
        race = one.clauses["C2"].rate
        assert race is not None
        answer = one.clauses["C2"].model_copy(update={"rate": race.model_copy(update={"faulty": faulty})})
        documents.append(one.model_copy(update={"clauses": {"C2": answer}}))
    found = compare([fingerprint_subject(one, Path(str(place))) for place, one in enumerate(documents)])
    cell = next(row for row in found.rows if row.name == "C2").cells[1]
    assert (cell.apart, cell.is_better) == (apart, True if apart == "apart" else None)


def test_repeated_probes_keep_the_worst_verdict():
    """A store that overlooked a condition once does overlook it."""
    documents = [fingerprint("http://a", C2=word, C4="usable") for word in ("conforming", "unsafe", "conforming")]
    probed = {at: fingerprint_subject(one, Path(str(at))) for at, one in enumerate(documents, 1)}
    share = repeated_subject(probed).shares["C2"]
    assert (share.verdict, share.broken, share.judged) == ("unsafe", 40, 900)
    assert repeated_subject(probed).shares["C4"].is_asked_once


def test_an_answer_that_was_asked_for_once_in_each_probe_differs_without_a_chance():
    """No race stands behind it, so two answers that differ are two answers, in however few probes."""

    def probed(word: str) -> Subject:
        documents = [fingerprint("http://a", C2="conforming", C4=word) for _ in range(2)]
        return repeated_subject(
            {at: fingerprint_subject(one, Path(f"{word}{at}")) for at, one in enumerate(documents, 1)}
        )

    for word, told_apart in (("conforming", ("apart", True)), ("usable", ("not_apart", None))):
        rows = compare([probed("usable"), probed(word)]).rows
        cell = next(row for row in rows if row.name == "C4").cells[1]
        assert (cell.apart, cell.is_better) == told_apart


def test_how_late_the_machine_was_in_some_repeat_is_told():
    runs = {at: single(f"a{at}", {}) for at in (1, 2)}
    runs[2].facts["machine late by up to"] = "0.4 s"
    assert repeated_subject(runs).facts["machine late by up to"] == "0.4 s in 1 of 2 runs"


def test_repeats_that_were_asked_something_else_are_refused():
    with pytest.raises(ConfigError, match=r"is no repeat of a: they differ in provider") as refused:
        repeated_subject({1: single("a", {}), 2: single("b", {}, provider="hudi")})
    assert refused.value.location is not None


def test_a_run_or_its_copy_given_twice_is_refused():
    one, other = single("a", {}), single("b", {})
    require_different([one, other])
    for twice in ([one, other, one], [one, other, single("c", {})]):
        if twice[2] is not one:
            object.__setattr__(twice[2], "digest", one.digest)
        with pytest.raises(ConfigError, match=r"a: stands twice|c: is the same run as a"):
            require_different(twice)


def test_a_single_run_does_not_stand_beside_repeats():
    with pytest.raises(ValueError, match="beside a single run"):
        compare([repeated("a", [1, 2]), single("b", {})])


def test_the_page_says_how_often_a_difference_is_seen():
    """The table of docs/results.md, whose rows of six runs are tried here; and how many runs it takes at all."""
    error = 0.05 / 7
    assert repeats_least(error) == 6
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if re.match(r"\| 6 \| \d+ % \|", line)]
    assert len(lines) == 3
    for line in lines:
        _runs, spread, *seen = (word.strip(" %") for word in line.strip("|").split("|"))
        for factor, percent in zip((1.2, 1.5, 2.0), seen, strict=True):
            share = share_seen(factor, repeats=6, spread=int(spread) / 100, error=error)
            assert round(100 * share) == int(percent), (factor, spread)


@pytest.fixture
def recorded(tmp_path: Path) -> list[str]:
    """Folders of twelve recorded real runs: the second of each two waits for twice as long, and no two are equal."""
    folders = []
    for number in range(12):
        factor, more = 1 + number % 2, number
        history = History(run={**TIMING, "world": "real", "clients": 2, "end_ns": 90_000}, is_simulated=False)
        for grant in range(30):
            at = 2_000 * grant
            held = history.granted("n1", call=at, applied=at + 50, returned=at + factor * (100 + more))
            history.released(held, call=at + 500, applied=at + 510, returned=at + 520)
        folder = tmp_path / f"run-{number}"
        write_history(folder, *history.tables())
        folders.append(str(folder))
    return folders


def test_the_command_compares_blocks(
    recorded: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Six runs of each: the wait is worse. Of one run of each nothing is better, however far apart their waits are."""
    monkeypatch.chdir(tmp_path)
    assert run(["compare", "--repeats", "6", *recorded, "--json", "--out", "side"]) == 0
    assert "worse: " in (tmp_path / "side/comparison.md").read_text()
    found = Comparison.model_validate_json(capsys.readouterr().out)
    assert [column.repeats for column in found.columns] == [6, 6]
    (wait,) = [row for row in found.rows if row.name == "wait, median"]
    assert (wait.cells[1].apart, wait.cells[1].is_better, wait.cells[1].runs) == ("apart", False, 6)
    assert run(["compare", *recorded[:2], "--json"]) == 0
    alone = Comparison.model_validate_json(capsys.readouterr().out)
    (wait,) = [row for row in alone.rows if row.name == "wait, median"]
    assert wait.cells[1].apart == "one_run", "clearly apart within the runs"
    assert {cell.is_better for row in alone.rows for cell in row.cells} == {None}


def test_the_command_refuses_what_are_no_blocks(
    recorded: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Blocks of unequal size, a run that stands twice, and a copy of a run: exit 2, with the place."""
    monkeypatch.chdir(tmp_path)
    assert run(["compare", "--repeats", "2", *recorded[:3]]) == 2
    assert "3 runs are no 2 blocks" in capsys.readouterr().err
    assert run(["compare", "--repeats", "2", *recorded[:3], recorded[0]]) == 2
    assert f"{recorded[0]}: stands twice" in capsys.readouterr().err
    shutil.copytree(recorded[0], tmp_path / "copied")
    assert run(["compare", "--repeats", "2", *recorded[:3], "copied"]) == 2
    assert f"copied: is the same run as {recorded[0]}" in capsys.readouterr().err
