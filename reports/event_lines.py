"""The events of one run as lines of text: when, who, what; for reading, for `grep`, for a question to a colleague."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reports.formats.text import seconds, short

KEY_MAX = 60
DETAIL_MAX = 200


def event_lines(events: pa.Table, run: int, *, nodes: Sequence[str] = ()) -> Iterator[str]:
    """A line for each event of a run, in the order of `seq`. events: of `SCHEMA`. nodes: only theirs; () for all.

    Times count from the first event of a real run, and from the zero of virtual time, which no clock shows in years.
    """
    rows = events.filter(pc.equal(events["run"], run)).sort_by("seq").to_pylist()
    origin_ns = rows[0]["at_ns"] if rows and rows[0]["at_ns"] > _YEAR_NS else 0
    for row in rows:
        if not nodes or row["node"] in nodes:
            yield event_line(row, origin_ns=origin_ns)


_YEAR_NS = 365 * 24 * 3600 * 10**9


def event_line(row: Mapping[str, Any], *, origin_ns: int = 0) -> str:
    """One event. origin_ns: the instant that reads as zero."""
    task = row["task"] or ""
    who = row["node"] if task in ("", "main") else f"{row['node']}/{task}"
    operation = row["op"] if row["op"] != "none" else ""
    said = [word for word in (_REQUEST.get(row["kind"], row["kind"]), operation) if word]
    if row["request"] is not None:
        said.append(f"#{row['request']}")
    if (row["attempt"] or 1) > 1:
        said.append(f"(attempt {row['attempt']})")
    if row["lock"]:
        said.append(short(str(row["lock"]), KEY_MAX))
    if row["if_version"]:
        said.append("if absent" if row["if_version"] == "absent" else f"if {short(str(row['if_version']), 24)}")
    if row["outcome"] != "none":
        said.append(f"→ {row['outcome'].replace('_', ' ')}")
    if row["version"]:
        said.append(f"as {short(str(row['version']), 24)}")
    if row["token"] is not None:
        said.append(f"token {row['token']}")
    if row["owner"]:
        said.append(f"owner {short(str(row['owner']), 40)}")
    if row["valid_until_ns"] is not None and row["wall_ns"] is not None:
        said.append(f"valid for {(row['valid_until_ns'] - row['wall_ns']) / 1e9:.3f} s by its clock")
    if row["detail"]:
        said.append(short(str(row["detail"]), DETAIL_MAX))
    return f"{seconds(row['at_ns'] - origin_ns):>12}  {short(str(who) or 'world', 20):<20}  {' '.join(said)}"


_REQUEST = {"believed": "believes it holds", "disbelieved": "no longer believes", "effect": "write at the resource"}
"""Kinds of events whose word alone would not be understood."""
