"""Text of strangers where it leaves the program: terminal, pipe, CI log, data and pages.

One hostile word goes through every command that prints. Whoever adds a command adds it to `COMMANDS`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from lockref.cli import main
from lockref.cli.jobs.shown.console import Console
from lockref.cli.main import run
from lockref.stores.probe.fingerprint import load
from lockref.strict_json import printable_json
from lockref.words import Op
from reports.comparison.comparison import compare
from reports.comparison.terminal import notices, terminal_table
from reports.formats import fingerprint as told
from reports.formats.github import annotation_lines
from reports.formats.junit import junit_xml
from reports.formats.results import Failure, Results
from reports.formats.text import markdown_text, outgoing
from reports.history_files import write_history, write_json_lines
from reports.html.fingerprint import page_of
from tests.conditional_server import Asked, Bucket, Told, serving
from tests.histories import TIMING, History
from tests.hostile_text import WORD, obeyed, unshown, wrong_files
from tests.unit.reports.comparison.test_comparison import subject

LINE = " ".join(WORD.splitlines())
LEASE_LOCK = Path(__file__).resolve().parents[4] / "docs" / "examples" / "lease_lock.py"
LOCKS = f"""
WORD = {WORD!r}

class Raises(LeaseLock):
    def lock(self, timeout_s):
        raise RuntimeError(WORD)
    try_lock = lock

class Refuses(LeaseLock):
    def lock(self, timeout_s):
        raise LockError(WORD)
    try_lock = lock

class Believes(LeaseLock):
    def __init__(self, context):
        super().__init__(context)
        self._owner = WORD + self._owner
    def holds(self):
        return self._grant is not None
"""
PROGRAM = f"""
import json, os, urllib.error, urllib.request
print({WORD!r}, flush=True)
for key, body in (("locks/", {{"owner": {WORD!r}, "validUntil": 1, "expired": False}}), ("state/", 1)) * 3:
    where = f"{{os.environ['LOCKREF_ENDPOINT']}}/{{os.environ['LOCKREF_BUCKET']}}/{{key}}" + {quote(LINE)!r}
    asked = urllib.request.Request(where, data=json.dumps(body).encode(), method="PUT")
    urllib.request.urlopen(asked).read()
