"""Requests to Amazon's services: boto3 with one attempt, one deadline, and nothing searched for far away.

Each call is exactly one request: boto3's own retries would turn a landed write into a failed precondition (A2). What
the network does is AMBIGUOUS, with a reason that says whether anything was sent.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, cast

import botocore.session
from boto3.session import Session
from botocore.auth import SigV4Auth
from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
    AWSRequest,
)
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
)
from botocore.loaders import Loader, create_loader
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from lockref.clouds.bounded_exchange import BoundedConnection, Exchange
from lockref.clouds.calls import HttpRequest
from lockref.grammar import code_word
from lockref.stores.endpoints import is_loopback, split_timeout_s
from lockref.words import Outcome

NO_ANSWER = (BotoCoreError, ResponseParserError, HTTPError)
"""No answer, or none that was understood. botocore translates urllib3's errors, but not those that strike while it
reads the body of an error response."""

NOT_READ = (*NO_ANSWER, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""As above, and a success that is none: botocore raises Python's own errors over a date or a number that is none, and
over a body that is nested without end. Before the first byte of an answer they are defects of our own: see `lost`."""

_LOCAL_CREDENTIALS = frozenset({"env", "shared-credentials-file", "config-file"})
DUMMY_CREDENTIALS = Credentials("lockref", "lockref-loopback")
LOOPBACK_REGION = "us-east-1"
DUMMY_NOTE: Final = "no AWS credentials were found; dummy ones are sent, as the endpoint is on this machine"


def aws_session(endpoint: str) -> Session:
    """A session of our own: the default one is shared and not safe for threads.

    On a loopback endpoint only local places are searched for credentials: the
    full chain would ask the machine's metadata address over the network, and
    wait for it.
    """
    core = botocore.session.Session()
    core.lazy_register_component("data_loader", lambda: _service_models(core.get_config_variable("data_path")))
    if is_loopback(endpoint):
        chain = core.get_component("credential_provider")
        for provider in list(chain.providers):
            if provider.METHOD not in _LOCAL_CREDENTIALS:
                chain.remove(provider.METHOD)
        if core.get_credentials() is None:
            core.set_credentials(DUMMY_CREDENTIALS.access_key, DUMMY_CREDENTIALS.secret_key)
    session = Session(botocore_session=core)
    # Each boto3 session appends its own folder, and the loader is the same for all.
    paths = core.get_component("data_loader").search_paths
    paths[:] = dict.fromkeys(paths)
    return session


@cache
def _service_models(search_path: str | None) -> Loader:
    """The reader of botocore's descriptions of services, one for all sessions: it keeps what it has read.

    Reading them anew is six sevenths of what a client costs, a fifth of a second of processor time: sixteen contenders
    of one process spent three seconds on it. What it keeps is not changed by anybody, and a race reads twice.
    search_path: folders besides botocore's own, as `AWS_DATA_PATH` names them.
    """
    return create_loader(search_path)


def signed_by(signer: SigV4Auth, origin: str, request: HttpRequest) -> HttpRequest:
    """The request with a signature of botocore's own signer. origin: see `Place`."""
    # The length is no part of what botocore signs, and follows the signature.
    headers = {name: value for name, value in request.headers.items() if name != "Content-Length"}
    ours = AWSRequest(method=request.method, url=f"{origin}{request.target}", data=request.body, headers=headers)
    signer.add_auth(ours)
    signed = {**dict(ours.headers.items()), "Content-Length": str(len(request.body))}
    return HttpRequest(method=request.method, target=request.target, headers=signed, body=request.body)


def is_dummy(session: Session) -> bool:
    credentials = session.get_credentials()
    return credentials is not None and credentials.access_key == DUMMY_CREDENTIALS.access_key


def aws_client(
    service: str,
    *,
    endpoint: str,
    region: str,
    request_timeout_ns: int,
    pool_size: int,
    session: Session | None = None,
    **config: Any,
) -> Any:
    """A boto3 client of `service` that sends each request once.

    request_timeout_ns: for connecting, and for each wait for bytes; `bounded_exchange.bounded` bounds the whole.
    session: whose credentials it uses; default a new one. config: further settings of botocore's `Config`.
    Errors: botocore's own for an unusable profile or configuration file.
    """
    session = session or aws_session(endpoint)
    connect_s, read_s = split_timeout_s(request_timeout_ns)
    client = session.client(
        cast("Any", service),
        endpoint_url=endpoint or None,
        region_name=region or session.region_name or (LOOPBACK_REGION if endpoint else None),
        config=Config(
            connect_timeout=connect_s,
            read_timeout=read_s,
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=pool_size,
            tcp_keepalive=True,
            proxies={} if is_loopback(endpoint) else None,
            **config,
        ),
    )
    _bound_connections(client)
    return client


class _Connection(BoundedConnection, AWSHTTPConnection):  # type: ignore[misc]
    pass


class _TlsConnection(BoundedConnection, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(AWSHTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(AWSHTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def _bound_connections(client: Any) -> None:
    """Let the client make connections that keep a deadline. botocore has no public place for that."""
    http = client._endpoint.http_session  # noqa: SLF001
    http._pool_classes_by_scheme.update(http=_Pool, https=_TlsPool)  # noqa: SLF001


def status_and_code(error: ClientError) -> tuple[int, str]:
    """The HTTP status (0 where the SDK made the error up) and the service's error code."""
    metadata = error.response.get("ResponseMetadata", {})
    return int(metadata.get("HTTPStatusCode", 0)), code_word(str(error.response.get("Error", {}).get("Code", "")))


_UNSENT: Final = "nothing was sent"


def lost(error: Exception, exchange: Exchange) -> tuple[Outcome, str]:
    """The outcome and the reason of a request that ended with one of `NOT_READ`.

    Raises `error` again where it is Python's own and nothing came: it is then a defect of our own call. A ValueError is
    none: the SDK fetches credentials within the call, and raises it over what a program of the user's printed.
    """
    if not exchange.status and not isinstance(error, (*NO_ANSWER, ValueError)):
        raise error
    return explain(error)


def explain(error: Exception) -> tuple[Outcome, str]:
    """The outcome and the reason of a request without an understood answer.

    The reason has the class of the error and not its text, because the text of an SDK's error quotes the request.
    """
    name = type(error).__name__
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return Outcome.REJECTED, f"{name}: no usable credentials; {_UNSENT}"
    if isinstance(error, EndpointConnectionError):
        return Outcome.AMBIGUOUS, f"{name}: no connection could be made; {_UNSENT}"
    if isinstance(error, ConnectTimeoutError):
        return Outcome.AMBIGUOUS, f"{name}: no connection in time; {_UNSENT}"
    if isinstance(error, ReadTimeoutError):
        return Outcome.AMBIGUOUS, f"{name}: no answer in time; the request may have taken effect"
    return Outcome.AMBIGUOUS, f"{name}: the answer was lost; the request may have taken effect"
