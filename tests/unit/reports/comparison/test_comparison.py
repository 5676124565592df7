"""Runs side by side: what is told apart, and what may be chance."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lockref.cli.main import run
from lockref.stores.probe.fingerprint import Fingerprint
from reports.comparison.comparison import Cell, Row, compare
from reports.comparison.differences import (
    Interval,
    Stretches,
    interval_of,
    once,
    quantile_of,
    ratio_interval,
    ratio_of,
    resampled,
    share_difference,
)
from reports.comparison.subjects import (
    STRETCHES,
    UNSERVED,
    Figure,
    Share,
    Subject,
    _answered_s,
    _unserved,
    fingerprint_subject,
    open_subject,
)
from reports.comparison.terminal import difference, heading, notices, told
from reports.history_files import history_folders, write_history
from reports.html.comparison import write_comparison
from tests.histories import TIMING, History


def subject(
    title: str, *, broken: int = 0, judged: int = 100, waits: np.ndarray | None = None, **facts: str
) -> Subject:
    """A subject with one clause, and the median of some waits."""
    figures = []
    if waits is not None:
        samples = Stretches(waits, np.arange(len(waits)) % STRETCHES, STRETCHES)
        figures = [Figure(name="wait, median", unit="ns", drawn=quantile_of(samples, 0.5))]
    share = Share(verdict="violated" if broken else "held", broken=broken, judged=judged)
    return Subject(
        title=title,
        path=Path(title),
        verdict=share.verdict,
        statement="",
        facts=facts,
        shares={"S3": share},
        figures=figures,
    )


def test_a_difference_of_shares_is_newcombe_s():
    """The example of Newcombe 1998, table II: 56 of 70 against 48 of 80, method 10."""
    found = share_difference(56, 70, 48, 80)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


def test_no_broken_run_has_the_bound_that_a_verdict_tells() -> None:
    """0 of 2,000 runs: at most 0.15 % here, as in the verdict of the same campaign, and not Wilson's 0.19 %."""
    (row,) = [row for row in compare([subject(title, judged=2_000) for title in "ab"]).rows if row.name == "S3"]
    assert [cell.high for cell in row.cells] == [0.0015, 0.0015]


def test_shares_of_nothing_may_differ_by_anything():
    assert share_difference(0, 0, 5, 10) == Interval(-1.0, 1.0)


def test_a_quantile_drawn_once_is_a_value_that_occurred():
    """As everywhere in reports: the smallest value that at least this share of the samples does not exceed."""
    values = np.random.default_rng(5).exponential(size=501)
    samples = Stretches(values, np.random.default_rng(6).integers(0, STRETCHES, 501), STRETCHES)
    for share in (0.5, 0.99, 1.0):
        assert once(quantile_of(samples, share), STRETCHES) == np.quantile(values, share, method="inverted_cdf")


def test_a_rate_is_a_sum_over_a_sum():
    grants, seconds = np.arange(STRETCHES, dtype=float), np.full(STRETCHES, 0.5)
    assert once(ratio_of(grants, seconds), STRETCHES) == grants.sum() / seconds.sum()
    assert once(ratio_of(grants, np.zeros(STRETCHES)), STRETCHES) is None


def test_samples_outside_of_the_stretches_are_refused():
    with pytest.raises(ValueError, match="outside"):
        Stretches(np.ones(2), np.array([0, STRETCHES]), STRETCHES)


def test_an_interval_at_95_percent_misses_about_one_in_twenty():
    """Runs of one kind are told apart by chance seldom: below 12 of 100 pairs, where 5 are due."""
    random = np.random.default_rng(1)

    def figures(seed: int) -> np.ndarray:
        samples = Stretches(random.exponential(size=480), np.arange(480) % STRETCHES, STRETCHES)
        return resampled(quantile_of(samples, 0.5), STRETCHES, seed=seed)

    intervals = [ratio_interval(figures(1), figures(0)) for _ in range(100)]
    assert sum(not interval.holds(1.0) for interval in intervals if interval is not None) < 12


def test_slow_stretches_widen_the_interval():
    """Samples of one stretch are alike: as independent samples they would make a difference seem certain."""
    levels = np.random.default_rng(2).exponential(size=STRETCHES)
    stretch = np.repeat(np.arange(STRETCHES), 50)
    blocked = Stretches(levels[stretch], stretch, STRETCHES)
    mixed = Stretches(levels[stretch], np.random.default_rng(3).permutation(stretch), STRETCHES)
    widths = []
    for samples in (blocked, mixed):
        found = interval_of(resampled(quantile_of(samples, 0.5), STRETCHES, seed=0))
        assert found is not None
        widths.append(found.high - found.low)
    assert widths[0] > 2 * widths[1]


