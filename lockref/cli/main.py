"""The `lockref` command: subcommands by name, and one place where errors become exit codes.

Subcommands load on use, so that `lockref --help` costs little more than Click. Exit code 1 means "a lock broke" (or
leaks) and nothing else, so Click runs with `standalone_mode=False`: its own uses of 1 (Ctrl-C, broken pipe, plain
errors) and Python's (an uncaught exception) are given other numbers here. The table is in docs/results.md.
"""

from __future__ import annotations

import errno
import importlib
import io
import sys
import traceback

import click

import lockref
from lockref.cli.commands import COMMANDS
from lockref.cli.options import Group, everywhere
from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError, LockrefError
from lockref.extras import extra_of, install
from lockref.foreign_modules import watch_imports
from lockref.temporary_folders import sweep
from scenarios import interrupts
from scenarios.supervised import supervised
from scenarios.worlds.processes.import_watch import ends_stuck_import

_RUN_LOCKS = (
    "sim", "campaign", "gate", "envelope", "replay", "explain", "bench", "soak", "evaluate", "scenario", "cluster",
)  # fmt: skip
_WATCHED = (*_RUN_LOCKS, "report")
"""Commands in whose process a lock under test, or a JVM, can end or hold it up. `wire` starts its program apart."""

_MACHINE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR)
"""What the machine refuses us, wherever it does: the environment's fault (exit 5), none of ours."""


class LazyGroup(Group):
    """A group whose commands live in `lockref.cli.<module>` and load when named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, below = COMMANDS[cmd_name][0].partition("/")
        command: click.Command = importlib.import_module(f"lockref.cli.{module}").command
        return everywhere(command.commands[below] if below else command)  # type: ignore[attr-defined]

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader went away (`lockref … | head`). Caught here because Click's own answer to it is exit code 1.
            # Commands that judge print through `Console`, which goes on to the verdict.
            from lockref.cli.jobs.shown.console import drop_output

            drop_output(sys.stdout)
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "LOCKREF"})
@click.version_option(lockref.__version__, prog_name="lockref")
def cli() -> None:
    """Can a lock that lives in cloud storage be trusted? Simulate it, contend for it, read the verdict.

    Start with `lockref demo`. -q, -v and --color may stand anywhere in the line.
    """
    for line in sweep().lines():
        click.echo(f"lockref: {line}", err=True)


everywhere(cli, hidden=False)


def _fail(message: str, code: int) -> int:
    from lockref.cli.jobs.shown.console import printable

    _complain(f"lockref: {printable(message, limit=4000, keep_newlines=True)}")
    return code


def _complain(text: str) -> None:
    """Print an error on standard error. The error may quote foreign text, so it is filtered like all output."""
    from reports.formats.text import outgoing

    sys.stdout.flush()
    click.echo(outgoing(text), err=True)


def _say(message: str) -> None:
    _fail(message, BackendUnavailable.exit_code)


def _defect(error: Exception) -> int:
    if interrupts.was_heard():
        # What breaks after a signal (a JVM that the same Ctrl-C ended, a closed pipe) is a consequence of it.
        return _fail("interrupted", interrupts.EXIT_CODE)
    _complain("".join(traceback.format_exception(error)).rstrip("\n"))
    return _fail(f"defect in lockref: {type(error).__name__}: {error}", LockrefError.exit_code)


def run(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    watch_imports(ends_stuck_import)
    try:
        with interrupts.remembered():
            result = cli.main(args=arguments, prog_name="lockref", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        said = io.StringIO()
        error.show(said)
        _complain(said.getvalue().rstrip("\n"))
        return ConfigError.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), ConfigError.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", interrupts.EXIT_CODE)
    except LockrefError as error:
        return _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        extra = extra_of(error.name)
        if not extra:
            return _defect(error)
        return _fail(f"this needs {error.name}, which is not installed: {install(extra)}", CapabilityMissing.exit_code)
    except OSError as error:
        if error.errno not in _MACHINE:
            return _defect(error)
        place = f"{error.filename}: " if error.filename else ""
        return _fail(
            f"{place}{error.strerror or error}; results go below the current folder: can it be written, is there room?",
            BackendUnavailable.exit_code,
        )
    except Exception as error:  # noqa: BLE001 - the last net: an unforeseen error must never exit 1, "a lock broke"
        return _defect(error)
    return result if isinstance(result, int) else 0


def main() -> None:
    """The console script. A command that a stranger's lock or a JVM can hold up is watched from outside."""
    command = next((word for word in sys.argv[1:] if word in COMMANDS), "")
    sys.exit(supervised(run, _say) if command in _WATCHED else run())
