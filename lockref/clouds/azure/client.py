"""Azure Blob Storage, by its ETags.

Each call is exactly one request; the SDK's own retries and redirects are off
(A2). What the service says is folded into outcomes by one table,
`WRITE_OUTCOMES`, from the HTTP status and `x-ms-error-code`: Azure answers a
create over a present object with 409, and a write that somebody's lease on the
object blocks with 412, the status of a stale version.

An object is read with the SDK's operation Get Blob and not with its downloader:
that one asks for ranges, asks again up to three times when a body breaks off,
and takes two requests, which may see two versions, for an empty object. Blob
leases are not used: a record tells who holds the lock, on every store alike.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import ClientAuthenticationError

from lockref.clouds.azure.account import find_account
from lockref.clouds.azure.sdk import BODY_BYTES_MAX, NO_ANSWER, make_client, make_session
from lockref.clouds.bounded_exchange import Exchange, bounded
from lockref.clouds.grammar import code_word
from lockref.clouds.http_session import explain_silence
from lockref.clouds.statuses import OBJECT_STORES, TOO_MANY, StatusRow, classify, read_reply, write_reply
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, StorePlace, Version, WriteReply
from lockref.words import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests
    from azure.storage.blob import BlobClient

CAPABILITIES = StoreCapabilities(dialect="azure", versions_repeat=False, conditional_delete=True)

_FAILED = Outcome.PRECONDITION_FAILED
_NEVER: Final = "it cannot be written as a lock object"

WRITE_OUTCOMES: tuple[StatusRow, ...] = (
    *OBJECT_STORES,
    StatusRow(
        status=412,
        code="LeaseIdMissing",
        outcome=Outcome.CONFLICT,
        why="somebody has a lease of Azure's on the object; break it, or wait until it ends",
    ),
    StatusRow(status=409, code="BlobAlreadyExists", outcome=_FAILED, why="the object is there already"),
    StatusRow(status=409, code="ContainerDisabled", outcome=Outcome.REJECTED, why="the container is disabled"),
    StatusRow(
        status=409,
        code="PublicAccessNotPermitted",
        outcome=Outcome.REJECTED,
        why="the account serves nobody without credentials",
    ),
    StatusRow(
        status=409, code="BlobImmutableDueToPolicy", outcome=Outcome.REJECTED, why=f"a retention policy: {_NEVER}"
    ),
    StatusRow(status=409, code="BlobImmutableDueToLegalHold", outcome=Outcome.REJECTED, why=f"a legal hold: {_NEVER}"),
    StatusRow(status=409, code="InvalidBlobType", outcome=Outcome.REJECTED, why=f"no block blob: {_NEVER}"),
    StatusRow(status=409, code="ResourceTypeMismatch", outcome=Outcome.REJECTED, why=f"a folder: {_NEVER}"),
    StatusRow(status=409, code="BlobArchived", outcome=Outcome.REJECTED, why=f"in the archive tier: {_NEVER}"),
    StatusRow(
        status=409, code="SnapshotsPresent", outcome=Outcome.REJECTED, why="the object has snapshots; delete them first"
    ),
    StatusRow(status=404, code="BlobNotFound", outcome=_FAILED, missing=True, why="there is no such object"),
    StatusRow(
        status=404,
        code="ContainerNotFound",
        outcome=Outcome.REJECTED,
        why="there is no such container; create it",
    ),
    StatusRow(status=404, outcome=Outcome.REJECTED, why="something other than the object is missing"),
    TOO_MANY,
    StatusRow(status=503, code="ServerBusy", outcome=Outcome.THROTTLED, why="too many requests; slow down"),
    StatusRow(
        status=403,
        code="AuthenticationFailed",
        outcome=Outcome.REJECTED,
        why="the signature is refused; check the key, or the token's end, and this machine's clock",
    ),
    StatusRow(status=403, outcome=Outcome.REJECTED, why="access denied; check roles, token and firewall"),
    StatusRow(status=3, outcome=Outcome.REJECTED, why="the endpoint sends us elsewhere; name the right one"),
)
"""Every answer of Azure (conditional-writes.md, section 1; Azure's "Blob Storage error codes") and what it means for
a write. Of OperationTimedOut, a 500, Azure itself says that the write may have landed."""

_NOT_UNDERSTOOD: Final = (AttributeError, LookupError, TypeError, ValueError)
"""What the SDK raises over an answer that is not Azure's. The caller's own mistakes are found before it is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What came back. failure: why it is no answer of Azure's, in words; "" for one that the table reads."""

    status: int = 0
    code: str = ""
    etag: str = ""
    body: bytes = b""
    failure: str = ""


class AzureStore:
    """One container, or a prefix of it, as an `ObjectStore`.

    account_host: such as `lake.dfs.core.windows.net`; "" leaves the account to the environment.
    endpoint: of another server than Azure's, `http://host:port/account`.
    request_timeout_ns: bounds each request as a whole, from connecting to the last byte of the reply.
    credentials_note: what a user must be told about the credentials; "" for nothing.
    session: for tests: an HTTP session to use instead of making one.
    Errors: the constructor raises ConfigError where no account or no credentials are found.
    """

    def __init__(
        self,
        *,
        container: str,
        prefix: str = "",
        account_host: str = "",
        endpoint: str = "",
        request_timeout_ns: int,
        pool_size: int = 10,
        session: requests.Session | None = None,
    ) -> None:
        account = find_account(host=account_host, endpoint=endpoint, environ=os.environ)
        self.place = StorePlace(cloud="azure", container=f"{container}@{account.host}", prefix=prefix)
        self.credentials_note = account.note
        self._prefix = f"{prefix}/" if prefix else ""
        self._request_timeout_ns = request_timeout_ns
        self._session = session or make_session(account, pool_size=pool_size)
        self._client = make_client(account, container, session=self._session, request_timeout_ns=request_timeout_ns)

    @property
    def capabilities(self) -> StoreCapabilities:
        return CAPABILITIES

    def read(self, key: str) -> ReadReply:
        blob = self._blob(key)
        # The operation itself, without the downloader around it: see the module's first lines.
        answer = self._ask(lambda hook: blob._client.blob.download(raw_response_hook=hook))  # noqa: SLF001
        if answer.failure:
            return ReadReply(outcome=Outcome.AMBIGUOUS, status=answer.status or None, reason=answer.failure)
        if answer.status // 100 != 2:
            return read_reply(
                classify(WRITE_OUTCOMES, answer.status, answer.code), status=answer.status, code=answer.code
            )
        return ReadReply(outcome=Outcome.APPLIED, body=answer.body, version=Version(answer.etag), status=answer.status)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, overwrite=False)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._put(key, body, overwrite=True, **_condition(version))

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, overwrite=True)

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        blob = self._blob(key)
        condition = {} if version is None else _condition(version)
        return _written(
            self._ask(lambda hook: blob.delete_blob(raw_response_hook=hook, **condition), makes_version=False)
        )

    def close(self) -> None:
        self._client.close()
        self._session.close()

    def _put(self, key: str, body: bytes, **condition: Any) -> WriteReply:
        blob = self._blob(key)
        if len(body) > BODY_BYTES_MAX:
            raise ValueError(f"the body has {len(body)} bytes; at most {BODY_BYTES_MAX} go up in one request")
        return _written(self._ask(lambda hook: blob.upload_blob(bytes(body), raw_response_hook=hook, **condition)))

    def _blob(self, key: str) -> BlobClient:
        return self._client.get_blob_client(self._prefix + check_key(key))

    def _ask(self, send: Callable[[Callable[[Any], None]], object], *, makes_version: bool = True) -> _Answer:
        """Send one request; `send` is given a hook that hears the reply before the SDK makes something of it."""
        heard: list[Any] = []
        problem = code = ""
        with bounded(self._request_timeout_ns) as exchange:
            try:
                send(heard.append)
            except NO_ANSWER as error:
                problem, code = _explain(error), _code(error)
            except _NOT_UNDERSTOOD:
                if not exchange.status:
                    raise
                problem = _garbage(exchange)
                if not heard:
                    return _Answer(status=exchange.status, failure=problem)
        if not heard:
            return _Answer(failure=problem)
        reply = heard[-1].http_response
        status = int(reply.status_code)
        etag = reply.headers.get("ETag", "") if makes_version else ""
        if status // 100 == 2 and (problem or (makes_version and not etag)):
            # A cut reply can still parse as a success. Without the version it made, nothing can be built on it.
            return _Answer(status=status, failure=_garbage(exchange))
        code = code_word(reply.headers.get("x-ms-error-code") or code)
        return _Answer(status=status, code=code, etag=etag, body=reply.content)


