"""Google Cloud Storage through its JSON API.

Each call is exactly one request; the client's conditional retries are off (A2).
What the service says is folded into outcomes by one table, `OUTCOMES`.
Versions are object generations: unique, never reused for equal bytes, and by
Google's own words not promised to increase, so a condition token and no fence.

Bodies go up in one multipart-type request (metadata and data together), the
only upload on which every known server honours generations; above 8 MiB the
client would switch to another kind, so larger bodies are refused here.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import google.auth
import requests
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession, Request
from google.cloud.storage import Client
from google.cloud.storage.exceptions import DataCorruption
from urllib3.exceptions import HTTPError

from lockref.clouds.answers import (
    A_CREATE,
    A_DELETE,
    A_READ,
    Meaning,
    Question,
    read_reply,
    silence,
    write_reply,
)
from lockref.clouds.bounded_exchange import Exchange, bounded
from lockref.clouds.gcs.answers import NULL, read_answer
from lockref.clouds.gcs.facts import GENERATION_MAX, STATUSES
from lockref.clouds.gcs.signing import SCOPE, without_credentials
from lockref.clouds.http_session import bound_connections, explain_silence
from lockref.errors import BackendUnavailable
from lockref.grammar import decimal
from lockref.stores.endpoints import is_loopback, split_timeout_s
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, StorePlace, Version, WriteReply
from lockref.words import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.cloud.storage.blob import Blob

    from lockref.stores.address import StoreAddress

_NO_ANSWER: Final = (requests.RequestException, GoogleAuthError, DataCorruption, HTTPError)
"""No answer, or none that was understood. A raw download reads its body below requests, whose errors are urllib3's."""

