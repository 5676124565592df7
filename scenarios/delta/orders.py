"""In which order a queue holds the versions of several tables: fair, unfair, or as a file says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lockref.errors import ConfigError, Location, did_you_mean

ORDERS = ("fair", "unfair")
RANDOM_WINNER = "random-winner"
CLOSED_LOOPS = ("closed-loop", RANDOM_WINNER)
"""No queue: each writer has always a next version for its table. In the second, any writer that waits gets the lock."""
VERSIONS_MAX = 1_000_000
"""Versions in one queue: beyond this an answer takes longer than a planner waits."""

_VERSION = re.compile(r"(?P<number>[0-9]*)(?P<table>[A-Za-z_][A-Za-z0-9_./:-]*)")


def fair(tables: int, versions: int) -> list[str]:
    """One version of each table in turn: `1n 1a 1c 2n 2a 2c …`."""
    names = table_names(tables)
    return [name for _ in range(versions) for name in names]


def unfair(tables: int, versions: int) -> list[str]:
    """All versions of the first table, then all of the second: the post's second drawing, driven to its end."""
    return [name for name in table_names(tables) for _ in range(versions)]


def named_order(order: str, *, tables: int, versions: int) -> list[str]:
    """The queue that `fair`, `unfair` or the path of a file stands for.

    versions: of each table. A file says tables and versions itself.

    Raises ConfigError for what is neither, with a word near it, and for what is wrong in the file (`read_order`).
    """
    if order in ORDERS:
        if tables * versions > VERSIONS_MAX:
            raise ConfigError(f"{tables * versions:,} versions in all; at most {VERSIONS_MAX:,}")
        return fair(tables, versions) if order == "fair" else unfair(tables, versions)
    path = Path(order)
    if not path.exists():
        raise ConfigError(
            f"order {order!r} is neither {', '.join([*ORDERS, *CLOSED_LOOPS])} nor a file that exists."
            + did_you_mean(order, [*ORDERS, *CLOSED_LOOPS])
        )
    return read_order(path)


def table_names(tables: int) -> list[str]:
    """The names of generated tables: `table1`, `table2`, …"""
    return [f"table{number}" for number in range(1, tables + 1)]


def read_order(path: Path) -> list[str]:
    """The queue that a text file spells out: the table of each version, first to last.

    A file holds words, separated by blanks or line ends: a table's name, with or without a number before it, as in the
    post's drawings (`1n 1a 1c 2n`). The number is for the reader: a version gets its number when it is committed.
    Everything after `#` on a line is a comment.

    Raises ConfigError with file, line and column for a word that names no table, and for a file that holds none, cannot
    be read or is no UTF-8 text.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].count(b"\n")
        raise ConfigError("the order is not UTF-8 text", location=Location(str(path), before + 1)) from error
    except OSError as error:
        raise ConfigError(f"the order cannot be read: {error.strerror}", location=Location(str(path))) from error
    order: list[str] = []
    for number, content in enumerate(text.splitlines(), 1):
        for word in re.finditer(r"\S+", content.partition("#")[0]):
            found = _VERSION.fullmatch(word[0])
            if found is None:
                raise ConfigError(
                    f"{word[0][:60]!r} names no table; expected words such as 1n or logs.nginx",
                    location=Location(str(path), number, word.start() + 1),
                )
            order.append(found["table"])
            if len(order) > VERSIONS_MAX:
                raise ConfigError(f"more than {VERSIONS_MAX:,} versions", location=Location(str(path), number))
    if not order:
        raise ConfigError(
            "the order holds no version; expected words such as 1n 1a 1c", location=Location(str(path), 1)
        )
    return order


def coalesced(order: Sequence[str], adds: int) -> list[str]:
    """The queue in which `adds` versions of a table became one: the place is that of the first of them.

    The last one of a table takes what is left. Nothing else moves.
    """
    seen: dict[str, int] = {}
    result = []
    for table in order:
        count = seen.get(table, 0)
        seen[table] = count + 1
        if count % adds == 0:
            result.append(table)
    return result
