"""Azure Blob Storage, by its ETags.

Each call is exactly one request; the SDK's own retries and redirects are off
(A2). What the service says is folded into outcomes by one table,
`OUTCOMES`, from the HTTP status and `x-ms-error-code`: Azure answers a
create over a present object with 409, and a write that somebody's lease on the
object blocks with 412, the status of a stale version.

An object is read with the SDK's operation Get Blob and not with its downloader.
The downloader asks for ranges, and asks again up to three times when a body breaks
off. For an empty object it sends two requests, which may see two versions. Azure's
blob leases are not used: the record says who holds the lock, on every store alike.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import ClientAuthenticationError

from lockref.clouds.answers import (
    A_DELETE,
    A_READ,
    Meaning,
    Question,
    read_reply,
    silence,
    write_question,
    write_reply,
)
from lockref.clouds.azure.account import find_account
from lockref.clouds.azure.answers import read_answer
from lockref.clouds.azure.facts import STATUSES
from lockref.clouds.azure.sdk import BODY_BYTES_MAX, NO_ANSWER, make_client, make_session
from lockref.clouds.bounded_exchange import Exchange, bounded
from lockref.clouds.http_session import explain_silence
from lockref.errors import BackendUnavailable
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, StorePlace, Version, WriteReply
from lockref.words import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests
    from azure.storage.blob import BlobClient

    from lockref.stores.address import StoreAddress

_NOT_UNDERSTOOD: Final = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of the SDK over an answer that is not Azure's. The caller's own mistakes are found before it is called."""


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
        return STATUSES.capabilities

    def read(self, key: str) -> ReadReply:
        blob = self._blob(key)
        # The operation itself, without the downloader around it: see the module's first lines.
        found, body = self._ask(A_READ, lambda hook: blob._client.blob.download(raw_response_hook=hook))  # noqa: SLF001
        return read_reply(found, body)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, overwrite=False)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._put(key, body, overwrite=True, **_condition(version))

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, overwrite=True)

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        blob = self._blob(key)
        condition = {} if version is None else _condition(version)
        found, _ = self._ask(A_DELETE, lambda hook: blob.delete_blob(raw_response_hook=hook, **condition))
        return write_reply(found)

    def close(self) -> None:
        self._client.close()
        self._session.close()

    def _put(self, key: str, body: bytes, **condition: Any) -> WriteReply:
        blob = self._blob(key)
        if len(body) > BODY_BYTES_MAX:
            raise ValueError(f"the body has {len(body)} bytes; at most {BODY_BYTES_MAX} go up in one request")
        question = write_question(names_version="etag" in condition)
        found, _ = self._ask(question, lambda hook: blob.upload_blob(bytes(body), raw_response_hook=hook, **condition))
        return write_reply(found)

    def _blob(self, key: str) -> BlobClient:
        return self._client.get_blob_client(self._prefix + check_key(key))

    def _ask(self, question: Question, send: Callable[[Callable[[Any], None]], object]) -> tuple[Meaning, bytes]:
        """Send one request, and return the meaning of its answer and the answer's body.

        send: makes the SDK's call with the hook that it gets. The SDK gives the reply to the hook before it parses it.
        """
        heard: list[Any] = []
        problem = ""
        with bounded(self._request_timeout_ns) as exchange:
            try:
                send(heard.append)
            except NO_ANSWER as error:
                problem = _explain(error)
                if not heard:
                    return silence(Outcome.AMBIGUOUS, problem), b""
            except _NOT_UNDERSTOOD:
                if not exchange.status:
                    raise
                problem = _garbage(exchange)
        reply = heard[-1].http_response if heard else None
        status = int(reply.status_code) if reply is not None else exchange.status
        if reply is None or (problem and status // 100 == 2):
            # The SDK stumbled over a success: it is none of Azure's.
            return silence(Outcome.AMBIGUOUS, _garbage(exchange), status=status), b""
        body = bytes(reply.content)
        headers = {name.lower(): value for name, value in reply.headers.items()}
        found = read_answer(question, status, headers, body)
        if status // 100 == 2 and found.outcome is not Outcome.APPLIED:
            found = silence(found.outcome, _garbage(exchange), status=status)
        return found, body


def _condition(version: Version) -> dict[str, Any]:
    """`If-Match`. A star would match whatever is there, and must not slip in as a version."""
    if not version or version == "*":
        raise ValueError(f"the version {version!r} is no ETag; pass the one that a reply carried")
    return {"etag": version, "match_condition": MatchConditions.IfNotModified}


def _explain(error: Exception) -> str:
    """The reason for a request of which no whole reply came."""
    if isinstance(error, ClientAuthenticationError):
        return f"{type(error).__name__}: no access token could be had; nothing was sent"
    return explain_silence(getattr(error, "inner_exception", None) or error)


def _garbage(exchange: Exchange) -> str:
    return f"{exchange.received}, which is no answer of Azure Blob Storage; the request may have taken effect"


def open_store(address: StoreAddress, request_timeout_ns: int, pool_size: int) -> AzureStore:
    """See `Cloud`. Errors: ConfigError where no account or no credentials are found."""
    return AzureStore(
        container=address.container,
        prefix=address.prefix,
        account_host=address.account,
        endpoint=address.endpoint,
        request_timeout_ns=request_timeout_ns,
        pool_size=pool_size,
    )


def create_container(address: StoreAddress, request_timeout_ns: int) -> None:
    """Make the container at an address that has an endpoint; one that is there already is fine.

    request_timeout_ns: bounds the request as a whole.
    Errors: BackendUnavailable if the server does not answer or refuses.
    """
    account = find_account(host=address.account, endpoint=address.endpoint, environ=os.environ)
    with make_session(account, pool_size=1) as session:
        client = make_client(account, address.container, session=session, request_timeout_ns=request_timeout_ns)
        try:
            with bounded(request_timeout_ns):
                client.create_container()
        except NO_ANSWER as error:
            if getattr(error, "error_code", None) != "ContainerAlreadyExists":
                raise BackendUnavailable(
                    f"creating the container of {address} failed: {type(error).__name__}"
                ) from error
