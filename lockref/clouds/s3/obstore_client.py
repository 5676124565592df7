"""Amazon S3 through obstore, a client in Rust that costs a fraction of boto3's processor time and leaves threads alone.

Each call is exactly one request: obstore's own retries are off. `OUTCOMES` decides what an answer means, as for boto3.
obstore folds answers into a few exceptions, and several statuses into one: a lost create and a conflict are both
`AlreadyExistsError`, a missing object, a missing bucket and a stale version all `PreconditionError`. So the exception
decides nothing. Status and code are read from the description of the answer that each exception carries; one that
cannot be read so is AMBIGUOUS.

Addresses are path-style: Amazon answers them for every bucket, and its certificate covers no host `a.b.s3…`. The
endpoint is the URI's, else the one that boto3 takes: object_store reads other variables in another order.

Four things differ from boto3. A child of a process that has used obstore cannot use it: the threads that send are
the parent's. It would wait for ever, so each call is refused there, and nothing is sent. A removal cannot name a
version: it is refused, too, and nothing is sent. A removal without one goes as a request to delete several objects, of
which there is one. And obstore follows the redirect of a read, ten times at most, within the time-out of the request.

Source: obstore 0.12.1 and object_store 0.14.2, read and held against answers byte by byte.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import obstore
from botocore.exceptions import BotoCoreError
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.exceptions import BaseError
from obstore.store import S3Store

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
from lockref.clouds.aws import DUMMY_NOTE, aws_session, is_dummy
from lockref.clouds.bounded_exchange import REPLY_BYTES_MAX
from lockref.clouds.s3.answers import Answers
from lockref.clouds.s3.facts import AMAZON, BODILESS_404, SCHEME, Dialect
from lockref.clouds.s3.signing import origin_and_region
from lockref.clouds.statuses import error_code
from lockref.errors import ConfigError
from lockref.grammar import decimal
from lockref.runtime import ThreadRuntime
from lockref.stores.endpoints import is_loopback, split_timeout_s
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, StorePlace, Version, WriteReply
from lockref.words import Outcome

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config

    from lockref.stores.address import StoreAddress

_RAISED: Final = (BaseError, FileNotFoundError, PermissionError, NotImplementedError)
"""The errors of a request. obstore raises Python's own for some answers."""

_CREDENTIALS_LAST: Final = timedelta(minutes=10)
"""boto3 renews credentials ten minutes before they end, at the latest. obstore asks anew five minutes before this."""

_NOWHERE: Final = "http://127.0.0.1:9"

_TOLD: Final = "\nDebug source:\n"
_ANSWER: Final = re.compile(
    r"^ +inner: Status \{\n +status: (\d{3}),\n +body: (?:Some\(\n +\"(.*)\",\n|None)", re.MULTILINE
)
_DELETION: Final = re.compile(r"^ +source: DeleteFailed \{\n +path: \".*\",\n +code: \"(\w+)\",\n", re.MULTILINE)
_UNSENT: Final = re.compile(r"^ +kind: Connect,\n", re.MULTILINE)
_LATE: Final = re.compile(r"^ +kind: Timeout,\n", re.MULTILINE)
_REDIRECT: Final = re.compile(r"^ +inner: BareRedirect\b", re.MULTILINE)
_MOVED: Final = 301


_process = ThreadRuntime().process_id
_used_in: Final[set[int]] = set()
"""The process whose threads send the requests: the first one that used obstore, also a parent of this one."""


