"""What a fault can reach: a few parts of the world, and never the world itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lockref.errors import ConfigError
from lockref.history import Stamp
from lockref.words import Kind

if TYPE_CHECKING:
    from sim.kernel.clocks import NodeClock
    from sim.machine.nodes import Node
    from sim.services.hosting import HostedService


class Timeline(Protocol):
    """True time and calls at instants of it: the kernel's, or that of a real run."""

    @property
    def now_ns(self) -> int: ...

    def call_at(self, true_ns: int, call: Callable[[], None], /) -> object: ...

    def expect_task(self) -> None: ...

    def expect_no_task(self) -> None: ...

    def retime(self, clock: NodeClock, /) -> None: ...


class Healing(Protocol):
    """A network that can stop disturbing by itself."""

    def heal(self) -> None: ...


class FaultRecorder(Protocol):
    """Where FAULT rows go."""

    def event(self, kind: Kind, stamp: Stamp, node: str, /, *, detail: str) -> object: ...


AnyNode: TypeAlias = "Node | Any"
"""A node of a world, or what stands for a client of a real run: pause, crash, restart, and its present process."""

AnyService: TypeAlias = "HostedService | Any"

Barrier = Callable[[str, str], bool]
"""(source, destination) -> is a message stopped that departs now?"""


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """The parts of one world that faults change.

    nodes, services: by name; they fill while the world is built. barriers: what
    stops messages between names, each until it is taken away. rates_ppm: the
    rate errors under way, by node; several at a time add up.
    """

    seed: int
    kernel: Timeline
    network: Healing
    recorder: FaultRecorder
    nodes: Mapping[str, AnyNode]
    services: Mapping[str, AnyService]
    barriers: list[Barrier] = field(default_factory=list)
    rates_ppm: dict[str, list[int]] = field(default_factory=dict)

    def service(self, name: str) -> AnyService:
        """The service of that name. Raises ConfigError if there is none, which a fault plan can cause."""
        try:
            return self.services[name]
        except KeyError:
            raise ConfigError(
                f"a fault names service {name!r}; this world has {', '.join(self.services) or 'none'}"
            ) from None
