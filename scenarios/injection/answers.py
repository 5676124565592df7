"""A server's answers: refusals that we send in its place, and the meaning of its own answers for faults.

Both are in the words of each cloud's protocol, which that cloud's module `answers` knows.
"""

from __future__ import annotations

import http.client
import io
from typing import Final

from lockref.clouds.answers import A_DELETE, A_READ, A_WRITE, silence
from lockref.clouds.uri import CLOUDS
from lockref.ports import Reply
from lockref.words import Outcome
from scenarios.injection.http_messages import Answer

_QUESTIONS: Final = {b"GET": A_READ, b"HEAD": A_READ, b"DELETE": A_DELETE}


def reply_of(scheme: str, method: bytes, answer: Answer) -> Reply:
    """A server's answer as faults see it: whether the request was applied, and what kind of refusal it met if not.

    scheme: of a store that is reached by HTTP. method: of a request of one of our own stores. They write an object in
    one request, so the method alone tells what was asked; what a foreign program asks is read by `scenarios.wire`.
    """
    # Every request to a table is a POST. Its answer to a write is read without a version, and says enough of a read.
    question = A_WRITE if CLOUDS[scheme].is_table else _QUESTIONS.get(method, A_WRITE)
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
        found = protocol[1].read_answer(question, answer.status, headers, body)
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