def test_a_figure_that_is_mostly_undefined_has_no_interval():
    """A single sample is in about two of three resamples only."""
    single = Stretches(np.ones(1), np.zeros(1, dtype=np.int64), STRETCHES)
    assert interval_of(resampled(quantile_of(single, 0.5), STRETCHES, seed=0)) is None


def test_an_interval_is_the_middle_95_percent_and_holds_its_ends():
    """Of 1001 figures the 26th and the 976th. A difference that just reaches "none" is not told apart."""
    found = interval_of(np.arange(1001, dtype=float))
    assert found == Interval(25.0, 975.0)
    assert found.holds(25.0)
    assert found.holds(975.0)
    assert not found.holds(24.9)


def test_a_ratio_to_nothing_is_undefined():
    """Where one in ten resamples of the reference is 0, nobody knows how many times as much the other one is."""
    of = np.ones(1000)
    assert ratio_interval(2 * of, of) == Interval(2.0, 2.0)
    of[::10] = 0.0
    assert ratio_interval(np.ones(1000), of) is None


def row_of(subjects: list[Subject], name: str) -> Row:
    return next(row for row in compare(subjects).rows if row.name == name)


def test_a_verdict_beside_starved_clients_is_not_green(tmp_path: Path) -> None:
    """ "Held" stays the word; its colour says that something is open. The other run, which served all, stays green."""
    starved, served = subject("starved"), subject("served")
    starved.shares[UNSERVED] = Share(verdict="", broken=3, judged=8)
    served.shares[UNSERVED] = Share(verdict="", broken=0, judged=8)
    page = write_comparison(compare([starved, served]), tmp_path).read_text("utf-8")
    assert re.findall(r'<span class="badge (\w+)">held</span>', page)[:2] == ["inconclusive", "held"]


def real_run() -> History:
    """Two clients on a real server: n1 gives the lock to n2, asks in vain, and takes over what n2 leaves behind."""
    run = History(
        run={**TIMING, "world": "real", "clients": 2, "end_ns": 2_400, "faults_end_ns": 0}, is_simulated=False
    )
    first = run.granted("n1", call=100, applied=150, returned=200)
    run.released(first, call=300, applied=310, returned=320)
    run.granted("n2", call=250, applied=340, returned=350)
    run.fails("n1", call=360, returned=370)
    run.granted("n1", call=380, applied=900, returned=1_000)
    return run


def test_the_figures_of_a_run_are_those_of_its_grants(tmp_path: Path):
    """Waits and rates count what was granted; only what follows a release is a hand-off after one."""
    write_history(tmp_path / "real", *real_run().tables())
    figures = {figure.name: figure for figure in open_subject(tmp_path / "real").figures}
    values = {name: once(figure.drawn, STRETCHES) for name, figure in figures.items()}
    assert values["wait, median"] == 100
    assert values["wait, 99 %"] == 620
    assert values["hand-off after release, 99 %"] == 40
    assert values["requests per grant"] == 4 / 3
    assert values["grants per second"] == pytest.approx(3 / 900e-9)
    assert {name: figure.is_less_better for name, figure in figures.items()} == {
        name: name != "grants per second" for name in figures
    }
    assert not any(figure.has_interval for name, figure in figures.items() if "%" in name or "median" in name)


def test_virtual_time_has_no_figures(tmp_path: Path):
    """Its latencies are the scenario's."""
    simulated = real_run()
    simulated.run["world"] = "simulated"
    write_history(tmp_path / "simulated", *simulated.tables())
    assert open_subject(tmp_path / "simulated").figures == []


def test_rates_are_per_second_in_which_the_store_was_there():
    """A stretch that the store was silent in for half of its time counts half."""
    silences = tuple(SimpleNamespace(begin_ns=begin, end_ns=end) for begin, end in ((50, 100), (190, 250)))
    case: Any = SimpleNamespace(store_answers=(SimpleNamespace(silences=silences),))
    seconds = _answered_s(case, 0, 100.0) * 1e9
    assert seconds.tolist() == [50, 90, 50] + [100] * (STRETCHES - 3)


