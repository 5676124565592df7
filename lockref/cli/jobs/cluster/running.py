"""The locks of a cluster file on a real ZooKeeper, as Helix' recipe runs them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockref.cli.jobs.cluster.places import hosts_named
from lockref.coordination.place import credentials
from lockref.helix import rebalancers
from lockref.helix.cluster.cluster_file import load_cluster
from lockref.helix.controller.controller import ControllerSettings
from lockref.helix.pipeline import Semantics
from reports.formats.text import outgoing
from scenarios.backends.zookeeper import started_zookeeper
from scenarios.helix.program import Change, ClusterProgram, table
from scenarios.helix.progress import finding, progress_callbacks

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console


def run_cluster(
    console: Console,
    file: str,
    *,
    zookeeper: str | None,
    rebalancer: str,
    live_order: str,
    semantics: str,
    changes: Sequence[str],
    session_timeout_ns: int,
) -> int:
    """Start the cluster, and tell after each change who holds which lock. Returns 0 if each phase was decided, else 2.

    zookeeper: the address of a running one; None to start one here. rebalancer: instead of the file's. changes: of
    `leave`, `return`, `none`, `fourth`; if empty, `leave` and `return`.
    Errors: those of the cluster file and of ZooKeeper.
    """
    cluster = load_cluster(file)
    if rebalancer:
        rebalancers.load(rebalancer)
    settings = ControllerSettings(
        semantics=Semantics(semantics), rebalancer=rebalancer, is_descending=live_order == "descending"
    )
    phases = []
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(started_zookeeper()).hosts if zookeeper is None else hosts_named(zookeeper)
        callbacks = stack.enter_context(progress_callbacks(console.say, is_live=console.is_live, printable=outgoing))
        program = ClusterProgram(
            hosts,
            cluster,
            callbacks=callbacks,
            controller=settings,
            session_timeout_ns=session_timeout_ns,
            auth=credentials(os.environ),
        )
        stack.callback(program.close)
        program.configure()
        for change in (Change.START, *map(Change, changes or ("leave", "return"))):
            phase = program.phase(change)
            phases.append(phase)
            callbacks.say(table(phase))
            callbacks.say(finding(phase))
    if console.as_json:
        console.document({"cluster": cluster.name, "phases": [phase.document() for phase in phases]})
    return 0 if all(phase.is_decided for phase in phases) else 2
