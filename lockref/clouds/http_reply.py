"""An HTTP answer, as its bytes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from xml.sax.saxutils import escape

from lockref.clouds.answers import Meaning
from lockref.words import Outcome

_BODILESS: Final = (204, 304)
XML: Final = "application/xml"
JSON: Final = "application/json"


def http_reply(status: int, *headers: tuple[str, str], body: bytes = b"") -> bytes:
    """The bytes of a whole answer on a connection that is kept."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Injected"
    # An answer that has no body tells no length: it would belong to another message.
    length = () if status in _BODILESS else (("Content-Length", str(len(body))),)
    lines = "".join(f"{name}: {value}\r\n" for name, value in (*headers, *length))
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode("latin-1", "replace") + body


def failed(code: str, status: int, reason: str) -> Meaning:
    """A refusal that is about to be written. reason: for people."""
    return Meaning(outcome=Outcome.REJECTED, status=status, code=code, why=reason)


def xml_error(code: str, reason: str) -> bytes:
    """The body of an error of S3 and Azure."""
    told = f"<Code>{escape(code)}</Code><Message>{escape(reason)}</Message>"
    return f"<?xml version='1.0' encoding='UTF-8'?><Error>{told}</Error>".encode()
