"""The requests of Google Cloud Storage's JSON interface: written from a call, and read from a wire. Nothing is sent.

Reads of the XML interface are read on a wire, too: Google's client for Go reads so.

Conditions are query parameters; versions are generations. An upload goes up in one multipart-type request, as the
lock's store sends it; media and resumable uploads are other ways to write, judged on their own.

An object changes when it is uploaded (a new generation) and when its metadata is changed (a new metageneration of the
same generation), and both may carry a lock. So a version on a wire is `GENERATION.METAGENERATION`. What an object holds
is its custom metadata where it has any, else its bytes: locks of either kind are seen, and one state has one name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from lockref.clouds.calls import (
    ANYTHING,
    BEGIN_UPLOAD,
    COMPLETE,
    COPY,
    DELETE,
    DELETE_VERSION,
    LIST,
    MEDIA,
    PUT,
    READ,
    RESOURCE,
    VERSIONING,
    VERSIONS,
    Call,
    HttpRequest,
    Inexpressible,
    Place,
)  # fmt: skip
from lockref.clouds.gcs.facts import UNEQUAL
from lockref.clouds.traffic import (
    ANY_OBJECT,
    ANY_OTHER_VERSION,
    Exchange,
    ObjectRequest,
    State,
    batch,
    content_of,
    understood,
)
from lockref.grammar import json_object
from lockref.words import IF_ABSENT, Op

_OBJECT: Final = re.compile(r"/(?:download/)?(?:storage/v1/)?b/([^/]+)/o/(.+)", re.DOTALL)
_MADE_OF_OTHERS: Final = re.compile(r".+?/(?:rewriteTo|copyTo)/b/([^/]+)/o/(.+)|(.+)/compose", re.DOTALL)
"""What follows the bucket where an object is made of others: of the same bucket, or of any."""
_MOVED: Final = re.compile(r"(.+?)/moveTo/o/(.+)", re.DOTALL)
_SEVERAL: Final = re.compile(r"/(?:bulkRestore|folders/.+/renameTo/folders/.+)$")
_BATCH: Final = re.compile(r"/batch(?:/|$)")
_JSON_INTERFACE: Final = re.compile(
    r"/(?:batch(?:/|$)|(?:download/|(?:resumable/)?upload/)?storage/v1/|(?:download/)?b/[^/]+/o(?:/|$))"
)
UPLOAD_PATH: Final = re.compile(r"/(?:resumable/)?upload/storage/v1/b/([^/]+)/o")
_NAMED_BOUNDARY: Final = re.compile(r'boundary="?([^";]+)"?')

_BOUNDARY: Final = "lockref-probe-part"
_ABSENT: Final = "0"
_BINARY: Final = "application/octet-stream"


def write_request(place: Place, call: Call) -> HttpRequest:
    """The request that states this call. Errors: Inexpressible where the service has no such request."""
    method, path, query, headers, body = _parts(place, call)
    target = f"{path}?{urlencode(query, quote_via=quote, safe='')}" if query else path
    sent = {"Host": place.host, **headers}
    if method != "GET":
        sent["Content-Length"] = str(len(body))
    return HttpRequest(method=method, target=target, headers=sent, body=body)


def _parts(place: Place, call: Call) -> tuple[str, str, list[tuple[str, str]], dict[str, str], bytes]:
    """Method, path, query, headers and body."""
    name, container = place.prefix + call.key, quote(place.container, safe="")
    bucket = f"/storage/v1/b/{container}"
    conditions, headers = _conditions(call), dict(call.headers)
    upload = f"/upload{bucket}/o"
    if call.verb == READ:
        named = [("generation", call.version)] if call.version else []
        return (
            "GET",
            f"/download{bucket}/o/{quote(name, safe='')}",
            [("alt", "media"), *named, *conditions],
            headers,
            b"",
        )
    if call.verb == RESOURCE:
        return "GET", f"{bucket}/o/{quote(name, safe='')}", [], headers, b""
    if call.verb == PUT and call.mode == MEDIA:
        query = [("uploadType", "media"), ("name", name), *conditions]
        return "POST", upload, query, {"Content-Type": _BINARY, **headers}, call.body
    if call.verb == PUT and not call.mode:
        boundary, content = _related(name, call.body)
        kind = {"Content-Type": f"multipart/related; boundary={boundary}", **headers}
        return "POST", upload, [("uploadType", "multipart"), *conditions], kind, content
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
        source = quote(place.prefix + call.source, safe="")
        path = f"{bucket}/o/{source}/rewriteTo/b/{container}/o/{quote(name, safe='')}"
        return "POST", path, conditions, {"Content-Type": "application/json", **headers}, b"{}"
    if call.verb == LIST:
        return "GET", f"{bucket}/o", [("prefix", name)], headers, b""
    if call.verb == VERSIONS:
        return "GET", f"{bucket}/o", [("prefix", name), ("versions", "true")], headers, b""
    if call.verb == VERSIONING:
        # A bucket may have no such field. The kind is told beside it, so that the answer is not empty.
        return "GET", bucket, [("fields", "kind,versioning")], headers, b""
    raise Inexpressible(call.verb if not call.mode else call.mode)


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


def _related(name: str, body: bytes) -> tuple[str, bytes]:
    """The boundary between metadata and data, and the body that has both."""
    # The boundary must not stand in the data.
    boundary = _BOUNDARY if _BOUNDARY.encode() not in body else f"{_BOUNDARY}-{hashlib.sha256(body).hexdigest()[:32]}"
    meta = json.dumps({"name": name})
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{meta}\r\n"
        f"--{boundary}\r\nContent-Type: {_BINARY}\r\n\r\n"
    )
    return boundary, head.encode() + body + f"\r\n--{boundary}--\r\n".encode()


def read_request(exchange: Exchange, bucket: str, /) -> ObjectRequest:
    """The meaning of a request. A resumable upload spans several requests: it is seen where it begins, not followed.

    bucket: that of the run, which a request of the XML interface may name in its host.
    """
    odd = ANY_OTHER_VERSION if UNEQUAL & exchange.parameters.keys() else ""
    return understood(exchange, _read_xml(exchange, bucket) if is_xml(exchange) else _read(exchange), odd=odd)


def _read(exchange: Exchange) -> ObjectRequest:
    method, parameters = exchange.method, exchange.parameters
    if uploaded := UPLOAD_PATH.fullmatch(exchange.path):
        kind = parameters.get("uploadType", "")
        if method != "POST" or kind not in ("media", "multipart", "resumable"):
            return ObjectRequest(verb=f"{method} upload")
        if kind == "resumable":
            name = parameters.get("name") or json_object(exchange.body.kept).get("name", "")
            return ObjectRequest(verb="upload resumable", unfollowed=(f"{uploaded[1]}/{name}",))
        named, written = _uploaded(exchange, kind)
        name = named or parameters.get("name", "")
        return ObjectRequest(
            verb=f"upload {kind}",
            op=Op.WRITE,
            key=f"{uploaded[1]}/{name}",
            condition=_condition(parameters),
            state=written,
        )
    if method == "POST" and _BATCH.match(exchange.path):
        return batch(exchange, _read)
    if method == "POST" and _SEVERAL.search(exchange.path):
        return ObjectRequest(verb="POST several", unfollowed=(ANY_OBJECT,), unreadable="objects were moved or restored")
    found = _OBJECT.fullmatch(exchange.path)
    if found is None:
        return ObjectRequest(verb=f"{method} other")
    key = f"{found[1]}/{found[2]}"
    if method in ("PATCH", "PUT"):
        state = metadata_state(json_object(exchange.body.kept))
        return ObjectRequest(
            verb=f"{method} metadata",
            op=Op.WRITE,
            key=key,
            condition=_condition(parameters),
            state=state,
            is_metadata=True,
            names_version="generation" in parameters,
        )
    if method == "DELETE":
        return ObjectRequest(
            verb="DELETE object",
            op=Op.DELETE,
            key=key,
            condition=_condition(parameters),
            names_version="generation" in parameters,
        )
    if method == "GET":
        return ObjectRequest(verb="GET object", op=Op.READ, key=key, names_version="generation" in parameters)
    if method != "POST":
        return ObjectRequest(verb=f"{method} object")
    made, moved = _MADE_OF_OTHERS.fullmatch(found[2]), _MOVED.fullmatch(found[2])
    places: tuple[str, ...]
    if made:
        places = (f"{made[1] or found[1]}/{made[2] or made[3]}",)
    elif moved:
        places = (f"{found[1]}/{moved[1]}", f"{found[1]}/{moved[2]}")
    else:
        # Such as a list of rights. The last part of the path may be of the operation or of the name.
        places = (key, key.rpartition("/")[0])
    return ObjectRequest(verb="POST object", unfollowed=places)


def is_xml(exchange: Exchange) -> bool:
    """True for a request of the XML interface, such as a read of Google's client for Go."""
    return _JSON_INTERFACE.match(exchange.path) is None