"""


class Echo(Bucket):
    """A server that puts the word wherever an answer has room for it. Every fourth answer is an error."""

    def intercept(self, asked: Asked) -> Told | None:
        number = len(self.requests)
        word = LINE.encode().decode("latin-1")
        if number % 4 == 3:
            error = f"<Error><Code>{LINE}</Code><Message>{LINE}</Message></Error>"
            return Told(400, headers={"Server": word, "x-amz-request-id": word}, body=error.encode())
        if asked.method != "PUT":
            return None
        conditions = {name: asked.headers.get(f"If-{name.replace('_', '-')}", "") for name in ("Match", "None_Match")}
        status, _ = self.put(
            asked.path, asked.body, if_match=conditions["Match"], if_none_match=conditions["None_Match"]
        )
        return Told(status, headers={"ETag": f'"{word}"', "Server": word})


def history(folder: Path, name: str = "run", write: Callable[..., object] = write_history) -> Path:
    """A history with the word as name of run, client, lock, owner, version and provider."""
    h = History(run={**TIMING, "scenario": WORD, "provider": WORD}, lock=WORD)
    held = h.granted(WORD, call=0, applied=1, returned=2, owner=WORD)
    h.granted("n2", call=3, applied=4, returned=5, owner=WORD + "2", if_version="absent")
    h.write(WORD, Op.RENEW, sent=6, owner=held.owner, content=WORD, if_version=WORD)
    (folder / name).mkdir()
    write(folder / name, *h.tables())
    return folder / name


def lock(folder: Path, name: str) -> str:
    """A lock in a file whose folder has a hostile name, too. A slash ends a name, and a colon a reference."""
    path = folder / f"locks {LINE.replace('/', '').replace(':', '')[:80]}"
    path.mkdir(exist_ok=True)
    (path / "locks.py").write_text(LEASE_LOCK.read_text() + LOCKS)
    return f"{path / 'locks.py'}:{name}"


def fingerprint(folder: Path) -> str:
    """A fingerprint with the word behind every text and every name that it may choose."""
    path = folder / "store.json"
    assert run(["-q", "probe", "memory:", "--for", "200ms", "--rounds", "1", "--output", str(path)]) in (0, 3)

    def bent(value: object, within: str = "") -> object:
        if isinstance(value, dict):
            is_free = within in ("latency", "facts")
            return {f"{name}{WORD}" if is_free else name: bent(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [*(bent(part) for part in value), *([WORD] if within in ("unsafe", "deviations") else [])]
        return f"{value}{WORD}" if isinstance(value, str) and within not in ("format", "verdict") else value

    path.write_text(json.dumps(bent(json.loads(path.read_text()))))
    return str(path)


def failure(folder: Path) -> list[str]:
    """A stored failure whose texts say something else than when it was stored."""
    assert run(["-q", "sim", "h01", "--provider", lock(folder, "Believes"), "--seeds", "1..2"]) == 1
    stored = sorted(Path(".lockref/failures").glob("*.json"))
    for path in stored:
        document = json.loads(path.read_text())
        document |= {"id": WORD, "clause": WORD, "digest": WORD, "faults": [WORD]}
        path.with_name(f"bent-{path.name}").write_text(json.dumps(document))
    return [str(path) for path in Path(".lockref/failures").glob("*.json")]


def yaml(folder: Path, text: str) -> str:
    path = folder / f"plan {LINE.replace('/', '')[:60]}.yaml"
    path.write_text(text)
    return str(path)


QUOTED = json.dumps(WORD)
COMMANDS: dict[str, Callable[[Path], list[list[str]]]] = {
    "check": lambda folder: [
        ["check", str(history(folder))],
        ["check", str(folder / "run"), "--json"],
        ["check", str(history(folder, "lines", write_json_lines))],
        ["check", str(history(folder, f"named {LINE.replace('/', '')[:60]}"))],
    ],
    "report": lambda folder: [["report", str(history(folder)), "--out", str(folder / "page"), "--title", WORD]],
    "runs": lambda folder: [
        ["runs", "show", str(history(folder))],
        ["runs", "events", str(folder / "run")],
        ["runs", "export", str(folder / "run"), "--out", str(folder / "run.zip")],
    ],
    "compare": lambda folder: [
        ["compare", str(history(folder)), str(history(folder, "other")), "--out", str(folder / "runs")],
        ["compare", str(folder / "run"), str(folder / "other"), "--json"],
        ["compare", fingerprint(folder), str(folder / "store.json"), "--out", str(folder / "stores")],
    ],
    "sim": lambda folder: [
        ["sim", "h01", "--seeds", "1..2", "--provider", lock(folder, "Believes")],
        ["sim", "e30", "--seeds", "1..1", "--provider", lock(folder, "Raises")],
        ["sim", "e30", "--seeds", "1..1", "--provider", lock(folder, "Refuses"), "--json"],
    ],
    "gate": lambda folder: [
        ["gate", "--provider", lock(folder, "Believes"), "-k", "h01", "--seeds", "1..2", "--jobs", "1"],
        ["gate", "--known", yaml(folder, f"version: 1\nknown:\n  - {{{QUOTED}: {QUOTED}}}\n")],
        ["gate", "--known", yaml(folder, f"version: 1\nknown:\n  - {{cause: {QUOTED}, reason: x, expires: x}}\n")],
        ["gate", "-k", WORD],
    ],
    "replay": lambda folder: [["replay", path, *more] for path in failure(folder) for more in ([], ["--json"])],
    "bench": lambda folder: [
        ["bench", "-b", "memory:", "--for", "300ms", "--provider", lock(folder, name)]
        for name in ("Believes", "Raises")
    ],
    "scenario": lambda folder: [
        ["scenario", "list"],
        ["scenario", "list", "--fault", WORD],
        ["scenario", "list", "-k", WORD],
        ["scenario", "show", yaml(folder, f"version: 1\nname: x\nabout: {QUOTED}\nclients: 2\n")],
        ["scenario", "validate", yaml(folder, f"version: 1\nname: {QUOTED}\n{QUOTED}: {QUOTED}\nclients: {QUOTED}\n")],
        ["scenario", "validate", yaml(folder, f"version: 1\nname: x\nabout: {QUOTED}\nclients: 2\n"), WORD],
        ["scenario", "validate", yaml(folder, f"version: 1\nname: x\nfaults:\n  - {{kind: {QUOTED}}}\n")],
        ["scenario", "validate", yaml(folder, WORD)],
        ["sim", yaml(folder, f"version: 1\nname: x\nabout: {QUOTED}\nclients: 2\n"), "--seeds", "1..1"],
    ],
    "delta": lambda folder: [
        ["delta", "plan", "--order", yaml(folder, f"1n {LINE}")],
        ["delta", "plan", "--from-run", str(history(folder))],
    ],
    "cluster": lambda folder: [
        ["cluster", "run", yaml(folder, f"{QUOTED}: {QUOTED}\n")],
        ["cluster", "run", yaml(folder, f"name: {QUOTED}\n"), "--rebalancer", WORD],
    ],
    "others": lambda _: [["providers"], ["backends"], ["doctor", WORD], [WORD], [f"--{WORD}"]],
}
"""By name, the command lines, whose files are made in a folder."""

ARGUMENTS = (
    ["check"], ["audit"], ["watch"], ["report"], ["compare"], ["compare", WORD], ["replay"], ["explain"], ["sim"],
    ["sim", "e30", "--provider"],
    ["sim", "e30", "--seeds"], ["sim", "e30", f"--{WORD}"], ["gate", "-k"], ["gate", "--require"],
    ["campaign"], ["campaign", "e30", "--provider"], ["campaign", "e30", "--master"],
    ["campaign", "e30", "--seeds", "1..2", "--conf"], ["envelope", "--axis"], ["envelope", "--provider"],
    ["fuzz"], ["fuzz", "e30", "--provider"], ["sim", "e30", "--explore"],
    ["bench", "--backend"], ["bench"], ["wire", "--"],
    ["soak"], ["soak", "--backend"], ["soak", "--faults"], ["soak", "--resume"],
    ["wire", "-b"], ["probe"], ["evaluate"], ["scenario", "validate"], ["scenario", "test"], ["scenario"],
    ["delta", "plan", "--order"], ["delta", "plan", "--writers"], ["delta", "plan"], ["plan", "--workers"],
    ["plan"], ["cluster", "run"],
    ["cluster", "run", "x", "--then"], ["cluster", "controller"], ["cluster", "status"],
    ["cluster", "disable", "x", "--instance"], ["cluster", "add-instance"], ["cluster", "drop", "x", "--resource"],
    ["cluster", "add-resource", "x", "y", "--locks"], ["providers"], ["backends"], ["doctor"], ["completion"],
    ["scenario", "show"], ["scenario", "list", "--build"],
    ["runs"], ["runs", "show"], ["runs", "events"], ["runs", "export"], ["runs", "prune", "--days"],
)  # fmt: skip
"""Command lines that end with the word. Each is refused."""


def wrong(capsys: pytest.CaptureFixture[str], folder: Path) -> list[str]:
    """What is wrong with all that was said and written."""
    out, err = capsys.readouterr()
    # Our own annotations are commands; `test_an_annotation_is_one_command` is about them.
    said = [line for line in out.split("\n") if not re.match(r"::(error|warning|notice) (file=[^:]*,)?title=", line)]
    lines = "\n".join([*said, err])
    return [
        *(f"unshown: {line[:300]!r}" for line in unshown(lines)),
        *(f"obeyed: {line[:300]!r}" for line in obeyed(lines)),
        *(line for line in err.split("\n") if "defect in lockref" in line),
        *wrong_files(path for path in folder.rglob("*") if not is_input(path)),
    ]


def is_input(path: Path) -> bool:
    """Does a test write it as a stranger would?"""
    return path.name in ("store.json", "program.txt") or path.name.startswith(("plan ", "bent-"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, as a step of a CI system without Java."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("LOCKREF_JAVA", "none")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_prints_is_given_the_word(name: str, place: Path, capsys: pytest.CaptureFixture[str]):
    """From a history, a file, a lock, a name of a folder. Nothing reaches the terminal, a log or a page as it came."""
    for arguments in COMMANDS[name](place):
        run(arguments)
        assert wrong(capsys, place) == [], arguments


def test_every_command_has_its_lines():
    """A new command is given the word, too."""
    tried = {lines[0] for lines in ARGUMENTS}
    assert {*main.COMMANDS} - {"demo"} <= tried


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda arguments: " ".join(arguments)[:30].strip())
def test_an_argument_that_is_refused_is_quoted_as_text(arguments, place: Path, capsys: pytest.CaptureFixture[str]):
    """By Click, and by every message of ours."""
    assert run([*arguments, WORD]) in (2, 3, 5)
    assert wrong(capsys, place) == []


def test_a_fingerprint_is_shown_as_text(place: Path, capsys: pytest.CaptureFixture[str]):
    """A file that somebody else made, as lines, as Markdown and as a page."""
    found = load(Path(fingerprint(place)))
    Path("fp.md").write_text(told.markdown([found]), encoding="utf-8")
    Path("fp.html").write_text(page_of([found]), encoding="utf-8")
    for line, _ in told.terminal_lines(found):
        Console().say(line)
    assert wrong(capsys, place) == []


@pytest.mark.long
def test_a_probe_of_a_store_that_echoes(place: Path, capsys: pytest.CaptureFixture[str]):
    """Versions, the server's name, codes and messages: told, in the fingerprint, in Markdown and on the page."""
    with serving(Echo()) as uri:
        run(
            [
                "probe",
                uri,
                "--for",
                "1s",
                "--rounds",
                "1",
                "--output",
                "fp.json",
                "--markdown",
                "fp.md",
                "--page",
                "fp.html",
            ]
        )
    assert wrong(capsys, place) == []
    assert {path.name for path in place.iterdir()} >= {"fp.json", "fp.md", "fp.html"}


