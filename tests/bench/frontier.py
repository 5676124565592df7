"""What a lock asks of its server against how fast it changes hands: object store, table, ZooKeeper, PostgreSQL.

Each lock is contended for in this process, one after the other, by the same threads with the same work. A hand-off is
from the call of a release, while somebody waited, to the return of the first grant to one who waited then. Written to
`.lockref/frontier.json`, and drawn in `.lockref/frontier.png` and `.svg`.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from lockref.errors import LockrefError
from tests.bench.figures import Figure
from tests.bench.peer_locks import Handle, Peer, advisory_lock, kazoo_lock, on_a_store, on_a_table

CROWDS: Final = (4, 16, 48)
LASTING_S: Final = 6.0
THINK_S, HOLD_S = (0.0, 0.02), (0.005, 0.02)
OUT: Final = Path(".lockref")

PEERS: Final[tuple[Callable[[int], AbstractContextManager[Peer]], ...]] = (
    partial(on_a_store, "naive", "ministack"),
    partial(on_a_store, "hudi", "ministack"),
    partial(on_a_store, "hardened", "ministack"),
    partial(on_a_store, "hardened", "ministack?client=obstore"),
    partial(on_a_table, "dynamodb-lock-0.5", "ministack"),
    partial(on_a_table, "dynamodb", "ministack"),
    kazoo_lock,
    advisory_lock,
)


@dataclass(frozen=True, slots=True)
class Point:
    """One lock under one crowd. Times in ms; None where nothing was handed over. load: of the machine, before."""

    lock: str
    where: str
    client: str
    contenders: int
    grants: int
    served: int
    requests_per_grant: float | None
    handoff_p50_ms: float | None
    handoff_p99_ms: float | None
    handoffs: int
    load: float


@dataclass(frozen=True, slots=True)
class Cycle:
    """When one contender asked, was granted (None: never), and began to give back."""

    contender: int
    asked: float
    granted: float | None
    released: float


def _live(handle: Handle, number: int, until: float, cycles: list[Cycle]) -> None:
    chance = Random(number)
    while True:
        time.sleep(chance.uniform(*THINK_S))
        asked = time.monotonic()
        if asked >= until:
            return
        if not handle.acquire(until - asked):
            cycles.append(Cycle(number, asked, None, time.monotonic()))
            return
        granted = time.monotonic()
        time.sleep(chance.uniform(*HOLD_S))
        cycles.append(Cycle(number, asked, granted, time.monotonic()))
        handle.release()


def handoffs_ms(cycles: Sequence[Cycle]) -> list[float]:
    """From each release while somebody waited to the first grant of one who waited then.

    Whoever comes later and gets it first, often the one who has just given it back, ends nobody's wait.
    """
    found = []
    for one in cycles:
        if one.granted is None:
            continue
        served = [
            other.granted
            for other in cycles
            if other.contender != one.contender
            and other.asked < one.released
            and other.granted is not None
            and other.granted > one.granted
        ]
        if served:
            found.append((min(served) - one.released) * 1e3)
    return found


def contended(peer: Peer, contenders: int) -> Point:
    """Let so many threads contend for a lock."""
    handles = [peer.open() for _ in range(contenders)]
    cycles: list[Cycle] = []
    load = os.getloadavg()[0]
    before, until = peer.tally.take(), time.monotonic() + LASTING_S
    threads = [
        threading.Thread(target=_live, args=(handle, number, until, cycles)) for number, handle in enumerate(handles)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    requests = peer.tally.take() - before
    for handle in handles:
        handle.close()
    granted = [each for each in cycles if each.granted is not None]
    handoffs = handoffs_ms(cycles)
    return Point(
        lock=peer.name,
        where=peer.where,
        client=peer.client,
        contenders=contenders,
        grants=len(granted),
        served=len({each.contender for each in granted}),
        requests_per_grant=requests / len(granted) if granted else None,
        handoff_p50_ms=statistics.median(handoffs) if handoffs else None,
        handoff_p99_ms=sorted(handoffs)[int(0.99 * (len(handoffs) - 1))] if handoffs else None,
        handoffs=len(handoffs),
        load=load,
    )


def measure() -> Iterator[Figure]:
    """Requests per grant and hand-off of each lock and crowd. Each figure comes as soon as it is known."""
    points: list[Point] = []
    for opened in PEERS:
        try:
            with opened(max(CROWDS)) as peer:
                for contenders in CROWDS:
                    point = contended(peer, contenders)
                    points.append(point)
                    yield from _figures(point)
        except LockrefError as error:
            print(f"  left out: {error}", flush=True)
    OUT.mkdir(exist_ok=True)
    machine = f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    document = {"machine": machine, "seconds": LASTING_S, "points": [asdict(point) for point in points]}
    (OUT / "frontier.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    draw(points, OUT / "frontier")


def _figures(point: Point) -> Iterator[Figure]:
    label = f"{point.lock} on {point.where} by {point.client}, {point.contenders} contenders"
    note = f"{point.grants} grants to {point.served} of {point.contenders}, load {point.load:.0f}"
    if point.requests_per_grant is not None:
        yield Figure(name=f"requests per grant, {label}", value=point.requests_per_grant, unit="requests", note=note)
    if point.handoff_p50_ms is not None:
        told = f"99 % within {point.handoff_p99_ms:.0f} ms, {point.handoffs} hand-offs"
        yield Figure(name=f"median hand-off, {label}", value=point.handoff_p50_ms, unit="ms", note=told)


def _plain(value: float, _place: int | None) -> str:
    return f"{value:g}"


def draw(points: Sequence[Point], path: Path) -> None:
    """The picture: a line for each lock, a mark for each crowd."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    figure, axes = plt.subplots(figsize=(9, 5.6), layout="constrained")
    names = dict.fromkeys((point.lock, point.where, point.client) for point in points)
    colours = plt.get_cmap("tab10")
    for number, key in enumerate(names):
        own = [each for each in points if (each.lock, each.where, each.client) == key and each.handoff_p50_ms]
        if not own:
            continue
        x = [each.requests_per_grant for each in own]
        y = [each.handoff_p50_ms for each in own]
        lock, where, client = key
        axes.plot(x, y, color=colours(number), linewidth=1.2, label=f"{lock}: {where}, {client}")
        for each in own:
            spot = (each.requests_per_grant, each.handoff_p50_ms)
            axes.plot([spot[0]] * 2, [spot[1], each.handoff_p99_ms], color=colours(number), linewidth=0.8, alpha=0.5)
            axes.scatter(*spot, s=10 + 4 * each.contenders, color=colours(number), zorder=3, edgecolor="white")
    axes.set(xscale="log", yscale="log", xlabel="requests per grant", ylabel="hand-off, ms: median, and up to 99 %")
    crowds = f"{', '.join(map(str, CROWDS))} threads: small to large"
    axes.set_title(f"Requests for a grant, and time until a waiter has it ({crowds})")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_minor_formatter(FuncFormatter(_plain))
    axes.grid(which="both", linewidth=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.14), ncols=2, frameon=False)
    for suffix in ("png", "svg"):
        figure.savefig(path.with_suffix(f".{suffix}"), dpi=110)
    plt.close(figure)