def _condition(version: Version) -> dict[str, Any]:
    """`If-Match`. A star would match whatever is there, and must not slip in as a version."""
    if not version or version == "*":
        raise ValueError(f"the version {version!r} is no ETag; pass the one that a reply carried")
    return {"etag": version, "match_condition": MatchConditions.IfNotModified}


def _written(answer: _Answer) -> WriteReply:
    if answer.failure:
        return WriteReply(outcome=Outcome.AMBIGUOUS, status=answer.status or None, reason=answer.failure)
    version = Version(answer.etag) if answer.etag else None
    row = classify(WRITE_OUTCOMES, answer.status, answer.code)
    return write_reply(row, status=answer.status, code=answer.code, version=version)


def _code(error: Exception) -> str:
    """The service's word for what is wrong, as far as the SDK found it in the body; a header says it first."""
    named = getattr(error, "error_code", None) or ""
    return str(getattr(named, "value", named))


def _explain(error: Exception) -> str:
    """What it means if no whole reply was heard."""
    if isinstance(error, ClientAuthenticationError):
        return f"{type(error).__name__}: no access token could be had; nothing was sent"
    return explain_silence(getattr(error, "inner_exception", None) or error)


def _garbage(exchange: Exchange) -> str:
    return f"{exchange.received}, which is no answer of Azure Blob Storage; the request may have taken effect"
