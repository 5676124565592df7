"""What a fault can reach: a few parts of the world, and never the world itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockref.errors import ConfigError

if TYPE_CHECKING:
    from lockref.history import Recorder
    from sim.kernel.kernel import Kernel
    from sim.machine.network import Network
    from sim.machine.nodes import Node
    from sim.services.hosting import HostedService

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
    kernel: Kernel
    network: Network
    recorder: Recorder
    nodes: Mapping[str, Node]
    services: Mapping[str, HostedService]
    barriers: list[Barrier] = field(default_factory=list)
    rates_ppm: dict[str, list[int]] = field(default_factory=dict)

    def service(self, name: str) -> HostedService:
        """The service of that name. Raises ConfigError if there is none, which a fault plan can cause."""
        try:
            return self.services[name]
        except KeyError:
            raise ConfigError(
                f"a fault names service {name!r}; this world has {', '.join(self.services) or 'none'}"
            ) from None
