"""What the object stores answer, as data: S3, GCS, Azure.

Source: docs of the three services as collected in conditional writes, section
1, and RFC-91's HTTP mapping. A dialect names a status for each case; the model
of the store itself is the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from lockref.clouds.statuses import OBJECT_STORES, TOO_MANY, StatusRow, classify
from lockref.errors import ConfigError
from lockref.words import Outcome


class Versions(StrEnum):
    """How a dialect makes version tokens.

    CONTENT  the body's MD5: equal bytes give equal versions (A6, ABA)
    RISING   a number that grows with every write
    UNIQUE   a new opaque tag for every write
    """

    CONTENT = "content"
    RISING = "rising"
    UNIQUE = "unique"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One store's answers, as HTTP statuses.

    created: a write that made or replaced. exists: create over a present
    object. stale: a condition on another version. absent: a condition where
    there is no object. deleted: a removal. delete_absent: an unconditional
    removal of nothing; a success for S3. tells_absence: a write whose condition
    fails because there is no object is told so; GCS and Azure answer it like one
    on a stale version (C5). Contention and throttling are faults, which name
    their status themselves.

    Held against real servers by tests/backends/test_dialects.py.
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
    tells_absence: bool = False


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect(name="s3", versions=Versions.CONTENT, absent=404, delete_absent=204, tells_absence=True),
        Dialect(name="gcs", versions=Versions.RISING),
        Dialect(name="azure", versions=Versions.UNIQUE, created=201, exists=409, deleted=202),
        Dialect(name="memory", versions=Versions.UNIQUE, tells_absence=True),
    )
}

_INJECTED: Final = (
    *OBJECT_STORES,
    TOO_MANY,
    StatusRow(status=404, outcome=Outcome.PRECONDITION_FAILED, missing=True, why="there is no such object"),
)


@cache
def outcome_of(status: int | None) -> Outcome:
    """What a refusal with this status tells the client, in a simulation and on a real server; None is a broken
    connection (A1, A5).

    The clouds' own table decides (`lockref.clouds.statuses`). A refusal that is injected on a real server has a
    code beside its status with which that cloud's table says the same (`scenarios.injection.answers`).
    """
    return Outcome.AMBIGUOUS if status is None else classify(_INJECTED, status).outcome


def dialect_of(name: str) -> Dialect:
    """The dialect of that name. Raises ConfigError for any other."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise ConfigError(f"store dialect is {name!r}; expected one of {', '.join(DIALECTS)}") from None
