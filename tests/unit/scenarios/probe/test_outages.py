"""What a server loses, delays or cuts off: a write that is gone is a fault, an answer that is lost is none."""

from __future__ import annotations

import contextlib
import http.server
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lockref.clouds.calls import DELETE, PUT, READ, Answer, Call
from lockref.runtime import NS_PER_S
from lockref.stores.probe.clauses import CLAUSES
from lockref.words import Outcome
from scenarios.probe import gate
from scenarios.probe.exchange import WireStore
from scenarios.probe.fingerprint import fingerprint_of
from scenarios.probe.opening import addresses_of, open_endpoint
from scenarios.probe.run import probe
from scenarios.probe.session import wrong_after
from tests.conditional_server import Bucket, serving
from tests.lying_servers import Busy, Forgets, Listed, Refuses, SlowToShow


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "probe-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "probe-secret")


def asked(server: Bucket, *only: str, rounds: int = 4) -> tuple[dict[str, Any], int]:
    """The fingerprint, of those clauses alone, and the exit code; rounds end it, not the time."""
    with serving(server) as uri:
        done = probe(addresses_of(uri), for_ns=200 * NS_PER_S, rounds=rounds, only=only)
    found = fingerprint_of(done)
    return found.document(), gate.exit_code(found, is_gone=done.is_gone)


def test_deletes_that_remove_nothing_are_told_as_residue() -> None:
    """The server confirms each delete and keeps the object: what is left is told, with the reason."""
    told, _ = asked(Listed(keeps=True), "C4")
    assert told["residue"]["left"]
    assert "a listing shows the objects all the same" in told["residue"]["reason"]


def test_a_listing_in_short_pages_is_followed_to_its_end() -> None:
    """More pages than listings that may show the same: nothing is left."""
    bucket = Listed(page=1)
    told, _ = asked(bucket, "C1", "C4", "C5", "C6", "C7", "C21")
    assert told["residue"]["left"] == []
    assert bucket.objects == {}


def test_a_first_read_that_is_old_is_a_fault_and_no_outage() -> None:
    """C21: a store that shows a write a moment later is unsafe; it is not called unreachable."""
    told, code = asked(SlowToShow(), "C21")
    assert told["clauses"]["C21"]["verdict"] == "unsafe"
    assert (told["verdict"], code, told["ended"]) == ("unsafe", 1, "")


def test_a_confirmed_write_that_is_gone_later_is_a_fault() -> None:
    """C21: each write is shown right after it; one in five is lost when others came."""
    told, _ = asked(Forgets(), "C21")
    clause = told["clauses"]["C21"]
    assert clause["verdict"] == "unsafe"
    assert [each for each in clause["unsafe"] if each.startswith("lost ")], clause["unsafe"]
    assert [each for each in clause["witness"] if "its last write was confirmed" in each.get("note", "")]


def test_a_write_that_landed_behind_a_503_breaks_no_race() -> None:
    """A5: 503 says that nobody knows. A race counts such a write as unknown, not as a second winner."""
    told, _ = asked(Busy(every=3), "C2", "C3", rounds=12)
    assert {clause: told["clauses"][clause]["unsafe"] for clause in ("C2", "C3")} == {"C2": [], "C3": []}
    assert sum(rate["void"] for rate in told["clauses"]["C2"]["rate"]["races"]), "nobody knows who won such a round"


def test_a_store_that_is_busy_at_first_is_asked_again() -> None:
    """503 for the first requests is no outage."""
    told, code = asked(Busy(at_first=3), "C1")
    assert told["clauses"]["C1"]["verdict"] == "conforming"
    assert (told["ended"], code) == ("", gate.NOT_ANSWERED)


@pytest.mark.parametrize("status", [400, 403])
def test_another_status_for_a_refusal_is_a_deviation(status: int) -> None:
    """The store has kept such a condition before, so it knows it: usable, with the status listed."""
    told, _ = asked(Refuses(status=status), "C1", "C4", "C18", "C23")
    for clause in ("C1", "C4", "C18", "C23"):
        found = told["clauses"][clause]
        assert found["verdict"] == "usable", found
        assert any(f"answered {status}" in each for each in found["deviations"]), found


class _Raw(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextlib.contextmanager
def raw(handler: type[socketserver.BaseRequestHandler]) -> Iterator[WireStore]:
    """A store behind a server of that kind."""
    with _Raw(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        port = server.server_address[1]
        store = open_endpoint(addresses_of(f"s3://bucket/p?endpoint=http://127.0.0.1:{port}")[0])
        assert isinstance(store, WireStore)
        with contextlib.closing(store):
            yield store
        server.shutdown()
        thread.join(10)


class CutsOff(http.server.BaseHTTPRequestHandler):
    """Promises ten bytes, sends three, and hangs up."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", "10")
        self.end_headers()
        self.wfile.write(b"abc")
        self.close_connection = True

    def log_message(self, *_: object) -> None: ...


def test_a_body_that_was_cut_off_is_no_answer() -> None:
    """A1: half of an object would look like other bytes than were written."""
    with raw(CutsOff) as store:
        answer = store.send(Call(verb=READ, key="k"))
    assert (answer.outcome, answer.status, answer.body) == (Outcome.AMBIGUOUS, None, None)
    assert answer.reason.startswith("IncompleteRead")


class HangsUp(http.server.BaseHTTPRequestHandler):
    """Answers one request of a connection, and hangs up at the second, without having said so."""

    protocol_version = "HTTP/1.1"
    has_answered = False

    def do_GET(self) -> None:
        if self.has_answered:
            self.close_connection = True
            return
        self.has_answered = True
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_a_server_that_hangs_up_between_requests_gets_a_connection_for_each() -> None:
    """One answer is lost, and no more."""
    with raw(HangsUp) as store:
        answers = [store.send(Call(verb=READ, key="k")).status for _ in range(5)]
    assert answers == [404, None, 404, 404, 404]
    assert not store.keeps_connections


NEW = Call(verb=PUT, body=b"new")
OLD = Call(verb=PUT, body=b"old")
GONE = Call(verb=DELETE)


@pytest.mark.parametrize(
    ("call", "status", "after", "body", "told"),
    [
        (NEW, 200, b"new", b"old", "accepted it (200)"),
        (NEW, 200, b"old", b"old", "accepted it and did nothing (200)"),
        (OLD, 200, b"old", b"old", "accepted it (200)"),
        (GONE, 204, None, None, "accepted it and did nothing (204)"),
        (NEW, 412, b"new", b"old", "refused it (412), and stored its bytes all the same"),
        (NEW, 501, b"x", b"old", "refused it (501), and the object has changed"),
        (NEW, 412, b"old", b"old", ""),
    ],
)
def test_what_is_wrong_is_told_as_it_was_seen(
    call: Call, status: int, after: bytes | None, body: bytes | None, told: str
) -> None:
    """A repetition is not said to have done nothing, and a refusal is not said to have been accepted."""
    outcomes = {2: Outcome.APPLIED, 4: Outcome.PRECONDITION_FAILED, 5: Outcome.REJECTED}
    answer = Answer(outcome=outcomes[status // 100], status=status)
    shown = Answer(outcome=Outcome.APPLIED, status=200, body=after)
    assert wrong_after(call, answer, shown, words="it", body=body) == told


def test_c21_asks_another_question_than_before() -> None:
    """A fingerprint from before knows nothing of writes that are lost later."""
    assert CLAUSES["C21"].question == 2
