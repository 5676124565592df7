"""`lockref completion`: what a shell needs to complete commands, options, scenarios, locks and servers."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lockref.cli.options import Word


@click.command(name="completion")
@click.argument("shell", type=Word(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    eval "$(lockref completion bash)"      # in ~/.bashrc
    eval "$(lockref completion zsh)"       # in ~/.zshrc
    lockref completion fish | source       # in ~/.config/fish/config.fish
    """
    made = get_completion_class(shell)
    assert made is not None, "Click knows the three shells"
    click.echo(made(ctx.find_root().command, {}, "lockref", "_LOCKREF_COMPLETE").source(), nl=False)
