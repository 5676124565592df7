"""From an HTTP answer to an outcome, by table.

Each cloud has one table of rows, `OUTCOMES` in its module `facts`, and every row is
a test. A row names a status, or a whole class of them, and optionally the vendor's
error code; the most specific row that fits decides. A status without any row is
AMBIGUOUS: an answer that nobody foresaw must not be read as a definite one (A1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from lockref.grammar import code_word
from lockref.stores.port import StoreCapabilities
from lockref.words import Outcome

ANY_CODE: Final = "*"
REASON_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRow:
    """One row: answers with `status` and `code` mean `outcome`.

    status: a status such as 412, or a class of them as its first digit (4 for 4xx).
    code: the vendor's error code; `*` for any.
    missing: the precondition failed because there is no object.
    why: what the row means, in a few words; it becomes part of the reason.
    """

    status: int
    code: str = ANY_CODE
    outcome: Outcome
    missing: bool = False
    why: str

    def fit(self, status: int, code: str) -> int:
        """The closeness of the row's fit: 0 for none, more if the whole status fits, most if the code fits, too."""
        if self.code not in (ANY_CODE, code):
            return 0
        if self.status == status:
            return 4 if self.code == code else 3
        if self.status == status // 100:
            return 2 if self.code == code else 1
        return 0


OBJECT_STORES: Final = (
    StatusRow(status=2, outcome=Outcome.APPLIED, why="done"),
    StatusRow(status=412, outcome=Outcome.PRECONDITION_FAILED, why="the object is not what the condition says"),
    StatusRow(
        status=304,
        outcome=Outcome.PRECONDITION_FAILED,
        why="the object is not what the condition says; the server answers 304 where 412 is due",
    ),
    StatusRow(status=409, outcome=Outcome.CONFLICT, why="a concurrent request got in the way; try again"),
    StatusRow(status=408, outcome=Outcome.AMBIGUOUS, why="the server stopped waiting for us"),
    StatusRow(status=401, outcome=Outcome.REJECTED, why="credentials are missing or refused"),
    StatusRow(status=405, outcome=Outcome.REJECTED, why="the server does not support this request"),
    StatusRow(
        status=400, code="NotImplemented", outcome=Outcome.REJECTED, why="the server does not support this request"
    ),
    StatusRow(status=4, outcome=Outcome.REJECTED, why="the request was refused"),
    StatusRow(status=501, outcome=Outcome.REJECTED, why="the server does not support this request"),
    StatusRow(status=5, outcome=Outcome.AMBIGUOUS, why="the server failed; the write may have landed"),
)
"""The statuses with one meaning on every cloud. A cloud's own row for a status and a code decides before these rows.

So a 503 without a code leaves open whether the write landed. Only the cloud's own code for "slow down" says that the
write did not land: `SlowDown` on S3, `ServerBusy` on Azure.
"""

TOO_MANY: Final = StatusRow(status=429, outcome=Outcome.THROTTLED, why="too many requests; slow down")
"""429 on S3 and Azure. GCS has a row of its own, which names its limit of one write per second."""

_INJECTED: Final = (
    *OBJECT_STORES,
    TOO_MANY,
    StatusRow(status=404, outcome=Outcome.PRECONDITION_FAILED, missing=True, why="there is no such object"),
)

UNFORESEEN: Final = StatusRow(status=0, outcome=Outcome.AMBIGUOUS, why="a status that no row covers")


def classify(rows: Sequence[StatusRow], status: int, code: str = "") -> StatusRow:
    """The row that decides; of equally close ones, the first."""
    best = max(rows, key=lambda row: row.fit(status, code), default=UNFORESEEN)
    return best if best.fit(status, code) else UNFORESEEN


def reason_text(why: str, status: int, code: str = "") -> str:
    """`412 PreconditionFailed: the object is not …`, on one line. why: what the answer means, see `StatusRow`."""
    # An SDK that finds no code repeats the status.
    word = code_word(code)
    told = f" {word}" if word not in ("", str(status)) else ""
    return f"{status}{told}: {why}"[:REASON_CHARS_MAX]


_CODE: Final = re.compile(rb"<Code>\s*([A-Za-z0-9.]{1,60})\s*</Code>")


def error_code(body: bytes) -> str:
    """The first error code in an answer in XML (S3, Azure, and GCS through its XML API).

    "" where the answer names no code, or something that does not have the form of a code.
    """
    found = _CODE.search(body)
    return code_word(found[1].decode()) if found else ""


@cache
def outcome_of(status: int | None) -> Outcome:
    """The outcome of a refusal with this status, in a simulation and on a real server; None is a broken
    connection (A1, A5).

    A refusal that is injected on a real server has a code beside its status with which that cloud's own table says the
    same: see `write_refusal` of each cloud.
    """
    return Outcome.AMBIGUOUS if status is None else classify(_INJECTED, status).outcome


class Versions(StrEnum):
    """The kind of version tokens that a store gives.

    CONTENT  the body's MD5: equal bytes give equal versions (A6, ABA)
    RISING   a number that grows with every write
    UNIQUE   a new opaque tag for every write
    """

    CONTENT = "content"
    RISING = "rising"
    UNIQUE = "unique"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatuses:
    """The HTTP statuses with which a cloud's own service answers; 0 for a store without statuses.

    created: a write that made or replaced. exists: create over a present
    object. stale: a condition on another version. absent: a condition where
    there is no object. deleted: a removal. delete_absent: an unconditional
    removal of nothing; a success for S3. tells_absence: a write whose condition
    fails because there is no object is told so; GCS and Azure answer it like one
    on a stale version (C5). Contention and throttling are faults, which name
    their status themselves. unknown_condition: a condition that the service does
    not have, such as `If-Match: *`; 0 where its documentation names no status.
    deletes_by_version: a removal may name a version; without it such a removal
    is refused.

    Source: docs of the services as collected in conditional writes, section 1,
    and RFC-91's HTTP mapping. Held against real servers by
    tests/backends/test_dialects.py. The simulated store is the same for all but
    these.
    """

    name: str
    versions: Versions
    created: int = 200
    exists: int = 412
    stale: int = 412
    absent: int = 412
    deleted: int = 204
    delete_absent: int = 404
    delete_conditional_absent: int = 404
    unknown_condition: int = 0
    tells_absence: bool = False
    deletes_by_version: bool = True

    @property
    def capabilities(self) -> StoreCapabilities:
        """The capabilities that a store with this dialect promises to a lock."""
        return StoreCapabilities(
            dialect=self.name,
            versions_repeat=self.versions is Versions.CONTENT,
            conditional_delete=self.deletes_by_version,
        )


NO_STATUSES: Final = ServerStatuses(
    name="memory", versions=Versions.UNIQUE, created=0, exists=0, stale=0, absent=0, deleted=0, delete_absent=0,
    delete_conditional_absent=0, tells_absence=True,
)  # fmt: skip
"""A store that is asked without a wire."""
