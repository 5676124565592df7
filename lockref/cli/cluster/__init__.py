"""`lockref cluster`: locks that a controller assigns, on a real ZooKeeper: run, control, look at and change them.

Where to find what:

- the recipe's program and its figures: `running`
- a controller that stays, and the status of a cluster: `operating`
- what an operator changes: `changes`
- the options that name a cluster: `places`
"""

from __future__ import annotations

import click

from lockref.cli.cluster.changes import (
    add_instance_command,
    add_resource_command,
    disable_command,
    drop_command,
    enable_command,
)
from lockref.cli.cluster.operating import controller_command, status_command
from lockref.cli.cluster.running import figures_command, run_command
from lockref.cli.options import Group


@click.group(cls=Group, name="cluster")
def command() -> None:
    """Locks that a controller assigns, as in Apache Helix, on ZooKeeper.

    PLACE is zookeeper://HOST:PORT[,…][/FOLDER], or a cluster file beside --zookeeper.
    """


for each in (
    run_command, controller_command, status_command, enable_command, disable_command, add_instance_command,
    add_resource_command, drop_command, figures_command,
):  # fmt: skip
    command.add_command(each)