@pytest.mark.long
def test_an_evaluation_of_a_store_that_echoes(place: Path, capsys: pytest.CaptureFixture[str]):
    """The page of the whole evaluation; the lock raises the word, too."""
    with serving(Echo()) as uri:
        run(["evaluate", uri, "--provider", lock(place, "Refuses"), "--for", "1s", "--probe-for", "1s"])
    assert wrong(capsys, place) == []


def test_a_program_on_the_wire(place: Path, capsys: pytest.CaptureFixture[str]):
    """Keys, bodies and owners as the wire reads them. What the program itself prints is shown only if asked for."""
    (place / "program.txt").write_text(PROGRAM)
    with serving(Bucket()) as uri:
        code = run(
            ["wire", "-b", uri, "-n", "1", "--for", "20s", "--protects", f"state/*{LINE}", "--protects", "state/*",
             "--decoder", "hudi", "--", sys.executable, "program.txt"]
        )  # fmt: skip
    assert code in (1, 3)
    assert wrong(capsys, place) == []


def test_a_defect_is_told_in_plain_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: Path
):
    """The trace of an error whose text came from a stranger, too."""

    def breaks(**_kwargs):
        raise ZeroDivisionError(WORD)

    monkeypatch.setattr(main.cli, "main", breaks)
    assert run([]) == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert unshown(said) + obeyed(said) == []


