"""The requests of S3: written from a call, and read from a wire. Nothing is signed or sent here.

Written addresses are path-style: every server knows them, and Amazon still answers them. A foreign client may name the
bucket in the host. Conditions stand in headers, versions are ETags.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import md5
from typing import Final
from urllib.parse import quote, unquote, urlencode

from lockref.clouds.calls import (
    ABORT,
    BEGIN_UPLOAD,
    COMPLETE,
    COPY,
    DELETE,
    DELETE_VERSION,
    LIST,
    PART,
    PUT,
    READ,
    UPLOADS,
    VERSIONING,
    VERSIONS,
    Call,
    HttpRequest,
    Inexpressible,
    Place,
)  # fmt: skip
from lockref.clouds.traffic import (
    UNKNOWN_SUBRESOURCE,
    Body,
    Exchange,
    ObjectRequest,
    State,
    content_of,
    understood,
)
from lockref.clouds.xml_body import local_name, parsed
from lockref.grammar import hexadecimal
from lockref.words import IF_ABSENT, Op

_FORM_KEY: Final = re.compile(rb'name="key"\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]*)\r\n')
"""Where the form of a browser's upload names the object."""
_SUBRESOURCES: Final = frozenset(
    {
        "acl", "attributes", "legal-hold", "restore", "retention", "select", "tagging", "torrent", "versioning",
        "versions",
    }
)  # fmt: skip
"""What stands beside an object. To ask for it shows no bytes of the object, and to change it changes none."""
_ODD_CONDITIONS: Final = frozenset({"x-amz-if-match-last-modified-time", "x-amz-if-match-size"})
_MULTIPART: Final = frozenset({"partNumber", "uploads"})
COMPLETION_VERB, COPY_VERB, DELETION_VERB = "POST completion", "PUT copy", "DELETE objects"
"""The requests whose success may hold an error in its body (aws-sdk-java-v2#6023)."""


def write_request(place: Place, call: Call) -> HttpRequest:
    """The request that states this call. Errors: Inexpressible where S3 has no such request."""
    method, query, headers, body = _parts(place, call)
    path = f"/{place.container}"
    if call.key and call.verb not in (LIST, UPLOADS, VERSIONS):
        path += "/" + quote(place.prefix + call.key, safe="/-_.~")
    # Every value is quoted once, as the signature has it.
    target = f"{path}?{urlencode(query, quote_via=quote, safe='-_.~')}" if query else path
    sent = {"Host": place.host, **headers, "Content-Length": str(len(body))}
    return HttpRequest(method=method, target=target, headers=sent, body=body)


def _parts(place: Place, call: Call) -> tuple[str, list[tuple[str, str]], dict[str, str], bytes]:
    """Method, query, headers and body."""
    headers = dict(call.headers) | _conditions(call)
    if call.mode:
        raise Inexpressible(call.mode)
    if call.verb == READ:
        return "GET", [], headers, b""
    if call.verb == PUT:
        # A bucket with object lock takes no body without a sum.
        told = b64encode(md5(call.body, usedforsecurity=False).digest()).decode()
        return "PUT", [], {"Content-Type": "application/octet-stream", "Content-MD5": told, **headers}, call.body
    if call.verb == DELETE:
        return "DELETE", [], headers, b""
    if call.verb == DELETE_VERSION:
        return "DELETE", [("versionId", call.version)], headers, b""
    if call.verb == COPY:
        source = f"/{place.container}/" + quote(place.prefix + call.source, safe="/-_.~")
        return "PUT", [], {"x-amz-copy-source": source, **headers}, b""
    if call.verb == BEGIN_UPLOAD:
        return "POST", [("uploads", "")], headers, b""
    if call.verb == PART:
        return "PUT", [("partNumber", "1"), ("uploadId", call.upload)], headers, call.body
    if call.verb == COMPLETE:
        return "POST", [("uploadId", call.upload)], {"Content-Type": "text/xml", **headers}, _manifest(call.parts)
    if call.verb == ABORT:
        return "DELETE", [("uploadId", call.upload)], headers, b""
    under = ("prefix", place.prefix + call.key)
    if call.verb == LIST:
        return "GET", [("list-type", "2"), under], headers, b""
    if call.verb == UPLOADS:
        return "GET", [under, ("uploads", "")], headers, b""
    if call.verb == VERSIONS:
        return "GET", [under, ("versions", "")], headers, b""
    if call.verb == VERSIONING:
        return "GET", [("versioning", "")], headers, b""
    raise Inexpressible(call.verb)


def _conditions(call: Call) -> dict[str, str]:
    named = {
        "If-Match": call.match,
        "If-None-Match": call.none_match,
        "x-amz-copy-source-if-match": call.source_match,
    }
    return {name: value for name, value in named.items() if value is not None}


def _manifest(parts: tuple[str, ...]) -> bytes:
    inside = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag.replace('&', '&amp;')}</ETag></Part>"
        for number, etag in enumerate(parts, 1)
    )
    return (
        f'<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inside}</CompleteMultipartUpload>'
    ).encode()