class ObstoreS3Store:
    """One bucket, or a prefix of it, as an `ObjectStore`, through obstore.

    request_timeout_ns: bounds each request as a whole, from connecting to the last byte of the reply.
    endpoint: `http://host:port` of another server than Amazon's; "" for the configuration's. region: likewise.
    dialect: what the server's answers mean. Without a condition on a removal, whatever the server can.
    credentials_note: what a user must be told about the credentials; "" for nothing.
    Errors: ValueError for no credentials, or a setting that obstore refuses.
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
    ) -> None:
        self._answers = Answers(dialect)
        self.place = StorePlace(cloud=SCHEME, container=bucket, prefix=prefix)
        session = aws_session(endpoint)
        self.credentials_note = DUMMY_NOTE if is_dummy(session) else ""
        statuses = dialect.statuses.capabilities
        self.capabilities = StoreCapabilities(
            dialect=statuses.dialect, versions_repeat=statuses.versions_repeat, conditional_delete=False
        )
        origin, region = origin_and_region(endpoint, region, session)
        # What is said here is not asked of the environment, which could switch conditions off or name another server.
        settings: S3Config = {
            "region": region,
            "endpoint": origin.rstrip("/"),
            "aws_endpoint_url_s3": origin.rstrip("/"),
            "virtual_hosted_style_request": False,
            "conditional_put": "etag",
            "skip_signature": False,
            "unsigned_payload": False,
        }
        self._store: S3Store | None = S3Store(
            bucket,
            prefix=prefix or None,
            config=settings,
            credential_provider=Boto3CredentialProvider(session, ttl=_CREDENTIALS_LAST),
            client_options=_client_options(origin, request_timeout_ns, pool_size),
            retry_config={"max_retries": 0},
        )

    def read(self, key: str) -> ReadReply:
        check_key(key)
        store = self._store
        if store is None or _is_forked():
            return read_reply(_CLOSED if store is None else _FORKED, b"")
        try:
            answer = obstore.get(store, key)
            if answer.meta["size"] > REPLY_BYTES_MAX:
                return read_reply(silence(Outcome.AMBIGUOUS, f"the object has more than {REPLY_BYTES_MAX} bytes"), b"")
            body, version = bytes(answer.bytes()), answer.meta["e_tag"]
        except _RAISED as error:
            return read_reply(self._failed(A_READ, error), b"")
        return read_reply(self._answers.meaning_of(A_READ, 200, version=version or ""), body)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, "create")

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        if not version:
            raise ValueError("the version is empty; pass the one that a reply carried")
        return self._put(key, body, {"e_tag": version})

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, "overwrite")

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        """Remove `key`. Without a version S3 does not say whether it existed: APPLIED either way.

        With a version it is REJECTED: obstore has no removal on a condition, and one without it could remove a
        successor's object.
        """
        check_key(key)
        if version is not None:
            return write_reply(
                silence(Outcome.REJECTED, "obstore cannot remove on a condition; nothing was sent; take client=boto3")
            )
        store = self._store
        if store is None or _is_forked():
            return write_reply(_CLOSED if store is None else _FORKED)
        try:
            obstore.delete(store, key)
        except _RAISED as error:
            return write_reply(self._failed(A_DELETE, error))
        # obstore has found the list of what was removed in the answer: a page of a proxy is an error before this.
        return write_reply(self._answers.meaning_of(A_DELETE, 204))

    def close(self) -> None:
        """Let go of the store: obstore ends the connections of one to which nobody refers."""
        self._store = None

    def _put(self, key: str, body: bytes, mode: obstore.PutMode) -> WriteReply:
        check_key(key)
        store = self._store
        if store is None or _is_forked():
            return write_reply(_CLOSED if store is None else _FORKED)
        question = write_question(names_version=not isinstance(mode, str))
        try:
            answer = obstore.put(
                store,
                key,
                body,
                attributes={"Content-Type": "application/octet-stream"},
                mode=mode,
                use_multipart=False,
            )
        except _RAISED as error:
            return write_reply(self._failed(question, error))
        return write_reply(self._answers.meaning_of(question, 200, version=answer["e_tag"] or ""))

    def _failed(self, question: Question, error: Exception) -> Meaning:
        """The meaning of an error, by status and code of the answer that it describes."""
        told = str(error).rpartition(_TOLD)[2]
        if found := _ANSWER.search(told):
            body = (found[2] or "").encode()
            code = error_code(body) if body else BODILESS_404 if found[1] == BODILESS_404 else ""
            return self._answers.meaning_of(question, decimal(found[1]) or 0, code=code)
        if (found := _DELETION.search(told)) and question.kind is RequestKind.DELETE:
            return self._answers.meaning_of(question, self._answers.status_of(found[1]), code=found[1])
        if _REDIRECT.search(told):
            # Which redirect it was is not told.
            return replace(self._answers.meaning_of(question, _MOVED), status=0, is_understood=False)
        name = type(error).__name__
        if _UNSENT.search(told):
            return silence(Outcome.AMBIGUOUS, f"{name}: no connection could be made; nothing was sent")
        if _LATE.search(told):
            return silence(Outcome.AMBIGUOUS, f"{name}: no answer in time; the request may have taken effect")
        return silence(Outcome.AMBIGUOUS, f"{name}: the answer was lost; the request may have taken effect")


_CLOSED: Final = silence(Outcome.REJECTED, "the store is closed; nothing was sent")
_FORKED: Final = silence(
    Outcome.REJECTED,
    "obstore cannot be used in a child of the process that used it; nothing was sent; take client=boto3",
)


def _is_forked() -> bool:
    """True in a child of a process that has used obstore. Two first calls at once add the same number."""
    here = _process()
    if not _used_in:
        _used_in.add(here)
    return here not in _used_in


def _client_options(origin: str, request_timeout_ns: int, pool_size: int) -> ClientConfig:
    connect_s, answer_s = split_timeout_s(request_timeout_ns)
    options: ClientConfig = {
        "allow_http": True,
        "timeout": max(timedelta(seconds=connect_s + answer_s), timedelta.resolution),
        "connect_timeout": max(timedelta(seconds=connect_s), timedelta.resolution),
        "pool_max_idle_per_host": str(pool_size),
    }
    host = urlsplit(origin).hostname
    if host and is_loopback(origin):
        # Without a proxy of its own, it would take the environment's, which does not reach this machine.
        options |= {"proxy_url": _NOWHERE, "proxy_excludes": host}
    return options


def open_store(address: StoreAddress, request_timeout_ns: int, pool_size: int, dialect: Dialect) -> ObstoreS3Store:
    """See `Cloud`. Errors: ConfigError for a configuration that cannot be used, and for no credentials."""
    try:
        return ObstoreS3Store(
            bucket=address.container,
            prefix=address.prefix,
            endpoint=address.endpoint,
            region=address.region,
            request_timeout_ns=request_timeout_ns,
            pool_size=pool_size,
            dialect=dialect,
        )
    except (BotoCoreError, BaseError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise ConfigError(f"the store {address} cannot be opened with this AWS configuration: {why}") from error
