"""A server's answers: refusals that we send in its place, and the meaning of its own answers for faults.

Both are in the words of each cloud's protocol, which that cloud's module `answers` knows.
"""

from __future__ import annotations

import http.client
import io

from lockref.clouds.answers import A_WRITE, silence
from lockref.clouds.uri import CLOUDS
from lockref.ports import Reply
from lockref.words import Outcome
from scenarios.injection.http_messages import Answer


def reply_of(scheme: str, answer: Answer) -> Reply:
    """A server's answer as faults see it: whether the request was applied, and what kind of refusal it met if not.

    scheme: of a store that is reached by HTTP. A fault has no need of the request: the answer is read as one to a write
    that needs its object.
    """
    if 200 <= answer.status < 300:
        return Reply(Outcome.APPLIED, status=answer.status)
    protocol = CLOUDS[scheme].protocol
    assert protocol is not None, "only what is reached by HTTP has answers"
    response = http.client.HTTPResponse(_Received(answer.raw))  # type: ignore[arg-type]
    try:
        response.begin()
        body = response.read()
    except (http.client.HTTPException, ValueError):
        found = silence(Outcome.AMBIGUOUS, "an answer that cannot be read", status=answer.status)
    else:
        headers = {name.lower(): value for name, value in response.getheaders()}
        found = protocol[1].read_answer(A_WRITE, answer.status, headers, body)
    return Reply(found.outcome, status=answer.status)


class _Received:
    """The bytes of an answer, where `http.client` looks for a socket."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._raw)


def refusal(scheme: str, status: int, reason: str) -> bytes:
    """A whole reply with this status. scheme: of a store that is reached by HTTP. reason: for people; of a table its
    first word is the code, where it is one of DynamoDB's."""
    write = CLOUDS[scheme].refusal
    assert write is not None, "only what is reached by HTTP has refusals"
    return write(status, reason)
