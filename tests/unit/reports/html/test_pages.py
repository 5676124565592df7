"""The page, the Markdown and the pictures: complete, reproducible, closed, and deaf to hostile names."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from reports.figures.plots import CUT_COLOUR, draw
from reports.figures.timeline import description, timeline_svg, timeline_table
from reports.formats.results import (
    AnswerCount,
    Clause,
    ClientCount,
    ClientSpeed,
    Failure,
    Fairness,
    Interval,
    OutcomeCount,
    Quantiles,
    Quarantined,
    Reach,
    Results,
    Scatter,
    Silence,
    Speed,
    StoreAnswers,
    Tick,
    Timeline,
)  # fmt: skip
from reports.html import render
from reports.html.markdown import markdown
from reports.html.sections import build_section, shown_parts
from reports.pipeline.timeline import build_timeline

HOSTILE = "</script><script>alert(1)</script>\n\x1b[31m\u202e$\\frac{x}$ \"' & `x` | [a](b) <!--" + "A" * 10_000
MS = 1_000_000
SECOND = 1000 * MS


def quantiles(measure: str, *, op: str = "", outcome: str = "applied", cell: str = "c", scale: int = MS) -> Quantiles:
    curve = [(step / 100, scale * (step + 1)) for step in range(100)] + [(1.0, scale * 150)]
    return Quantiles(
        cell=cell, measure=measure, op=op, outcome=outcome, samples=1000, min_ns=scale, p50_ns=51 * scale,
        p90_ns=91 * scale, p95_ns=96 * scale, p99_ns=100 * scale, p999_ns=120 * scale, max_ns=150 * scale, curve=curve,
    )  # fmt: skip


def timeline(name: str = "n1") -> Timeline:
    return Timeline(
        begin_ns=0, end_ns=20 * SECOND, moment_ns=13 * SECOND, rows=[f"pause {name}", name, "n2"],
        intervals=[
            Interval(kind="fault", row=f"pause {name}", begin_ns=2 * SECOND, end_ns=12 * SECOND, label="pause"),
            Interval(kind="believed", row=name, begin_ns=SECOND, end_ns=13 * SECOND, label="7"),
            Interval(kind="granted", row=name, begin_ns=SECOND, end_ns=11 * SECOND, label="7"),
            Interval(kind="believed", row="n2", begin_ns=12 * SECOND, end_ns=15 * SECOND, label="8"),
            Interval(kind="overlap", row="n2", begin_ns=12 * SECOND, end_ns=13 * SECOND, label=name),
        ],
        ticks=[Tick(row="n2", at_ns=12 * SECOND, is_accepted=True, label="8"),
               Tick(row=name, at_ns=13 * SECOND, is_accepted=True, label="7"),
               Tick(row=name, at_ns=13 * SECOND, is_accepted=False, label="7")],
    )  # fmt: skip


def speed(name: str) -> Speed:
    return Speed(
        run=0, run_ns=10 * SECOND, answered_ns=8 * SECOND, clients=4, clients_asked=3, clients_served=2,
        calls=9, grants=7, grants_per_s=39.04, requests_per_grant=4.5, wait_p50_ns=MS,
        wait_p90_ns=MS, wait_p99_ns=2 * MS,
        wait_max_ns=2 * MS, held_share=0.5, handoff_share=0.25, idle_share=0.05, silent_share=0.2, jain=0.75,
        longest_wait_ns=3 * SECOND,
        longest_wait_client=name, longest_drought_ns=4 * SECOND, longest_drought_client=name,
        per_client=[ClientSpeed(client=name, asked=9, granted=7, wait_max_ns=MS, drought_max_ns=SECOND)],
    )  # fmt: skip


def answers(name: str) -> StoreAnswers:
    return StoreAnswers(
        run=0, run_ns=10 * SECOND, requests=100, unanswered=9, refused=0, unanswered_share=0.09, silent_ns=2 * SECOND,
        silent_share=0.2, silences=[Silence(begin_ns=SECOND, end_ns=3 * SECOND, unanswered=9, refused=0, reason=name)],
        over_time=[AnswerCount(begin_ns=0, end_ns=10 * SECOND, requests=100, unanswered=9, refused=0)],
    )  # fmt: skip


def full(name: str = "n1", title: str = "Trial") -> Results:
    """Results with every part filled; `name` goes everywhere a history's text can go."""
    return Results(
        title=title, verdict="violated", liveness="held", statement="1 run of 10 broke a safety clause",
        speed=speed(name), runs=10, answers=[answers(name)],
        events=1000, clauses={"S4": Clause(verdict="violated", runs=10, violated=1, text="no stale write")},
        classes={"harm": 1, "clean": 9}, reach=[Reach(situation="crash", runs=0, count=0, is_required=True)],
        failures=[
            Failure(id="LK-1", clause="S4", message=name, run=3, seed=3, scenario=name, provider=name, block=name,
                    replay="lockref replay LK-1", at_ns=13 * SECOND, timeline=timeline(name), witness={"text": name}),
        ],
        latency=[quantiles("wait", cell=name), quantiles("wait", outcome="ambiguous", cell=name),
                 quantiles("request", op="acquire"), quantiles("handoff", op="after release"),
                 quantiles("handoff", op="after expiry", scale=10 * MS), quantiles("lease", outcome="sent")],
        outcomes=[OutcomeCount(cell=name, kind="call", op="acquire", outcome="applied", count=9)],
        fairness=[Fairness(cell=name, runs=10, grants=9, jain_min=0.5, jain_p50=0.9, longest_streak=3)],
        clients=[ClientCount(cell=name, client=name, asked=9, granted=9, wait_max_ns=MS),
                 ClientCount(cell=name, client="n2", asked=4, granted=0)],
        scatters=[Scatter(cell=name, measure="wait", outcome="applied", total=20_000,
                          points=[(step * MS, (step + 1) * MS) for step in range(50)]),
                  Scatter(cell=name, measure="lease", outcome="sent", total=2, points=[(1, SECOND), (2, -MS)])],
        quarantine=[Quarantined(source=name, reason="unknown kind", records=2)],
        provenance={"commit": name, "arguments": {name: name}}, capabilities={"put": {"if_match": True}},
        notices=[name],
    )  # fmt: skip