def read_request(exchange: Exchange, bucket: str, /) -> ObjectRequest:
    """The meaning of a request.

    bucket: that of the run, which a request may name in its host instead of in its path.
    """
    return understood(exchange, _read(exchange, bucket))


def _read(exchange: Exchange, bucket: str) -> ObjectRequest:
    path = exchange.path.lstrip("/")
    if exchange.host.startswith(f"{bucket}."):
        path = f"{bucket}/{path}"
    container, _, key = path.partition("/")
    parameters, method = exchange.parameters, exchange.method
    verb = f"{method} object" if key else f"{method} bucket"
    if not key:
        if method == "POST" and "delete" in parameters:
            return ObjectRequest(verb=DELETION_VERB, keys=tuple(_listed_keys(container, exchange.body)))
        if method == "POST" and exchange.headers.get("content-type", "").startswith("multipart/form-data"):
            named = _FORM_KEY.search(exchange.body.kept)
            name = named[1].decode("utf-8", "replace") if named else ""
            return ObjectRequest(verb="POST form", unfollowed=(f"{container}/{name}",))
        return ObjectRequest(verb=verb)
    place = f"{container}/{key}"
    if method not in ("GET", "HEAD") and (problem := _unknown_change(exchange)):
        # A rename takes the object from its source. The source may be told with its bucket or without.
        source = unquote(exchange.headers.get("x-amz-rename-source", "")).lstrip("/")
        places = (place, f"{container}/{source}", source) if source else (place,)
        return ObjectRequest(verb=verb, unfollowed=places, unreadable=problem)
    if UNKNOWN_SUBRESOURCE in parameters:
        return ObjectRequest(verb=verb)
    if _SUBRESOURCES & parameters.keys() or _MULTIPART & parameters.keys():
        return ObjectRequest(verb=verb)
    if "uploadId" in parameters:
        # Only the request that completes an upload makes an object; what it holds was in other requests.
        is_completion = method == "POST"
        return ObjectRequest(
            verb=COMPLETION_VERB if is_completion else verb,
            op=Op.WRITE if is_completion else Op.NONE,
            key=place if is_completion else "",
            condition=_condition(exchange),
        )
    if method == "PUT":
        is_copy = "x-amz-copy-source" in exchange.headers
        state = None if is_copy else _written(exchange)
        return ObjectRequest(
            verb=COPY_VERB if is_copy else verb,
            op=Op.WRITE,
            key=place,
            condition=_condition(exchange),
            state=state,
        )
    names_version = "versionId" in parameters
    if method == "DELETE" and names_version:
        # Without the removed version, an older version may be the present one again.
        return ObjectRequest(verb="DELETE version", unfollowed=(place,))
    if method == "DELETE":
        return ObjectRequest(verb=verb, op=Op.DELETE, key=place, condition=_condition(exchange))
    if method in ("GET", "HEAD"):
        return ObjectRequest(verb=verb, op=Op.READ, key=place, names_version=names_version)
    return ObjectRequest(verb=verb, unfollowed=(place,), unreadable=f"a {method} of an object")


def _unknown_change(exchange: Exchange) -> str:
    """Why a change of an object is not followed, by its query and headers; "" for none."""
    parameters, headers = exchange.parameters, exchange.headers
    if "renameObject" in parameters:
        return "an object that was renamed"
    if UNKNOWN_SUBRESOURCE in parameters:
        return "a sub-resource that is not known"
    if "x-amz-write-offset-bytes" in headers:
        return "bytes that were appended"
    if _ODD_CONDITIONS & headers.keys():
        return "a condition on a date or a size"
    return ""


def _condition(exchange: Exchange) -> str:
    if exchange.headers.get("if-none-match", "").strip() == "*":
        return IF_ABSENT
    named = plain_etag(exchange.headers.get("if-match", ""))
    # `If-Match: *` names no version: any object will do.
    return "" if named == "*" else named


def plain_etag(etag: str) -> str:
    """An ETag without quotes, as a history has it."""
    return etag.replace("&quot;", '"').strip().removeprefix("W/").strip('"')


def _written(exchange: Exchange) -> State | None:
    """The state that a request writes; None while its body is still coming."""
    body = exchange.body
    if not exchange.is_complete:
        return None
    if not body.is_whole:
        return State(body.digest)
    data = body.kept
    if (
        "aws-chunked" in exchange.headers.get("content-encoding", "")
        or "x-amz-decoded-content-length" in exchange.headers
    ):
        data = unchunked(data)
    return State(content_of(data), data)


def unchunked(data: bytes) -> bytes:
    """The object inside a body of `aws-chunked` encoding: pieces, each behind its length and perhaps a signature.

    What is not of that form is returned as it is.
    """
    found, rest = b"", data
    while rest:
        head, separator, rest = rest.partition(b"\r\n")
        length = hexadecimal(head.partition(b";")[0])
        if length is None or not separator:
            return data
        if length == 0:
            return found
        found, rest = found + rest[:length], rest[length + 2 :]
    return data


def _listed_keys(bucket: str, body: Body) -> Iterator[str]:
    """The objects that a request to delete several names."""
    root = parsed(body.kept)
    for element in () if root is None else root.iter():
        if local_name(element) == "Key" and element.text:
            yield f"{bucket}/{element.text}"
