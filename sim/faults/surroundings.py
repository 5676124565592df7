"""The surroundings of a fault: the few parts of the world that it can reach, and never the world itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from lockref.errors import ConfigError
from lockref.words import Kind

if TYPE_CHECKING:
    from lockref.history import Stamp
    from sim.kernel.clocks import NodeClock

HeldTasks = Literal["main", "heartbeat"]
"""The tasks that a pause holds: the client's own, or those that its lock started."""


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
    """The receiver of FAULT rows."""

    def event(self, kind: Kind, stamp: Stamp, node: str, /, *, detail: str) -> object: ...


class ReadClock(Protocol):
    """A node's two clocks, to be read."""

    def wall_ns(self, true_ns: int, /) -> int: ...

    def mono_ns(self, true_ns: int, /) -> int: ...


class StruckNode(Protocol):
    """A client's node and its present process: of a world, or what stands for one in a real run."""

    @property
    def name(self) -> str: ...

    @property
    def clock(self) -> ReadClock: ...

    @property
    def process(self) -> object: ...

    @property
    def is_running(self) -> bool: ...

    def pause(
        self, for_ns: int, task: HeldTasks | None = None, /, *, on_held: Callable[[], None] | None = None
    ) -> None: ...

    def crash(self) -> None: ...

    def restart(self) -> object: ...


class Machine(StruckNode, Protocol):
    """A node whose clocks are the world's own, so that a fault can change them."""

    @property
    def clock(self) -> NodeClock: ...

    def when_running(self, call: Callable[[], None], *, until_ns: int | None = None) -> None: ...


class StruckService(Protocol):
    """A service and its machine, and an operator's hands in it."""

    def freeze(self, for_ns: int, on_held: Callable[[], None], /) -> None: ...

    def crash(self, for_ns: int, on_refused: Callable[[], None], /) -> None: ...

    def tamper(self, act: str, key: str | None = None, *, body: bytes | None = None, attribute: str = "") -> int: ...


Barrier = Callable[[str, str], bool]
"""(source, destination) -> is a message stopped that departs now?"""


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """The parts of one world that faults change.

    nodes, services: by name; they fill while the world is built. machines: the nodes whose clocks can be changed; none
    in a real run, which reads the clocks of its host. barriers: what
    stops messages between names, each until it is taken away. rates_ppm: the
    rate errors under way, by node; several at a time add up.
    """

    seed: int
    kernel: Timeline
    network: Healing
    recorder: FaultRecorder
    nodes: Mapping[str, StruckNode]
    machines: Mapping[str, Machine]
    services: Mapping[str, StruckService]
    barriers: list[Barrier] = field(default_factory=list)
    rates_ppm: dict[str, list[int]] = field(default_factory=dict)

    def service(self, name: str) -> StruckService:
        """The service of that name. Raises ConfigError if there is none, which a fault plan can cause."""
        try:
            return self.services[name]
        except KeyError:
            raise ConfigError(
                f"a fault names service {name!r}; this world has {', '.join(self.services) or 'none'}"
            ) from None
