"""Where Helix keeps what: the paths of one cluster, and the records of instances.

Source: `org.apache.helix.PropertyPathBuilder`; section 2 of what is known is in docs/helix.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lockref.coordination.port import Operation, create
from lockref.helix.zn_record import ZNRecord

AUTO_JOIN: Final = "allowParticipantAutoJoin"
"""The field of the cluster's configuration that lets unlisted instances join."""


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

    @property
    def external_views(self) -> str:
        return f"/{self.cluster}/EXTERNALVIEW"

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
    def pause(self) -> str:
        return f"/{self.cluster}/CONTROLLER/PAUSE"

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


def instance_creates(cluster: str, name: str, *, host: str = "localhost", port: int = 0) -> list[Operation]:
    """Everything that configures one instance, in order."""
    paths = InstancePaths(cluster, name)
    record = ZNRecord(name, {"HELIX_HOST": host, "HELIX_PORT": str(port)})
    folders = [create(f"{paths.root}/{folder}") for folder in INSTANCE_FOLDERS]
    return [create(paths.config, record.to_json()), create(paths.root), *folders]