def test_who_asked_and_was_never_served_is_counted():
    results: Any = SimpleNamespace(speed=SimpleNamespace(clients_asked=7, clients_served=5))
    assert _unserved(results)[UNSERVED] == Share(verdict="", broken=2, judged=7)


def test_what_breaks_often_is_told_apart_from_what_never_breaks():
    row = row_of([subject("a", broken=13), subject("b")], "S3")
    assert [cell.apart for cell in row.cells] == ["reference", "apart"]
    assert row.cells[1].is_better is True
    assert difference(row, row.cells[1]).startswith("better: -")
    assert told(row, row.cells[0]) == "violated, 13 of 100 (7.8 to 21 %)"


def test_a_race_beside_a_question_that_was_asked_once_is_not_told_apart():
    """One store was raced, and the other one was not: the verdict of the one is no answer to the other's."""
    raced, asked = subject("a"), subject("b")
    raced.shares["S3"] = Share(verdict="unsafe", broken=3, judged=40)
    asked.shares["S3"] = Share(verdict="conforming", is_asked_once=True)
    for pair in ([raced, asked], [asked, raced]):
        assert row_of(pair, "S3").cells[1].apart == "unknown"


def test_two_runs_are_resampled_apart():
    """Of equal samples too: drawn alike, their ratio would seem certain."""
    waits = np.random.default_rng(4).exponential(1e6, size=600)
    cell = row_of([subject("a", waits=waits), subject("b", waits=waits)], "wait, median").cells[1]
    assert cell.difference_low is not None
    assert cell.difference_high is not None
    assert cell.difference_low < 0.99
    assert cell.difference_high > 1.01


def test_answers_of_stores_have_an_order():
    """Usable is safe with deviations; what is refused cannot be used at all, and what is overlooked is worst."""
    stores = []
    for verdict in ("usable", "conforming", "usable", "unsupported", "unsafe", "not_answered"):
        stores.append(subject(verdict))
        stores[-1].shares["S3"] = Share(verdict=verdict, is_asked_once=True)
    cells = row_of(stores, "S3").cells[1:]
    assert [cell.is_better for cell in cells] == [True, None, False, False, None]
    assert [cell.apart for cell in cells] == ["apart", "not_apart", "apart", "apart", "unknown"]


def test_a_clause_of_which_no_run_was_judged_is_not_told_apart():
    """Neither better nor alike: nobody knows."""
    for pair in ([subject("a", judged=0), subject("b")], [subject("a"), subject("b", judged=0)]):
        assert row_of(pair, "S3").cells[1].apart == "unknown"


def test_a_hundred_per_cent_reads_as_such():
    row = row_of([subject("a", broken=100), subject("b")], "S3")
    assert told(row, row.cells[0]) == "violated, 100 of 100 (96 to 100 %)"


def test_two_that_never_break_may_be_alike_or_not():
    row = row_of([subject("a"), subject("b", judged=3)], "S3")
    assert row.cells[1].apart == "not_apart"
    assert difference(row, row.cells[1]) == "may be chance"


@pytest.mark.parametrize(
    ("factor", "apart", "told_of"),
    [
        (1.0, "not_apart", "may be chance"),
        (3.0, "one_run", "one run each, so it may be chance: 2."),
        (0.3, "one_run", "one run each"),
    ],
)
def test_one_run_of_each_says_nothing_of_who_is_better(factor: float, apart: str, told_of: str):
    """Its interval is of what varied within the run. Of two equal runs, 2 of 7 figures were "better"."""
    waits = np.random.default_rng(4).exponential(1e6, size=600)
    row = row_of([subject("a", waits=waits), subject("b", waits=factor * np.roll(waits, 7))], "wait, median")
    assert (row.cells[1].apart, row.cells[1].is_better) == (apart, None)
    assert difference(row, row.cells[1]).startswith(told_of)


def test_a_factor_is_told_in_three_digits_however_small():
    """A wait of microseconds beside one of seconds is not `0.00 times`."""
    waits = np.random.default_rng(4).exponential(1e6, size=600)
    row = row_of([subject("a", waits=waits), subject("b", waits=waits)], "wait, median")
    cell = Cell(apart="apart", is_better=True, difference_low=0.000271828, difference_high=0.0123456)
    assert difference(row, cell) == "better: 0.000272 to 0.0123 times"


