"""Azure's requests, signed by an account's key, by an identity's token, or by a shared access signature.

The signature by a key is written here, in the twenty lines that it takes. Rejected: the SDK's own signer, which is not
public, and which loads the whole SDK before a probe can send its first request. Tests hold the two against each other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from lockref.clouds.azure.account import Account, find_account, missing_credentials
from lockref.clouds.calls import HttpRequest, Place
from lockref.stores.endpoints import TRANSPORTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockref.stores.address import StoreAddress

_VERSION: Final = "2023-11-03"
_SIGNED_HEADERS: Final = (
    "content-encoding", "content-language", "content-length", "content-md5", "content-type", "date",
    "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range",
)  # fmt: skip
_SCOPE: Final = "https://storage.azure.com/.default"


class AzureSigner:
    """Signs for one container, or a prefix of it.

    Errors: the constructor raises ConfigError where no account or no credentials are found.
    """

    def __init__(self, address: StoreAddress) -> None:
        account = find_account(host=address.account, endpoint=address.endpoint, environ=os.environ)
        parts = urlsplit(account.url)
        self.place = Place(
            origin=f"{parts.scheme}://{parts.netloc}",
            root=parts.path.rstrip("/"),
            container=address.container,
            prefix=address.key_prefix,
            source_query=account.sas,
        )
        self._account = account
        self._token = ""
        if not account.key and not account.sas:
            self._token = _token()
            if not self._token or not TRANSPORTS[parts.scheme].is_encrypted:
                raise missing_credentials(account, os.environ)

    def signed(self, request: HttpRequest) -> HttpRequest:
        """See `Signer`."""
        target = request.target
        host = {"Host": request.headers["Host"]}
        sent = {**host, "x-ms-version": _VERSION, "x-ms-date": formatdate(usegmt=True), **request.headers}
        if self._account.key:
            sent["Authorization"] = shared_key(self._account, request.method, target, sent)
        elif self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        else:
            target += f"{'&' if '?' in target else '?'}{self.place.source_query}"
        return HttpRequest(method=request.method, target=target, headers=sent, body=request.body)


def shared_key(account: Account, method: str, target: str, headers: Mapping[str, str]) -> str:
    """The value of `Authorization` for a request, by the account's key.

    Source: Microsoft, "Authorize with Shared Key", for versions of 2015-02-21 and later.
    """
    given = {name.lower(): value for name, value in headers.items()}
    if given.get("content-length") == "0":
        given["content-length"] = ""
    path, _, query = target.partition("?")
    # The service sorts names as if they had no hyphens.
    own = sorted((name for name in given if name.startswith("x-ms-")), key=lambda name: name.replace("-", ""))
    asked = sorted((name, value) for name, _, value in (pair.partition("=") for pair in query.split("&") if pair))
    lines = [
        method,
        *(given.get(name, "") for name in _SIGNED_HEADERS),
        *(f"{name}:{given[name]}" for name in own),
        f"/{account.name}{path}",
        *(f"{name.lower()}:{unquote(value)}" for name, value in asked),
    ]
    digest = hmac.new(base64.b64decode(account.key), "\n".join(lines).encode(), hashlib.sha256).digest()
    return f"SharedKey {account.name}:{base64.b64encode(digest).decode()}"


def _token() -> str:
    """An identity's token, where azure-identity is installed."""
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError:
        return ""
    credential: Any = DefaultAzureCredential()
    return str(credential.get_token(_SCOPE).token)
