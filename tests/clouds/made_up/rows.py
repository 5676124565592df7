"""What the made-up servers answer, and what that means: see `tests.clouds.answer_table`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from lockref.words import Outcome
from tests.clouds.answer_table import ALL, BODY, CHANGES, CREATE, DELETE, ON_OBJECT, READ, WRITES, Row, http

_O = Outcome
_VERSION: Final = "41"
_ACME: Final = (
    (CHANGES, 460, "Unlike", _O.PRECONDITION_FAILED),
    ((CREATE,), 461, "Taken", _O.PRECONDITION_FAILED),
    (CHANGES, 412, "", _O.PRECONDITION_FAILED),
    (CHANGES, 463, "Crowded", _O.CONFLICT),
    (CHANGES, 409, "", _O.CONFLICT),
    (ALL, 464, "Hurried", _O.THROTTLED),
    (ALL, 500, "Broken", _O.AMBIGUOUS),
    (ALL, 503, "", _O.AMBIGUOUS),
    (ALL, 408, "", _O.AMBIGUOUS),
    (ALL, 462, "NoSuchVault", _O.REJECTED),
    (ALL, 403, "Forbidden", _O.REJECTED),
    (ALL, 401, "", _O.REJECTED),
    (CHANGES, 400, "NotImplemented", _O.REJECTED),
    (CHANGES, 405, "", _O.REJECTED),
    (CHANGES, 501, "", _O.REJECTED),
    (ALL, 404, "", _O.REJECTED),
    (CHANGES, 304, "", _O.PRECONDITION_FAILED),
    (ALL, 302, "", _O.AMBIGUOUS),
)


def acme() -> Iterator[Row]:
    """The answers of Acme."""

    def row(asked: str, title: str, answer: bytes, outcome: Outcome, **more: object) -> Row:
        return Row(scheme="acme", asked=asked, title=title, answer=answer, outcome=outcome, condition=_VERSION, **more)  # type: ignore[arg-type]

    for asked_in, status, code, outcome in _ACME:
        body = json.dumps({"fault": code, "detail": "Said"}).encode() if code else b""
        for asked in asked_in:
            yield row(asked, f"{status} {code}".strip(), http(status, body=body), outcome)
    for asked in ON_OBJECT:
        gone = http(462, body=b'{"fault": "NoSuchThing"}')
        yield row(asked, "462", gone, _O.APPLIED if asked == READ else _O.PRECONDITION_FAILED, is_absent=True)
    for asked in WRITES:
        yield row(asked, "201", http(201, ("X-Acme-Version", "42")), _O.APPLIED, version="42")
        yield row(asked, "201 without a version", http(201), _O.AMBIGUOUS)
    yield row(READ, "200", http(200, ("X-Acme-Version", "42"), body=BODY), _O.APPLIED, version="42")
    yield row(DELETE, "200", http(200), _O.APPLIED)
    yield row(DELETE, "200, a web page", http(200, body=b"<html>Log in</html>"), _O.AMBIGUOUS)


_STRICT: Final = (
    (CHANGES, 409, "PreconditionFailed", _O.PRECONDITION_FAILED),
    (CHANGES, 409, "", _O.PRECONDITION_FAILED),
    (CHANGES, 409, "InUse", _O.CONFLICT),
    (ALL, 500, "QueueFull", _O.THROTTLED),
    (ALL, 500, "InternalError", _O.AMBIGUOUS),
    (ALL, 503, "SlowDown", _O.THROTTLED),
    (CHANGES, 412, "PreconditionFailed", _O.PRECONDITION_FAILED),
    ((DELETE,), 501, "NotImplemented", _O.REJECTED),
)


def strict() -> Iterator[Row]:
    """The answers of the made-up server that speaks S3, where they are not Amazon's."""
    for asked_in, status, code, outcome in _STRICT:
        body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
        for asked in asked_in:
            yield Row(
                scheme="s3+strict", asked=asked, title=f"{status} {code}", answer=http(status, body=body),
                outcome=outcome, condition='"5eb63bbb"',
            )  # fmt: skip
    for asked in WRITES:
        yield Row(
            scheme="s3+strict", asked=asked, title="200", answer=http(200, ("ETag", '"9a"')), outcome=_O.APPLIED,
            version='"9a"', condition='"5eb63bbb"',
        )  # fmt: skip
    page = b"<html>Log in</html>"
    for status, headers, body, outcome in (
        (204, (), b"", _O.APPLIED), (200, (("x-strict-id", "1"),), page, _O.APPLIED), (200, (), b"", _O.APPLIED),
        (200, (("x-amz-request-id", "1"),), page, _O.AMBIGUOUS), (200, (), page, _O.AMBIGUOUS),
    ):  # fmt: skip
        yield Row(
            scheme="s3+strict", asked=DELETE, title=f"{status} with {dict(headers)} and {len(body)} bytes",
            answer=http(status, *headers, body=body), outcome=outcome, condition='"5eb63bbb"',
        )  # fmt: skip
