"""The requests of Acme: written from a call, and read from a wire."""

from __future__ import annotations

from urllib.parse import quote

from lockref.clouds.calls import ANYTHING, DELETE, PUT, READ, Call, HttpRequest, Inexpressible, Place
from lockref.clouds.traffic import ANY_OTHER_VERSION, Exchange, ObjectRequest, State, content_of, understood
from lockref.grammar import decimal
from lockref.words import IF_ABSENT, Op
from tests.clouds.made_up.acme.facts import LIKE, NOTHING, UNLIKE

_METHODS = {READ: "GET", PUT: "PUT", DELETE: "DELETE"}
_OPS = {"GET": Op.READ, "PUT": Op.WRITE, "DELETE": Op.DELETE}


def write_request(place: Place, call: Call) -> HttpRequest:
    """The request that states this call. Errors: Inexpressible where Acme has no such request."""
    if call.verb not in _METHODS or call.mode:
        raise Inexpressible(call.mode or call.verb)
    if call.match == ANYTHING or (call.match and call.none_match):
        raise Inexpressible(call.condition)
    headers = {"Host": place.host, **dict(call.headers), "Content-Length": str(len(call.body))}
    if call.match is not None:
        headers[LIKE] = call.match
    if call.none_match is not None:
        headers |= {LIKE: NOTHING} if call.none_match == ANYTHING else {UNLIKE: call.none_match}
    target = f"/v2/{place.container}/" + quote(place.prefix + call.key, safe="/-_.~")
    return HttpRequest(method=_METHODS[call.verb], target=target, headers=headers, body=call.body)


def read_request(exchange: Exchange, _bucket: str, /) -> ObjectRequest:
    """The meaning of a request. A condition that is no version is told as one, and not left out."""
    version, method = exchange.headers.get(LIKE, ""), exchange.method
    odd = "" if version in ("", NOTHING) or decimal(version) else "a condition on no version"
    return understood(
        exchange, _read(exchange, method, version), odd=ANY_OTHER_VERSION if UNLIKE in exchange.headers else odd
    )


def _read(exchange: Exchange, method: str, version: str) -> ObjectRequest:
    _, _, place = exchange.path.removeprefix("/").partition("/")
    if "/" not in place or not exchange.path.startswith("/v2/") or method not in _OPS:
        return ObjectRequest(verb=f"{method} other")
    body, op = exchange.body, _OPS[method]
    state = None
    if op is Op.WRITE and exchange.is_complete:
        state = State(content_of(body.kept), body.kept) if body.is_whole else State(body.digest)
    condition = "" if op is Op.READ else IF_ABSENT if version == NOTHING else version
    return ObjectRequest(verb=f"{method} thing", op=op, key=place, condition=condition, state=state)
