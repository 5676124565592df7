"""Output for the user: plain lines when piped, one refreshed line on a terminal, never hostile bytes.

Prose goes through `Console`; with `--json` standard output carries exactly one
document, and prose goes to standard error. Whatever else writes to standard output
then, by its number too, writes to standard error: a lock, its worker processes, a JVM.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TextIO

import click

from lockref.strict_json import printable_json
from reports.formats import text as told

if TYPE_CHECKING:
    from rich.table import Table

    from reports.checks.summary import Summary

COUNTED_NS = 2_000_000_000
"""A step of this length or more has its rest told."""

TICK_S = 1.0
_STYLES = {"bad": {"fg": "red", "bold": True}, "good": {"fg": "green"}, "dim": {"dim": True}, "head": {"bold": True}}


def printable(text: str, *, limit: int = 200, keep_newlines: bool = False) -> str:
    """Text from outside made fit for a terminal: no control characters or escapes, at most `limit` characters."""
    return told.printable(text, limit) if keep_newlines else told.short(text, limit)


def _echo(text: str, stream: TextIO, *, nl: bool = True, color: bool | None = None) -> None:
    """Print. Where the reader has gone away (`lockref … | head`) the rest is dropped and the command goes on.

    Left to itself, Click would end the command with exit code 1, which means that a lock broke.
    """
    try:
        click.echo(text, file=stream, nl=nl, color=color)
    except BrokenPipeError:
        drop_output(stream)


def drop_output(stream: TextIO) -> None:
    """The stream's reader has gone: drop all further output, without an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


_STDOUT: Final = 1
_STDERR: Final = 2
_KEPT: Final = "lockref.document"
"""Where the context of a command keeps its standard output, once that was moved."""


def _own_output() -> TextIO:
    """Standard output for the document alone: descriptor 1 is a copy of standard error until the command is over.

    A lock may write to descriptor 1, in this process or in one that it was handed to: no redirection of Python's would
    keep that out of the document. Without a command around, or where a test has replaced standard output, nothing is
    moved.
    """
    context = click.get_current_context(silent=True)
    if context is not None and _KEPT in context.meta:
        kept_before: TextIO = context.meta[_KEPT]
        return kept_before
    try:
        is_ours = context is not None and sys.stderr is not None and sys.stdout.fileno() == _STDOUT
    except (OSError, ValueError):
        # Replaced by something without a descriptor, or closed.
        is_ours = False
    if context is None or not is_ours:
        return sys.stdout
    sys.stdout.flush()
    kept = os.fdopen(os.dup(_STDOUT), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    os.dup2(_STDERR, _STDOUT)

    def give_back() -> None:
        sys.stdout.flush()
        os.dup2(kept.fileno(), _STDOUT)
        kept.close()

    context.meta[_KEPT] = kept
    context.call_on_close(give_back)
    return kept


class Console:
    """Prose, progress and the JSON document of one command."""

    def __init__(self, options: Mapping[str, object] | None = None, *, as_json: bool = False) -> None:
        settings = options or {}
        self.quiet = bool(settings.get("quiet"))
        self.verbose = bool(settings.get("verbose"))
        self.as_json = as_json
        self._stream: TextIO = sys.stderr if as_json else sys.stdout
        self._document = _own_output() if as_json else sys.stdout
        color = settings.get("color", "auto")
        wanted = color == "always" or (color == "auto" and self._stream.isatty() and "NO_COLOR" not in os.environ)
        self._color = wanted or (color == "auto" and "FORCE_COLOR" in os.environ)
        self._line_open = False
        self._last_progress = 0.0
        self._countdown: _Countdown | None = None

    def say(self, text: str = "", *, style: str = "") -> None:
        """One paragraph of prose; `outgoing` filters it."""
        self._put(told.outgoing(text), style)

    def command(self, text: str) -> None:
        """A line that the CI system shall obey; its maker has made foreign text in it harmless."""
        self._put(text)

    def _put(self, text: str, style: str = "") -> None:
        self._end_line()
        shown = click.style(text, **_STYLES[style]) if style and self._color else text  # type: ignore[arg-type]
        # Click would strip the colours that were asked for when nothing but a pipe reads them.
        _echo(shown, self._stream, color=self._color)

    def say_table(self, table: Table) -> None:
        """A table, as wide as the terminal; a pipe gets 120 columns."""
        from rich.console import Console as Terminal

        width = None if self._stream.isatty() else 120
        terminal = Terminal(width=width, no_color=not self._color, force_terminal=self._color)
        lines = [
            "".join(
                segment.style.render(told.outgoing(segment.text)) if self._color and segment.style
                else told.outgoing(segment.text)
                for segment in line
            ).rstrip()
            for line in terminal.render_lines(table, pad=False)
        ]  # fmt: skip
        self._put("\n".join(lines).rstrip("\n"))

    def progress(self, text: str, *, force: bool = False) -> None:
        """The state of a long job: refreshed in place on a terminal, a line every five seconds otherwise."""
        if self.quiet:
            return
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if not force and now - self._last_progress < (0.2 if terminal else 5.0):
            return
        self._last_progress = now
        text = told.outgoing(text)
        if terminal:
            _echo(f"\r\x1b[K{text}", sys.stderr, nl=False)
            self._line_open = True
        else:
            _echo(text, sys.stderr)

    def step(self, text: str, *, lasting_ns: int = 0) -> None:
        """Name the step that begins now, in a job of several steps.

        lasting_ns: how long it will take, in nanoseconds, where that is known. Of a step of two seconds or more the
        rest is told from then on, until something else is said.
        """
        self._end_countdown()
        self.progress(text, force=True)
        if lasting_ns >= COUNTED_NS and not self.quiet:
            self._countdown = _Countdown(self.progress, text, lasting_ns)

    def _end_countdown(self) -> None:
        if self._countdown is not None:
            self._countdown.end()
            self._countdown = None

    @property
    def is_live(self) -> bool:
        """Does an operator look at a terminal that may be redrawn?"""
        return not (self.quiet or self.as_json) and self._stream.isatty()

    def document(self, content: Mapping[str, object]) -> None:
        """The one JSON document of `--json`."""
        self._end_line()
        _echo(printable_json(json.dumps(content, indent=2)), self._document)

    def line(self, content: Mapping[str, object]) -> None:
        """One JSON object on one line of standard output, for a reader that follows; in the place of a document."""
        self._end_line()
        _echo(printable_json(json.dumps(content)), self._document)

    def _end_line(self) -> None:
        self._end_countdown()
        if self._line_open:
            _echo("\r\x1b[K", sys.stderr, nl=False)
            self._line_open = False


class _Countdown:
    """The rest of a step, told again and again by a thread of its own: the step keeps its caller busy."""

    def __init__(self, show: Callable[[str], None], text: str, lasting_ns: int) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, args=(show, text, lasting_ns), daemon=True, name="countdown")
        self._thread.start()

    def _tell(self, show: Callable[[str], None], text: str, lasting_ns: int) -> None:
        end_ns = time.monotonic_ns() + lasting_ns
        while not self._over.wait(TICK_S):
            show(f"{text}, {rest_in_words(end_ns - time.monotonic_ns())}")

    def end(self) -> None:
        """Tell nothing more. Idempotent."""
        self._over.set()
        self._thread.join()


