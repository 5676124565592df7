"""The Delta log of a run with a fault plan: the process that injects sends the requests, so each passes the injector.

In other real runs each client sends its requests to the log itself. Under a plan they take the way of those to any
protected resource, through the pipe of the client's process. So faults meet them as in a simulation, and the EFFECT
rows are written where they are sent, also for a writer that was killed and for a copy that lands late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockref.clouds.uri import open_store
from lockref.history import Recorder
from lockref.ports import Channel
from lockref.runtime import ThreadRuntime
from lockref.stores.client import StoreChannel
from scenarios.workloads.delta.landings import LandingChannel
from scenarios.workloads.delta.log_rows import open_rows
from scenarios.workloads.delta.places import LogPlaces
from scenarios.workloads.resource import RESOURCE, RESOURCE_TIMEOUT_NS

if TYPE_CHECKING:
    from scenarios.definition.schema import Scenario


def struck_log(
    scenario: Scenario, places: LogPlaces, recorder: Recorder, runtime: ThreadRuntime, *, clients: int
) -> dict[str, Channel]:
    """By service, the channels to the log and, where the workload needs them, to its rows. clients: that send at once.

    Errors: those of `open_store` and `open_rows`.
    """
    objects = open_store(places.objects, request_timeout_ns=RESOURCE_TIMEOUT_NS, pool_size=clients)
    found: dict[str, Channel] = {
        RESOURCE.name: LandingChannel(StoreChannel(objects), recorder, runtime.monotonic_ns, client="")
    }
    rows = scenario.declared_for_work() if scenario.workload.needs else None
    if rows is not None:
        found[rows] = open_rows(
            places, wall_ns=runtime.wall_ns, request_timeout_ns=RESOURCE_TIMEOUT_NS, pool_size=clients
        )
    return found
