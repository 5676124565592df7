"""Locks that end by the store's own date of their object: a legal takeover is none of S6, and an early one is."""

from __future__ import annotations

import pytest

from lockref.errors import ConfigError
from lockref.history import Recorder, runs_table, to_table
from lockref.lab.recording import host_stamp
from lockref.runtime import NS_PER_S, ThreadRuntime
from reports.checks import judge
from reports.checks.spec import HELD, VIOLATED
from scenarios.injection.observer import Direction
from scenarios.wire.decoders import LastingDecoder, load_decoder
from scenarios.wire.reading.dialect import dialect_of
from scenarios.wire.recorder import WireRecorder
from scenarios.wire.tap import Tap
from tests.histories import verdict


@pytest.mark.parametrize("reference", ["exists:locks/*,ttl=60s", "json:owner=$.id,ttl=1m"])
def test_a_record_may_last_for_a_while_from_its_last_write(reference):
    """The record itself says nothing of its end."""
    decode = load_decoder(reference)
    assert len(decode("b/locks/x", b'{"id": "a"}')) == 1
    assert isinstance(decode, LastingDecoder)
    assert decode.ttl_ns == 60 * NS_PER_S


@pytest.mark.parametrize("lasts", ["", "60", "0s", "-5s", "soon", "1s,ttl=2s"])
def test_a_time_to_live_that_is_none_is_refused(lasts):
    """With a word that names it."""
    for reference in (f"exists:locks/*,ttl={lasts}", f"json:owner=$.id,ttl={lasts}"):
        with pytest.raises(ConfigError, match="ttl"):
            load_decoder(reference)


@pytest.mark.parametrize(
    ("way", "after_s", "broken"),
    [("replace", 70, ""), ("replace", 20, "S5"), ("delete", 70, ""), ("delete", 20, "S6")],
)
@pytest.mark.parametrize("decoder", ["exists:locks/*,ttl=60s", "json:owner=$.id,ttl=60s"])
def test_a_takeover_is_judged_by_the_time_to_live(decoder, way, after_s, broken):
    """n1 makes the object and dies; n2 replaces it by its version or deletes it, after its time or before."""
    recorder, runtime = Recorder(), ThreadRuntime()
    wire = WireRecorder(
        recorder, dialect_of("s3", "b"), load_decoder(decoder), protects=(), runtime=runtime, clock_offsets_ns={}
    )
    begin_ns = runtime.monotonic_ns()
    free, same = "If-None-Match: *", 'If-Match: "e1"'
    steps = [("n1", "PUT", 1, free, "e1")]
    if way == "replace":
        steps.append(("n2", "PUT", 1 + after_s, same, "e2"))
    else:
        steps += [("n2", "DELETE", 1 + after_s, same, ""), ("n2", "PUT", 2 + after_s, free, "e2")]
    for client in ("n1", "n2"):
        wire.began(client)
    for client, method, at_s, condition, etag in steps:
        tap, body = Tap(client, wire), b'{"id": "%s"}' % client.encode() if method == "PUT" else b""
        at_ns = begin_ns + at_s * NS_PER_S
        head = f"{method} /b/locks/x HTTP/1.1\r\nHost: h\r\n{condition}\r\nContent-Length: {len(body)}\r\n\r\n"
        tap.opened(1, at_ns)
        tap.forwarded(1, Direction.REQUEST, head.encode() + body, at_ns)
        answer = f'HTTP/1.1 200 OK\r\nETag: "{etag}"\r\nContent-Length: 0\r\n\r\n'
        tap.forwarded(1, Direction.REPLY, answer.encode(), at_ns + 1000)
        tap.closed(1, at_ns + 2000)
    events = to_table([recorder])
    runs = runs_table(
        [{"run": 0, "seed": 0, "scenario": "wire", "provider": "p", "world": "real", "backend": "s3", "clients": 2,
          "validity_ns": None, "poll_interval_ns": 30 * NS_PER_S, "request_timeout_ns": 0,
          "drift_bound_ns": NS_PER_S // 2, "end_ns": begin_ns + 100 * NS_PER_S, "is_cut_off": False,
          "must_happen": ["grant"], "lock_protocols": {"b/locks/x": "wire"}}]
    )  # fmt: skip
    found = judge(events, runs)
    told = {clause: verdict(found, clause)["verdict"] for clause in ("S5", "S6")}
    assert told == ({"S5": HELD, "S6": HELD} if not broken else {**told, broken: VIOLATED}), told


class Stopping(ThreadRuntime):
    """A machine that stops the thread for 20 s at each reading of a clock: all that was asked before is old by then."""

    def __init__(self):
        super().__init__()
        self.now_ns = 0

    def monotonic_ns(self):
        self.now_ns += 20 * NS_PER_S
        return self.now_ns

    def wall_ns(self):
        self.now_ns += 20 * NS_PER_S
        return self.now_ns


@pytest.mark.parametrize("read", ["process", "wire"])
def test_a_torn_stamp_never_makes_a_validity_longer(read):
    """The wall clock is read after true time, so it seems ahead, and the end of a validity early (S5, S6)."""
    runtime = Stopping()
    if read == "process":
        at_ns, wall_ns, *_ = host_stamp(runtime)()
    else:
        wire = WireRecorder(
            Recorder(),
            dialect_of("s3", "b"),
            load_decoder("exists:locks/*"),
            protects=(),
            runtime=runtime,
            clock_offsets_ns={},
        )
        at_ns, wall_ns, *_ = wire._stamp("n1", 5 * NS_PER_S)
    assert wall_ns - at_ns == 20 * NS_PER_S
