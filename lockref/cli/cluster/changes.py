"""The commands of `lockref cluster` that change a cluster: enable, disable, add-instance, add-resource, drop."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.cluster.places import place_options
from lockref.cli.options import Command


def _what_options(command: Command) -> Command:
    """Add the options that say which part of a cluster is enabled or disabled."""
    for option in (
        click.option("--whole-cluster", is_flag=True, help="Controllers send nothing while it is disabled."),
        click.option("--lock", default="", metavar="NAME", help="One lock, with --instance and --resource."),
        click.option("--resource", default="", metavar="NAME", help="All its locks are given back while disabled."),
        click.option("--instance", default="", metavar="NAME", help="It gets no lock while disabled."),
    ):
        command = option(command)
    return command


@click.command(name="enable")
@place_options
@_what_options
@click.pass_context
def enable_command(ctx: click.Context, /, place: str, **asked: Any) -> int:
    """Enable an instance, a resource, one lock on an instance, or the whole cluster."""
    from lockref.cli.jobs.cluster.operating import enable
    from lockref.cli.jobs.shown.console import Console

    return enable(Console(ctx.obj), place, is_wanted=True, **asked)


@click.command(name="disable")
@place_options
@_what_options
@click.option("--reason", default="", metavar="TEXT", help="For other operators; of an instance or the cluster.")
@click.pass_context
def disable_command(ctx: click.Context, /, place: str, **asked: Any) -> int:
    """Disable an instance, a resource, one lock on an instance, or the whole cluster.

    \b
    lockref cluster disable zookeeper://127.0.0.1:2181 --instance localhost_12001 --reason upgrade
    lockref cluster disable zookeeper://127.0.0.1:2181 --resource lock-group
    """
    from lockref.cli.jobs.cluster.operating import enable
    from lockref.cli.jobs.shown.console import Console

    return enable(Console(ctx.obj), place, is_wanted=False, **asked)


@click.command(name="add-instance")
@place_options
@click.argument("name")
@click.option("--host", default="localhost", show_default=True, help="For people; nobody connects there.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, show_default=True, help="As --host.")
@click.pass_context
def add_instance_command(ctx: click.Context, /, place: str, name: str, **asked: Any) -> int:
    """Configure an instance, so that it may join."""
    from lockref.cli.jobs.cluster.operating import add_instance
    from lockref.cli.jobs.shown.console import Console

    return add_instance(Console(ctx.obj), place, name, **asked)


@click.command(name="add-resource")
@place_options
@click.argument("name")
@click.option("--locks", type=click.IntRange(1, 50_000), required=True, help="How many: NAME_0, NAME_1, …")
@click.option("--rebalancer", default="sticky", show_default=True, metavar="RULE", help="mod, sticky, hrw, ring, …")
@click.option("--model", default="lock-unlock", show_default=True, metavar="NAME", help="Its state model.")
@click.option("--replicas", type=click.IntRange(1, 1_000), help="Owners of a lock, where the model says R.")
@click.pass_context
def add_resource_command(ctx: click.Context, /, place: str, name: str, **asked: Any) -> int:
    """Configure a resource: a group of locks. A state model that is missing is added with it."""
    from lockref.cli.jobs.cluster.operating import add_resource
    from lockref.cli.jobs.shown.console import Console

    return add_resource(Console(ctx.obj), place, name, **asked)


@click.command(name="drop")
@place_options
@click.option("--instance", default="", metavar="NAME", help="Refused while it lives.")
@click.option("--resource", default="", metavar="NAME", help="Refused while a lock of it is held.")
@click.option("--whole-cluster", is_flag=True, help="Refused while anybody lives or leads; needs --cluster.")
@click.option(
    "--even-if-in-use", "is_forced", is_flag=True,
    help="Locks go to others at once; a holder that has not noticed may go on: only a fence stops its writes.",
)  # fmt: skip
@click.pass_context
def drop_command(ctx: click.Context, /, place: str, **asked: Any) -> int:
    """Remove an instance, a resource, or the whole cluster."""
    from lockref.cli.jobs.cluster.operating import drop
    from lockref.cli.jobs.shown.console import Console

    return drop(Console(ctx.obj), place, **asked)