def _read_xml(exchange: Exchange, bucket: str) -> ObjectRequest:
    """A request of the XML interface. Reads are read; changes are told and not followed."""
    path = exchange.path.lstrip("/")
    if exchange.host.startswith(f"{bucket}."):
        path = f"{bucket}/{path}"
    container, _, name = path.partition("/")
    method, verb = exchange.method, f"{exchange.method} XML {'object' if name else 'bucket'}"
    if not name and method == "POST" and exchange.headers.get("content-type", "").startswith("multipart/form-data"):
        return ObjectRequest(verb=verb, unfollowed=(ANY_OBJECT,), unreadable="a form")
    if not name:
        return ObjectRequest(verb=verb)
    if method not in ("GET", "HEAD"):
        why = "a change through the XML interface"
        return ObjectRequest(verb=verb, unfollowed=(f"{container}/{name}",), unreadable=why)
    names_version = "generation" in exchange.parameters
    if exchange.parameters.keys() - {"generation"}:
        # A list of rights, a part of an upload, or another thing beside the object.
        return ObjectRequest(verb=verb)
    return ObjectRequest(verb=verb, op=Op.READ, key=f"{container}/{name}", names_version=names_version)


def _condition(parameters: Mapping[str, str]) -> str:
    """The condition of a request, as one version or as a part of one.

    The parameter `generation` acts as a condition, too: the request changes that generation or nothing. Clients add
    this parameter by themselves once they know the generation.
    """
    generation = parameters.get("ifGenerationMatch") or parameters.get("generation", "")
    metageneration = parameters.get("ifMetagenerationMatch", "")
    if generation == "0":
        return IF_ABSENT
    if generation:
        # Without a metageneration the condition holds for all of them.
        return f"{generation}.{metageneration or '*'}"
    return f"*.{metageneration}" if metageneration else ""


