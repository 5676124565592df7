"""The runs that a folder keeps: listed, shown, opened, and packed for somebody else."""

from __future__ import annotations

import io
import math
import time
import webbrowser
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lockref.atomic_files import write_atomically
from lockref.cli.jobs.reporting import report
from lockref.cli.jobs.runs.surplus import DAY_S, age_of
from lockref.cli.jobs.shown.console import printable
from lockref.errors import BackendUnavailable, ConfigError
from lockref.words import counted
from reports.event_lines import event_lines
from reports.formats.results import Results, load_results
from reports.formats.text import short
from reports.history_files import history_folders, load_history
from scenarios.failures.stored_failures import FAILURES
from scenarios.runs import HOME, open_run, recorded_runs, require_recorded, run_json, size_of, status_of

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console

PAGES: Final = ("report.html", "evaluation.html", "comparison.html", "fingerprint.html")
"""What a run folder's page may be called, the one to be opened first."""

_STYLES: Final = {"held": "good", "violated": "bad", "not_live": "bad", "leaks": "bad"}
"""By verdict of a whole run."""

_LEFT_OUT: Final = ("spark", "recording", "chunks", "quarantine", "tables")
"""Folders of a run that are of no use elsewhere: the page and `lockref check` need none of them."""

_README: Final = """\
A run of lockref, packed by `lockref runs export`.

{page}
{run}/results.json, {run}/run.json: the verdict, and where it comes from.

With lockref installed, in this folder:

lockref check {run}            judge the recorded history once more
lockref runs events {run}      read its events
{replays}"""


def list_runs(console: Console, *, count: int) -> int:
    """The newest runs, newest first."""
    found = recorded_runs()
    now_s = time.time()
    rows = [{**_row(folder, run_json(folder)), "age_s": age_of(folder, now_s=now_s)} for folder in found[:count]]
    if console.as_json:
        console.document({"runs": rows})
        return 0
    if not rows:
        console.say(f"no run is kept in {HOME / 'runs'}: `lockref sim`, `bench` and others make them")
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        ended = str(row["verdict"] or row["status"] or "unknown").replace("_", " ")
        style = _STYLES.get(str(row["verdict"]), "")
        what = short(str(row["command"]), 90)
        size, age = size_in_words(int(row["bytes"])), age_in_words(row["age_s"])
        console.say(f"{row['name']:<{width}}  {ended:<14} {size:>8}  {age:>8}  {what}", style=style)
    if len(found) > count:
        console.say(f"and {counted(len(found) - count, 'older run')}: --last {len(found)} lists all", style="dim")
    return 0


def _row(folder: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": folder.name,
        "status": status_of(folder),
        "verdict": about.get("verdict"),
        "exit_code": about.get("exit_code"),
        "started_utc": about.get("started_utc"),
        "command": about.get("command", ""),
        "bytes": size_of(folder),
    }


def show_run(console: Console, name: str) -> int:
    """One run: how it was started, how it ended, what came of each part, its failures and its files."""
    folder = open_run(name).path
    about = run_json(folder)
    parts = _accounts(folder)
    failures = _stored(parts)
    files = sorted(path.relative_to(folder) for path in _files(folder))
    if console.as_json:
        told = [{"part": str(path.relative_to(folder)), "verdict": one.whole, "statement": one.statement}
                for path, one in parts]  # fmt: skip
        document = {**_row(folder, about), "path": str(folder), "about": dict(about), "parts": told}
        console.document({**document, "failures": [path.stem for path in failures], "files": [*map(str, files)]})
        return 0
    console.say(f"run       {folder.name}", style="head")
    for label, value in (
        ("command", about.get("command")), ("started", about.get("started_utc")), ("status", status_of(folder)),
        ("verdict", about.get("verdict")), ("exit code", about.get("exit_code")),
        ("made by", " ".join(str(about[key]) for key in ("lockref", "commit") if about.get(key))),
    ):  # fmt: skip
        if value is not None and value != "":
            console.say(f"{label:<9} {printable(str(value), limit=400)}")
    for path, one in parts:
        style = _STYLES.get(one.whole, "")
        title = one.title or path.name
        console.say(f"{one.whole.replace('_', ' '):<13} {short(title)}: {short(one.statement, 300)}", style=style)
    for failure in failures:
        console.say(f"failure   lockref replay {failure.stem}")
    top = sorted({path.parts[0] for path in files})
    console.say(f"files     {', '.join(top)} ({size_in_words(size_of(folder))})")
    console.say(f"folder    {folder}", style="dim")
    return 0


