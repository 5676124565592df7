"""Amazon S3, and every server that speaks its protocol.

Each call is exactly one request: boto3's own retries would turn a landed write
into a failed precondition (A2). What S3 says is folded into outcomes by one
table, `WRITE_OUTCOMES`; what the network does is AMBIGUOUS, with a reason that
says whether anything was sent.

Three habits of boto3 are switched off. It follows a redirect to another region by
asking for the bucket's and sending the request again, and for ever where the
server redirects that question too. `Expect: 100-continue` doubles the round
trips of a renewal and, on a server that ignores it, adds a second of waiting;
a lock record is too small to gain from it. Checksums beyond what an operation
requires wrap the body in a trailer that several servers store verbatim.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, cast

from boto3.session import Session
from botocore.exceptions import ClientError
from botocore.handlers import add_expect_header

from lockref.clouds.aws import DUMMY_NOTE, NO_ANSWER, aws_client, aws_session, explain, is_dummy, status_and_code
from lockref.clouds.bounded_exchange import Exchange, bounded
from lockref.clouds.statuses import (
    OBJECT_STORES,
    REASON_CHARS_MAX,
    TOO_MANY,
    StatusRow,
    classify,
    error_code,
    read_reply,
    write_reply,
)
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, StorePlace, Version, WriteReply
from lockref.words import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client

CAPABILITIES = StoreCapabilities(dialect="s3", versions_repeat=True, conditional_delete=True)

BODILESS_404: Final = "404"
"""The code of a 404 without a body, which names none."""

WRITE_OUTCOMES: tuple[StatusRow, ...] = (
    *OBJECT_STORES,
    StatusRow(
        status=404,
        code="NoSuchKey",
        outcome=Outcome.PRECONDITION_FAILED,
        missing=True,
        why="there is no such object (C5)",
    ),
    # What botocore calls an error without a body, as some servers answer a missing key.
    StatusRow(
        status=404, code=BODILESS_404, outcome=Outcome.PRECONDITION_FAILED, missing=True, why="there is no such object"
    ),
    StatusRow(status=404, code="NoSuchBucket", outcome=Outcome.REJECTED, why="there is no such bucket; create it"),
    StatusRow(status=404, outcome=Outcome.REJECTED, why="something other than the object is missing"),
    TOO_MANY,
    StatusRow(status=503, code="SlowDown", outcome=Outcome.THROTTLED, why="too many requests; slow down"),
    StatusRow(status=400, code="RequestTimeout", outcome=Outcome.AMBIGUOUS, why="the server stopped waiting for us"),
    StatusRow(
        status=400,
        code="AuthorizationHeaderMalformed",
        outcome=Outcome.REJECTED,
        why="the bucket lives elsewhere; name its region or endpoint",
    ),
    StatusRow(
        status=403,
        code="RequestTimeTooSkewed",
        outcome=Outcome.REJECTED,
        why="this machine's clock is too far from the server's; set it right",
    ),
    StatusRow(status=403, outcome=Outcome.REJECTED, why="access denied; check credentials and bucket policy"),
    StatusRow(status=3, outcome=Outcome.REJECTED, why="the bucket lives elsewhere; name its region or endpoint"),
)
"""Every answer of S3 (conditional-writes.md, section 1) and what it means for a write."""

_ERROR: Final = re.compile(rb"\s*(?:<\?xml[^>]*\?>)?\s*<Error[\s/>]")
_STATUS_OF: Final = {
    "AccessDenied": 403,
    "ConditionalRequestConflict": 409,
    "NoSuchKey": 404,
    "PreconditionFailed": 412,
}


def error_inside(body: bytes) -> tuple[int, str] | None:
    """The status that the body of a success stands for, with its code, if that body is an error; None if it is none.

    A copy, the completion of an upload and a deletion of several objects may answer 200 and fail: the body decides
    (aws-sdk-java-v2#6023). What else such a body may say is a server's failure, 500.
    """
    if not _ERROR.match(body):
        return None
    code = error_code(body)
    return status_of(code), code


def status_of(code: str) -> int:
    """The status of an error that is told by its code alone."""
    return _STATUS_OF.get(code, 500)


def make_client(
    *, endpoint: str, region: str, request_timeout_ns: int, pool_size: int, session: Session | None = None
) -> S3Client:
    """A client that sends each request once. See `aws_client`."""
    client = aws_client(
        "s3",
        endpoint=endpoint,
        region=region,
        request_timeout_ns=request_timeout_ns,
        pool_size=pool_size,
        session=session,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        # A server on a port has no DNS names of its own for buckets.
        s3={"addressing_style": "path" if endpoint else "auto"},
    )
    client.meta.events.unregister("before-call.s3", add_expect_header)
    client.meta.events.register("before-call.s3", _follow_no_redirect)
    return cast("S3Client", client)


def _follow_no_redirect(context: dict[str, Any], **_: object) -> None:
    """Tell boto3 that it has already followed one: the status table then answers, with what to do about it."""
    context.setdefault("s3_redirect", {})["redirected"] = True


class S3Store:
    """One bucket, or a prefix of it, as an `ObjectStore`.

    request_timeout_ns: bounds each request as a whole, from connecting to the last byte of the reply.
    endpoint: `http://host:port` of another server than Amazon's.
    credentials_note: what a user must be told about the credentials; "" for nothing.
    client: for tests: a client to use instead of making one.
    """

    def __init__(
        self,
        *,
        bucket: str,
        prefix: str = "",
        endpoint: str = "",
        region: str = "",
        request_timeout_ns: int,
        pool_size: int = 10,
        client: S3Client | None = None,
    ) -> None:
        self._bucket = bucket
        self.place = StorePlace(cloud="s3", container=bucket, prefix=prefix)
        self._prefix = f"{prefix}/" if prefix else ""
        self._request_timeout_ns = request_timeout_ns
        session = aws_session(endpoint) if client is None else None
        self.credentials_note = DUMMY_NOTE if session is not None and is_dummy(session) else ""
        self._client = client or make_client(
            endpoint=endpoint,
            region=region,
            request_timeout_ns=request_timeout_ns,
            pool_size=pool_size,
            session=session,
        )

    @property
    def capabilities(self) -> StoreCapabilities:
        return CAPABILITIES

    def read(self, key: str) -> ReadReply:
        check_key(key)
        try:
            with bounded(self._request_timeout_ns) as exchange:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
                status = answer["ResponseMetadata"]["HTTPStatusCode"]
                with closing(answer["Body"]) as stream:
                    body = stream.read()
        except ClientError as error:
            status, code = status_and_code(error)
            return read_reply(classify(WRITE_OUTCOMES, status, code), status=status, code=code)
        except NO_ANSWER as error:
            outcome, reason = explain(error)
            return ReadReply(outcome=outcome, reason=reason)
        etag = answer.get("ETag")
        if not etag:
            return ReadReply(outcome=Outcome.AMBIGUOUS, status=status, reason=_without_etag(status, exchange))
        return ReadReply(outcome=Outcome.APPLIED, body=body, version=Version(etag), status=status)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, {"IfNoneMatch": "*"})

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        if not version:
            raise ValueError("the version is empty; pass the one that a reply carried")
        return self._put(key, body, {"IfMatch": version})

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, {})

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        """Remove `key`. Without a version S3 does not say whether it existed: APPLIED either way."""
        check_key(key)
        condition: dict[str, str] = {} if version is None else {"IfMatch": version}
        return self._write(
            lambda: self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key, **_typed(condition)),
            makes_version=False,
        )

    def close(self) -> None:
        self._client.close()

    def _put(self, key: str, body: bytes, condition: dict[str, str]) -> WriteReply:
        check_key(key)
        return self._write(
            lambda: self._client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=body,
                ContentType="application/octet-stream",
                **_typed(condition),
            ),
            makes_version=True,
        )

    def _write(self, send: Callable[[], Any], *, makes_version: bool) -> WriteReply:
        with bounded(self._request_timeout_ns) as exchange:
            try:
                answer = send()
            except ClientError as error:
                return _refused_write(error, exchange)
            except NO_ANSWER as error:
                outcome, reason = explain(error)
                return WriteReply(outcome=outcome, reason=reason)
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        etag = answer.get("ETag")
        if makes_version and not etag:
            # A cut reply can still parse as a success. Without the version it made, nothing can be built on it.
            reason = _without_etag(status, exchange)
            return WriteReply(outcome=Outcome.AMBIGUOUS, status=status, reason=reason)
        version = Version(etag) if makes_version else None
        return write_reply(classify(WRITE_OUTCOMES, status), status=status, version=version)


def _refused_write(error: ClientError, exchange: Exchange) -> WriteReply:
    """What an error means for a write. botocore calls a success whose body it does not know a 500 (and its code)."""
    status, code = status_and_code(error)
    if not exchange.is_success:
        return write_reply(classify(WRITE_OUTCOMES, status, code), status=status, code=code)
    named = f" ({code})" if code and not code.isdecimal() else ""
    reason = f"{exchange.received}, which is no answer of S3 to a write{named}; the request may have taken effect"
    return WriteReply(outcome=Outcome.AMBIGUOUS, status=exchange.status, reason=reason[:REASON_CHARS_MAX])


def _without_etag(status: int, exchange: Exchange) -> str:
    """A success without a version is none of S3's."""
    return f"{exchange.received if exchange.status else status}, without an ETag: does S3 answer there?"


def _typed(condition: dict[str, str]) -> dict[str, Any]:
    """The stubs cannot see that a condition's keys are parameters of the call."""
    return cast("dict[str, Any]", condition)