def metadata_state(resource: Mapping[str, Any]) -> State | None:
    """The custom metadata of an object, with the server's stamp beside it where it is known; None without metadata."""
    metadata = resource.get("metadata")
    if not isinstance(metadata, dict) or not metadata:
        return None
    canonical = json.dumps(metadata, sort_keys=True)
    body = json.dumps({"metadata": metadata, "updated": resource.get("updated")}, sort_keys=True)
    return State(content_of(canonical.encode()), body.encode())


def _uploaded(exchange: Exchange, kind: str) -> tuple[str, State]:
    """The name inside an upload, "" if there is none, and what is uploaded."""
    body = exchange.body
    if not body.is_whole:
        return "", State(body.digest)
    if kind == "media":
        return "", State(content_of(body.kept), body.kept)
    boundary = _NAMED_BOUNDARY.search(exchange.headers.get("content-type", ""))
    # A boundary begins a line, and the line break before it is its own.
    parts = (b"\r\n" + body.kept).split(b"\r\n--" + boundary[1].encode("latin-1")) if boundary else []
    if len(parts) < 3:
        return "", State(content_of(body.kept))
    resource = json_object(parts[1].partition(b"\r\n\r\n")[2])
    media = parts[2].partition(b"\r\n\r\n")[2]
    name = resource.get("name")
    return name if isinstance(name, str) else "", metadata_state(resource) or State(content_of(media), media)
