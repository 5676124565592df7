"""The clients that took part in a real run: clients that never asked, processes that were never served.

Works on rows of `reports.checks.measures.speed.SPEED_SCHEMA`. A run may be meant
to test 512 clients in two processes. If half of them never asked, or if one
process had every grant, it did not test that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

ASKED_SHARE_MIN: Final = 0.5
"""Share of a run's clients. If fewer asked, the run did not test the crowd that it names."""


def turnout_doubts(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why runs prove nothing about the crowd that they name."""
    doubts = []
    for row in rows:
        if row["clients_asked"] < ASKED_SHARE_MIN * row["clients"]:
            doubts.append(f"only {row['clients_asked']:,} of {row['clients']:,} clients ever asked for the lock")
        if row["grants"] and row["processes"] is not None and row["processes_served"] < row["processes"]:
            doubts.append(
                f"only clients of {row['processes_served']} of {row['processes']} processes were ever granted the lock"
            )
    return list(dict.fromkeys(doubts))


def turnout_notices(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Notices of clients that were there in name only."""
    return list(
        dict.fromkeys(
            f"{row['clients'] - row['clients_asked']:,} of {row['clients']:,} clients never asked for the lock"
            for row in rows
            if row["clients_asked"] < row["clients"]
        )
    )
