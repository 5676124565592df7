"""Drop an instance, a resource, or the whole cluster. What is in use is refused, unless the operator insists.

ZooKeeper has no operation "check that there is none". Here a transaction creates the znode that must not be there and
deletes it again: it fails as a whole if somebody has made that znode meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockref.coordination.port import Operation, Stat, create, delete
from lockref.errors import ConfigError
from lockref.helix.operations.operator import DELETES_AT_ONCE, Operator
from lockref.helix.operations.reading import read_status
from lockref.helix.operations.status import ClusterStatus
from lockref.helix.records import layout
from lockref.words import counted


class InUse(ConfigError):
    """The thing that shall be dropped is in use: end its use first, or repeat the command with --even-if-in-use."""


def drop_instance(operator: Operator, cluster: str, name: str, *, is_forced: bool = False) -> bool:
    """Remove an instance: its configuration, its messages and its reports. Returns whether there was anything of it.

    is_forced: also one that lives. Its znode in LIVEINSTANCES goes, too, so its locks are given to others at once; a
    holder that has not noticed may go on acting until it hears of that, and only a fence stops its writes.
    Errors: InUse for one that lives.
    """
    paths = layout.ClusterPaths(cluster).instance(name)

    def plan() -> Sequence[Operation]:
        live = operator.read(paths.live)
        if isinstance(live.version, Stat) and not is_forced:
            raise InUse(
                f"instance {name!r} lives under session {layout.session_name(live.version.owner)}. Stop its process, "
                "which gives its locks back; or drop it --even-if-in-use"
            )
        found = [path for path in (paths.config,) if not operator.read(path).missing] + operator.below(paths.root)
        if not found and live.missing:
            return []
        deletes = [delete(path) for path in reversed(found)]
        if isinstance(live.version, Stat):
            return [*deletes, delete(paths.live)]
        return [create(paths.live, is_ephemeral=True), delete(paths.live), *deletes]

    surplus = operator.below(paths.root)
    if len(surplus) > DELETES_AT_ONCE and (is_forced or operator.read(paths.live).missing):
        # One transaction could not hold them. What an absent instance was sent or has reported is nobody's any more.
        operator.delete_all([path for path in reversed(surplus) if path.count("/") > paths.root.count("/") + 1])
    return operator.carry_out(plan, f"drop instance {name}")


def drop_resource(operator: Operator, cluster: str, name: str, *, is_forced: bool = False) -> bool:
    """Remove a resource: its ideal state and configuration, and its view where no instance reports it any more.

    The controller then tells instances to drop what they hold of it. Returns whether there was anything of it.
    is_forced: also one whose locks are held, or of which nobody can tell. A lock that is granted between the look and
    the removal is not seen; of a resource that is disabled, none is granted. Errors: InUse; ConfigError where what says
    who holds its locks cannot be read.
    """
    paths = layout.ClusterPaths(cluster)

    def plan() -> Sequence[Operation]:
        status = read_status(operator, cluster)
        reporting = status.reporting(name)
        if not is_forced:
            _require_known(status, paths, name)
        held = len(_held(status, name))
        if held and not is_forced:
            verb = "is" if held == 1 else "are"
            raise InUse(
                f"{counted(held, 'lock')} of resource {name!r} {verb} held. Disable it first (lockref cluster disable "
                f"… --resource {name}), so that their holders give them back; or drop it --even-if-in-use"
            )
        candidates = [paths.ideal_state(name), paths.resource_config(name)]
        candidates += [] if reporting else [paths.external_view(name)]
        replies = operator.read_all(candidates)
        return [
            delete(path, reply.version.version)
            for path, reply in zip(candidates, replies, strict=True)
            if isinstance(reply.version, Stat)
        ]

    return operator.carry_out(plan, f"drop resource {name}")


def _held(status: ClusterStatus, name: str) -> set[str]:
    """The locks of a resource that an instance holds, or is told to take."""
    found: set[str] = set()
    for each in status.resources:
        if each.name == name:
            found |= {lock.name for lock in each.locks if lock.owners}
            found |= {
                message.lock
                for instance in status.instances
                if instance.session
                for message in instance.messages
                if message.resource == name and message.target == each.top and not message.is_stale
            }
    return found


def _require_known(status: ClusterStatus, paths: layout.ClusterPaths, name: str) -> None:
    """Errors: ConfigError where something is unreadable that says who holds the locks of a resource."""
    advice = "; mend it, or drop the resource --even-if-in-use"
    for path in status.unread:
        is_report = "/CURRENTSTATES/" in path and path.endswith(f"/{name}")
        is_live = path.startswith(f"{paths.live_instances}/")
        if path == paths.ideal_state(name) or is_report or is_live or "/MESSAGES/" in path:
            raise ConfigError(
                f"whether locks of resource {name!r} are held is not known: {path} cannot be read{advice}"
            )
    for each in status.resources:
        if each.name == name and not each.top and status.reporting(name):
            raise ConfigError(f"whether locks of resource {name!r} are held is not known: {each.refusal}{advice}")


def drop_cluster(operator: Operator, cluster: str, *, is_forced: bool = False) -> bool:
    """Remove a cluster with everything in it. Returns True, as it was there.

    is_forced: also one in which instances live or a controller leads. Errors: InUse.
    """
    paths = layout.ClusterPaths(cluster)
    status = read_status(operator, cluster)
    live = [each.name for each in status.instances if each.session]
    if not is_forced and (live or status.controller is not None):
        who = [*live[:5], *(["…"] if len(live) > 5 else [])]
        who += [] if status.controller is None else [f"the controller {status.controller.name}"]
        raise InUse(f"cluster {cluster!r} is in use by {', '.join(who)}. Stop them first, or drop it --even-if-in-use")

    # Without LIVEINSTANCES nobody can join any more. To delete it fails while anybody lives.
    def gate() -> Sequence[Operation]:
        there = operator.below(paths.live_instances)
        return [delete(path) for path in reversed(there if is_forced else there[:1])]

    operator.carry_out(gate, f"close cluster {cluster}")
    operator.delete_all(operator.below(paths.root)[::-1])
    return True
