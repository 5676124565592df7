"""Options that several commands take, and what their values may be."""

from __future__ import annotations

import glob
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lockref.errors import did_you_mean, quote
from lockref.grammar import decimal
from lockref.quantities import NS_PER_UNIT, duration_ns
from lockref.rooms import HOME
from lockref.seeds import SEED_MAX, SEEDS_MAX, number_range

if TYPE_CHECKING:
    from scenarios.search.placing import FaultPlacing
    from sim.explore.policies import Policy

Command = TypeVar("Command", bound=Callable[..., Any])
Decorated = TypeVar("Decorated", bound="Callable[..., Any] | click.Command")

DURATION_NS_MAX = 24 * NS_PER_UNIT["h"]
CLIENTS_MAX = 1_024


class Word(click.Choice[str]):
    """One of some words. Whoever mistypes one is told the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return super().get_invalid_choice_message(value, ctx) + did_you_mean(str(value), self.choices)


class Number(click.FloatRange):
    """A number in a range. "nan" is in every range for click, and is no number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return self.fail(f"{value!r} is not a number.", param, ctx) if math.isnan(number) else number


class Group(click.Group):
    """A group that tells what a mistyped command may have meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(f"No such command {args[0]!r}.{did_you_mean(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


def _note(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Note an option of the whole line. Where it stands twice, what stands last counts."""
    said = ctx.ensure_object(dict)
    if value and param.name is not None:
        said[param.name] = value


