"""The meaning of an answer, which every reader of answers shares.

A store, the probe and the wire read the same answers. Each cloud has a function `read_answer` in its module `answers`.
It takes the status, the headers and the body apart. The meaning is then decided here, by the cloud's table of statuses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from lockref.clouds.statuses import REASON_CHARS_MAX, StatusRow, reason_text
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.words import Outcome

NOT_MODIFIED: Final = 304
_UNMET: Final = (412, 416)
"""The condition of a read does not hold, or the range that it asks for is not there."""


class RequestKind(Enum):
    """The kind of a request, as far as the meaning of its answer depends on it.

    READ    shows the present content of an object
    WRITE   makes a version of an object
    DELETE  removes an object
    OTHER   none of these, such as a listing, or a part of an upload
    """

    READ = auto()
    WRITE = auto()
    DELETE = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The request, as far as the meaning of its answer depends on it.

    needs_object: the request is about an object that must be there, such as a read. An answer that something is missing
        then means the object; elsewhere, as for an upload without a condition, it can mean the bucket alone.
    is_conditional: for a read: the request names a version that it wants or does not want, a date or a range.
    is_about_metadata: for a read: the answer describes the object, and does not hold its bytes.
    has_status_inside: a success may hold an error in its body, such as that of a copy (aws-sdk-java-v2#6023).
    """

    kind: RequestKind
    needs_object: bool = True
    is_conditional: bool = False
    is_about_metadata: bool = False
    has_status_inside: bool = False


A_READ: Final = Question(kind=RequestKind.READ)
A_WRITE: Final = Question(kind=RequestKind.WRITE)
A_CREATE: Final = Question(kind=RequestKind.WRITE, needs_object=False)
A_DELETE: Final = Question(kind=RequestKind.DELETE)
SOMETHING_ELSE: Final = Question(kind=RequestKind.OTHER, needs_object=False)


def write_question(*, names_version: bool) -> Question:
    """The question of a write. One that names the version to replace needs an object; a create needs none, nor does a
    write without a condition."""
    return A_WRITE if names_version else A_CREATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The meaning of an answer.

    outcome: for a read: APPLIED with a version, APPLIED with `is_absent`, or a failure.
    version: the version that the request wrote or read, as the cloud spells it; "" for none.
    code: the service's own word for an error; "" for none.
    status: the status by which the table decided. It is that of the error in the body, where a success holds one.
    why: what the answer means, for people; "" for a success. Nothing of the request stands in it.
    is_understood: False if no answer came, or one that is not the service's. Then `why` tells what came.
    """

    outcome: Outcome
    status: int
    code: str = ""
    version: str = ""
    is_absent: bool = False
    why: str = ""
    is_understood: bool = True

    @property
    def reason(self) -> str:
        """`why` behind status and code; "" for a success."""
        if self.outcome is Outcome.APPLIED:
            return ""
        return reason_text(self.why, self.status, self.code) if self.is_understood else self.why


def silence(outcome: Outcome, why: str, *, status: int = 0) -> Meaning:
    """No answer, or one that was not understood. status: the HTTP status that came; 0 if nothing came."""
    return Meaning(outcome=outcome, status=status, why=why[:REASON_CHARS_MAX], is_understood=False)


def write_reply(found: Meaning) -> WriteReply:
    """The answer to a write, for a lock."""
    return WriteReply(
        outcome=found.outcome,
        version=Version(found.version) if found.version else None,
        missing=found.is_absent,
        status=found.status or None,
        reason=found.reason,
    )


def read_reply(found: Meaning, body: bytes) -> ReadReply:
    """The answer to a read, for a lock. body: the answer's body, which is the object's if the read succeeded."""
    is_shown = found.outcome is Outcome.APPLIED and not found.is_absent
    return ReadReply(
        outcome=found.outcome,
        body=body if is_shown else None,
        version=Version(found.version) if is_shown else None,
        status=found.status or None,
        reason=found.reason,
    )


def decide(
    row: StatusRow, question: Question, *, status: int, code: str, version: str, service: str, has_mark: bool = False
) -> Meaning:
    """The meaning of an answer.

    row: the row that the cloud's table has for this status and code. version: the version in the answer, "" for none.
    service: the cloud's name, for the reason.
    has_mark: a success bears a sign of the cloud's own, by which a removal is told from the page of a proxy.
    """
    found = Meaning(outcome=row.outcome, status=status, code=code, is_absent=row.missing, why=row.why)
    is_read = question.kind is RequestKind.READ
    if is_read and row.missing:
        return Meaning(outcome=Outcome.APPLIED, status=status, code=code, is_absent=True)
    if row.outcome is Outcome.APPLIED:
        makes_version = is_read or question.kind is RequestKind.WRITE
        if makes_version and not version:
            # A cut reply can still parse as a success. Without the version it made, nothing can be built on it.
            why = f"no version: does {service} answer there? The request may have taken effect"
            return replace(found, outcome=Outcome.AMBIGUOUS, why=why)
        if question.kind is RequestKind.DELETE and not has_mark:
            # A removal makes no version, so a page of a proxy or a captive portal would be a removal, too.
            why = f"no sign of {service}: does it answer there? The request may have taken effect"
            return replace(found, outcome=Outcome.AMBIGUOUS, why=why)
        return Meaning(outcome=Outcome.APPLIED, status=status, version=version if makes_version else "")
    if not is_read:
        return found
    if question.is_conditional and status == NOT_MODIFIED:
        # The answer names the version that the client has already, which is the present one.
        return Meaning(outcome=Outcome.APPLIED, status=status, version=version)
    if question.is_conditional and status in _UNMET:
        return replace(found, outcome=Outcome.PRECONDITION_FAILED)
    # A read without a condition cannot fail by one. A server that says so is not understood.
    is_impossible = row.outcome is Outcome.PRECONDITION_FAILED
    return replace(found, outcome=Outcome.AMBIGUOUS) if is_impossible else found