def test_one_client_is_called_a_client():
    """Titles of columns count what differs between them."""
    comparison = compare([subject("a", clients="1"), subject("b", clients="8")])
    assert [title.partition(": ")[2] for title in heading(comparison)] == ["1 client", "8 clients"]


def test_shares_differ_by_percentage_points():
    """From 60 % to 21.5 % is 38.5 points: "-38.5 %" reads as a share of the share."""
    row = Row(name="S3", unit="share", cells=[])
    cell = Cell(apart="apart", is_better=True, difference_low=-0.385, difference_high=-0.2)
    assert difference(row, cell) == "better: -38.5 to -20.0 percentage points of runs"


def test_a_store_is_called_by_its_name_and_not_by_its_port():
    """Servers of this machine differ in their ports, too; what only an address tells apart is told by it."""
    one, other = ({"servers": "moto", "endpoint": "http://a:1"}, {"servers": "ministack", "endpoint": "http://a:2"})
    named = heading(compare([subject("a", **one), subject("b", **other)]))
    assert [title.partition(": ")[2] for title in named] == ["moto", "ministack"]
    alike = heading(compare([subject("a", **one), subject("b", **{**other, "servers": "moto"})]))
    assert [title.partition(": ")[2] for title in alike] == ["http://a:1", "http://a:2"]


def test_a_figure_that_one_subject_lacks_is_not_told_apart():
    waits = np.random.default_rng(4).exponential(1e6, size=600)
    row = row_of([subject("a"), subject("b", waits=waits)], "wait, median")
    assert row.cells[0] == Cell(apart="reference")
    assert row.cells[1].apart == "unknown"
    assert difference(row, row.cells[1]) == "not known"


def test_the_facts_that_differ_are_named():
    found = compare([subject("a", provider="hudi", scenario="e08"), subject("b", provider="hardened", scenario="e08")])
    assert found.differs == ["provider"]


def test_what_was_asked_something_else_is_neither_better_nor_worse():
    """Another scenario or another world: both stand there, the warning comes first, and no cell takes sides."""
    waits = np.random.default_rng(4).exponential(1e6, size=600)
    first = subject("a", broken=13, waits=waits, provider="hudi", scenario="e08")
    other = subject("b", waits=3 * waits, provider="hardened", scenario="u01")
    found = compare([first, other])
    assert found.unlike == [1]
    assert {row.cells[1].is_better for row in found.rows} == {None}
    assert [difference(row, row.cells[1]) for row in found.rows] == ["", ""]
    assert notices(found)[0].startswith("2 was asked something else than 1")


def test_a_client_that_was_never_served_is_warned_of_before_any_fact():
    """Its wait is in no quantile, so the others look quicker than they are."""
    served = subject("a", clients="8")
    starved = subject("b", clients="16")
    starved.shares[UNSERVED] = Share(verdict="", broken=3, judged=16)
    served.shares[UNSERVED] = Share(verdict="", broken=0, judged=8)
    told_of = notices(compare([served, starved]))
    assert told_of[0].startswith("2: 3 of 16 clients that asked were never served")
    assert told_of[1] == "clients: 8 | 16"


def fingerprint(endpoint: str, *, rounds: int = 300, requests: int = 50, **verdicts: str) -> Fingerprint:
    """As `lockref probe` writes it: one race (C2), two questions, one kind of request."""
    faulty = 40 if verdicts["C2"] == "unsafe" else 0
    races = {"C2": {"rounds": rounds, "faulty": faulty, "low": 0.0, "high": 1.0}}
    nothing = {"unsafe": [], "deviations": [], "unsupported": [], "not_answered": [], "witness": [], "facts": {}}
    return Fingerprint.model_validate({
        "probe_version": 1, "client": "lockref", "date_utc": "2026-01-31T12:00:00Z", "lasted_ns": 1, "requests": 50,
        "store": {"scheme": "s3", "container": "lake", "endpoint": endpoint, "servers": ["x"]},
        "ended": "", "verdict": "unsafe", "residue": {"prefix": "x", "left": [], "reason": ""},
        "designs": {"cas": {"title": "compare-and-swap", "verdict": "can carry", "why": "", "needs": ["C2"]}},
        "clauses": {
            name: nothing | {"verdict": verdict, "question": 1, "asks": "", "rate": races.get(name)}
            for name, verdict in verdicts.items()
        },
        "latency": {
            "create": {
                "requests": requests, "p50_ns": 2_000_000, "p90_ns": 5_000_000, "p99_ns": 9_000_000,
                "p999_ns": 9_000_001, "max_ns": 9_000_002,
            },
        },
    })  # fmt: skip


