"""The scenario of one cell: `contended.yaml`, with the values of a point in the places of its names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from string import Template
from typing import Final

from lockref.quantities import NS_PER_UNIT
from scenarios.definition.load import parse_scenario
from scenarios.definition.schema import Scenario
from scenarios.envelope.axes import DISTURBANCES

FILE: Final = Path(__file__).with_name("contended.yaml")
RENEWALS_PER_VALIDITY: Final = 10
"""A holder renews so often within one validity: Hudi's lock allows no fewer."""

_REST_NS: Final = 25 * NS_PER_UNIT["s"]
"""A run lasts so much longer than the pause and two validities: the time of three holders after one another."""

_NAME_MAX: Final = 80
"""Letters that the name of a scenario may have."""

_LEAST_LATENCY_NS: Final = NS_PER_UNIT["ms"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Point:
    """The values of all disturbances in one cell: nanoseconds, and parts per million of `rate` and `loss`."""

    pause: int = DISTURBANCES["pause"].usual
    offset: int = DISTURBANCES["offset"].usual
    rate: int = DISTURBANCES["rate"].usual
    latency: int = DISTURBANCES["latency"].usual
    loss: int = DISTURBANCES["loss"].usual
    validity: int = DISTURBANCES["validity"].usual

    def value(self, name: str) -> int:
        """The value of the disturbance of that name."""
        found: int = getattr(self, name)
        return found

    @property
    def renew_every_ns(self) -> int:
        """The time between two renewals."""
        return self.validity // RENEWALS_PER_VALIDITY

    @property
    def duration_ns(self) -> int:
        """The length of a run: the waiters outlast the pause and the lease that it leaves behind."""
        return self.pause + 2 * self.validity + _REST_NS


def name_at(point: Point) -> str:
    """The name of the cell's scenario: each value that is not the usual one, or their hash where that is too long."""
    told = [
        f"{name}-{known.exact(point.value(name))}"
        for name, known in DISTURBANCES.items()
        if point.value(name) != known.usual
    ]
    name = "-".join(["envelope", *told]).replace("%", "pc").replace(".", "p")
    if len(name) <= _NAME_MAX:
        return name
    return f"envelope-{blake2b(name.encode(), digest_size=8).hexdigest()}"


def text_at(point: Point) -> str:
    """The scenario of a cell as a file has it."""
    exact: Mapping[str, str] = {name: known.exact(point.value(name)) for name, known in DISTURBANCES.items()}
    wait_ns = point.duration_ns - 5 * NS_PER_UNIT["s"]
    duration = DISTURBANCES["pause"].exact
    pause = f"{{kind: pause, client: n1, at: 300ms..3500ms, for: {exact['pause']}}}" if point.pause else ""
    return _template().substitute(
        {
            **exact,
            "name": name_at(point),
            "pause": pause,
            "offset": f"n2: {exact['offset']}" if point.offset else "",
            "rate": f"n1: -{exact['rate']}" if point.rate else "",
            "duration": duration(point.duration_ns),
            "wait": duration(wait_ns),
            "renew_every": duration(point.renew_every_ns),
            "least_latency": duration(min(_LEAST_LATENCY_NS, point.latency)),
        }
    )


def scenario_at(point: Point) -> Scenario:
    """The scenario of a cell. Raises ConfigError for values that contradict each other."""
    return parse_scenario(text_at(point), file=f"{name_at(point)}.yaml")


@cache
def _template() -> Template:
    return Template(FILE.read_text(encoding="utf-8"))
