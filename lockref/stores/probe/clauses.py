"""The demands of a lock on a store: the numbered questions, defined once for every probe.

The quick form (`selftest`, before a lock opens a store) puts a few of them. The full probe (`scenarios/probe`) puts
them all. Both name them by these ids, words and harms, and so do results, messages and pages.

A question has a version. When what is asked under an id changes, its version rises, and a verdict on the former
question answers the new one no more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """unsupported: an honest refusal, or no such request. usable: safe, with deviations that are listed."""

    CONFORMING = "conforming"
    USABLE = "usable"
    UNSAFE = "unsafe"
    UNSUPPORTED = "unsupported"
    NOT_ANSWERED = "not_answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that a lock relies on.

    clause: its id, as docs/results.md lists them. words: what the store is asked.
    harm: what goes wrong in a lock if the store ignores the condition.
    is_quick: the quick form asks it as well. is_core: a lock's own requests depend on it; the others are about
        requests that a lock may leave alone, such as a copy.
    question: the version of what is asked.
    """

    clause: str
    name: str
    words: str
    harm: str
    is_quick: bool = False
    is_core: bool = True
    question: int = 1


_ALL: Final = (
    Condition(
        clause="C1",
        name="create",
        words="a create of an object that exists",
        harm="a client that waits for the lock writes over the holder's record, and both hold it",
        is_quick=True,
    ),
    Condition(
        clause="C2",
        name="create_race",
        words="simultaneous creates of one object",
        harm="two clients create the record at the same time, and both hold the lock",
        is_quick=True,
        question=2,
    ),
    Condition(
        clause="C4",
        name="replace",
        words="a replacement of a stale version",
        harm="a late write of a former holder replaces its successor's record, and both hold the lock",
        is_quick=True,
    ),
    Condition(
        clause="C3",
        name="replace_race",
        words="simultaneous replacements of one version",
        harm="two clients take over the same lapsed record, and both hold the lock",
        is_quick=True,
        question=2,
    ),
    Condition(
        clause="C5",
        name="replace_absent",
        words="a replacement of an object that is gone",
        harm="a late renewal brings a deleted record back to life",
        is_quick=True,
    ),
    Condition(
        clause="C6",
        name="replace_recreated",
        words="a replacement of a version from before a delete and a new create",
        harm="a holder from before the delete writes over the record of the one who came after it",
    ),
    Condition(
        clause="C7",
        name="version_reuse",
        words="a replacement of the first version after other bytes came and went",
        harm="a version that repeats for equal bytes lets a late write pass; every record needs a fresh nonce",
    ),
    Condition(
        clause="C8",
        name="delete",
        words="a delete of a stale version",
        harm="a lock that deletes its record (RFC-91's does not) removes its successor's, and the next gets in",
        is_quick=True,
    ),
    Condition(
        clause="C9",
        name="delete_race",
        words="a delete and a replacement of one version, at the same time",
        harm="a renewal is confirmed although the record is gone, and the next client gets in",
        is_quick=True,
    ),
    Condition(
        clause="C10",
        name="wildcards",
        words="conditions with a star, a negated version, or both at once",
        harm="a client that relies on such a condition writes although it does not hold",
        is_core=False,
    ),
    Condition(
        clause="C11",
        name="quoting",
        words="a version with quotation marks and without",
        harm="a client that keeps the version without its quotation marks is refused, or worse, is not",
        is_core=False,
    ),
    Condition(
        clause="C12",
        name="versioned_bucket",
        words="creates, replacements and deletes over a delete marker",
        harm="in a versioned bucket a deleted record comes back, or can never be made again",
        is_core=False,
    ),
    Condition(
        clause="C13",
        name="multipart",
        words="the completion of a multipart upload, under the conditions of C1 to C5 and in races",
        harm="a client that writes its record in parts writes over another's",
        is_core=False,
    ),
    Condition(
        clause="C14",
        name="copy",
        words="a copy onto an object, under the conditions of C1 to C4",
        harm="a client that renames or copies into place writes over another's object",
        is_core=False,
    ),
    Condition(
        clause="C15",
        name="write_modes",
        words="C1 and C4 in every other way to write",
        harm="a client library that writes in another way loses its condition without a word",
        is_core=False,
    ),
    Condition(
        clause="C16",
        name="spread_race",
        words="C2 and C3 from several processes, over every endpoint",
        harm="clients of two endpoints of one store both get the lock",
        question=2,
    ),
    Condition(
        clause="C17",
        name="node_stopped",
        words="C2 and C3 with one node of the store stopped",
        harm="a store that lost a node skips the check, and both clients get the lock",
        is_core=False,
    ),
    Condition(
        clause="C18",
        name="lost_reply",
        words="the plain repetition of a write that landed and whose reply was lost",
        harm="a client that tries again is granted the lock twice, or gives up a lock that it holds",
    ),
    Condition(
        clause="C19",
        name="late_duplicate",
        words="a write that was held up until another one had moved on",
        harm="a request that was long on its way replaces the successor's record",
    ),
    Condition(
        clause="C20",
        name="counter",
        words="a counter raised by compare-and-swap from several clients",
        harm="an update is confirmed and lost, so two holders get the same fencing token",
    ),
    Condition(
        clause="C21",
        name="read_after_write",
        words="a read after a confirmed write",
        harm="a client decides on a record that has been replaced",
        is_quick=True,
        question=2,
    ),
    Condition(
        clause="C22",
        name="write_rate",
        words="one, two and five writes a second on one object",
        harm="renewals are throttled until the lease runs out",
        is_core=False,
    ),
    Condition(
        clause="C23",
        name="overwrite",
        words="that a write without a condition changes the version",
        harm="a holder does not notice that somebody wrote over its record",
    ),
    Condition(
        clause="C24",
        name="clock",
        words="its date, beside this machine's clock",
        harm="signatures are refused, and a lease that is judged by the store's stamps ends too early or too late",
        is_core=False,
    ),
    Condition(
        clause="C25",
        name="lease",
        words="a lease on an object (Azure): acquired once, required for writes",
        harm="two clients hold the lease, or write without it",
        is_core=False,
    ),
)