_NOT_UNDERSTOOD: Final = (
    requests.exceptions.JSONDecodeError, AttributeError, KeyError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""Errors of the client over a success that is not GCS's. The caller's own mistakes are found before it is called."""

ANONYMOUS_NOTE: Final = "no Google credentials are sent: the endpoint is not Google's own"
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
_GENERATION_ABSENT: Final = 0
_SUCCESS: Final = 200


class _Session(AuthorizedSession):
    """An authorized session whose requests keep a deadline, and so do those that fetch its access tokens."""

    def __init__(self, credentials: Any, *, refresh_on: tuple[int | None, ...], is_local: bool, pool_size: int) -> None:
        self._tokens = requests.Session()
        # A token may be asked for again: a retry there lands no write, and ends at the same deadline.
        bound_connections(self._tokens, pool_size=1, retries=3)
        tokens = Request(self._tokens)
        super().__init__(credentials, refresh_on, auth_request=tokens)  # type: ignore[no-untyped-call]
        # One request per call: urllib3's own retries are off.
        bound_connections(self, pool_size=pool_size)
        self.trust_env = not is_local

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """One request. A redirect is an answer for the status table: to follow it would be a second request (A2)."""
        return super().request(*args, **(kwargs | {"allow_redirects": False}))  # type: ignore[no-any-return, no-untyped-call]

    def close(self) -> None:
        self._tokens.close()
        super().close()  # type: ignore[no-untyped-call]


def make_session(*, endpoint: str, pool_size: int) -> AuthorizedSession:
    """The HTTP session that the client uses; ours, so that its sockets can be counted, bounded and closed.

    Errors: google.auth's own where the cloud itself is meant and no credentials are found.
    """
    credentials = _anonymous() if endpoint else google.auth.default(scopes=[SCOPE])[0]
    # A refused anonymous request has nothing to refresh: its 401 must reach the table.
    refresh_on = () if endpoint else (requests.codes.unauthorized,)
    return _Session(credentials, refresh_on=refresh_on, is_local=is_loopback(endpoint), pool_size=pool_size)


class _PlainClient(Client):  # type: ignore[misc]
    """The client without its bucket metadata cache.

    For tracing, the cache asks the service about the bucket in a thread of its
    own: a second request beside the first one, with a time-out that is not
    ours, and a thread that outlives the store.
    """

    def __init__(self, session: requests.Session, endpoint: str) -> None:
        # The project matters only for creating buckets, which a store never does.
        super().__init__(
            project="lockref",
            credentials=_anonymous(),
            _http=session,
            client_options={"api_endpoint": endpoint} if endpoint else None,
        )
        self._bucket_metadata_cache = None


def _anonymous() -> AnonymousCredentials:
    return AnonymousCredentials()  # type: ignore[no-untyped-call]


class GcsStore:
    """One bucket, or a prefix of it, as an `ObjectStore`.

    request_timeout_ns: bounds each request as a whole, from connecting to the last byte of the reply.
    endpoint: `http://host:port` of another server than Google's; it gets no credentials.
    credentials_note: what a user must be told about the credentials; "" for nothing.
    session: for tests: an HTTP session to use instead of making one.
    Errors: the constructor raises google.auth's own where no credentials are found.
    """

    def __init__(
        self,
        *,
        bucket: str,
        prefix: str = "",
        endpoint: str = "",
        request_timeout_ns: int,
        pool_size: int = 10,
        session: requests.Session | None = None,
    ) -> None:
        self.place = StorePlace(cloud="gs", container=bucket, prefix=prefix)
        self._prefix = f"{prefix}/" if prefix else ""
        self.credentials_note = ANONYMOUS_NOTE if endpoint else ""
        self._session = session or make_session(endpoint=endpoint, pool_size=pool_size)
        self._bucket = _PlainClient(self._session, endpoint).bucket(bucket)
        self._request_timeout_ns = request_timeout_ns
        self._timeout_s = split_timeout_s(request_timeout_ns)

    @property
    def capabilities(self) -> StoreCapabilities:
        return STATUSES.capabilities

    def read(self, key: str) -> ReadReply:
        check_key(key)
        blob = self._bucket.blob(self._prefix + key)
        found: list[bytes] = []

        def download() -> None:
            # One request: the generation comes with the data, in a header.
            found.append(
                blob.download_as_bytes(
                    raw_download=True, single_shot_download=True, retry=None, timeout=self._timeout_s
                )
            )

        answered = self._ask(A_READ, download, blob)
        return read_reply(answered, found[0] if found else b"")

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, _GENERATION_ABSENT)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._put(key, body, _generation(version))

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, None)

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        check_key(key)
        blob = self._bucket.blob(self._prefix + key)
        generation = None if version is None else _generation(version)
        return write_reply(
            self._ask(
                A_DELETE,
                lambda: blob.delete(if_generation_match=generation, retry=None, timeout=self._timeout_s),
                blob,
            )
        )

    def close(self) -> None:
        self._session.close()

    def _put(self, key: str, body: bytes, generation: int | None) -> WriteReply:
        check_key(key)
        if len(body) > BODY_BYTES_MAX:
            raise ValueError(f"the body has {len(body)} bytes; at most {BODY_BYTES_MAX} go up in one request")
        blob = self._bucket.blob(self._prefix + key)

        # An upload needs nothing but the bucket: a condition that does not hold is answered with 412.
        return write_reply(
            self._ask(
                A_CREATE,
                lambda: blob.upload_from_string(
                    bytes(body),
                    content_type="application/octet-stream",
                    if_generation_match=generation,
                    retry=None,
                    timeout=self._timeout_s,
                ),
                blob,
            )
        )

    def _ask(self, question: Question, send: Callable[[], object], blob: Blob) -> Meaning:
        """Send one request, and return the meaning of its answer.

        blob: the SDK's object of this request, which stores the generation of a success.
        """
        with bounded(self._request_timeout_ns) as exchange:
            try:
                send()
                generation = blob.generation
            except GoogleAPICallError as error:
                # The SDK puts the request's address before the message, so the body is read.
                body = b"" if error.response is None else bytes(error.response.content)
                return read_answer(question, int(error.code or 0), {}, body)
            except _NOT_UNDERSTOOD as error:
                return silence(Outcome.AMBIGUOUS, _garbage(error, exchange), status=exchange.status)
            except _NO_ANSWER as error:
                return silence(*_explain(error))
        told = {**exchange.headers, "x-goog-generation": str(generation or "")}
        answered = read_answer(question, exchange.status or _SUCCESS, told, _dropped_body(exchange))
        if answered.outcome is Outcome.APPLIED:
            return answered
        return silence(answered.outcome, _no_answer(exchange), status=exchange.status)


def _dropped_body(exchange: Exchange) -> bytes:
    """The body of a success, which the SDK has parsed and dropped, as far as its length tells it."""
    length = exchange.headers.get("content-length", "")
    if length == "0":
        return b""
    # The length tells `null` from the `{}` of a gateway.
    return NULL if decimal(length) in (len(NULL), len(NULL) + 1) else b"?"


def _generation(version: Version) -> int:
    """A generation that can exist; 0 means "absent" to the service and must not slip in as a version."""
    generation = decimal(version, most=GENERATION_MAX)
    if not generation:
        raise ValueError(f"the version {version!r} is no generation; pass the one that a reply carried")
    return generation


def _explain(error: Exception) -> tuple[Outcome, str]:
    """The outcome and the reason of a request without an understood answer."""
    if isinstance(error, GoogleAuthError):
        return Outcome.AMBIGUOUS, f"{type(error).__name__}: no access token could be had; nothing was sent"
    return Outcome.AMBIGUOUS, explain_silence(error)


def _garbage(error: Exception, exchange: Exchange) -> str:
    """The reason for a success that does not have the form of GCS's answers.

    Raises `error` again if no success came and the error is no ValueError, such as one of a parser: it is then a defect
    of our own call.
    """
    if not exchange.is_success and not isinstance(error, ValueError):
        raise error
    return _no_answer(exchange)


def _no_answer(exchange: Exchange) -> str:
    told = exchange.received if exchange.status else "a success without a generation"
    return f"{told}, which is no answer of Google Cloud Storage; the request may have taken effect"


def open_store(address: StoreAddress, request_timeout_ns: int, pool_size: int) -> GcsStore:
    """See `Cloud`. Errors: ConfigError where the cloud itself is meant and no credentials are found."""
    try:
        return GcsStore(
            bucket=address.container,
            prefix=address.prefix,
            endpoint=address.endpoint,
            request_timeout_ns=request_timeout_ns,
            pool_size=pool_size,
        )
    except GoogleAuthError as error:
        raise without_credentials(address, error) from error


def create_container(address: StoreAddress, request_timeout_ns: int) -> None:
    """Make the bucket at an address that has an endpoint; one that is there already is fine.

    request_timeout_ns: bounds the request as a whole.
    Errors: BackendUnavailable if the server does not answer or refuses.
    """
    try:
        with make_session(endpoint=address.endpoint, pool_size=1) as session, bounded(request_timeout_ns):
            answer = session.post(
                f"{address.endpoint}/storage/v1/b",
                params={"project": "lockref"},
                json={"name": address.container},
                timeout=split_timeout_s(request_timeout_ns),
            )
    except (requests.RequestException, HTTPError) as error:
        raise BackendUnavailable(f"creating the bucket of {address} failed: {type(error).__name__}") from error
    if answer.status_code not in (HTTPStatus.OK, HTTPStatus.CONFLICT):
        raise BackendUnavailable(f"creating the bucket of {address} failed: status {answer.status_code}")
