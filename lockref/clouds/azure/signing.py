"""Azure's requests, signed by the SDK's own signer, by an identity's token, or by a shared access signature."""

from __future__ import annotations

import os
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.pipeline.transport import HttpRequest as SdkRequest

# The SDK has no public name for its signer.
from azure.storage.blob._shared.authentication import SharedKeyCredentialPolicy

from lockref.clouds.azure.account import find_account, missing_credentials
from lockref.clouds.calls import HttpRequest, Place
from lockref.stores.endpoints import TRANSPORTS

if TYPE_CHECKING:
    from lockref.stores.address import StoreAddress

_VERSION: Final = "2023-11-03"
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
        self._signer: Any = None
        if account.key:
            self._signer = SharedKeyCredentialPolicy(account.name, account.key)  # type: ignore[no-untyped-call]
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
        if self._signer is not None:
            ours = SdkRequest(request.method, self.place.origin + target, headers=sent)
            self._signer.on_request(PipelineRequest(ours, PipelineContext(None)))
            sent = dict(ours.headers)
        elif self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        else:
            target += f"{'&' if '?' in target else '?'}{self.place.source_query}"
        return HttpRequest(method=request.method, target=target, headers=sent, body=request.body)


def _token() -> str:
    """An identity's token, where azure-identity is installed."""
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError:
        return ""
    credential: Any = DefaultAzureCredential()
    return str(credential.get_token(_SCOPE).token)
