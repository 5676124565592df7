"""Clusters of Helix 1.4.3 under an operator: its own administrator beside ours, and what ours makes of its clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from lockref.helix.cluster.cluster_file import parse_cluster
from lockref.helix.cluster.declared import Instance
from lockref.helix.operations.adding import add_instance
from lockref.helix.operations.dropping import InUse, drop_instance, drop_resource
from lockref.helix.operations.enabling import (
    TIMESTAMP,
    enable_cluster,
    enable_instance,
    enable_lock,
    enable_resource,
)
from lockref.helix.operations.operator import Operator, operator_on
from lockref.helix.operations.reading import read_status
from lockref.helix.operations.status import ResourceStatus
from lockref.helix.state_model import BUILT_IN
from lockref.runtime import ThreadRuntime
from tests.evidence.helix.experiments import Experiment, recipe_text, with_model
from tests.evidence.helix.fleet import Fleet

SETTLED_S: Final = 3.0
"""So long nothing may happen to a resource that is left alone."""


class _Act(NamedTuple):
    """One act of an operator. theirs: as the program of Helix is told. ours: given an operator and a cluster."""

    theirs: Mapping[str, object]
    ours: Callable[[Operator, str], object]


@contextmanager
def _operator(run: Experiment) -> Iterator[Operator]:
    with operator_on(run.hosts, ThreadRuntime()) as operator:
        yield operator


def administrator(run: Experiment) -> bool:
    """The same acts by Helix' administrator on one cluster and by ours on another: after each, equal znodes."""
    first, resource = "localhost_12001", parse_cluster(recipe_text()).resources[0].name
    lock, other = f"{resource}_1", f"{resource}_0"
    acts = [
        _Act(
            {"call": "enable-instance", "name": first, "enabled": is_on},
            partial(enable_instance, name=first, is_wanted=is_on),
        )
        for is_on in (False, True)
    ]
    acts += [
        _Act(
            {"call": "enable-lock", "name": first, "resource": resource, "lock": each, "enabled": is_on},
            partial(enable_lock, instance=first, resource=resource, lock=each, is_wanted=is_on),
        )
        for each, is_on in ((lock, False), (other, False), (lock, True), (other, True))
    ]
    for is_on in (False, True):
        acts += [
            _Act(
                {"call": "enable-resource", "resource": resource, "enabled": is_on},
                partial(enable_resource, name=resource, is_wanted=is_on),
            ),
            _Act({"call": "enable-cluster", "enabled": is_on}, partial(enable_cluster, is_wanted=is_on)),
        ]
    acts += [
        _Act(
            {"call": "add-instance", "name": "h_1", "host": "h", "port": "1"},
            partial(add_instance, instance=Instance(name="h_1", host="h", port=1)),
        ),
        _Act({"call": "drop-instance", "name": first}, partial(drop_instance, name=first)),
        _Act({"call": "drop-resource", "resource": resource}, partial(drop_resource, name=resource)),
    ]
    with run.fleet("by-theirs") as theirs, run.fleet("by-ours") as ours, _operator(run) as operator:
        differ: list[str] = []
        for act in acts:
            theirs.ask("admin", do="admin", cluster=theirs.cluster.name, **act.theirs)
            act.ours(operator, ours.cluster.name)
            differ += [f"{act.theirs['call']}: {path}" for path in _differences(theirs, ours)]
        run.say(f"{len(acts)} acts of an operator; znodes that differ after one of them: {len(differ)}")
        for line in differ:
            run.say(line)
        return not differ


def _differences(theirs: Fleet, ours: Fleet) -> list[str]:
    """The paths below the two clusters whose records differ; times are left out."""
    found = []
    for fleet in (theirs, ours):
        name = fleet.cluster.name
        found.append(
            {
                path.replace(f"/{name}", "/C"): None
                if record is None
                else (
                    record.id.replace(name, "C"),
                    {field: text for field, text in record.simple.items() if field != TIMESTAMP},
                    dict(record.maps),
                    {field.replace(name, "C"): list(texts) for field, texts in record.lists.items()},
                )
                for path, record in fleet.tree.records().items()
            }
        )
    one, other = found
    return [path for path in sorted({*one, *other}) if path not in one or path not in other or one[path] != other[path]]


