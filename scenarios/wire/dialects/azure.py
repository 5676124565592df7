"""Azure Blob Storage as it is spoken on the wire: the account in the path, conditions in headers, versions as ETags.

Emulators have the account in the path, `/ACCOUNT/CONTAINER/BLOB`; Azure itself has it in the host, and is not behind
the wire. Azure's own leases on a blob are no record: they change neither what it holds nor its ETag, and are passed on.
"""

from __future__ import annotations

from typing import Final

from lockref.stores.clouds.azure import WRITE_OUTCOMES
from lockref.stores.clouds.statuses import classify, reason_text
from lockref.words import IF_ABSENT, Op, Outcome
from scenarios.wire.dialects.conversation import Exchange
from scenarios.wire.dialects.objects import ObjectReply, ObjectRequest, State, content_of

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
        status, code = exchange.status, exchange.answer_headers.get("x-ms-error-code", "")
        row = classify(WRITE_OUTCOMES, status, code)
        reason = "" if row.outcome is Outcome.APPLIED else reason_text(row, status, code)
        if request.op is Op.READ:
            return _read(exchange, row.missing, row.outcome, reason)
        is_written = row.outcome is Outcome.APPLIED and request.op is Op.WRITE
        version = _plain(exchange.answer_headers.get("etag", "")) if is_written else ""
        return ObjectReply(outcome=row.outcome, version=version, is_absent=row.missing, reason=reason)


def _read(exchange: Exchange, is_missing: bool, outcome: Outcome, reason: str) -> ObjectReply:
    if is_missing:
        return ObjectReply(outcome=Outcome.APPLIED, is_absent=True)
    # Clients ask for a range of bytes by habit. One that has all of them is the whole blob, and the answer says so.
    first_to_last, _, size = exchange.answer_headers.get("content-range", "").removeprefix("bytes ").partition("/")
    is_all = size.isdecimal() and first_to_last == f"0-{int(size) - 1}"
    if exchange.status != 200 and not (exchange.status == 206 and is_all):
        is_known = outcome in (Outcome.REJECTED, Outcome.THROTTLED)
        return ObjectReply(outcome=outcome if is_known else Outcome.AMBIGUOUS, reason=reason)
    body = exchange.answer.kept
    is_whole = exchange.method == "GET" and exchange.answer.is_whole
    state = State(content_of(body), body) if is_whole else None
    version = _plain(exchange.answer_headers.get("etag", ""))
    return ObjectReply(outcome=Outcome.APPLIED, version=version, state=state)


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
