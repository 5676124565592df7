"""A controller that stays until it is told to stop."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from lockref.cli.jobs.cluster.controller_log import ControllerLog
from lockref.cli.jobs.cluster.places import Place, place_of
from lockref.coordination.place import credentials
from lockref.coordination.session import COORDINATION
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.durations import duration
from lockref.errors import BackendUnavailable, ConfigError, StoreRejected
from lockref.helix import rebalancers
from lockref.helix.controller.controller import Controller, ControllerSettings
from lockref.helix.operations.adding import apply_cluster
from lockref.helix.operations.operator import REQUEST_TIMEOUT_NS, operator_on
from lockref.helix.operations.reading import read_status
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from lockref.runtime import Runtime, ThreadRuntime
from lockref.words import counted
from scenarios import interrupts
from scenarios.backends.zookeeper import started_zookeeper

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console

LOOK_S = 1.0
"""The longest time until a signal is noticed that Python dropped."""


def default_name() -> str:
    """The name of a controller that is given none: the host and the process."""
    return f"{socket.gethostname()}_{os.getpid()}"


def control(
    console: Console,
    target: str,
    *,
    zookeeper: str | None,
    cluster: str,
    name: str,
    rebalancer: str,
    session_timeout_ns: int,
    zombie_after_ns: int,
) -> int:
    """Control a cluster until Ctrl-C, SIGTERM or SIGHUP. Returns 0.

    A cluster file is applied first. Without servers, one is started here and ends with the command.
    Errors: those of the cluster file, of the rule, and of ZooKeeper.
    """
    place = place_of(target, zookeeper=zookeeper, cluster=cluster)
    if rebalancer:
        rebalancers.load(rebalancer)
    settings = ControllerSettings(
        session_timeout_ns=session_timeout_ns, rebalancer=rebalancer, zombie_after_ns=zombie_after_ns
    )
    runtime = ThreadRuntime()
    with contextlib.ExitStack() as stack:
        if not place.hosts and place.declared is not None:
            running = stack.enter_context(started_zookeeper())
            place = replace(place, hosts=running.hosts)
            console.say(f"A ZooKeeper was started here, and ends with this command: {running.uri}")
        cluster = _prepared(console, place, runtime, rebalancer)
        _run(console, place.hosts, cluster, name or default_name(), settings, runtime)
    return 0


def _prepared(console: Console, place: Place, runtime: Runtime, rebalancer: str) -> str:
    """Write what a file declares, and tell which resources will be driven. Returns the cluster's name."""
    with operator_on(place.hosts, runtime, auth=credentials(os.environ)) as operator:
        if place.declared is not None:
            made = apply_cluster(operator, place.declared)
            console.say(f"cluster {place.cluster}: {f'{made} znodes written' if made else 'there already, and equal'}")
        cluster = operator.require_cluster(place.cluster)
        status = read_status(operator, cluster, rebalancer=rebalancer)
        for each in status.resources:
            what = f"not driven: {each.refusal}" if each.refusal else f"driven by {each.rule_text}"
            console.say(f"resource {each.name}, {counted(len(each.locks), 'lock')}: {what}")
        if not status.resources:
            console.say("the cluster has no resource yet; lockref cluster add-resource makes one")
        return cluster


def stopped_words(*, is_over: bool, timeout_ns: int, is_working: bool) -> str:
    """The last words of a controller. is_over: a server has said that its session is. is_working: its thread does."""
    words = "its session has ended, and another controller may lead"
    if not is_over:
        words = f"no server answers, so its session ends by itself within {duration(timeout_ns)}"
    return f"stopped; {words}{'; a request of it is still under way' if is_working else ''}"


def _run(console: Console, hosts: str, cluster: str, name: str, settings: ControllerSettings, runtime: Runtime) -> None:
    """Run the controller in a thread of its own, and wait for a signal or for its failure."""
    channel = ZooKeeperChannel(hosts, client=name, service="zookeeper", auth=credentials(os.environ))
    session = COORDINATION.over(channel, REQUEST_TIMEOUT_NS)
    paths = layout.ClusterPaths(cluster)

    def leader() -> str:
        try:
            return ZNRecord.from_json(session.get(paths.leader).body or b"", paths.leader).id
        except ConfigError:
            return "another one"

    log = ControllerLog(console, runtime, name, leader)
    controller = Controller(
        session, cluster=cluster, name=name, runtime=runtime, settings=settings,
        on_pass=log.passed, on_alarm=log.alarm, on_event=log.heard,
    )  # fmt: skip
    ended = threading.Event()
    failures: list[Exception] = []

    def work() -> None:
        try:
            controller.run()
        except Exception as error:  # noqa: BLE001 - told to the command's own thread, which raises it
            failures.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=work, name=f"controller {name}", daemon=True)
    thread.start()
    try:
        while not ended.wait(LOOK_S):
            interrupts.raise_if_heard()
    except KeyboardInterrupt:
        log.event("stopping", f"{name}: told to stop")
        is_over = controller.stop()
        thread.join(REQUEST_TIMEOUT_NS / 1e9)
        words = stopped_words(is_over=is_over, timeout_ns=session.timeout_ns, is_working=thread.is_alive())
        log.event("stopped", f"{name}: {words}")
        return
    controller.stop()
    for error in failures:
        if isinstance(error, StoreRejected):
            raise BackendUnavailable(f"the cluster {cluster!r} cannot be controlled: {error}") from error
        raise error
