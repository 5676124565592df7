"""The options with which a command names the servers and the cluster that it is about."""

from __future__ import annotations

import click

from lockref.cli.options import Command


def place_options(command: Command) -> Command:
    """Add the options that name a cluster."""
    command = click.option("--cluster", default="", metavar="NAME", help="Default: the only one on the servers.")(
        command
    )
    command = click.option("--zookeeper", metavar="HOST:PORT,…", help="The servers, beside a cluster file.")(command)
    return click.argument("place")(command)
