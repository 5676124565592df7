"""The first screen of an evaluation: a row for each store, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from reports.comparison.advice import Advice
from reports.comparison.carrying import NO, NOT_REACHED, UNKNOWN, YES
from reports.comparison.comparison import Cell
from reports.comparison.standing import Crowd, Standing, interval
from reports.comparison.store_runs import HELD, VIOLATED, WORDS
from reports.formats import fingerprint as told_fingerprint

HEAD: Final = (
    "store", "can carry", "clients", "run", "grants/s", "hand-off, median", "hand-off, 99 %", "served", "faults",
    "requests per cycle", "cost of 1,000 cycles",
)  # fmt: skip
CARRIES: Final = {YES: "held", NO: "violated", UNKNOWN: "inconclusive", NOT_REACHED: "inconclusive"}
"""By the word of whether a store can carry the lock, the badge of the style sheet."""

LATENCIES: Final = (
    ("create done", "create if absent"), ("create refused", "create refused"), ("replace done", "replace if matched"),
    ("replace refused", "replace refused"), ("read", "read"),
)  # fmt: skip
"""Kinds of requests in a fingerprint, and their names on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellText:
    """One cell: its text, a badge of the style sheet or "", and what stands below it in small letters."""

    text: str
    badge: str = ""
    below: str = ""


def rows(standings: Sequence[Standing], advice: Advice) -> list[list[CellText]]:
    """The cells of each store, in the order of `HEAD`; the figures are those under the most clients."""
    return [_row(one, "" if len(standings) == 1 else _place(one, advice)) for one in standings]


def _place(one: Standing, advice: Advice) -> str:
    """The place of a store among others."""
    place = "advised" if one.name in advice.take else "slower" if one.name in advice.serves else ""
    return place or ("" if one.carries in (NO, NOT_REACHED) else "not advised")


def _row(one: Standing, place: str) -> list[CellText]:
    crowd = one.largest
    cells = [CellText(text=one.name, below=place), _carries(one)]
    if crowd is None:
        return [*cells, *[CellText(text="–")] * (len(HEAD) - len(cells))]
    return [
        *cells,
        CellText(text=f"{crowd.contenders:,}"),
        CellText(text=crowd.word, badge=WORDS[crowd.word]),
        _figure(crowd.rate, unit="1/s"),
        _figure(crowd.handoff, unit="ns"),
        _figure(crowd.handoff_99, unit="ns"),
        _served(crowd),
        _faults(one),
        CellText(text="–" if crowd.requests is None else f"{crowd.requests:.1f}"),
        _cost(one, crowd),
    ]


def _figure(cell: Cell, *, unit: str) -> CellText:
    """A figure, and its interval below it."""
    value, _, around = interval(cell, unit=unit).partition(" (")
    return CellText(text=value, below=around.removesuffix(")"))


def _carries(one: Standing) -> CellText:
    """Yes, no, or with what reservation."""
    below = one.why if one.carries in (NO, UNKNOWN) else ""
    return CellText(text=one.carries, badge=CARRIES[one.carries], below=below or "; ".join(one.reservations))


def _served(crowd: Crowd) -> CellText:
    jain = "" if crowd.jain is None else f"Jain {crowd.jain:.2f}"
    badge = "" if crowd.served == crowd.contenders else "inconclusive"
    return CellText(text=f"{crowd.served:,} of {crowd.contenders:,}", badge=badge, below=jain)


def _faults(one: Standing) -> CellText:
    if not one.struck:
        return CellText(text="–", below=one.no_faults if one.no_faults in ("", "not asked") else "not possible here")
    held = sum(struck.word == HELD for struck in one.struck)
    broke = [struck for struck in one.struck if struck.word == VIOLATED]
    told = f"held {held} of {len(one.struck)}"
    if broke:
        kinds = dict.fromkeys(kind for struck in broke for kind in struck.kinds)
        return CellText(text=f"{told}, broke {len(broke)}", badge="violated", below=", ".join(kinds))
    compared = [struck for struck in one.struck if struck.baseline]
    below = ""
    if compared:
        below = f"hudi broke {sum(struck.baseline == VIOLATED for struck in compared)} of {len(compared)}"
    return CellText(text=told, badge="held" if held == len(one.struck) else "inconclusive", below=below)


def dollars(amount: float) -> str:
    """An amount of US dollars with two significant digits: `$0.031`."""
    return "$0" if not amount else f"${amount:,.2f}" if amount >= 1 else f"${float(f'{amount:.2g}'):.10f}".rstrip("0")


_BILLS: Final = {
    "cloud": "", "emulator": "; the emulator costs nothing", "other": "; this server's own bill is not known",
    "none": "",
}  # fmt: skip


def _cost(one: Standing, crowd: Crowd) -> CellText:
    if one.bill == "none":
        return CellText(text="$0", below="a store of this machine")
    if one.price is None or crowd.cost is None:
        return CellText(text="–", below="" if one.price else "no price is known")
    return CellText(text=dollars(crowd.cost), below=f"at the {_list_price(one.price)}{_BILLS[one.bill]}")


def _list_price(price: Mapping[str, Any]) -> str:
    return f"list price of {price['day']}" if price["day"] else "list price, as far as known (no date)"


def price_lines(standings: Sequence[Standing]) -> list[str]:
    """The sources of the prices, each once."""
    prices = {one.price["service"]: one.price for one in standings if one.price is not None}
    return [
        f"{price['service']}: {_list_price(price)}, {price['source']}; for 1,000 requests: "
        f"read ${price['read']:g}, write ${price['write']:g}, delete ${price['delete']:g}; a refused request is "
        f"{'billed' if price['charges_refused'] else 'not billed'}"
        for price in prices.values()
    ]


def latency_rows(standings: Sequence[Standing]) -> list[tuple[str, list[str]]]:
    """The name of each store that was probed, and for each of `LATENCIES` the median and the 99th percentile."""
    found = []
    for one in standings:
        if one.fingerprint is None or not one.fingerprint.latency:
            continue
        cells = []
        for kind, _ in LATENCIES:
            seen = one.fingerprint.latency.get(kind)
            if seen is None:
                cells.append("–")
                continue
            words = dict(zip([word for word, _, _ in told_fingerprint.QUANTILES], told_fingerprint.quantiles(seen),
                             strict=True))  # fmt: skip
            cells.append(f"{words['p50']} · {words['p99']}")
        found.append((one.name, cells))
    return found


_STYLES: Final = {"held": "green", "violated": "red", "inconclusive": "yellow"}


def terminal_tables(standings: Sequence[Standing], advice: Advice) -> list[Table]:
    """The stores as columns, which a terminal has more room for than for eleven; then the latencies."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    filled = rows(standings, advice)
    table.add_column("")
    for cells in filled:
        table.add_column(f"{cells[0].text}{f' ({cells[0].below})' if cells[0].below else ''}", overflow="fold")
    for place, name in enumerate(HEAD[1:], 1):
        table.add_row(name, *(_shown(cells[place]) for cells in filled))
    times = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    times.add_column("one request alone, median · 99 %")
    latencies = latency_rows(standings)
    for name, _ in latencies:
        times.add_column(name, overflow="fold")
    for place, (_, name) in enumerate(LATENCIES):
        times.add_row(name, *(cells[place] for _, cells in latencies))
    return [table, times] if latencies else [table]


def _shown(cell: CellText) -> Text:
    text = Text(cell.text, style=_STYLES.get(cell.badge, ""))
    if cell.below:
        text.append(f"\n{cell.below}", style="dim")
    return text
