"""The data of the pictures of rebalancing: values for each rule and each size, and the table behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scenarios.helix.rebalancing import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture before it is drawn. rows: by rule, a value for each of the marks. head, table: its numbers."""

    name: str
    title: str
    caption: str
    across: str
    marks: Sequence[str]
    rows: Mapping[str, Sequence[float]]
    head: Sequence[str]
    table: Sequence[Sequence[str]]


MOVES = (
    "locks × instances", "rule", "moved on leave (unnecessary)", "must move", "messages", "runs", "free for runs",
    "moved on return", "messages", "runs",
)  # fmt: skip
LOADS = ("locks × instances", "rule", "fullest / emptiest before", "after the leave", "÷ ⌈L/n⌉", "after the return")


def pictures(rows: Sequence[Row]) -> list[Picture]:
    """All of them, in the order of the page."""
    sizes = list(dict.fromkeys(row.size for row in rows))
    return [
        Picture(
            name="helix-moved",
            title="What moves when one instance leaves",
            caption="Locks that change hands, in multiples of those that the leaving instance held. The recipe's rule "
            "moves nearly everything, and the more instances there are, the more for nothing.",
            across="moved ÷ orphans, when one instance leaves",
            marks=sizes,
            rows=_by_rule(rows, lambda row: row.leave.moved / max(1, row.leave.moved - row.leave.unnecessary)),
            head=MOVES,
            table=[_moves(row) for row in rows],
        ),
        Picture(
            name="helix-load",
            title="How even the load is then",
            caption="Locks of the fullest instance, divided by an even share (⌈L/n⌉). Rules that hash need no past, "
            "and pay for it here; a cap gives the balance back, for a few moves more.",
            across="fullest instance ÷ even share, after one has left",
            marks=sizes,
            rows=_by_rule(rows, lambda row: row.leave.load_ratio),
            head=LOADS,
            table=[_loads(row) for row in rows],
        ),
    ]


def _by_rule(rows: Sequence[Row], read: Callable[[Row], float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.rule, []).append(read(row))
    return found


def _moves(row: Row) -> list[str]:
    leave, rejoin = row.leave, row.rejoin
    cells = (leave.messages, leave.runs, leave.free_runs, rejoin.moved, rejoin.messages, rejoin.runs)
    moved = f"{_number(leave.moved)} ({_number(leave.unnecessary)})"
    return [row.size, row.rule, moved, _number(leave.moved - leave.unnecessary), *map(_number, cells)]


def _loads(row: Row) -> list[str]:
    before, leave, rejoin = row.before, row.leave, row.rejoin
    return [
        row.size, row.rule, f"{_number(before[0])} / {_number(before[1])}",
        f"{_number(leave.fullest)} / {_number(leave.emptiest)}", f"{leave.load_ratio:.2f}",
        f"{_number(rejoin.fullest)} / {_number(rejoin.emptiest)}",
    ]  # fmt: skip


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
