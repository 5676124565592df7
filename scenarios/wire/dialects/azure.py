"""Azure Blob Storage as it is spoken on the wire: the account in the path, conditions in headers, versions as ETags.

Emulators have the account in the path, `/ACCOUNT/CONTAINER/BLOB`; Azure itself has it in the host, and is not behind
the wire. Azure's own leases on a blob are no record: they change neither what it holds nor its ETag, and are passed on.
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.azure.answers import read_answer
from lockref.words import IF_ABSENT, Op
from scenarios.wire.dialects.conversation import Exchange
from scenarios.wire.dialects.objects import ObjectReply, ObjectRequest, State, content_of
from scenarios.wire.dialects.reading import error_body, object_reply, question_of, shown_bytes

_UPLOAD: Final = "x-ms-blob-type"
_COMMIT: Final = "blocklist"
_UNFOLLOWED: Final = frozenset({"appendblock", "metadata", "page", "properties", "undelete"})
"""Changes of a blob after which it has another ETag, or other bytes, and that no answer tells in full."""


class AzureDialect:
    """See `Dialect`."""

    name: Final = "azure"

    def request(self, exchange: Exchange) -> ObjectRequest:
        """See `Dialect`."""
        _, _, place = exchange.path.lstrip("/").partition("/")
        container, _, blob = place.partition("/")
        method, component = exchange.method, exchange.parameters.get("comp", "")
        if not blob:
            return ObjectRequest(verb=f"{method} container")
        key, verb = f"{container}/{blob}", f"{method} {component or 'blob'}"
        if method == "PUT" and component in _UNFOLLOWED:
            return ObjectRequest(verb=verb, unfollowed=key)
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
                return ObjectRequest(verb="DELETE version")
            return ObjectRequest(verb=verb, op=Op.DELETE, key=key, condition=_condition(exchange))
        if method in ("GET", "HEAD"):
            return ObjectRequest(verb=verb, op=Op.READ, key=key, names_version=names_version)
        return ObjectRequest(verb=verb)

    def reply(self, exchange: Exchange, request: ObjectRequest) -> ObjectReply:
        """See `Dialect`."""
        question = question_of(exchange, request)
        found = read_answer(question, exchange.status, exchange.answer_headers, error_body(exchange))
        state = shown_bytes(exchange) if request.op is Op.READ else None
        return object_reply(found, version=_plain(found.version), state=state)


def _condition(exchange: Exchange) -> str:
    if exchange.headers.get("if-none-match", "").strip() == "*":
        return IF_ABSENT
    named = _plain(exchange.headers.get("if-match", ""))
    # `If-Match: *` names no version: any blob will do.
    return "" if named == "*" else named


def _plain(etag: str) -> str:
    return etag.strip().removeprefix("W/").strip('"')


def _written(exchange: Exchange) -> State | None:
    """What a request writes; None while its body is still coming."""
    body = exchange.body
    if not exchange.is_complete:
        return None
    return State(content_of(body.kept), body.kept) if body.is_whole else State(body.digest)
