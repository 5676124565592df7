"""A running server as the place of Delta logs: the log in its bucket, and the helping log store's table beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lockref.runtime import ThreadRuntime
from scenarios.backends import RunningBackend, table_uri
from scenarios.workloads.delta.log_rows import LogRows
from scenarios.workloads.delta.places import LogPlaces, places_beside

ROWS_TABLE: Final = "delta_log"
"""The table's name by default, as Delta Lake's."""


def log_places(running: RunningBackend, *, has_rows: bool) -> LogPlaces:
    """The places where clients of this server commit. has_rows: with a table, which is made on a server of ours.

    Errors: CapabilityMissing for a table of somebody's, and for a server that has no tables.
    """
    if not running.bucket_uri:
        return places_beside(running.uri)
    places = places_beside(running.bucket_uri)
    if not has_rows:
        return places
    naming = LogRows("", ThreadRuntime().wall_ns)
    return replace(places, rows=table_uri(running, table=ROWS_TABLE, naming=naming))
