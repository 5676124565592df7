"""Requests to Azure Blob Storage: its SDK with one attempt, one deadline, and whole replies.

The SDK's own retries and redirects are off: a request sent again turns a landed write into a failed precondition (A2).
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Any, Final

import requests
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import AzureError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import ContainerClient
from urllib3.exceptions import HTTPError

from lockref.clouds.azure.account import Account, missing_credentials
from lockref.clouds.http_session import bound_connections
from lockref.stores.endpoints import is_loopback, split_timeout_s

NO_ANSWER: Final = (AzureError, HTTPError)
"""A refusal, or no answer, or none that was understood."""

# The SDK warns of each broken reply. In a process without handlers Python prints that, on standard error and without a
# word of what was asked; a store says so in its reply's reason. A program's own handlers hear the SDK as before.
logging.getLogger("azure").addHandler(logging.NullHandler())

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Larger ones would go up in several requests, of which the last alone has the condition."""


class _WholeReplies(RequestsTransport):  # type: ignore[misc]
    """The SDK's transport; it reads a reply to its end, under the request's deadline, before anybody looks at it."""

    def send(self, request: Any, **options: Any) -> Any:
        options["stream"] = False
        return super().send(request, **options)


def make_client(
    account: Account, container: str, *, session: requests.Session, request_timeout_ns: int
) -> ContainerClient:
    """A client that sends each request once.

    session: whose connections it uses; it stays open when the client is closed.
    Errors: ConfigError if nothing in the environment has a right to the account.
    """
    connect_s, read_s = split_timeout_s(request_timeout_ns)
    transport = _WholeReplies(
        session=session,
        session_owner=False,
        connection_timeout=connect_s,
        read_timeout=read_s,
        # requests looks at this name only where it also takes proxies from the environment.
        connection_verify=os.environ.get("REQUESTS_CA_BUNDLE") or True,
    )
    return ContainerClient(
        account.url,
        container,
        credential=_credential(account, transport),
        transport=transport,
        retry_total=0,
        permit_redirects=False,
        max_single_put_size=BODY_BYTES_MAX,
    )


def make_session(account: Account, *, pool_size: int) -> requests.Session:
    """The HTTP session for an account; no proxy stands before a server on this machine."""
    session = requests.Session()
    bound_connections(session, pool_size=pool_size)
    session.trust_env = not is_loopback(account.url)
    return session


def _credential(account: Account, transport: RequestsTransport) -> Any:
    """A key or a token from the environment; else an identity, where azure-identity is installed."""
    if account.key:
        return AzureNamedKeyCredential(account.name, account.key)
    if account.sas:
        return AzureSasCredential(account.sas)
    # An identity's token is a password for whoever hears it, so the SDK sends it through TLS alone.
    if account.url.startswith("https:"):
        with contextlib.suppress(ImportError):
            from azure.identity import DefaultAzureCredential

            # One try, like a request: its pauses between tries would outlast the request's deadline.
            return DefaultAzureCredential(transport=transport, retry_total=0)
    raise missing_credentials(account, os.environ)