def hostile_results() -> Results:
    """Results of which every text is the word."""
    failed = Failure(
        id=WORD, clause="S1", message=WORD, run=0, scenario=f"{LINE}.yaml", provider=WORD, backend=WORD,
        block=WORD * 500, replay=WORD, at_ns=1, witness={"text": WORD},
    )  # fmt: skip
    return Results(
        title=WORD, verdict="violated", statement=WORD, runs=1, events=1, clauses={}, failures=[failed], notices=[WORD],
        reasons=[WORD], provenance={}, classes={}, reach=[], files={WORD: WORD},
    )  # fmt: skip


@pytest.mark.parametrize("changes", [{}, {"failures": []}, {"verdict": "inconclusive"}])
def test_an_annotation_is_one_command(changes: dict[str, object]):
    """Its text can neither end it nor begin another one."""
    lines = annotation_lines([hostile_results().model_copy(update=changes)])
    assert lines
    for line in lines:
        assert line.isprintable()
        assert re.fullmatch(r"::(error|warning) (file=[^:,]*,)?title=[^:,]*::.*", line)
        assert obeyed(line[2:]) == []


def test_a_junit_file_holds_text_that_can_be_shown(tmp_path: Path):
    """U+202E is no character that XML forbids, and turns the direction of whoever reads it."""
    path = tmp_path / "junit.xml"
    path.write_text(junit_xml([hostile_results()]), encoding="utf-8")
    assert wrong_files([path]) == []


def test_printable_json_means_the_same():
    """Escapes alone are put in; what can be shown stays as it is."""
    for value in ({WORD: [WORD, "µs ✓ ##", 1.5]}, WORD * 3, "###[x]##[y]", "\U0001f512 \U000e0041"):
        for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=1)):
            shown = printable_json(text)
            assert json.loads(shown) == value
            assert unshown(shown) + obeyed(shown) == []
    assert printable_json('"µs ✓"') == '"µs ✓"'


@pytest.mark.parametrize("color", ["never", "always"])
def test_all_that_a_console_says_goes_through_one_filter(capsys, color):
    """Prose, tables and progress alike, whatever their maker forgot. Colours are the console's own."""
    found = compare([subject("one", broken=3, lock=WORD), subject(WORD, lock="other")])
    console = Console({"color": color})
    console.say(WORD)
    for line in notices(found):
        console.say(line, style="bad")
    console.say_table(terminal_table(found))
    console.progress(WORD, force=True)
    out, err = capsys.readouterr()
    # Of escapes only the colours may be left: those are the console's, for a stranger's have lost their first byte.
    plain = re.sub("\x1b\\[[0-9;]*m", "", out)
    assert unshown(plain + err) + obeyed(plain) + obeyed(err) == []
    assert "\x1b[31mred" not in out
    assert "red" in out


def test_what_a_program_says_on_purpose_is_left_alone():
    for text in ("two\nlines", "  indented", "a :: b", "50 % · ✗ µs", "# [a]", "## a", ""):
        assert outgoing(text) == text
    assert markdown_text("plain words, 5 ms: ✓") == "plain words, 5 ms: ✓"
