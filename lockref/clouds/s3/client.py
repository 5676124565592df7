"""Amazon S3, and every server that speaks its protocol.

Each call is exactly one request: boto3's own retries would turn a landed write
into a failed precondition (A2). What S3 says is folded into outcomes by one
table, `OUTCOMES`; what the network does is AMBIGUOUS, with a reason that
says whether anything was sent.

Three habits of boto3 are switched off. After a redirect to another region it asks
for the region of the bucket and sends the request again; it never stops if the
server redirects that question too. `Expect: 100-continue` doubles the round
trips of a renewal and, on a server that ignores it, adds a second of waiting;
a lock record is too small to gain from it. Checksums beyond what an operation
requires wrap the body in a trailer that several servers store verbatim.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

from boto3.session import Session
from botocore.exceptions import BotoCoreError, ClientError
from botocore.handlers import add_expect_header

from lockref.clouds.answers import (
    A_DELETE,
    A_READ,
    Meaning,
    Question,
    RequestKind,
    read_reply,
    silence,
    write_question,
    write_reply,
)
from lockref.clouds.aws import DUMMY_NOTE, NOT_READ, aws_client, aws_session, is_dummy, lost, status_and_code
from lockref.clouds.bounded_exchange import Exchange, bounded
from lockref.clouds.s3.answers import Answers
from lockref.clouds.s3.facts import AMAZON, SCHEME, Dialect
from lockref.errors import BackendUnavailable, ConfigError
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, StorePlace, Version, WriteReply
from lockref.words import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client

    from lockref.stores.address import StoreAddress


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
    dialect: what the server's answers mean.
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
        dialect: Dialect = AMAZON,
        client: S3Client | None = None,
    ) -> None:
        self._bucket = bucket
        self._answers = Answers(dialect)
        self.place = StorePlace(cloud=SCHEME, container=bucket, prefix=prefix)
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
        return self._answers.dialect.statuses.capabilities

    def read(self, key: str) -> ReadReply:
        check_key(key)
        body = b""
        with bounded(self._request_timeout_ns) as exchange:
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
                with closing(answer["Body"]) as stream:
                    body = stream.read()
            except ClientError as error:
                status, code = status_and_code(error)
                return read_reply(self._answers.meaning_of(A_READ, status, code=code), body)
            except NOT_READ as error:
                return read_reply(silence(*lost(error, exchange)), body)
        return read_reply(self._applied(A_READ, answer, exchange), body)

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
            A_DELETE,
            lambda: self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key, **_typed(condition)),
        )

    def close(self) -> None:
        self._client.close()

    def _put(self, key: str, body: bytes, condition: dict[str, str]) -> WriteReply:
        check_key(key)
        return self._write(
            write_question(names_version="IfMatch" in condition),
            lambda: self._client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=body,
                ContentType="application/octet-stream",
                **_typed(condition),
            ),
        )

    def _write(self, question: Question, send: Callable[[], Any]) -> WriteReply:
        with bounded(self._request_timeout_ns) as exchange:
            try:
                answer = send()
            except ClientError as error:
                return write_reply(self._refused(question, error, exchange))
            except NOT_READ as error:
                return write_reply(silence(*lost(error, exchange)))
        return write_reply(self._applied(question, answer, exchange))

    def _applied(self, question: Question, answer: Any, exchange: Exchange) -> Meaning:
        """The meaning of a success, with a reason that names the reply where a sign of S3 is missing."""
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        is_empty = exchange.headers.get("content-length") == "0"
        found = self._answers.meaning_of(
            question, status, version=answer.get("ETag") or "", headers=exchange.headers, is_empty=is_empty
        )
        if found.outcome is Outcome.APPLIED:
            return found
        told = exchange.received if exchange.status else status
        title = self._answers.dialect.title
        missing = f"a sign of {title}" if question.kind is RequestKind.DELETE else "an ETag"
        return silence(found.outcome, f"{told}, without {missing}: does {title} answer there?", status=status)

    def _refused(self, question: Question, error: ClientError, exchange: Exchange) -> Meaning:
        """The meaning of an error for a write.

        botocore reports 500 for a success whose body it does not know. So the status on the wire is asked first.
        """
        status, code = status_and_code(error)
        if not exchange.is_success:
            return self._answers.meaning_of(question, status, code=code)
        named = f" ({code})" if code and not code.isdecimal() else ""
        told = f"{exchange.received}, which is no answer of {self._answers.dialect.title} to a write{named}"
        return silence(Outcome.AMBIGUOUS, f"{told}; the request may have taken effect", status=exchange.status)


def _typed(condition: dict[str, str]) -> dict[str, Any]:
    """The stubs cannot see that a condition's keys are parameters of the call."""
    return cast("dict[str, Any]", condition)


def open_store(address: StoreAddress, request_timeout_ns: int, pool_size: int, dialect: Dialect) -> S3Store:
    """See `Cloud`. Errors: ConfigError for an AWS configuration that cannot be used."""
    try:
        return S3Store(
            bucket=address.container,
            prefix=address.prefix,
            endpoint=address.endpoint,
            region=address.region,
            request_timeout_ns=request_timeout_ns,
            pool_size=pool_size,
            dialect=dialect,
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"the store {address} cannot be opened with this AWS configuration: {error}") from error


def create_container(address: StoreAddress, request_timeout_ns: int) -> None:
    """Make the bucket at an address that has an endpoint; one that is there already is fine.

    request_timeout_ns: bounds the request as a whole.
    Errors: BackendUnavailable if the server does not answer or refuses.
    """
    # The client loads its service's model from files. On a busy machine that takes seconds, and is no request.
    client = make_client(endpoint=address.endpoint, region="", request_timeout_ns=request_timeout_ns, pool_size=1)
    try:
        with bounded(request_timeout_ns):
            client.create_bucket(Bucket=address.container)
    except client.exceptions.BucketAlreadyOwnedByYou:
        return
    except (ClientError, *NOT_READ) as error:
        raise BackendUnavailable(f"creating the bucket of {address} failed: {type(error).__name__}") from error
    finally:
        client.close()
