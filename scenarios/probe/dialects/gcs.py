"""Google Cloud Storage's JSON interface. Conditions are query parameters; versions are generations.

Only Google's own service gets an access token. An upload goes up in one multipart-type request, as the lock's store
sends it; media and resumable uploads are other ways to write, judged on their own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request

from lockref.clouds.answers import A_CREATE, Question
from lockref.clouds.gcs.answers import read_answer
from lockref.errors import ConfigError
from lockref.strict_json import NotJson, read_object
from scenarios.probe.calls import (
    ANYTHING,
    BEGIN_UPLOAD,
    COMPLETE,
    COPY,
    DELETE,
    DELETE_VERSION,
    LIST,
    PUT,
    READ,
    VERSIONING,
    VERSIONS,
    Answer,
    Call,
    Entries,
    HttpReply,
    HttpRequest,
    Inexpressible,
    Refusals,
    WriteMode,
)  # fmt: skip
from scenarios.probe.dialects.preparation import COPYING, RESUMABLE

if TYPE_CHECKING:
    from lockref.stores.uri import StoreAddress

MEDIA: Final = "media upload"

_GOOGLE: Final = "https://storage.googleapis.com"
_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_BOUNDARY: Final = "lockref-probe-part"
_ABSENT: Final = "0"
_BINARY: Final = "application/octet-stream"


class GcsDialect:
    """One bucket, or a prefix of it.

    Errors: ConfigError where the cloud itself is meant and no credentials are found.
    """

    name = "gcs"
    refusals = Refusals(exists=412, stale=412, absent=412, delete_absent=404)
    modes: tuple[WriteMode, ...] = (
        WriteMode(clause="C14", name=COPYING),
        WriteMode(clause="C15", name=MEDIA, can_race=True),
        WriteMode(clause="C15", name=RESUMABLE, can_race=True),
    )
    amplifiers: tuple[tuple[tuple[str, str], ...], ...] = ()

    def __init__(self, address: StoreAddress) -> None:
        self.origin = address.endpoint or _GOOGLE
        self._credentials: Any = None
        if not address.endpoint:
            try:
                self._credentials = google.auth.default(scopes=[_SCOPE])[0]
            except GoogleAuthError as error:
                raise ConfigError(
                    f"the store {address} has no Google credentials ({type(error).__name__}); "
                    "set GOOGLE_APPLICATION_CREDENTIALS or add ?endpoint="
                ) from error
        self._bucket = quote(address.container, safe="")
        self._prefix = f"{address.prefix}/" if address.prefix else ""

    def form(self, call: Call) -> HttpRequest:
        method, path, query, headers, body = self._parts(call)
        target = f"{path}?{urlencode(query, quote_via=quote, safe='')}" if query else path
        sent = {"Host": urlsplit(self.origin).netloc, **headers}
        if self._credentials is not None:
            self._credentials.before_request(Request(), method, self.origin + path, sent)
        if method != "GET":
            sent["Content-Length"] = str(len(body))
        return HttpRequest(method=method, target=target, headers=sent, body=body)

    def _parts(self, call: Call) -> tuple[str, str, list[tuple[str, str]], dict[str, str], bytes]:
        """Method, path, query, headers and body."""
        name = self._prefix + call.key
        bucket = f"/storage/v1/b/{self._bucket}"
        conditions, headers = _conditions(call), dict(call.headers)
        upload = f"/upload{bucket}/o"
        if call.verb == READ:
            return "GET", f"/download{bucket}/o/{quote(name, safe='')}", [("alt", "media"), *conditions], headers, b""
        if call.verb == PUT and call.mode == MEDIA:
            query = [("uploadType", "media"), ("name", name), *conditions]
            return "POST", upload, query, {"Content-Type": _BINARY, **headers}, call.body
        if call.verb == PUT and not call.mode:
            kind = {"Content-Type": f"multipart/related; boundary={_BOUNDARY}", **headers}
            return "POST", upload, [("uploadType", "multipart"), *conditions], kind, _related(name, call.body)
        if call.verb == BEGIN_UPLOAD:
            query = [("uploadType", "resumable"), ("name", name), *conditions]
            kind = {"Content-Type": "application/json", "X-Upload-Content-Type": _BINARY, **headers}
            return "POST", upload, query, kind, json.dumps({"name": name}).encode()
        if call.verb == COMPLETE and call.upload:
            # The address of the upload is a capability: it is used and never shown.
            parts = urlsplit(call.upload)
            # The address comes with its query, which is kept as it is.
            return "PUT", f"{parts.path}?{parts.query}", [], {"Content-Type": _BINARY, **headers}, call.body
        if call.verb == DELETE:
            return "DELETE", f"{bucket}/o/{quote(name, safe='')}", conditions, headers, b""
        if call.verb == DELETE_VERSION:
            return "DELETE", f"{bucket}/o/{quote(name, safe='')}", [("generation", call.version)], headers, b""
        if call.verb == COPY:
            source = quote(self._prefix + call.source, safe="")
            path = f"{bucket}/o/{source}/rewriteTo/b/{self._bucket}/o/{quote(name, safe='')}"
            return "POST", path, conditions, {"Content-Type": "application/json", **headers}, b"{}"
        if call.verb == LIST:
            return "GET", f"{bucket}/o", [("prefix", name)], headers, b""
        if call.verb == VERSIONS:
            return "GET", f"{bucket}/o", [("prefix", name), ("versions", "true")], headers, b""
        if call.verb == VERSIONING:
            return "GET", bucket, [("fields", "versioning")], headers, b""
        raise Inexpressible(call.verb if not call.mode else call.mode)

    def answer(self, call: Call, reply: HttpReply) -> Answer:
        found = read_answer(self._question(call), reply.status, reply.headers, reply.body)
        entries: Entries = ()
        if call.verb in (LIST, VERSIONS):
            items = _json(reply.body).get("items") or []
            entries = tuple((str(each["name"])[len(self._prefix) :], str(each.get("generation", ""))) for each in items)
        elif call.verb == VERSIONING:
            is_on = bool((_json(reply.body).get("versioning") or {}).get("enabled"))
            entries = (("status", "enabled" if is_on else ""),)
        return Answer.of(
            found,
            status=reply.status,
            body=reply.body if call.verb == READ else None,
            upload=reply.headers.get("location", "") if call.verb == BEGIN_UPLOAD else "",
            entries=entries,
        )

    @staticmethod
    def _question(call: Call) -> Question:
        """An upload needs nothing but the bucket: a condition that does not hold is answered with 412."""
        return A_CREATE if call.verb == PUT else call.question


def _conditions(call: Call) -> list[tuple[str, str]]:
    found = []
    if call.none_match is not None:
        if call.none_match == ANYTHING:
            found.append(("ifGenerationMatch", _ABSENT))
        else:
            found.append(("ifGenerationNotMatch", call.none_match))
    if call.match is not None:
        if call.match == ANYTHING or call.none_match is not None:
            raise Inexpressible(call.condition)
        found.append(("ifGenerationMatch", call.match))
    if call.source_match is not None:
        found.append(("ifSourceGenerationMatch", call.source_match))
    return found


def _related(name: str, body: bytes) -> bytes:
    """Metadata and data in one body."""
    meta = json.dumps({"name": name})
    head = (
        f"--{_BOUNDARY}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{meta}\r\n"
        f"--{_BOUNDARY}\r\nContent-Type: {_BINARY}\r\n\r\n"
    )
    return head.encode() + body + f"\r\n--{_BOUNDARY}--\r\n".encode()


def _json(body: bytes) -> dict[str, Any]:
    try:
        return read_object(body)
    except NotJson:
        return {}
