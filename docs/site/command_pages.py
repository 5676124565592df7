"""The reference of the command line, from Click's own objects: each command, its options, their variables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import click

from docs.site.markdown import code, escaped, one_line
from lockref.cli.main import cli

AS_IT_STANDS = "\b\n"
"""What begins a paragraph that Click prints as it stands; lockref's help has command lines there."""


def commands() -> str:
    """A section for each command, one below it for each command of a group."""
    context = click.Context(cli, info_name="lockref", **cli.context_settings)
    sections = [part for name in cli.list_commands(context) for part in _named(context, name)]
    return "\n".join([*_options(cli, context), *sections])


def _named(parent: click.Context, name: str) -> Iterator[str]:
    group = parent.command
    assert isinstance(group, click.Group)
    command = group.get_command(parent, name)
    assert command is not None
    if command.hidden:
        return
    context = click.Context(command, info_name=name, parent=parent)
    depth = "#" * (2 if parent.parent is None else 3)
    yield f"{depth} `{context.command_path}`\n"
    yield f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield f"{_help(command)}\n"
    yield from _options(command, context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from _named(context, below)


def _help(command: click.Command) -> str:
    parts = []
    for paragraph in re.split(r"\n\s*\n", (command.help or "").replace("\f", "")):
        if AS_IT_STANDS in paragraph:
            parts.append(f"```text\n{textwrap.dedent(paragraph.split(AS_IT_STANDS, 1)[1]).rstrip()}\n```")
        else:
            parts.append(escaped(textwrap.dedent(paragraph).strip()))
    return "\n\n".join(parts)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """A definition for each option that `--help` shows, with its values, default and variable."""
    for parameter in command.get_params(context):
        if not isinstance(parameter, click.Option) or parameter.hidden:
            continue
        if parameter is not command.get_help_option(context):
            yield f"{_written(parameter, context)}\n: {_meaning(parameter, context)}\n"


def _written(option: click.Option, context: click.Context) -> str:
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    return names if option.is_flag or option.count else f"{names} {code(option.make_metavar(context))}"


def _meaning(option: click.Option, context: click.Context) -> str:
    told = [one_line(option.help or "")]
    extra = option.get_help_extra(context)
    if "default" in extra:
        told.append(f"Default: {code(str(extra['default']))}.")
    if "range" in extra:
        told.append(f"Range: {code(str(extra['range']))}.")
    variable = option.envvar or _variable(option, context)
    if variable:
        told.append(f"Variable: `{variable}`.")
    return " ".join(told)


def _variable(option: click.Option, context: click.Context) -> str:
    """The environment variable that stands for an option which the line leaves out; "" where none does."""
    if not (context.auto_envvar_prefix and option.allow_from_autoenv and option.name) or not option.expose_value:
        return ""
    return f"{context.auto_envvar_prefix}_{option.name.upper()}"
