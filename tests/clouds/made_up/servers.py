"""The made-up servers, on free ports of this machine."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.clouds.made_up.acme.facts import LIKE, NOTHING, UNLIKE, VERSION
from tests.conditional_server import Bucket

FAULTS = {403: "Forbidden", 460: "Unlike", 461: "Taken", 462: "NoSuchThing"}


class StrictBucket(Bucket):
    """A bucket that says 409 where others say 412 and 404, and removes nothing by version."""

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        status, etag = super().put(key, body, if_match=if_match, if_none_match=if_none_match)
        return (409 if status in (404, 412) else status), etag

    def delete(self, key: str, *, if_match: str) -> int:
        return 501 if if_match else super().delete(key, if_match="")


@contextlib.contextmanager
def acme_server() -> Iterator[str]:
    """A server with one vault; its URI."""
    things: dict[str, tuple[bytes, int]] = {}
    mutex, versions = threading.Lock(), iter(range(40, 10**9))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _is_met(self, present: tuple[bytes, int] | None) -> int:
            like, unlike = self.headers.get(LIKE, ""), self.headers.get(UNLIKE, "")
            if like == NOTHING:
                return 461 if present else 0
            if present is None:
                return 462 if like else 0
            return 460 if (like and like != str(present[1])) or unlike == str(present[1]) else 0

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with mutex:
                present = things.get(self.path)
                status = self._is_met(present) if self.headers.get("X-Acme-Key") == "secret" else 403
                if not status and self.command == "PUT":
                    present = things[self.path] = body, next(versions)
                    status, body = 201, b""
                elif not status and present is None:
                    status = 462
                elif not status and present is not None:
                    status, body = 200, present[0] if self.command == "GET" else b""
                    if self.command == "DELETE":
                        del things[self.path]
            self.send_response(status, "Said")
            if status < 300 and present is not None and self.command != "DELETE":
                self.send_header(VERSION, str(present[1]))
            told = body if status < 300 else json.dumps({"fault": FAULTS[status]}).encode()
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Tests are silent."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"acme://vault/p?endpoint=http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
