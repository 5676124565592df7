"""A server's answers: refusals that we send in its place, and what its own answers say to faults.

A refusal is in the words of each cloud's protocol, which `write_refusal` of that cloud knows.
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.statuses import outcome_of
from lockref.clouds.uri import CLOUDS
from lockref.ports import Reply
from lockref.words import Outcome
from scenarios.injection.http_messages import Answer

_CONDITION_FAILED: Final = b"ConditionalCheckFailed"
"""DynamoDB's word for a failed condition, whose status is 400."""


def reply_of(answer: Answer) -> Reply:
    """A server's answer as faults see it: whether the request was applied, and what kind of refusal it met if not."""
    if 200 <= answer.status < 300:
        return Reply(Outcome.APPLIED, status=answer.status)
    is_failed_condition = _CONDITION_FAILED in answer.raw
    outcome = Outcome.PRECONDITION_FAILED if is_failed_condition else outcome_of(answer.status)
    return Reply(outcome, status=answer.status)


def refusal(scheme: str, status: int, reason: str) -> bytes:
    """A whole reply with this status. scheme: of a store that is reached by HTTP. reason: for people; of a table its
    first word is the code, where it is one of DynamoDB's."""
    write = CLOUDS[scheme].refusal
    assert write is not None, "only what is reached by HTTP has refusals"
    return write(status, reason)
