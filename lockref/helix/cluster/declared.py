"""A cluster as its file declares it: resources with their locks, and the instances that may hold them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lockref.helix.state_model import StateModel


class RebalanceMode(StrEnum):
    """The party that decides where the replicas of a resource live. This controller serves USER_DEFINED alone."""

    USER_DEFINED = "USER_DEFINED"
    FULL_AUTO = "FULL_AUTO"
    SEMI_AUTO = "SEMI_AUTO"
    CUSTOMIZED = "CUSTOMIZED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance that may hold locks: in Helix's words a participant."""

    name: str
    host: str
    port: int


def lock_names(resource: str, count: int) -> tuple[str, ...]:
    """The names of its locks, `<resource>_<i>`, in lexicographic order: the order in which the recipe counts them."""
    return tuple(sorted(f"{resource}_{number}" for number in range(count)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A group of locks with one state model.

    locks: how many. replicas: how many holders each may have. rebalancer: a name that `rebalancers.load` knows.
    A real Helix loads the class of that name. names: of the locks, where they are not `<resource>_<i>`.
    """

    name: str
    locks: int
    replicas: int
    mode: RebalanceMode
    rebalancer: str
    model: StateModel
    names: tuple[str, ...] = ()

    @property
    def lock_names(self) -> tuple[str, ...]:
        return self.names or lock_names(self.name, self.locks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """allows_joining: an instance that is not listed may join by itself."""

    name: str
    resources: tuple[Resource, ...]
    instances: tuple[Instance, ...]
    allows_joining: bool = False