def everywhere(command: Decorated, *, hidden: bool = True) -> Decorated:
    """Let a command, and the commands below it, take `-q`, `-v` and `--color`: they may stand anywhere in a line.

    They are in `ctx.obj`, under "quiet", "verbose" and "color".
    """
    if isinstance(command, click.Group):
        for below in command.commands.values():
            everywhere(below)
    if isinstance(command, click.Command) and any(param.name == "quiet" for param in command.params):
        return command
    for option in (
        click.option(
            "--color", type=Word(["auto", "always", "never"]), expose_value=False, callback=_note, hidden=hidden,
            help="Colour on standard output; default auto.",
        ),
        click.option(
            "-v", "--verbose", is_flag=True, expose_value=False, callback=_note, hidden=hidden,
            help="Tell more: each failure in full, and each scenario that does not apply.",
        ),
        click.option(
            "-q", "--quiet", is_flag=True, expose_value=False, callback=_note, hidden=hidden,
            help="Results only, no progress.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def scenario_names(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """The scenarios of the catalogue that begin so, for a shell that completes. Their files are not read."""
    return sorted(path.stem for path in (HOME / "scenarios" / "catalogue").glob(f"{glob.escape(begun)}*.yaml"))


def provider_names(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """The known locks that begin so."""
    from lockref.lab.loading import registered

    return sorted(name for name in registered() if name.startswith(begun))


def backend_names(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """The servers that can be started here, and the stores of this process, that begin so."""
    from scenarios.backends.hosts import known_servers

    return [name for name in ("memory:", *known_servers()) if name.startswith(begun)]


class Duration(click.ParamType[Any]):
    """`20s`, `500ms`, `2m` as nanoseconds, at most a day. zero: `0s` is one, too."""

    name = "DURATION"

    def __init__(self, *, zero: bool = False) -> None:
        self._least = 0 if zero else 1

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            found = duration_ns(value)
        except ValueError as error:
            self.fail(str(error).removeprefix("is "), param, ctx)
        if not self._least <= found <= DURATION_NS_MAX:
            self.fail(f"{value!r}; expected a duration such as 20s or 500ms, at most 24h", param, ctx)
        return found


class Demand(click.ParamType[Any]):
    """`handoff.p99 < 12s`: a threshold, as a scenario has it."""

    name = "LIMIT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from reports.checks.thresholds.limits import parse_threshold

        try:
            return parse_threshold(str(value)).text
        except ValueError as error:
            self.fail(str(error).removeprefix("is "), param, ctx)


class Expression(click.ParamType[Any]):
    """`e08 or (pause and not crash)`: which scenarios, in the grammar of pytest's `-k`."""

    name = "EXPR"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from scenarios.gate.selection import parse_selection

        if not isinstance(value, str):
            return value
        try:
            return parse_selection(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Crowds(click.ParamType[Any]):
    """`1,8,64`: numbers of clients, each once."""

    name = "LIST"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        if isinstance(value, list):
            return value
        try:
            numbers = [int(part) for part in str(value).split(",")]
        except ValueError:
            numbers = []
        if not numbers or not all(1 <= number <= CLIENTS_MAX for number in numbers):
            self.fail(f"{value!r}; expected numbers from 1 to {CLIENTS_MAX:,} such as 1,8,64", param, ctx)
        return list(dict.fromkeys(numbers))


class ExitCodes(click.ParamType[Any]):
    """`3,4`. Refuses 1: no gate may take a broken lock for success."""

    name = "CODES"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        from reports.formats.exit_codes import VIOLATED

        if isinstance(value, list):
            return value
        try:
            codes = [int(code) for code in str(value).split(",") if code.strip()]
        except ValueError:
            self.fail(f"{value!r}; expected codes such as 3,4", param, ctx)
        if VIOLATED in codes:
            self.fail(f"{value!r}: 1 says that a lock broke, and that cannot be allowed", param, ctx)
        return codes


class Declaration(click.ParamType[Any]):
    """`renews` or `no-renews`: an ability of a lock, and whether it has it."""

    name = "WORD"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from scenarios.gate.demands import declared_ability

        if not isinstance(value, str):
            return value
        try:
            return declared_ability(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Exploring(click.ParamType["Policy | FaultPlacing"]):
    """`random`, `pct:3`, `pos`, `delay:2`, `exhaustive`: how schedules are chosen. `faults`: where faults strike."""

    name = "POLICY"

    def __init__(self, *, with_faults: bool = True) -> None:
        """with_faults: False where only schedules are explored."""
        self._with_faults = with_faults

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Policy | FaultPlacing:
        from scenarios.search.placing import WORDS, FaultPlacing, parse_placing
        from sim.explore.policies import Policy, parse_policy

        if isinstance(value, (Policy, FaultPlacing)):
            return value
        assert isinstance(value, str), "a command line holds text"
        try:
            if self._with_faults and (placing := parse_placing(value)) is not None:
                return placing
            return parse_policy(value, others=WORDS if self._with_faults else ())
        except ValueError as error:
            self.fail(str(error), param, ctx)


class AxisText(click.ParamType[Any]):
    """`pause=0s..20s`, with or without `/STEP`, or `offset=200ms`: an axis of an envelope."""

    name = "NAME=LOW..HIGH"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from scenarios.envelope.axes import parse_axis

        if not isinstance(value, str):
            return value
        try:
            return parse_axis(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class NumberRange(click.ParamType[Any]):
    """`A..B`, both included, or one number. noun: what is counted, in the plural."""

    name = "A..B"

    def __init__(self, noun: str, *, least: int, most: int, count_max: int) -> None:
        self._noun = noun
        self._least = least
        self._most = most
        self._count_max = count_max

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        try:
            return number_range(
                str(value), noun=self._noun, least=self._least, most=self._most, count_max=self._count_max
            )
        except ValueError as error:
            self.fail(str(error), param, ctx)


class NumberList(NumberRange):
    """Ranges and numbers with commas between them, such as `2,10` or `1..4,10`: each number once, in rising order."""

    name = "A..B|LIST"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        found = sorted(
            {number for part in value.split(",") for number in super(NumberList, self).convert(part, param, ctx)}
        )
        if len(found) > self._count_max:
            self.fail(f"{value!r} names {len(found):,} {self._noun}; at most {self._count_max:,}", param, ctx)
        return found


class Processes(click.ParamType[Any]):
    """A number of processes, or `auto`, which is None."""

    name = "auto|N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        text = str(value)
        if text == "auto":
            return None
        number = decimal(text)
        if number is None or not 1 <= number <= 256:
            self.fail(f"{quote(text)}; expected auto or 1 to 256", param, ctx)
        return number


SEED_RANGE = NumberRange("seeds", least=0, most=SEED_MAX, count_max=SEEDS_MAX)
WRITER_NUMBERS = NumberList("writers", least=1, most=10_000, count_max=1_000)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
NEW_FOLDER = click.Path(file_okay=False, path_type=Path)

AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
AS_JSON_LINES = click.option("--json", "as_json", is_flag=True, help="JSON objects on standard output, one a line.")
_LOCK = "A name, module:Class or file.py:Class"
PROVIDER, FLEET = (
    click.option("--provider", "-p", default="hardened", show_default=True, help=about, shell_complete=provider_names)
    for about in (f"{_LOCK}.", f"{_LOCK}; a mixed fleet with commas, such as hardened,hudi:3.")
)
VIA = click.option(
    "--via", type=Word(["native", "docker"]), default="native", show_default=True, help="How a server is started."
)
ROUNDS = click.option(
    "--rounds", type=click.IntRange(1, 10_000), default=300, show_default=True, help="Rounds of each race, at most."
)
DEMANDS = click.option(
    "--demand", "demands", type=Demand(), multiple=True,
    help="Limit on what is measured, such as 'requests_per_grant.mean < 12'; may be repeated.",
)  # fmt: skip
ALLOWED = click.option(
    "--allow-exit", "allowed", type=ExitCodes(), default="", help="Codes that count as success, such as 3,4; never 1."
)


def on_executors(command: Command) -> Command:
    """The options that say where chunks of seeds run: processes of this machine, or Spark."""
    master = "Spark: local[*], spark://HOST:PORT, yarn or k8s://…; default: processes, no Java."
    jobs = "Without --master: processes; auto: at most one for each core."
    for option in (
        click.option("--jobs", "-j", "processes", type=Processes(), default="auto", show_default=True, help=jobs),
        click.option("--conf", "settings", multiple=True, metavar="spark.NAME=VALUE", help="For Spark; repeatable."),
        click.option("--master", help=master),
    ):  # fmt: skip
        command = option(command)
    return command


def duration_option(*names: str, default: str | None = None, about: str) -> Callable[[Command], Command]:
    """An option whose value is a duration, in nanoseconds. default: as a user writes it. about: its help."""
    return click.option(*names, type=Duration(), default=default, show_default=default is not None, help=about)
