"""A made-up server that speaks S3: 409 where others say 412, a code for a full queue, no delete by version.

It answers a removal with 200, and with a header of its own or with nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lockref.clouds.s3.cloud import speaking
from lockref.clouds.s3.facts import OUTCOMES, REFUSAL_CODES, STATUSES, Dialect
from lockref.clouds.statuses import StatusRow
from lockref.words import Outcome

STRICT: Final = speaking(
    Dialect(
        scheme="s3+strict",
        title="Strict",
        statuses=replace(
            STATUSES,
            name="strict",
            exists=409,
            stale=409,
            absent=409,
            tells_absence=False,
            deletes_by_version=False,
        ),
        outcomes=(
            StatusRow(status=409, outcome=Outcome.PRECONDITION_FAILED, why="the object is not what the condition says"),
            StatusRow(status=409, code="InUse", outcome=Outcome.CONFLICT, why="a concurrent request; try again"),
            StatusRow(status=500, code="QueueFull", outcome=Outcome.THROTTLED, why="its queue is full; slow down"),
            *OUTCOMES,
        ),
        refusal_codes={**REFUSAL_CODES, 409: "InUse"},
        marks=frozenset({"x-strict-id"}),
        has_empty_removals=True,
    )
)
