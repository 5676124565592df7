"""Google Cloud Storage as it is spoken on the wire: the JSON API, conditions in the query, versions as generations.

An object changes when it is uploaded (a new generation) and when its metadata is changed (a new metageneration of the
same generation), and both may carry a lock. So a version is `GENERATION.METAGENERATION`. What an object holds is its
custom metadata where it has any, else its bytes: locks of either kind are seen, and one state has one name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lockref.clouds.gcs.answers import read_answer
from lockref.clouds.grammar import decimal
from lockref.strict_json import NotJson, read_object
from lockref.words import IF_ABSENT, Op, Outcome
from scenarios.wire.dialects.conversation import Exchange
from scenarios.wire.dialects.objects import ObjectReply, ObjectRequest, State, content_of
from scenarios.wire.dialects.reading import error_body, object_reply, question_of, shown_bytes

_OBJECT: Final = re.compile(r"/(?:download/)?(?:storage/v1/)?b/([^/]+)/o/(.+)")
_MADE_OF_OTHERS: Final = re.compile(r"(.+)/compose|.+?/(?:rewriteTo|copyTo)/b/([^/]+)/o/(.+)")
"""What follows the bucket where an object is made of others: of the same bucket, or of any."""
_UPLOAD: Final = re.compile(r"/(?:resumable/)?upload/storage/v1/b/([^/]+)/o")
_BOUNDARY: Final = re.compile(r'boundary="?([^";]+)"?')


class GcsDialect:
    """See `Dialect`."""

    name: Final = "gcs"

    def request(self, exchange: Exchange) -> ObjectRequest:
        """See `Dialect`. A resumable upload spans several requests: it is seen where it is begun, and not followed."""
        method, parameters = exchange.method, exchange.parameters
        if uploaded := _UPLOAD.fullmatch(exchange.path):
            kind = parameters.get("uploadType", "")
            if method != "POST" or kind not in ("media", "multipart", "resumable"):
                return ObjectRequest(verb=f"{method} upload")
            if kind == "resumable":
                name = parameters.get("name") or _json(exchange.body.kept).get("name", "")
                return ObjectRequest(verb="upload resumable", unfollowed=f"{uploaded[1]}/{name}")
            named, written = _uploaded(exchange, kind)
            name = named or parameters.get("name", "")
            return ObjectRequest(
                verb=f"upload {kind}",
                op=Op.WRITE,
                key=f"{uploaded[1]}/{name}",
                condition=_condition(parameters),
                state=written,
            )
        found = _OBJECT.fullmatch(exchange.path)
        if found is None:
            return ObjectRequest(verb=f"{method} other")
        key = f"{found[1]}/{found[2]}"
        if method in ("PATCH", "PUT"):
            state = _metadata_state(_json(exchange.body.kept))
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
        made = _MADE_OF_OTHERS.fullmatch(found[2]) if method == "POST" else None
        place = f"{made[2] or found[1]}/{made[1] or made[3]}" if made else ""
        return ObjectRequest(verb=f"{method} object", unfollowed=place)

    def reply(self, exchange: Exchange, request: ObjectRequest) -> ObjectReply:
        """See `Dialect`."""
        question = replace(
            question_of(exchange, request),
            is_about_metadata=request.op is Op.READ and exchange.parameters.get("alt") != "media",
        )
        if _UPLOAD.fullmatch(exchange.path):
            # An upload needs nothing but the bucket: a condition that does not hold is answered with 412.
            question = replace(question, needs_object=False)
        found = read_answer(question, exchange.status, exchange.answer_headers, error_body(exchange))
        if request.op is Op.READ:
            version, state = _shown(exchange)
            return object_reply(found, version=version, state=state)
        if found.is_absent and request.names_version:
            # That version is gone. Another one may be there.
            reason = f"{exchange.status}: the named version is not there"
            return ObjectReply(outcome=Outcome.PRECONDITION_FAILED, reason=reason)
        if found.outcome is not Outcome.APPLIED or request.op is not Op.WRITE:
            return object_reply(found, version="")
        made = _json(exchange.answer.kept)
        version = _version(made.get("generation"), made.get("metageneration"))
        replaced = _replaced(request.condition, version) if request.is_metadata else ""
        return replace(object_reply(found, version=version, state=_metadata_state(made)), condition=replaced)


def _shown(exchange: Exchange) -> tuple[str, State | None]:
    """The version and the content that an answer to a read shows: bytes with headers, or a resource."""
    headers = exchange.answer_headers
    if exchange.parameters.get("alt") == "media":
        version = _version(headers.get("x-goog-generation"), headers.get("x-goog-metageneration"))
        return version, shown_bytes(exchange)
    told = _json(exchange.answer.kept) if exchange.status == 200 and exchange.answer.is_whole else {}
    return _version(told.get("generation"), told.get("metageneration")), _metadata_state(told)


def _version(generation: object, metageneration: object) -> str:
    made, changed = decimal(str(generation)), decimal(str(metageneration or 1))
    return "" if not made or changed is None else f"{made}.{changed}"


def _replaced(condition: str, version: str) -> str:
    """The version that a change of metadata replaced; "" if unknown. version: that the change made.

    The condition names one half of the replaced version, the new version tells the other half: such a change keeps the
    generation, and raises the metageneration by one.
    """
    generation, _, metageneration = version.partition(".")
    if condition.startswith("*.") and generation:
        return generation + condition[1:]
    number = decimal(metageneration)
    if condition.endswith(".*") and number is not None:
        return f"{condition[:-1]}{number - 1}"
    return ""


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


def _json(body: bytes) -> dict[str, Any]:
    try:
        return read_object(body or b"{}")
    except NotJson:
        return {}


def _metadata_state(resource: Mapping[str, Any]) -> State | None:
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
    boundary = _BOUNDARY.search(exchange.headers.get("content-type", ""))
    parts = body.kept.split(b"--" + boundary[1].encode()) if boundary else []
    if len(parts) < 3:
        return "", State(content_of(body.kept))
    resource = _json(parts[1].partition(b"\r\n\r\n")[2])
    media = parts[2].partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
    name = resource.get("name")
    return name if isinstance(name, str) else "", _metadata_state(resource) or State(content_of(media), media)