def their_cluster(run: Experiment) -> bool:
    """A cluster that Helix' administrator makes and Helix' controller leads is read; then ours leads, then Helix again.

    Ours drives what has lists and maps, and leaves FULL_AUTO alone; an instance that leaves shows which is which.
    """
    with (
        run.fleet("their-cluster", cluster=with_model(BUILT_IN["OnlineOffline"], 1), is_configured=False) as fleet,
        _operator(run) as operator,
    ):
        name = fleet.cluster.name
        admin: Mapping[str, object] = {"do": "admin", "cluster": name}
        fleet.ask("admin", **admin, call="add-cluster")
        for number in (1, 2):
            fleet.ask("admin", **admin, call="add-instance", name=f"h_{number}", host="h", port=str(number))
        for resource, mode, model in (
            ("auto", "FULL_AUTO", "OnlineOffline"),
            ("list", "SEMI_AUTO", "OnlineOffline"),
            ("map", "CUSTOMIZED", "OnlineOffline"),
            ("master", "SEMI_AUTO", "MasterSlave"),
        ):
            fleet.ask(
                "admin", **admin, call="add-resource", resource=resource, count=4, model=model, mode=mode,
                replicas=2 if resource == "list" else 1,
            )  # fmt: skip

        def resources() -> dict[str, ResourceStatus]:
            return {each.name: each for each in read_status(operator, name).resources}

        def owners(resource: str) -> list[int]:
            """How many locks of the resource each instance owns."""
            found = resources()[resource].locks
            return [sum(f"h_{number}" in lock.owners for lock in found) for number in (1, 2)]

        def until(is_so: Callable[[], bool], what: str) -> None:
            fleet.until(lambda _seen: is_so(), what)

        fleet.they_control()
        for number in (1, 2):
            fleet.they_join(f"h_{number}")
        until(lambda: [owners(each) for each in ("auto", "list", "map")] == [[2, 2], [4, 4], [2, 2]], "Helix to assign")
        refusals = {resource: status.refusal for resource, status in resources().items()}
        for resource, refusal in refusals.items():
            run.say(f"{resource}: {refusal or 'driven'}")
        is_told = [each for each, refusal in refusals.items() if refusal] == ["auto", "master"]
        try:
            drop_instance(operator, name, "h_1")
        except InUse as error:
            run.say(str(error))
        else:
            return False
        fleet.they_stop_controlling()
        fleet.we_control()
        until(
            lambda: bool((leader := read_status(operator, name).controller) and leader.name == "ours"), "ours to lead"
        )
        time.sleep(SETTLED_S)
        kept = [owners(each) for each in ("auto", "list", "map")]
        fleet.leave("h_1")
        until(lambda: [owners(each) for each in ("list", "map")] == [[0, 4], [0, 2]], "ours to see the leave")
        time.sleep(SETTLED_S)
        alone = owners("auto")
        fleet.we_stop_controlling("ours")
        fleet.they_control("again")
        until(lambda: owners("auto") == [0, 4], "Helix to assign the rest")
        run.say(
            f"under ours everybody keeps {kept}; after a leave, FULL_AUTO stays at {alone}, and Helix, when it leads "
            "again, makes that [0, 4]"
        )
        alarms = sorted({alarm.text for alarm in fleet.alarms if "is not driven" in alarm.text})
        run.say(f"alarms: {len(alarms)} resources not driven")
        return is_told and kept == [[2, 2], [4, 4], [2, 2]] and alone == [0, 2] and len(alarms) == 2


def orders(run: Experiment) -> bool:
    """Helix' administrator orders EVACUATE, DISABLE, ENABLE and maintenance; our controller answers.

    Participants of both. The resource is FULL_AUTO, driven by a rule of ours: maintenance concerns no other mode.
    """
    with (
        run.fleet("orders", cluster=with_model(BUILT_IN["OnlineOffline"], 1), is_configured=False) as fleet,
        _operator(run) as operator,
    ):
        name, names = fleet.cluster.name, ("h_1", "h_2", "h_3")
        admin: Mapping[str, object] = {"do": "admin", "cluster": name}

        def order(call: str, **what: object) -> None:
            fleet.ask("admin", **admin, call=call, **what)

        def ordered(instance: str) -> Mapping[str, object]:
            return fleet.ask("admin", do="ordered", cluster=name, name=instance)

        def owned() -> list[int]:
            """How many locks each instance owns."""
            return [len(each.owned) for each in sorted(read_status(operator, name).instances, key=lambda one: one.name)]

        def until(wanted: list[int], what: str) -> None:
            fleet.until(lambda _seen: owned() == wanted, f"{what}: {wanted}, not {owned()}")
            run.say(f"{what}: {wanted}")

        order("add-cluster")
        for number, instance in enumerate(names):
            order("add-instance", name=instance, host="h", port=str(number))
        order("add-resource", resource="auto", count=6, model="OnlineOffline", mode="FULL_AUTO", replicas=1)
        fleet.we_control(rebalancer="sticky")
        fleet.they_join("h_1")
        fleet.we_join("h_2")
        fleet.they_join("h_3")
        until([2, 2, 2], "at first")
        for instance, left in (("h_1", [0, 3, 3]), ("h_2", [3, 0, 3])):
            for operation in ("EVACUATE", "DISABLE"):
                order("operation", name=instance, operation=operation)
                until(left, f"{operation} of {instance}")
                # Some time after the locks are given back: the instance drops them, and then its report.
                told = {"operation": operation, "evacuated": operation == "EVACUATE"}
                fleet.until(lambda _seen: ordered(instance) == told, f"Helix to see {told} of {instance}")  # noqa: B023
                run.say(f"Helix' own: {told}")
                if operation == "EVACUATE":
                    order("operation", name=instance, operation="ENABLE")
                else:
                    enable_instance(operator, name, instance, is_wanted=True)
                until([2, 2, 2], f"{instance} enabled by {'Helix' if operation == 'EVACUATE' else 'ours'}")
                fleet.until(lambda _seen: ordered(instance)["operation"] == "ENABLE", "Helix to see ENABLE")  # noqa: B023
        order("maintenance", enabled=True)
        fleet.leave("h_3")
        time.sleep(SETTLED_S)
        until([2, 2, 0], "in maintenance, an instance leaves")
        order("operation", name="h_1", operation="EVACUATE")
        until([0, 2, 0], "in maintenance, EVACUATE of h_1")
        order("maintenance", enabled=False)
        until([0, 6, 0], "after it")
        order("operation", name="h_1", operation="ENABLE")
        until([3, 3, 0], "h_1 enabled by Helix")
        alarms = sorted({f"{alarm.kind}: {alarm.text}" for alarm in fleet.alarms})
        for line in (*alarms, *fleet.two_holders()):
            run.say(line)
        return any("maintenance" in line.lower() for line in alarms) and not fleet.two_holders()


OPERATED: Final = {"administrator": administrator, "their-cluster": their_cluster, "orders": orders}