class _Outline(html.parser.HTMLParser):
    """Which elements a page has, and every address that it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href") and not (value or "").startswith(("#", "data:")):
                self.loaded.append(value or "")


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two results of which one is full of hostile text; drawing its pictures takes a second."""
    return render([full(HOSTILE), full(title="second")], tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def plain_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two results with ordinary names."""
    return render([full(), full(title="second")], tmp_path_factory.mktemp("plain"))


@pytest.mark.drawn
def test_a_hostile_name_stays_text(hostile_page: Path) -> None:
    """Owners with markup, escapes and ten kilobytes end up as short text in HTML, Markdown and every picture."""
    page, folder = hostile_page.read_text(encoding="utf-8"), hostile_page.parent
    outline = _Outline(page)
    assert outline.tags.count("script") == 1
    assert "\x1b" not in page
    visible = page[: page.index('<script type="application/json"')]
    assert "A" * 5_000 not in visible
    assert "<script>alert" not in page
    summary = (folder / "report.md").read_text(encoding="utf-8")
    assert "\x1b" not in summary
    outside = re.sub(r"```text\n.*?\n```", "", summary, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<script", outside)
    pictures = list((folder / "figures").glob("*.svg"))
    assert pictures
    for picture in pictures:
        assert ET.parse(picture).getroot().tag.endswith("svg")
        assert "<script" not in picture.read_text(encoding="utf-8")


def test_the_embedded_data_are_the_results(hostile_page: Path) -> None:
    """The JSON in the page parses back to the results, hostile text included, less the samples of the pictures."""
    given = [full(HOSTILE), full(title="second")]
    page = hostile_page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="lockref-results">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    told = [Results.model_validate(one) for one in json.loads(found.group(1))]
    for one, other in zip(told, given, strict=True):
        assert one != other, "the samples behind the pictures are not repeated"
        one.scatters = other.scatters
        for place, row in enumerate(other.latency):
            one.latency[place].curve = row.curve
        for place, failure in enumerate(other.failures):
            one.failures[place].timeline, one.failures[place].block = failure.timeline, failure.block
        for name, clause in other.clauses.items():
            one.clauses[name].text = clause.text
    assert told == given


def test_the_page_is_closed_and_its_anchors_unique(plain_page: Path) -> None:
    """No address but anchors and data, no id twice, every link leads somewhere."""
    page = plain_page.read_text(encoding="utf-8")
    outline = _Outline(page)
    assert outline.loaded == []
    assert len(outline.ids) == len(set(outline.ids))
    assert set(re.findall(r'<a href="#([^"]+)"', page)) <= set(outline.ids)
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)


def test_the_page_tells_verdict_bound_and_missing_situations(plain_page: Path) -> None:
    """Verdict and n in the banner, clause table, reach, failure block, replay, provenance; each figure with a table."""
    page = plain_page.read_text(encoding="utf-8")
    for text in ("✗ violated", "1 run of 10 broke a safety clause", "39.0 grants/s", "no stale write",
                 "demanded, never happened", "LK-1", "unknown kind", "put.if_match", "arguments.n1"):  # fmt: skip
        assert text in page, text
    assert page.count("the figures as a table") == page.count("<figure")
    assert page.count('role="img"') == page.count("<figure") == 2 * 7


@pytest.mark.drawn
def test_equal_results_give_equal_bytes(plain_page: Path, tmp_path: Path) -> None:
    """Page, Markdown, SVG and PNG of the same results are the same bytes: no date, no random salt."""
    one = plain_page.parent
    render([full(), full(title="second")], tmp_path)
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert len(files) >= 14
    for file in files:
        assert (one / file).read_bytes() == (tmp_path / file).read_bytes(), file


def test_no_measurements_is_said_and_draws_nothing(tmp_path: Path) -> None:
    """Where nothing was measured there are no figures; the page says so instead of showing empty axes."""
    bare = Results(title="t", verdict="held", statement="s", runs=1)
    assert draw(bare) == []
    assert "nothing was measured for this part" in render([bare], tmp_path).read_text(encoding="utf-8")


def test_an_interrupted_page_leaves_the_old_one_with_its_figures(tmp_path, monkeypatch):
    """Ctrl-C while the page is drawn: not one file is new."""
    render([full(title="old")], tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["reports.html.render"], "page_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        render([full("n9", title="new")], tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_plot_that_fails_is_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed picture never changes a verdict: it is named among the notices and the others are drawn."""
    from reports.figures import plots

    def broken(_results: Results) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(plots, "handoff", broken)
    section = build_section(full(), 1)
    assert "the figure broken could not be drawn: no room" in section.notices
    assert len(section.pictures) == 5


@pytest.mark.drawn
@pytest.mark.parametrize(("least_ms", "says"), [(0, False), (-2, True)])
def test_only_a_successor_before_the_promise_ends_marks_its_end(least_ms: int, says: bool) -> None:
    """F8: a hand-off within the release's own round trip takes no time; that is no lease taken early."""
    row = quantiles("handoff", op="after release").model_copy(update={"min_ns": least_ms * MS})
    row.curve[0] = (0.0, least_ms * MS)
    (figure,) = draw(full().model_copy(update={"latency": [row], "scatters": [], "clients": []}))
    assert ("promise ends" in figure.svg) is says


@pytest.mark.drawn
def test_the_picture_of_clients_shows_all_or_says_what_it_left_out() -> None:
    """F9: sixty-four clients have sixty-four bars, the unserved among them; those left out are counted."""
    many = [ClientCount(cell="c", client=f"n{place}", asked=9, granted=max(0, 60 - place)) for place in range(64)]
    results = full().model_copy(update={"clients": many})
    figure = next(figure for figure in draw(results) if figure.name == "f9-clients")
    assert "all 64 clients" in figure.svg
    assert (figure.notices, len(figure.table[1])) == ([], 64)
    cut = next(each for each in draw(results.model_copy(update={"clients_left_out": 3})) if each.name == "f9-clients")
    assert cut.notices == ["without 3 clients that got as often or less"]


@pytest.mark.parametrize(("served", "colour"), [(2, "inconclusive"), (3, "held")])
def test_held_is_not_green_beside_starvation(tmp_path: Path, served: int, colour: str) -> None:
    """A client that asked and was never served makes the banner amber, of the part and of the page, and is counted."""
    held = full().model_copy(update={"verdict": "held", "failures": []})
    assert held.speed is not None
    held.speed.clients_served = served
    pages = [render([held], tmp_path), render([held, held], tmp_path / "two")]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        banners = re.findall(r'<div class="banner (\w+)".*?<p class="word">(.*?)</p>', text, re.DOTALL)
        assert set(banners) == {(colour, "✓ held")}
        assert ("<strong>1 of 3 clients that asked were never granted the lock before" in text) is (served == 2)


@pytest.mark.drawn
def test_numbers_above_bars_are_left_out_where_they_would_touch() -> None:
    """The table has them; letters that lie on each other say nothing."""

    def numbers(granted: int) -> int:
        given = full()
        given.clients = [ClientCount(cell="n1", client=f"c{place}", asked=9, granted=granted) for place in range(20)]
        [figure] = [each for each in draw(given) if each.name == "f9-clients"]
        return figure.svg.count(f"<!-- {granted:,} -->") + figure.svg.count(f">{granted:,}</text>")

    assert numbers(977) >= 20
    assert numbers(9_775) < 20


@pytest.mark.drawn
def test_a_wait_that_the_end_cut_short_is_no_denial() -> None:
    """It has a row, a colour and a word of its own."""
    rows = [quantiles("wait", outcome=outcome) for outcome in ("applied", "precondition_failed", "cut_short")]
    results = full().model_copy(update={"latency": rows})
    figure = next(figure for figure in draw(results) if figure.name == "latency-quantiles")
    for text in ("wait · granted", "wait · denied", "wait · cut short by the end", CUT_COLOUR):
        assert text in figure.svg, text


def test_a_page_of_many_parts_draws_each_kind_of_failure_first() -> None:
    """Twelve timelines and no more: one of each kind, then the first failures; figures of eight parts, the worst."""
    first = full().failures[0]
    parts = []
    for number in range(20):
        failures = [first.model_copy(update={"clause": "S4"}), first.model_copy(update={"clause": "S3"})]
        late = [first.model_copy(update={"clause": "S1"})] if number == 19 else []
        parts.append(full().model_copy(update={"failures": [*failures, *late]}))
    shown = shown_parts(parts)
    assert sum(len(part.timelines) for part in shown) == 12
    assert shown[19].timelines == {2}
    assert [part.are_figures_drawn for part in shown] == [True] * 8 + [False] * 12
    assert shown_parts(parts[:1])[0].timelines == {0, 1}


def test_capped_pictures_say_so() -> None:
    """A picture of fewer samples than there are carries the count."""
    figure = next(figure for figure in draw(full()) if figure.name == "f5-raw-waits")
    assert figure.notices == ["shows 50 of 20,000 samples"]


def test_the_timeline_shows_overlap_stale_write_and_refusal() -> None:
    """F1: hatched band with its length, a stale write in words, a refused one as a cross, overlap in the alt text."""
    svg = timeline_svg(timeline(), prefix="x", moment_label="S4 broken")
    root = ET.fromstring(svg)
    text = " ".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
    assert "both believe for 1.00 s" in text
    assert "stale write with 7 accepted" in text
    assert "S4 broken" in text
    assert 'fill="url(#x-hatch)"' in svg
    assert "l8 8m0 -8l-8 8" in svg
    assert "both believed to hold the lock for 1.00 s from 12.000 s" in description(timeline())
    assert len(timeline_table(timeline())[1]) == 8


def event(seq: int, kind: str, node: str, at_ms: int, **fields: object) -> dict[str, object]:
    told = {
        "task": "main",
        "lock": "l",
        "outcome": "none",
        "request": None,
        "token": None,
        "owner": None,
        "detail": None,
    }
    return {"seq": seq, "at_ns": at_ms * MS, "kind": kind, "node": node, **told, **fields}


def test_beliefs_of_an_observer_belong_to_the_tenure() -> None:
    """A yes given to the observer stretches the bar of the client that called, closed at both ends."""
    rows = [
        event(0, "call", "n1", 0, request=1), event(1, "believed", "n1", 10, request=1, token=4),
        event(2, "believed", "n1", 900, request=1, task="observer", token=4),
        event(3, "call", "n2", 100, request=2), event(4, "believed", "n2", 800, request=2, token=5),
        event(5, "fault", "n1", 20, detail='{"id":"f","kind":"pause","phase":"begin"}'),
        event(6, "fault", "n1", 700, detail='{"id":"f","kind":"pause","phase":"end"}'),
        event(7, "effect", "n1", 900, outcome="precondition_failed", request=1, token=4),
    ]  # fmt: skip
    built = build_timeline(rows, moment_ns=800 * MS, witness={"lock": "l", "overlap_ns": [800 * MS, 900 * MS]})
    bars = {(bar.kind, bar.row): (bar.begin_ns // MS, bar.end_ns // MS) for bar in built.intervals}
    assert bars == {
        ("believed", "n1"): (10, 900), ("believed", "n2"): (800, 800), ("fault", "pause n1"): (20, 700),
        ("overlap", "n2"): (800, 800),
    }  # fmt: skip
    assert built.rows == ["pause n1", "n1", "n2"]
    assert [tick.is_accepted for tick in built.ticks] == [False]
    capped = build_timeline(rows, moment_ns=800 * MS, witness={}, marks_max=2)
    assert capped.dropped == 3
    assert len(capped.intervals) + len(capped.ticks) == 2


def test_the_window_is_around_the_failure_also_where_its_lock_has_neither_call_nor_belief() -> None:
    """An object beside the locks broke a clause: its requests are in the history, and none is drawn."""
    rows = [event(0, "call", "n1", 0, request=1), event(1, "return", "n1", 9000, request=1)]
    built = build_timeline(rows, moment_ns=5000 * MS, witness={"lock": "another"})
    assert (built.begin_ns // MS, built.end_ns // MS) == (3000, 7000)
    assert built.intervals == []
    later = build_timeline(rows, moment_ns=20000 * MS, witness={"lock": "another"})
    assert (later.begin_ns // MS, later.end_ns // MS) == (18000, 20000)


def test_markdown_stays_below_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job summary above 1 MiB is dropped whole by GitHub: the text is cut with a notice."""
    monkeypatch.setattr("reports.html.sections.draw", lambda *_told: [])
    sections = [build_section(full(), 1)]
    text = markdown(sections, title="t", bytes_max=1200)
    assert len(text.encode()) <= 1200
    assert text.endswith("in report.html and results.json.*\n")
    assert "Cut here" not in markdown(sections, title="t")


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def console_of(page: Path, folder: Path) -> tuple[list[str], str]:
    """What headless Chromium says on its console while it opens the page, and the page's elements afterwards."""
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}", "--enable-logging=stderr", "--v=0",
        "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return [line for line in done.stderr.splitlines() if ":CONSOLE" in line], done.stdout


@pytest.mark.chromium
@pytest.mark.xdist_group("chromium")
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")
def test_a_browser_opens_the_page_without_complaint(hostile_page: Path, tmp_path: Path) -> None:
    """Nothing on the console, so no request either: the page's own policy forbids all, and reports each attempt there.

    The canary, the same page with one foreign picture, proves that an attempt would be seen.
    """
    console, dom = console_of(hostile_page, tmp_path / "profile")
    assert console == []
    outline = _Outline(dom)
    assert outline.tags.count("script") == 1
    assert outline.tags.count("figure") == 14
    canary = tmp_path / "canary.html"
    text = hostile_page.read_text(encoding="utf-8")
    foreign = '<main><img src="http://127.0.0.1:9/x.png" alt="">'
    canary.write_text(text.replace("<main>", foreign), encoding="utf-8")
    console, _ = console_of(canary, tmp_path / "profile2")
    assert any("Content Security Policy" in line for line in console)


@pytest.mark.parametrize("name", ["report.html", "report.md", "results.json"])
def test_a_page_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whoever dies while a file is written leaves the one before: no half page looks finished."""

    class Died(BaseException):
        """The process's end, as far as one can stage it."""

    def half(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            if name not in path.name:
                return file.write(content)
            file.write(content[: len(content) // 2])
            raise Died

    (tmp_path / name).write_text("before")
    monkeypatch.setattr(Path, "write_bytes", half)
    results = Results(title="t", verdict="held", statement="s", runs=1)
    with pytest.raises(Died):
        results.write(tmp_path / name) if name == "results.json" else render([results], tmp_path)
    assert (tmp_path / name).read_text() == "before"
