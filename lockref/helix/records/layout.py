"""The layout of a Helix cluster in ZooKeeper: its paths, and the records of instances.

Source: `org.apache.helix.PropertyPathBuilder`; section 2 of what is known is in docs/helix.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lockref.coordination.port import Operation, create
from lockref.helix.records.zn_record import ZNRecord

AUTO_JOIN: Final = "allowParticipantAutoJoin"
"""The field of the cluster's configuration that lets unlisted instances join."""


PAUSE_REASON: Final = "REASON"
"""The field of CONTROLLER/PAUSE that says why. Source: `org.apache.helix.model.PauseSignal`."""

HOST: Final = "HELIX_HOST"
PORT: Final = "HELIX_PORT"
"""The fields of an instance's configuration."""


def session_name(session: int) -> str:
    """A session as Helix writes it: in hexadecimal digits."""
    return f"{session:x}"


@dataclass(frozen=True, slots=True)
class ClusterPaths:
    """The paths of one cluster that belong to no instance."""

    cluster: str

    @property
    def root(self) -> str:
        return f"/{self.cluster}"

    @property
    def config(self) -> str:
        return f"/{self.cluster}/CONFIGS/CLUSTER/{self.cluster}"

    @property
    def instance_configs(self) -> str:
        return f"/{self.cluster}/CONFIGS/PARTICIPANT"

    @property
    def state_models(self) -> str:
        return f"/{self.cluster}/STATEMODELDEFS"

    def state_model(self, name: str) -> str:
        return f"/{self.cluster}/STATEMODELDEFS/{name}"

    @property
    def ideal_states(self) -> str:
        return f"/{self.cluster}/IDEALSTATES"

    def ideal_state(self, resource: str) -> str:
        return f"/{self.cluster}/IDEALSTATES/{resource}"

    def external_view(self, resource: str) -> str:
        return f"/{self.cluster}/EXTERNALVIEW/{resource}"

    @property
    def live_instances(self) -> str:
        return f"/{self.cluster}/LIVEINSTANCES"

    @property
    def leader(self) -> str:
        return f"/{self.cluster}/CONTROLLER/LEADER"

    @property
    def leader_history(self) -> str:
        return f"/{self.cluster}/CONTROLLER/HISTORY"

    @property
    def grants(self) -> str:
        """The path of the grants: the locks that leaders have told instances to hold.

        Helix has no such znode. See `grants`.
        """
        return f"/{self.cluster}/CONTROLLER/GRANTS"

    def grants_of(self, instance: str) -> str:
        return f"/{self.cluster}/CONTROLLER/GRANTS/{instance}"

    @property
    def pause(self) -> str:
        return f"/{self.cluster}/CONTROLLER/PAUSE"

    @property
    def maintenance(self) -> str:
        return f"/{self.cluster}/CONTROLLER/MAINTENANCE"

    def resource_config(self, resource: str) -> str:
        return f"/{self.cluster}/CONFIGS/RESOURCE/{resource}"

    @property
    def external_views(self) -> str:
        return f"/{self.cluster}/EXTERNALVIEW"

    @property
    def instances(self) -> str:
        return f"/{self.cluster}/INSTANCES"

    def instance(self, name: str) -> InstancePaths:
        return InstancePaths(self.cluster, name)


@dataclass(frozen=True, slots=True)
class InstancePaths:
    """The paths of one instance."""

    cluster: str
    name: str

    @property
    def config(self) -> str:
        return f"/{self.cluster}/CONFIGS/PARTICIPANT/{self.name}"

    @property
    def live(self) -> str:
        return f"/{self.cluster}/LIVEINSTANCES/{self.name}"

    @property
    def root(self) -> str:
        return f"/{self.cluster}/INSTANCES/{self.name}"

    @property
    def messages(self) -> str:
        return f"{self.root}/MESSAGES"

    def message(self, message_id: str) -> str:
        return f"{self.root}/MESSAGES/{message_id}"

    @property
    def sessions(self) -> str:
        """The folder with one znode for each session that has left current states."""
        return f"{self.root}/CURRENTSTATES"

    def current_states(self, session: str) -> str:
        return f"{self.root}/CURRENTSTATES/{session}"

    def current_state(self, session: str, resource: str) -> str:
        return f"{self.root}/CURRENTSTATES/{session}/{resource}"


INSTANCE_FOLDERS: Final = (
    "CURRENTSTATES", "CUSTOMIZEDSTATES", "ERRORS", "HISTORY", "MESSAGES", "STATUSUPDATES", "TASKCURRENTSTATES",
)  # fmt: skip
"""What stands below INSTANCES/<instance>."""


def instance_tree(cluster: str, name: str, *, host: str = "localhost", port: int = 0) -> dict[str, ZNRecord | None]:
    """Every znode of one configured instance, parents before children; None for one without data."""
    paths = InstancePaths(cluster, name)
    tree: dict[str, ZNRecord | None] = {
        paths.config: ZNRecord(name, {HOST: host, PORT: str(port)}),
        paths.root: None,
    }
    for folder in INSTANCE_FOLDERS:
        tree[f"{paths.root}/{folder}"] = ZNRecord(name) if folder == "HISTORY" else None
    return tree


def tree_creates(tree: Mapping[str, ZNRecord | None]) -> list[Operation]:
    """The operations that make the znodes of a tree, in its order: for one transaction."""
    return [create(path, b"" if record is None else record.to_json()) for path, record in tree.items()]


def instance_creates(cluster: str, name: str, *, host: str = "localhost", port: int = 0) -> list[Operation]:
    """Everything that configures one instance, in order."""
    return tree_creates(instance_tree(cluster, name, host=host, port=port))