def rest_in_words(left_ns: int) -> str:
    """`about 12 s left`, or that a step takes longer than was planned."""
    return f"about {-(-left_ns // 1_000_000_000):,} s left" if left_ns > 0 else "about to end"


class SeedsRun(Protocol):
    """A campaign on its way. resumed: seeds that an earlier command had finished. seeds: of all of it."""

    scenario: str
    seeds: int
    resumed: int
    summary: Summary


def seed_progress(console: Console, *, seeds: int = 0) -> Callable[[SeedsRun], None]:
    """A function that shows how far campaigns have come. seeds: of all campaigns of the command; see `SeedProgress`."""
    progress = SeedProgress(console)
    progress.expect(seeds)
    return progress.show


RATED_SHARE = 0.05
"""The share of all seeds after which their rate tells the time that is left."""


class SeedProgress:
    """The progress of campaigns, and the time that the rest will take at the rate until now.

    left_ns: the real time that is left, where the command has a budget; then that is what is told of the rest.
    """

    def __init__(self, console: Console, *, left_ns: Callable[[], int] | None = None) -> None:
        self._console = console
        self._left_ns = left_ns
        self._began = time.monotonic()
        self._expected = 0
        self._run: dict[str, int] = {}
        self._resumed: dict[str, int] = {}

    def expect(self, seeds: int) -> None:
        """So many seeds will be run in a further round. Where nobody knows, nothing is said of the rest."""
        self._expected += seeds

    def show(self, result: SeedsRun) -> None:
        """Say how far this campaign has come, and how long the rest of all will take."""
        # Not loaded with the module: commands that judge nothing start without NumPy and Arrow.
        from lockref.words import counted

        summary = result.summary
        # A scenario may run in several rounds; its result counts all of them.
        self._run[result.scenario] = summary.runs - result.resumed
        self._resumed[result.scenario] = result.resumed
        done = sum(self._run.values())
        rate = done / max(time.monotonic() - self._began, 1e-9)
        to_go = self._expected - done - sum(self._resumed.values())
        # The first seeds pay for the start of the worker processes: their rate says nothing of the others.
        is_known = rate > 0 and to_go > 0 and done >= RATED_SHARE * self._expected
        left_ns = round(to_go / rate * 1e9) if is_known else 0
        if self._left_ns is not None:
            left_ns = self._left_ns()
        left = f", {rest_in_words(left_ns)}" if left_ns else ""
        self._console.progress(
            f"{result.scenario}: {summary.runs:,} of {result.seeds:,} seeds, {rate:,.0f}/s, "
            f"{counted(len(summary.findings), 'distinct failure')}{left}"
        )
