"""A small S3 server for tests: conditional writes on one bucket, right, or wrong in the one way that is asked for.

A race that it gets wrong does not depend on luck: the first request that has
passed its check waits for a second one (a delete for a replacement, and the
other way round), so two are applied wherever a client has two in flight. A
client that sends one after the other sees nothing wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qsl, urlsplit

MEETING_S: Final = 0.5
MEETING_OF_KINDS_S: Final = 10.0  # The other kind always comes: this ends only a test that hangs.
FLAWS: Final = (
    "two creates",
    "two replacements",
    "delete against replacement",
    "stale delete",
    "stale replacement",
    "stale create",
    "ghost",
    "no conditional delete",
    "old reads",
    "lost release",
)
Object = tuple[bytes, str]


@dataclass(frozen=True)
class Asked:
    """A request as it came. path: without the query."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Told:
    """An answer in the place of the bucket's own. error: S3's word for it. drip_s: a pause before each of its bytes."""

    status: int
    error: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    drip_s: float = 0.0


@dataclass
class Bucket:
    """The objects, and what is wrong with the way they are kept. flaw: one of FLAWS, or "" for none.

    only: the flaw strikes keys that hold this text; elsewhere the server is right.
    deleted_with: "delete against replacement" strikes replacements by a body that holds these bytes.
    """

    flaw: str = ""
    only: str = ""
    deleted_with: bytes = b""
    objects: dict[str, Object] = field(default_factory=dict)
    mutex: threading.Condition = field(default_factory=threading.Condition)
    before: dict[str, Object | None] = field(default_factory=dict)
    met: dict[tuple[str, str], int] = field(default_factory=dict)
    passed: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    requests: list[tuple[str, str, int]] = field(default_factory=list)

    date_offset_s: int = 0
    """What its clock is ahead of this machine's."""

    def intercept(self, asked: Asked) -> Told | None:
        """Another answer, for servers with requests or lies of their own. None: as the bucket has it."""
        return None

    def has(self, flaw: str, key: str) -> bool:
        return self.flaw == flaw and self.only in key

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        with self.mutex:
            current = self.objects.get(key)
            if if_none_match:
                refusal = 412 if current is not None and not self.has("stale create", key) else 0
                flaw = "two creates"
            elif if_match:
                if current is None:
                    refusal = 404 if not self.has("ghost", key) else 0
                else:
                    refusal = 412 if current[1] != if_match and not self.has("stale replacement", key) else 0
                flaw = "two replacements"
            else:
                refusal, flaw = 0, ""
            if refusal:
                return refusal, ""
            if flaw and self.has(flaw, key) and not self._meet(key, if_match or if_none_match):
                return 412, ""
            if if_match and self.has("delete against replacement", key) and self.deleted_with in body:
                self._meet_the_other_kind(key, if_match, "replacement")
            etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
            if self.has("lost release", key) and b'"expired":true' in body.replace(b" ", b""):
                return 200, etag
            self.before[key] = self.objects.get(key)
            self.objects[key] = (body, etag)
            return 200, etag

    def delete(self, key: str, *, if_match: str) -> int:
        with self.mutex:
            current = self.objects.get(key)
            if if_match:
                if self.has("no conditional delete", key):
                    return 501
                if current is None:
                    return 404
                if current[1] != if_match and not self.has("stale delete", key):
                    return 412
                if self.has("delete against replacement", key):
                    self._meet_the_other_kind(key, if_match, "delete")
            self.before[key] = current
            self.objects.pop(key, None)
            self.met = {met: count for met, count in self.met.items() if met[0] != key}
            self.passed = {met: kinds for met, kinds in self.passed.items() if met[0] != key}
            return 204

    def get(self, key: str) -> Object | None:
        with self.mutex:
            return self.before.get(key) if self.has("old reads", key) else self.objects.get(key)

    def _meet(self, key: str, condition: str) -> bool:
        """Wait for a second request with this condition. False for a third one."""
        met = (key, condition)
        self.met[met] = self.met.get(met, 0) + 1
        self.mutex.notify_all()
        if self.met[met] > 2:
            return False
        if not self.mutex.wait_for(lambda: self.met.get(met, 2) >= 2, MEETING_S):
            self.met.pop(met)
        return True

    def _meet_the_other_kind(self, key: str, condition: str, kind: str) -> None:
        """Wait until a delete and a replacement have both passed their check on this version."""
        passed = self.passed.setdefault((key, condition), set())
        passed.add(kind)
        self.mutex.notify_all()
        self.mutex.wait_for(lambda: len(passed) == 2, MEETING_OF_KINDS_S)


class _Handler(BaseHTTPRequestHandler):
    """S3's requests to the bucket of its server."""

    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string((timestamp or time.time()) + self.server.bucket.date_offset_s)

    def _intercepted(self) -> bytes | None:
        """The body of the request; None where the answer went out already."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        told = self.server.bucket.intercept(Asked(self.command, parts.path, query, self.headers, body))
        if told is None:
            return body
        self.server.bucket.requests.append((self.command, self.path, told.status))
        inner = told.body
        if told.error:
            inner = f"<Error><Code>{told.error}</Code><Message>no</Message></Error>".encode()
        self.send_response(told.status)
        for name, value in told.headers.items():
            self.send_header(name, value)
        if told.status != 204:
            self.send_header("Content-Length", str(len(inner)))
        self.end_headers()
        for place in range(len(inner)) if told.drip_s else ():
            time.sleep(told.drip_s)
            self.wfile.write(inner[place : place + 1])
        if not told.drip_s:
            self.wfile.write(inner)
        return None

    def do_POST(self) -> None:
        if self._intercepted() is not None:
            self._answer(501, error="NotImplemented")

    def do_GET(self) -> None:
        if self._intercepted() is None:
            return
        found = self.server.bucket.get(self.path)
        if found is None:
            self._answer(404, error="NoSuchKey")
        else:
            self._answer(200, etag=found[1], body=found[0])

    def do_PUT(self) -> None:
        if (body := self._intercepted()) is None:
            return
        if "x-amz-copy-source" in self.headers:
            self._answer(501, error="NotImplemented")
            return
        status, etag = self.server.bucket.put(
            self.path,
            body,
            if_match=self.headers.get("If-Match", ""),
            if_none_match=self.headers.get("If-None-Match", ""),
        )
        self._answer(status, etag=etag, error={412: "PreconditionFailed", 404: "NoSuchKey"}.get(status, ""))

    def do_DELETE(self) -> None:
        if self._intercepted() is None:
            return
        status = self.server.bucket.delete(self.path, if_match=self.headers.get("If-Match", ""))
        errors = {412: "PreconditionFailed", 404: "NoSuchKey", 501: "NotImplemented"}
        self._answer(status, error=errors.get(status, ""))

    def _answer(self, status: int, *, etag: str = "", error: str = "", body: bytes = b"") -> None:
        self.server.bucket.requests.append((self.command, self.path, status))
        if error:
            body = f"<Error><Code>{error}</Code><Message>no</Message></Error>".encode()
        self.send_response(status)
        if etag:
            self.send_header("ETag", etag)
        if status != 204:
            self.send_header("Content-Type", "application/xml" if error else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 204:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket = bucket


@contextlib.contextmanager
def serving(bucket: Bucket, *, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URI of a store on a server with that bucket. context: for TLS."""
    with _Server(bucket) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"s3://bucket/p?endpoint=http{'' if context is None else 's'}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)