def test_stores_stand_side_by_side_by_their_fingerprints():
    """A race is told apart by its rounds, a question by its answer; what was not answered says nothing."""
    one = fingerprint("http://a", C2="conforming", C4="conforming", C8="not_answered")
    other = fingerprint("http://b", C2="unsafe", C4="usable", C8="conforming")
    subjects = [fingerprint_subject(found, Path(name)) for name, found in (("a", one), ("b", other))]
    found = compare(subjects)
    second = {row.name: row.cells[1] for row in found.rows}
    assert (second["C2"].apart, second["C2"].is_better, second["C2"].judged) == ("apart", False, 300)
    assert (second["C4"].apart, second["C4"].is_better) == ("apart", False)
    assert second["C8"].apart == "unknown"
    assert found.differs == ["endpoint"]
    row = next(row for row in found.rows if row.name == "create, median")
    assert [told(row, cell) for cell in row.cells] == ["2.00 ms", "2.00 ms"]
    assert "create, 99 %" not in {row.name for row in found.rows}, "of fifty requests that would be the longest"
    row = next(row for row in found.rows if row.name == "C2")
    assert difference(row, row.cells[1]).endswith("of rounds")


def test_the_latency_of_many_requests_has_its_99th_percentile():
    """Two hundred are enough for it, and each figure is the one of that name."""
    figures = fingerprint_subject(fingerprint("http://a", requests=200, C2="conforming"), Path("a")).figures
    assert {figure.name: once(figure.drawn, STRETCHES) for figure in figures} == {
        "create, median": 2_000_000,
        "create, 99 %": 9_000_000,
    }
    assert not any(figure.has_interval for figure in figures), "one number each, and no samples"


def test_a_race_of_which_no_round_was_judged_is_no_share():
    """Its verdict is the whole answer, as of a question that is asked once."""
    share = fingerprint_subject(fingerprint("http://a", rounds=0, C2="not_answered"), Path("a")).shares["C2"]
    assert (share.is_asked_once, share.judged) == (True, 0)


def test_the_command_shows_two_runs_side_by_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """hudi breaks in u01 and hardened does not: the page, the Markdown and the JSON say so."""
    monkeypatch.chdir(tmp_path)
    assert run(["sim", "u01", "--provider", "hudi", "--seeds", "1..10"]) == 1
    assert run(["sim", "u01", "--provider", "hardened", "--seeds", "1..10"]) == 0
    runs = sorted(path.name for path in (tmp_path / ".lockref/runs").glob("*-sim*"))
    capsys.readouterr()
    assert run(["compare", *runs, "--out", "side"]) == 0
    printed = capsys.readouterr().out
    assert "1: hudi" in printed
    assert "2: hardened" in printed
    assert run(["compare", *runs, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    apart = {row["name"] for row in document["rows"] if row["cells"][1]["is_better"]}
    assert "S3" in apart
    page = (tmp_path / "side/comparison.html").read_text()
    assert "better: -" in page
    assert "hardened" in (tmp_path / "side/comparison.md").read_text()
    # The last run is a comparison now, which has no history of its own.
    assert run(["compare", runs[0], "latest"]) == 2
    assert "'latest' holds no history: name a run" in capsys.readouterr().err


def test_the_runs_of_an_evaluation_are_parts_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They lie one folder deeper, below their store: `check` judges them, and `compare` puts them beside other runs."""
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / ".lockref/runs"
    assert run(["sim", "u01", "--provider", "hudi", "--seeds", "1..3"]) == 1
    (made,) = runs.glob("*-sim")
    evaluation = runs / "20260101T000000-evaluate"
    for part in ("contenders-1", "contenders-8"):
        shutil.copytree(made, evaluation / "store-1" / part)
    (evaluation / "run.json").write_text(json.dumps({"status": "finished"}))
    assert [path.name for path in history_folders(evaluation)] == ["contenders-1", "contenders-8"]
    capsys.readouterr()
    assert run(["compare", made.name, evaluation.name]) == 0
    assert "3: " in capsys.readouterr().out
    assert run(["check", evaluation.name]) == 1


def test_one_run_alone_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sim", "e08", "--seeds", "1..2"]) == 0
    assert run(["compare", "latest"]) == 2
    assert "name at least two runs" in capsys.readouterr().err
