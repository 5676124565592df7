"""Azure Blob Storage's REST interface, signed by the SDK's own signer.

A copy names its source by URL; the account's key or token that signs the request counts for the source as well. A block
list is Azure's multipart upload. A refused create is answered with 409, a refused replacement with 412.
"""

from __future__ import annotations

import os
from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.pipeline.transport import HttpRequest as SdkRequest

# The SDK has no public name for its signer.
from azure.storage.blob._shared.authentication import SharedKeyCredentialPolicy

from lockref.clouds.answers import silence
from lockref.clouds.azure.account import find_account, missing_credentials
from lockref.clouds.azure.answers import read_answer
from lockref.words import Outcome
from scenarios.probe.calls import (
    COMPLETE,
    COPY,
    DELETE,
    LEASE,
    LIST,
    PART,
    PUT,
    READ,
    Answer,
    Call,
    Entries,
    HttpReply,
    HttpRequest,
    Inexpressible,
    Refusals,
    WriteMode,
)  # fmt: skip
from scenarios.probe.dialects.preparation import BLOCKS, COPYING

if TYPE_CHECKING:
    from lockref.stores.uri import StoreAddress

_VERSION: Final = "2023-11-03"
_SCOPE: Final = "https://storage.azure.com/.default"
_BINARY: Final = "application/octet-stream"


class AzureDialect:
    """One container, or a prefix of it.

    Errors: ConfigError where no account or no credentials are found.
    """

    name = "azure"
    refusals = Refusals(exists=409, stale=412, absent=412, delete_absent=404)
    modes: tuple[WriteMode, ...] = (
        WriteMode(clause="C13", name=BLOCKS, can_race=True),
        WriteMode(clause="C14", name=COPYING),
    )
    amplifiers: tuple[tuple[tuple[str, str], ...], ...] = ()

    def __init__(self, address: StoreAddress) -> None:
        account = find_account(host=address.account, endpoint=address.endpoint, environ=os.environ)
        parts = urlsplit(account.url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._root = parts.path.rstrip("/")
        self._container = address.container
        self._prefix = f"{address.prefix}/" if address.prefix else ""
        self._sas = account.sas
        self._signer = _signer(account.name, account.key) if account.key else None
        self._token = ""
        if not account.key and not account.sas:
            self._token = _token()
            if not self._token or parts.scheme != "https":
                raise missing_credentials(account, os.environ)

    def form(self, call: Call) -> HttpRequest:
        method, query, headers, body = self._parts(call)
        path = f"{self._root}/{self._container}"
        if call.verb != LIST:
            path += "/" + quote(self._prefix + call.key, safe="/-_.~")
        target = f"{path}?{urlencode(query, quote_via=quote, safe='')}" if query else path
        sent = {
            "Host": urlsplit(self.origin).netloc,
            "x-ms-version": _VERSION,
            "x-ms-date": formatdate(usegmt=True),
            **headers,
            **({"Content-Length": str(len(body))} if method != "GET" else {}),
        }
        if self._signer is not None:
            request = SdkRequest(method, self.origin + target, headers=sent)
            self._signer.on_request(PipelineRequest(request, PipelineContext(None)))
            sent = dict(request.headers)
        elif self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        else:
            target += f"{'&' if query else '?'}{self._sas}"
        return HttpRequest(method=method, target=target, headers=sent, body=body)

    def _parts(self, call: Call) -> tuple[str, list[tuple[str, str]], dict[str, str], bytes]:
        """Method, query, headers and body."""
        headers = dict(call.headers) | _conditions(call)
        if call.mode:
            raise Inexpressible(call.mode)
        if call.verb == READ:
            return "GET", [], headers, b""
        if call.verb == PUT:
            return "PUT", [], {"Content-Type": _BINARY, "x-ms-blob-type": "BlockBlob", **headers}, call.body
        if call.verb == DELETE:
            return "DELETE", [], headers, b""
        if call.verb == COPY:
            source = quote(self._prefix + call.source, safe="/-_.~")
            url = f"{self.origin}{self._root}/{self._container}/{source}"
            return "PUT", [], {"x-ms-copy-source": f"{url}?{self._sas}" if self._sas else url, **headers}, b""
        if call.verb == PART:
            query = [("comp", "block"), ("blockid", call.upload)]
            return "PUT", query, {"Content-Type": _BINARY, **headers}, call.body
        if call.verb == COMPLETE:
            blocks = "".join(f"<Latest>{block}</Latest>" for block in call.parts)
            body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{blocks}</BlockList>'.encode()
            return "PUT", [("comp", "blocklist")], {"Content-Type": "application/xml", **headers}, body
        if call.verb == LEASE:
            return "PUT", [("comp", "lease")], headers, b""
        if call.verb == LIST:
            return (
                "GET",
                [("comp", "list"), ("prefix", self._prefix + call.key), ("restype", "container")],
                headers,
                b"",
            )
        raise Inexpressible(call.verb)

    def answer(self, call: Call, reply: HttpReply) -> Answer:
        found = read_answer(call.question, reply.status, reply.headers, reply.body)
        entries: Entries = ()
        if call.verb == LEASE and reply.status in (409, 412):
            found = replace(found, outcome=Outcome.PRECONDITION_FAILED)
        if call.verb == LIST and found.outcome is Outcome.APPLIED:
            listed = _entries(reply.body, cut=len(self._prefix))
            if listed is None:
                found = silence(Outcome.AMBIGUOUS, "a success that cannot be read", status=reply.status)
            entries = listed or ()
        return Answer.of(
            found,
            status=reply.status,
            body=reply.body if call.verb == READ else None,
            upload=reply.headers.get("x-ms-lease-id", ""),
            entries=entries,
        )


def _signer(name: str, key: str) -> Any:
    return SharedKeyCredentialPolicy(name, key)  # type: ignore[no-untyped-call]


def _conditions(call: Call) -> dict[str, str]:
    named = {"If-Match": call.match, "If-None-Match": call.none_match, "x-ms-source-if-match": call.source_match}
    return {name: value for name, value in named.items() if value is not None}


def _entries(body: bytes, *, cut: int) -> tuple[tuple[str, str], ...] | None:
    """Names and versions of a listing; None for what is none."""
    try:
        root = ElementTree.fromstring(body.removeprefix(b"\xef\xbb\xbf"))
    except ElementTree.ParseError:
        return None
    return tuple(
        ((blob.findtext("Name") or "")[cut:], blob.findtext("Properties/Etag") or "") for blob in root.iter("Blob")
    )


def _token() -> str:
    """An identity's token, where azure-identity is installed."""
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError:
        return ""
    credential: Any = DefaultAzureCredential()
    return str(credential.get_token(_SCOPE).token)
