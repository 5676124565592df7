"""Every command that a document shows is run, every file that one links is there, every Python block runs."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from docs.site.scenario_keys import keys_of_a_file
from lockref.cli.main import run
from lockref.clouds.tables import require_table
from lockref.clouds.uri import parse_store_uri
from lockref.delta.options import DEFAULT_TABLE_NAME
from lockref.runtime import NS_PER_S
from scenarios.backends import BACKENDS
from scenarios.evaluation.prices import PRICES
from tests.docs import DOCUMENTS, ROOT, blocks
from tests.docs.embed import EXAMPLES, GATE_EXAMPLES, fault_table
from tests.docs.sessions import parts

COMMAND = re.compile(r"^lockref .+")
BESIDE = re.compile(r"  #|   \(")
"""What begins something beside a command: a comment, or the cause that a gate prints after its line to replay."""
PLACES = re.compile(r"\[[^\]]+\]\(([^)#\s]+)\)")

SHORTER = (
    (re.compile(r"--seeds \d+\.\.\d+"), "--seeds 1..3"),
    (re.compile(r"--contenders \d+"), "--contenders 4"),
    (re.compile(r"--for \d+s"), "--for 1s"),
    (re.compile(r"--via docker"), "--via native"),
    (re.compile(r"^lockref bench contention(?!.*--for)"), "lockref bench contention --contenders 4 --for 1s"),
    # A cluster and a bucket are somebody's; tests/spark has one of its own.
    (re.compile(r" --master \S+"), ""),
    (re.compile(r"--out s3a://\S+"), "--out here"),
    (re.compile(r"^(lockref soak .*)--for \S+"), r"\1--for 2s"),
    # The shortest soak in which faults strike: the first ones come after 2.5 s, and none later than 5 s before the end.
    (re.compile(r"^(lockref soak .*)--every \S+ --for 2s"), r"\1--every 5s --for 8s"),
    (re.compile(r"^(lockref fuzz .*)--max-time \S+"), r"\1--runs 8 --jobs 1 --shrink-for 0s"),
    (re.compile(r"^(lockref sim .*--explore .*)--max-time \S+"), r"\1--max-time 1s --jobs 1"),
    (re.compile(r"^lockref probe\b"), "lockref probe --for 3s --rounds 2"),
    (re.compile(r"^lockref gate\b(?!.*--only-mine)"), "lockref gate -k e01 --seeds 1..2 --jobs 1"),
    (re.compile(r"^lockref envelope\b"), "lockref envelope --jobs 1 --for 4s"),
    (re.compile(r"^lockref evaluate\b"), "lockref evaluate --for 1s --probe-for 3s --rounds 2"),
)
"""What a document shows large is run small: it is the form that must be right."""

NEEDS_SERVER = re.compile(
    r"^lockref ((demo|bench|soak|cluster|backends up|wire)\b|probe (?!memory:|.* --dry-run)|evaluate (?!memory:))"
)
NEEDS_SPARK = re.compile(r"^lockref (demo|report)\b")


def _commands() -> list[tuple[str, str]]:
    found = []
    for document in DOCUMENTS:
        for _, text in blocks(document):
            for line in text.replace("\\\n", " ").splitlines():
                command = BESIDE.split(line)[0].strip()
                if COMMAND.match(command):
                    found.append((document.name, command))
    once = {_small(command): (document, command) for document, command in sorted(found, reverse=True)}
    return sorted(once.values())


def _small(command: str) -> str:
    """A command as it is run, whatever failure it names: what several documents show is run once."""
    for pattern, replacement in SHORTER:
        command = pattern.sub(replacement, command)
    return re.sub(r"LK-\S*", "LK-", re.sub(r"--all(?=\s)", "e01 e08", command))


COMMANDS = _commands()
PLAIN = [case for case in COMMANDS if not NEEDS_SERVER.match(case[1]) and not NEEDS_SPARK.match(case[1])]
SERVED = [case for case in COMMANDS if case[1].startswith("lockref bench")]
EVALUATED = [case for case in COMMANDS if case[1].startswith("lockref evaluate") and NEEDS_SERVER.match(case[1])]
LASTING = re.compile(r"^lockref bench (e\d|swarm|w16-helping|incident)")
"""What lasts as long as its scenario says; tests/backends/test_faults_on_the_wire.py carries out a shorter plan."""
PROBED = [case for case in COMMANDS if case[1].startswith("lockref probe") and NEEDS_SERVER.match(case[1])]
REACHED = [case for case in PROBED if "--stop-node" not in case[1]]
"""Without the one whose commands are about machines that nobody has here."""
SOAKED = [case for case in COMMANDS if case[1].startswith("lockref soak") and "zookeeper" not in case[1]]
ON_THE_WIRE = [case for case in COMMANDS if case[1].startswith("lockref wire") and "docs/examples" in case[1]]


def test_the_documents_show_commands() -> None:
    """A change of style in the documents must not leave these tests without anything to run."""
    assert len(PLAIN) >= 8
    assert any(LASTING.match(command) for _, command in SERVED)
    assert not all(LASTING.match(command) for _, command in SERVED)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with what the documents assume: their example, a lock and a scenario of one's own, a stored failure."""
    for folder in ("examples", "explanation/clauses", "explanation/clock-promise"):
        shutil.copytree(ROOT / "docs" / folder, tmp_path / "docs" / folder)
    shutil.copy(ROOT / "docs" / "examples" / "lease_lock.py", tmp_path / "my_lock.py")
    (tmp_path / "my_lock.py").write_text(
        (tmp_path / "my_lock.py").read_text().replace("class LeaseLock", "class MyLock")
    )
    shutil.copy(PRICES, tmp_path / "prices.yaml")
    for part in parts(ROOT / "docs" / "how-to" / "reproduce-an-incident.md"):
        if part.name:
            (tmp_path / part.name).write_text(part.text, encoding="utf-8")
    (tmp_path / "my.yaml").write_text("version: 1\nname: my\n")
    (tmp_path / "pause.yaml").write_text("version: 1\nname: pause\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _shortened(command: str) -> list[str]:
    command = _small(command)
    if "LK-" in command:
        run(["sim", "e08", "--provider", "hudi", "--seeds", "1"])
        stored = min(Path(".lockref/failures").glob("LK-*.json")).stem
        command = command.replace("LK-", stored)
    if command.startswith("lockref fuzz ") and "--resume" in command:
        run(shlex.split(command.replace("--resume", ""))[1:])
    if "latest" in command or "FOLDER" in command or command == "lockref watch":
        run(["sim", "e01", "--seeds", "1..3"])
        command = command.replace("FOLDER", ".lockref/runs/latest")
    return shlex.split(command)[1:]


@pytest.mark.parametrize(("document", "command"), PLAIN, ids=[command for _, command in PLAIN])
def test_a_shown_command_runs(document: str, command: str, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command in a document ends with a verdict (0, 1, 3, 4), never with a usage error or a defect."""
    code = run(_shortened(command))
    told = capsys.readouterr()
    assert code in (0, 1, 3, 4), f"{document}: `{command}` exits {code}: {told.err}"


@pytest.mark.long
@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
@pytest.mark.parametrize(("document", "command"), SOAKED, ids=[command for _, command in SOAKED])
def test_a_shown_soak_runs(
    document: str, command: str, workplace: Path, capsys: pytest.CaptureFixture[str], ministack_uri: str
) -> None:
    """A `soak` of some seconds is too short to tell, and says so."""
    arguments = [ministack_uri if argument == "ministack" else argument for argument in _shortened(command)]
    code = run(arguments)
    assert code == 3, f"{document}: `{command}` exits {code}: {capsys.readouterr().err}"


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
@pytest.mark.parametrize(
    ("document", "command"),
    [pytest.param(*case, marks=[pytest.mark.long] if LASTING.match(case[1]) else [], id=case[1]) for case in SERVED],
)
def test_a_shown_contention_runs(
    document: str, command: str, workplace: Path, capsys: pytest.CaptureFixture[str], ministack_uri: str
) -> None:
    """`bench` commands run on a real server, in the place of the one that is named. Hudi's lock may break there."""
    arguments = [ministack_uri if argument.startswith("s3://") else argument for argument in _shortened(command)]
    code = run(arguments)
    expected = (0, 1, 3) if "--provider hudi" in command else (0, 3)
    assert code in expected, f"{document}: `{command}` exits {code}: {capsys.readouterr().err}"


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
@pytest.mark.parametrize(("document", "command"), EVALUATED, ids=[command for _, command in EVALUATED])
def test_a_shown_evaluation_runs(
    document: str, command: str, workplace: Path, capsys: pytest.CaptureFixture[str], ministack_uri: str
) -> None:
    """`evaluate` with every option that a document shows; each store gives way to ours, and the faults are left out."""
    names = [*BACKENDS, "s3://"]
    arguments = [
        ministack_uri if any(argument.startswith(name) for name in names) else argument
        for argument in _shortened(command)
    ]
    code = run([*arguments, "--contenders", "1,2", "--no-faults"])
    assert code in (0, 3, 4), f"{document}: `{command}` exits {code}: {capsys.readouterr().err}"


@pytest.mark.parametrize(("document", "command"), PROBED, ids=[command for _, command in PROBED])
def test_a_shown_probe_is_understood(
    document: str, command: str, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `probe` would send is counted, with every option that the document shows; a wrong one is a usage error."""
    code = run([*shlex.split(command)[1:], "--dry-run"])
    assert code == 0, f"{document}: `{command} --dry-run` exits {code}: {capsys.readouterr().err}"


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
@pytest.mark.parametrize(
    ("document", "command"),
    [pytest.param(*case, marks=[] if "--output" in case[1] else [pytest.mark.long], id=case[1]) for case in REACHED],
)
def test_a_shown_probe_runs(
    document: str, command: str, workplace: Path, capsys: pytest.CaptureFixture[str], ministack_uri: str
) -> None:
    """`probe` commands ask a real server, in four rounds; other addresses and names give way to that of ours."""
    stores = [argument for argument in _shortened(command)[1:] if ":" in argument or argument in BACKENDS]
    arguments = [argument for argument in _shortened(command) if argument not in stores]
    code = run([*arguments, ministack_uri, "--rounds", "4", "--for", "100s"])
    assert code == 0, f"{document}: `{command}` exits {code}: {capsys.readouterr().err}"


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
@pytest.mark.parametrize(("document", "command"), ON_THE_WIRE, ids=[command for _, command in ON_THE_WIRE])
def test_a_shown_program_runs_on_the_wire(
    document: str, command: str, workplace: Path, capsys: pytest.CaptureFixture[str], ministack_uri: str
) -> None:
    """`wire` commands watch the example program on a real server; it is cut short before a plan can strike."""
    arguments = [sys.executable if argument == "python" else argument for argument in _shortened(command)]
    code = run([*arguments[:1], "--backend", ministack_uri, *arguments[1:]])
    assert code in (0, 3), f"{document}: `{command}` exits {code}: {capsys.readouterr().err}"


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_the_lease_of_a_delta_table_is_taken_on_a_real_server(
    ministack_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/examples/delta_lease.py is a whole program, and its beginning stands in docs/delta.md."""
    endpoint = parse_store_uri(ministack_uri).endpoint
    table = parse_store_uri(f"dynamodb://{DEFAULT_TABLE_NAME}?endpoint={endpoint}&region=us-east-1")
    require_table(table, request_timeout_ns=20 * NS_PER_S, may_create=True)
    monkeypatch.setenv("ENDPOINT", endpoint)
    program = ROOT / "docs" / "examples" / "delta_lease.py"
    runpy.run_path(str(program))
    assert re.fullmatch(r"commit under token \d+\n", capsys.readouterr().out)
    (shown,) = [text for language, text in blocks(ROOT / "docs" / "delta.md") if language == "python"]
    assert shown.strip() in program.read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """A relative link names a file that exists."""
    missing = [
        place
        for place in PLACES.findall(document.read_text(encoding="utf-8"))
        if ":" not in place and not (document.parent / place).exists()
    ]
    assert not missing


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_shown_as_it_is(name: str) -> None:
    """docs/bring-your-own-lock.md shows the example files to the letter, so that copying either gives the same."""
    shown = [text for language, text in blocks(ROOT / "docs" / "bring-your-own-lock.md") if language == "python"]
    assert (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8") in shown


@pytest.mark.parametrize("name", GATE_EXAMPLES)
def test_a_file_of_the_gate_is_shown_as_it_is(name: str) -> None:
    """docs/gate.md shows them to the letter, as `make docs` writes them."""
    shown = [text for language, text in blocks(ROOT / "docs" / "gate.md") if language == "yaml"]
    assert (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8") in shown


def test_the_table_of_fault_kinds_is_current() -> None:
    """docs/scenarios.md says of each kind what its class says, as `make docs` writes it."""
    assert fault_table() in (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")


def test_the_table_of_keys_is_current() -> None:
    """docs/scenarios.md says of each key what the model says, as `make docs` writes it."""
    assert keys_of_a_file() in (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")


def test_the_scenario_schema_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    """scenarios/schema.json is what `make docs` writes."""
    assert run(["scenario", "schema"]) == 0
    assert capsys.readouterr().out == (ROOT / "scenarios" / "schema.json").read_text(encoding="utf-8")