def print_events(console: Console, name: str, *, number: int | None, nodes: Sequence[str]) -> int:
    """The events of one run of a history, a line each. number: of the run; None where the history has one run alone.

    Errors: ConfigError where the number names no run, or several are there and none was named.
    """
    folder = open_run(name).path
    require_recorded(folder)
    parts = history_folders(folder)
    if len(parts) != 1:
        names = ", ".join(str(part) for part in parts[:3]) or "no part has one"
        raise ConfigError(f"{folder} has {len(parts)} histories: name the folder of one, such as {names}")
    events, runs, notes = load_history(parts[0])
    known = runs["run"].to_pylist()
    if number is None and len(known) == 1:
        number = known[0]
    if number not in known:
        few = ", ".join(map(str, known[:5]))
        raise ConfigError(f"{folder} keeps {counted(len(known), 'run')} ({few}{', …' if len(known) > 5 else ''}): "
                          "name one with --number")  # fmt: skip
    for line in notes.lines:
        console.say(line, style="dim")
    assert number is not None, "the number of a run that is known"
    for line in event_lines(events, number, nodes=nodes):
        console.say(line)
    return 0


def open_page(console: Console, name: str) -> int:
    """Show a run's page in the browser of this machine, made first where there is none.

    Errors: BackendUnavailable where there is no browser; the page's path is told before.
    """
    page = _page(console, open_run(name).path)
    console.say(f"page      {page}")
    if not webbrowser.open(page.as_uri()):
        raise BackendUnavailable(f"no browser could be started on this machine: open {page} in one")
    return 0


def export_run(console: Console, name: str, *, out: Path | None) -> int:
    """Pack a run, its page and its stored failures into one file. Equal runs give equal bytes."""
    folder = open_run(name).path
    _page(console, folder)
    failures = _stored(_accounts(folder))
    target = out or Path(f"{folder.name}.zip")
    contents = {f"{folder.name}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in _files(folder)}
    contents |= {f"failures/{path.name}": path.read_bytes() for path in failures}
    pages = [page for page in PAGES if (folder / page).exists()]
    readme = _README.format(
        run=folder.name,
        page="\n".join(f"{folder.name}/{page}: the page; open it in a browser, it needs no network." for page in pages),
        replays="".join(f"lockref replay failures/{path.name}\n" for path in failures),
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in sorted({**contents, "README.txt": readme.encode()}.items()):
            # A fixed date: what is packed is told by its bytes, not by when they were written.
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    write_atomically(target, packed.getvalue())
    console.say(f"packed    {target} ({counted(len(contents), 'file')}, {size_in_words(packed.tell())})")
    return 0


def _page(console: Console, folder: Path) -> Path:
    """The page of a run; it is made where there is none."""
    for name in PAGES:
        if (folder / name).exists():
            return folder / name
    report(console, str(folder), out=None, title="")
    return folder / PAGES[0]


def _accounts(folder: Path) -> list[tuple[Path, Results]]:
    """The parts of a run that were judged, each with its account."""
    found = [folder, *sorted(folder.glob("*/")), *sorted(folder.glob("*/*/"))]
    judged = [
        path
        for path in found
        if (path / "results.json").is_file() and "analysis" not in path.parts and _is_inside(path, folder)
    ]
    return [(path, load_results(path / "results.json")) for path in judged]


def _stored(parts: Sequence[tuple[Path, Results]]) -> list[Path]:
    """The files of the failures that these accounts name, as far as the store of this folder has them."""
    names = sorted({failure.id for _, results in parts for failure in results.failures})
    return [path for name in names if (path := FAILURES / f"{name}.json").is_file()]


def _files(folder: Path) -> list[Path]:
    """The files of a run folder that people can use: not Spark's own, and no tables that a report makes anew."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not set(path.relative_to(folder).parts[:-1]) & set(_LEFT_OUT) and _is_inside(path, folder)
    ]


def _is_inside(path: Path, folder: Path) -> bool:
    """False for what a link leads to: it may be any file of this machine, which nobody means to send away."""
    return path.resolve() == folder.resolve() / path.relative_to(folder)


def size_in_words(size: int) -> str:
    """Bytes for people: `1.2 MB`, `12 kB`."""
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.0f} kB"


def age_in_words(age_s: float) -> str:
    """An age for people, in the largest unit that it fills: `40 s`, `12 min`, `3 h`, `4 days`."""
    for seconds, unit in ((DAY_S, "day"), (3600, "h"), (60, "min")):
        if age_s >= seconds:
            number = math.floor(age_s / seconds)
            return counted(number, unit) if unit == "day" else f"{number} {unit}"
    return f"{math.floor(age_s)} s"