CLAUSES: Final = {one.clause: one for one in sorted(_ALL, key=lambda one: int(one.clause[1:]))}
"""Every question by its id, in the order of the ids."""

CONDITIONS: Final = {one.name: one for one in _ALL if one.is_quick}
"""What the quick form asks, by name, in the order in which it tells the answers."""


class Sent(StrEnum):
    """A kind of request under a condition, by which a lock keeps others out."""

    CREATE = "create"
    REPLACE = "replacement by version"
    DELETE = "delete by version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A way to build a lock, and the clauses that it stands on. part: of clauses about creates and replacements.

    told_by: the kind of request by which a lock of this design is known; None where requests do not tell it.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    part: str = ""
    told_by: Sent | None = None


DESIGNS: Final = {
    design.name: design
    for design in (
        Design(
            name="create",
            title="create-only",
            needs=("C1", "C2", "C16", "C18", "C21"),
            part="create",
            told_by=Sent.CREATE,
        ),
        Design(
            name="cas",
            title="compare-and-swap",
            needs=("C1", "C2", "C3", "C4", "C5", "C6", "C16", "C18", "C19", "C20", "C21", "C23"),
            told_by=Sent.REPLACE,
        ),
        Design(
            name="delete",
            title="conditional delete",
            needs=("C1", "C2", "C8", "C9", "C16", "C18", "C21"),
            part="create",
            told_by=Sent.DELETE,
        ),
        Design(
            name="fencing",
            title="fencing by generation",
            needs=("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C16", "C18", "C19", "C20", "C21", "C23"),
        ),
    )
}
"""By the word that `--require` takes."""


def designs_of(sent: Collection[Sent]) -> tuple[str, ...]:
    """The designs that a lock is of, by the conditional requests that it sends: what a store must carry for it.

    The one rule for the probe's verdicts, for admission and for an evaluation. Compare-and-swap and conditional
    deletes include what a create-only lock needs. A lock that sends no condition is of no design.
    """
    told = [design for design in DESIGNS.values() if design.told_by in sent]
    larger = [design for design in told if design.told_by is not Sent.CREATE]
    return tuple(design.name for design in larger or told)


def not_needed(designs: Collection[str]) -> frozenset[str]:
    """The clauses of the quick form on which none of these designs stands. A store may break them."""
    needed = {clause for name in designs for clause in DESIGNS[name].needs}
    return frozenset(one.clause for one in CONDITIONS.values()) - needed
