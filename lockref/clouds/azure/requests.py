"""The requests of Azure Blob Storage: written from a call, and read from a wire. Nothing is signed or sent here.

A copy names its source by URL; the account's key or token that signs the request counts for the source as well. A block
list is Azure's multipart upload. Conditions stand in headers, versions are ETags.

Emulators have the account in the path, `/ACCOUNT/CONTAINER/BLOB`; Azure itself has it in the host, and is not behind
the wire. Azure's own leases on a blob are no record: they change neither what it holds nor its ETag, and are passed on.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

from lockref.clouds.calls import (
    COMPLETE,
    COPY,
    DELETE,
    LEASE,
    LIST,
    PART,
    PUT,
    READ,
    Call,
    HttpRequest,
    Inexpressible,
    Place,
)  # fmt: skip
from lockref.clouds.traffic import ANY_OBJECT, Exchange, ObjectRequest, State, batch, content_of, understood
from lockref.words import IF_ABSENT, Op

_UPLOAD: Final = "x-ms-blob-type"
_COMMIT: Final = "blocklist"
_HARMLESS: Final = frozenset(
    {"block", "immutabilityPolicies", "lease", "legalhold", "query", "snapshot", "tags", "tier"}
)
"""Parts of a blob whose change leaves its bytes and its ETag alone. After any other one it has another ETag, or other
bytes, and no answer tells them in full."""

_BINARY: Final = "application/octet-stream"


def write_request(place: Place, call: Call) -> HttpRequest:
    """The request that states this call. Errors: Inexpressible where Azure has no such request."""
    method, query, headers, body = _parts(place, call)
    path = f"{place.root}/{place.container}"
    if call.verb != LIST:
        path += "/" + quote(place.prefix + call.key, safe="/-_.~")
    target = f"{path}?{urlencode(query, quote_via=quote, safe='')}" if query else path
    sent = {
        "Host": place.host,
        **headers,
        **({"Content-Length": str(len(body))} if method != "GET" else {}),
    }
    return HttpRequest(method=method, target=target, headers=sent, body=body)


def _parts(place: Place, call: Call) -> tuple[str, list[tuple[str, str]], dict[str, str], bytes]:
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
        source = quote(place.prefix + call.source, safe="/-_.~")
        url = f"{place.origin}{place.root}/{place.container}/{source}"
        return (
            "PUT",
            [],
            {"x-ms-copy-source": f"{url}?{place.source_query}" if place.source_query else url, **headers},
            b"",
        )
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
            [("comp", "list"), ("prefix", place.prefix + call.key), ("restype", "container")],
            headers,
            b"",
        )
    raise Inexpressible(call.verb)


def _conditions(call: Call) -> dict[str, str]:
    named = {"If-Match": call.match, "If-None-Match": call.none_match, "x-ms-source-if-match": call.source_match}
    return {name: value for name, value in named.items() if value is not None}


def read_request(exchange: Exchange, _bucket: str, /) -> ObjectRequest:
    """The meaning of a request."""
    odd = "a condition on tags" if "x-ms-if-tags" in exchange.headers else ""
    return understood(exchange, _read(exchange), odd=odd)


def _read(exchange: Exchange) -> ObjectRequest:
    _, _, place = exchange.path.lstrip("/").partition("/")
    container, _, blob = place.partition("/")
    method, component = exchange.method, exchange.parameters.get("comp", "")
    if component == "batch" and method == "POST":
        return batch(exchange, _read)
    if not blob and method == "DELETE" and exchange.parameters.get("restype") == "container":
        return ObjectRequest(verb="DELETE container", unfollowed=(ANY_OBJECT,), unreadable="a container was deleted")
    if not blob:
        return ObjectRequest(verb=f"{method} container")
    key, verb = f"{container}/{blob}", f"{method} {component or 'blob'}"
    if method not in ("GET", "HEAD") and component not in ("", _COMMIT, *_HARMLESS):
        return ObjectRequest(verb=verb, unfollowed=(key,))
    if method == "PUT" and component in ("", _COMMIT):
        # What a copy or a list of blocks makes was in other requests.
        is_upload = not component and _UPLOAD in exchange.headers
        return ObjectRequest(
            verb=verb if is_upload or component else "PUT copy",
            op=Op.WRITE,
            key=key,
            condition=_condition(exchange),
            state=_written(exchange) if is_upload else None,
        )
    if component:
        return ObjectRequest(verb=verb)
    names_version = bool({"snapshot", "versionid"} & exchange.parameters.keys())
    if method == "DELETE":
        if names_version:
            # The service refuses that for the present version.
            return ObjectRequest(verb="DELETE version")
        if exchange.headers.get("x-ms-delete-snapshots", "").lower() == "only":
            return ObjectRequest(verb="DELETE snapshots")
        return ObjectRequest(verb=verb, op=Op.DELETE, key=key, condition=_condition(exchange))
    if method in ("GET", "HEAD"):
        return ObjectRequest(verb=verb, op=Op.READ, key=key, names_version=names_version)
    return ObjectRequest(verb=verb, unfollowed=(key,), unreadable=f"a {method} of a blob")


def _condition(exchange: Exchange) -> str:
    if exchange.headers.get("if-none-match", "").strip() == "*":
        return IF_ABSENT
    named = plain_etag(exchange.headers.get("if-match", ""))
    # `If-Match: *` names no version: any blob will do.
    return "" if named == "*" else named


def plain_etag(etag: str) -> str:
    """An ETag without quotes, as a history has it."""
    return etag.strip().removeprefix("W/").strip('"')


def _written(exchange: Exchange) -> State | None:
    """The state that a request writes; None while its body is still coming."""
    body = exchange.body
    if not exchange.is_complete:
        return None
    return State(content_of(body.kept), body.kept) if body.is_whole else State(body.digest)
