"""What every command of the line shares: -q and -v anywhere, durations, the nearest word, and completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from lockref.cli.main import cli, run
from lockref.cli.options import Duration, everywhere
from tests.docs import ROOT


@pytest.mark.parametrize(
    "words",
    [["-q", "told"], ["told", "-q"], ["told", "below", "-q"], ["-v", "told", "below", "-q", "--color", "always"]],
)
def test_options_of_the_whole_line_stand_anywhere(words: list[str]) -> None:
    """They were refused behind the command, where people write them."""
    heard: dict[str, object] = {}

    @click.group(name="told", invoke_without_command=True)
    def group() -> None:
        """A group that does something alone."""

    @group.command(name="below")
    @click.pass_context
    def below(ctx: click.Context) -> None:
        """A command below it."""
        heard.update(ctx.obj)

    @click.group(name="line")
    def line() -> None:
        """The line."""

    line.add_command(group)
    everywhere(line)
    context = line.make_context("line", [*words]) if "below" not in words else None
    if context is None:
        line.main(words, standalone_mode=False)
        assert heard["quiet"] is True
        assert heard.get("color") == ("always" if "--color" in words else None)
        assert heard.get("verbose") == (True if "-v" in words else None)
    else:
        assert line.invoke(context) is None
        assert context.obj["quiet"] is True


@pytest.mark.parametrize("command", [*cli.list_commands(click.Context(cli))])
def test_every_command_takes_them(command: str) -> None:
    """A new command takes them without a word of its own."""
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    assert {"quiet", "verbose", "color"} <= {param.name for param in found.params}


def test_a_program_on_the_wire_keeps_its_own_options() -> None:
    """`lockref wire program -q`: the -q is the program's."""
    found = cli.get_command(click.Context(cli), "wire")
    assert found is not None
    assert found.make_context("wire", ["-n", "2", "program", "-q"]).params["program"] == ("program", "-q")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["simm"], "sim"),
        (["scenario", "lst"], "list"),
        (["backends", "upp"], "up"),
        (["cluster", "run", "x", "--then", "leve"], "leave"),
        (["--color", "alway", "doctor"], "always"),
        (["completion", "bsh"], "bash"),
        (["sim", "e08", "--provider", "hudy"], "hudi"),
        (["sim", "e088"], "e08"),
        (["sim", "e08", "--sed", "1"], "--seed"),
        (["bench", "--backend", "ministak"], "ministack"),
        (["scenario", "list", "--fault", "paus"], "pause"),
        (["scenario", "list", "-k", "partitionn"], "partition"),
    ],
)
def test_a_mistyped_word_is_told_the_nearest(words: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, values of options, scenarios, locks and servers alike. Exit code 2."""
    assert run(words) == 2
    told = capsys.readouterr().err
    assert "id you mean" in told
    assert meant in told


@pytest.mark.parametrize(("text", "nanoseconds"), [("90s", 90 * 10**9), ("1.5m", 90 * 10**9), ("250ms", 250 * 10**6)])
def test_a_duration_of_an_option_is_one_of_a_file(text: str, nanoseconds: int) -> None:
    """One grammar: `--max-time 60` meant seconds, and every other option wanted a unit."""
    assert Duration().convert(text, None, None) == nanoseconds


def test_a_duration_without_a_unit_is_told_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody guesses whether 60 is seconds or minutes."""
    assert run(["sim", "e08", "--max-time", "60"]) == 2
    assert "without a unit; expected ns, us, µs, ms, s, m, h" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("lockref sce", "scenario"),
        ("lockref sim e0", "e08-paused-holder"),
        ("lockref sim e08 --provider hu", "hudi"),
        ("lockref bench --backend mini", "ministack"),
    ],
)
def test_a_shell_completes_commands_and_names(words: str, expected: str, tmp_path: Path) -> None:
    """What the script of `lockref completion bash` asks when Tab is pressed."""
    asked = os.environ | {
        "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_LOCKREF_COMPLETE": "bash_complete",
    }  # fmt: skip
    lockref = Path(sys.executable).with_name("lockref")
    done = subprocess.run([lockref], env=asked, cwd=tmp_path, capture_output=True, text=True)
    assert f"plain,{expected}" in done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_us(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The variable in the script is the one that the command line answers to."""
    assert run(["completion", shell]) == 0
    assert f"_LOCKREF_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["scenario list", "sim e01 --seeds 1", "doctor --json", "nosuch"])
def test_a_closed_output_is_no_broken_lock(words: str, tmp_path: Path) -> None:
    """`lockref … >&-` ends with the command's own code: 1 means that a lock broke."""
    shell = ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, "-m", "lockref", *words.split()]
    done = subprocess.run(shell, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if words == "nosuch" else 0), done.stderr


@pytest.mark.parametrize("command", [["controller"], ["run"], ["status"], ["disable", "--whole-cluster"]])
def test_an_address_that_is_empty_starts_no_server(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--zookeeper "$SERVERS"` with a variable that is not set means a server all the same."""
    for module in ("controlling", "running"):
        place = f"lockref.cli.jobs.cluster.{module}.started_zookeeper"
        monkeypatch.setattr(place, lambda: pytest.fail("a server is started"))
    file = str(ROOT / "docs" / "examples" / "lock-manager.yaml")
    assert run(["cluster", command[0], file, *command[1:], "--zookeeper", ""]) == 2
    assert "the zookeeper address names '' as a server" in capsys.readouterr().err
