"""Traces that drive Hudi's own provider and our baseline through the same events.

A trace is plain JSON: settings and steps. A step is one call with everything
the outside world will answer during it: the clock, the stored bytes, what each
write meets, what the heartbeat says. `run` plays a trace on either subject and
notes what it answered, wrote, and believed. Equal notes are the proof.

    python -m tests.conformance.hudi_traces compare --traces 400   # needs Java; prints a summary as JSON
    python -m tests.conformance.hudi_traces record  --traces 300   # writes tests/data/hudi_traces.json.gz
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from lockref.errors import CapabilityMissing, ConfigError, CorruptRecord, LockError
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime
from lockref.storage.config import StorageLockConfig, lock_file_location
from lockref.storage.hudi.client import LockGetResult, LockUpsertResult, StorageLockFile
from lockref.storage.hudi.provider import HoodieLockException, StorageBasedLockProvider
from lockref.storage.lockfile import NULL_RECORD, LockFile, parse_strictly_as_hudi, serialize
from lockref.stores.port import Version
from tests.conformance import hudi_heartbeats

DATA = Path(__file__).resolve().parent.parent / "data"
TRACES_FILE = DATA / "hudi_traces.json.gz"
HEARTBEATS_FILE = DATA / "hudi_heartbeats.json.gz"
PARSING_FILE = DATA / "hudi_parsing.json"
FACTS_FILE = DATA / "hudi_facts.json"
EXIT_CAPABILITY_MISSING = CapabilityMissing.exit_code

OWNER = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
FOLDER = "s3://lake/table/.hoodie/.locks"
EPOCH_MS = 1_700_000_000_000

Trace = dict[str, Any]
Note = dict[str, Any]


class ScriptedFailure(LockError):
    """What a scripted client raises."""


class Subject(Protocol):
    """The calls that both providers have."""

    def try_lock(self) -> bool: ...
    def renew_lock(self) -> bool: ...
    def unlock(self) -> None: ...
    def close(self) -> None: ...
    def run_shutdown_hook(self) -> None: ...
    def get_lock(self) -> StorageLockFile | None: ...


class Script:
    """The world of one trace: client, heartbeat, clock and sleep, all from the current step."""

    def __init__(self, parse: Callable[..., LockFile]) -> None:
        self.parse = parse
        self.now_ms = EPOCH_MS
        self.step: dict[str, Any] = {}
        self.log: list[list[Any]] = []
        self.is_active = False
        self.made = 0
        self.writes: list[str] = []
        self.sleeps: list[bool] = []
        self.renew: Callable[[], bool] = lambda: False

    def begin(self, step: dict[str, Any]) -> None:
        self.step, self.log = step, []
        self.now_ms = step["now_ms"]
        self.writes, self.sleeps = list(step.get("writes", ())), list(step.get("sleeps", ()))

    def _failing(self, what: str) -> None:
        if self.step.get(what) == "raise":
            raise ScriptedFailure(what)

    # The client.

    def read_current_lock_file(self) -> tuple[LockGetResult, StorageLockFile | None]:
        self.log.append(["read"])
        self.now_ms += self.step.get("read_ms", 0)
        self._failing("read")
        answer = self.step.get("read", "absent")
        if answer == "absent":
            return LockGetResult.NOT_EXISTS, None
        if answer == "unknown":
            return LockGetResult.UNKNOWN_ERROR, None
        return LockGetResult.SUCCESS, StorageLockFile(self.parse(bytes.fromhex(answer["body"])), Version("stored"))

    def try_upsert_lock_file(
        self, new: LockFile, previous: StorageLockFile | None
    ) -> tuple[LockUpsertResult, StorageLockFile | None]:
        self.log.append(["write", serialize(new).decode(), None if previous is None else previous.version])
        self.now_ms += self.step.get("write_ms", 0)
        answer = self.writes.pop(0) if self.writes else "success"
        if answer == "raise":
            raise ScriptedFailure("write")
        if answer not in ("success", "foreign"):
            return LockUpsertResult[answer], None
        self.made += 1
        owner = new.owner if answer == "success" else "somebody else"
        return LockUpsertResult.SUCCESS, StorageLockFile(
            LockFile(owner, new.valid_until_ms, new.expired), Version(f"w{self.made}")
        )

    def read_object(self, path: str, check_exists_first: bool) -> str | None:
        self.log.append(["switch", path, check_exists_first])
        self._failing("switch")
        return self.step.get("switch")

    def write_object(self, path: str, content: str) -> bool:
        # Hudi stamps END with the machine's clock, which no trace controls.
        settled = re.sub(
            r'("state":"END","lockExpiration":)\d+(,"ownerId":"[^"]*","timestamp":)\d+', r"\g<1>0\g<2>0", content
        )
        self.log.append(["audit", path, settled])
        self._failing("audit")
        return bool(self.step.get("audit", True))

    # The heartbeat.

    def start_heartbeat_for_thread(self, _thread: object) -> bool:
        is_started = self.step.get("start", True)
        self.log.append(["start", is_started])
        self.is_active = self.is_active or is_started
        return bool(is_started)

    def stop_heartbeat(self, may_interrupt: bool) -> bool:
        is_stopped = self.step.get("stop", True)
        self.log.append(["stop", may_interrupt, is_stopped])
        if is_stopped or self.step.get("unscheduled"):
            self.is_active = False
        return bool(is_stopped)

    def has_active_heartbeat(self) -> bool:
        return self.is_active

    # Both have a close; the order tells them apart.

    def close(self) -> None:
        self.log.append(["close"])
        self._failing("close")

    # Time.

    def sleep(self, seconds: int) -> bool:
        self.log.append(["sleep", seconds])
        self.now_ms += 1000 * seconds
        if self.step.get("renewed_asleep"):
            # A late renewal replaces the lock object while unlock waits to try again.
            self.log.append(["renewed", self.renew()])
        return self.sleeps.pop(0) if self.sleeps else False


class ScriptRuntime(ThreadRuntime):
    """Real threads, scripted wall clock."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    def wall_ns(self) -> Any:
        return self._script.now_ms * NS_PER_MS + 999_999


class _ScriptThread:
    def __init__(self, script: Script) -> None:
        self._script = script

    def current(self) -> _ScriptThread:
        return self

    def sleep(self, duration_ns: int) -> bool:
        return self._script.sleep(duration_ns // NS_PER_S)


def new_baseline(trace: Trace, script: Script) -> Subject:
    return StorageBasedLockProvider(
        OWNER,
        lock_file_path=f"{FOLDER}/table_lock.json",
        validity_ns=trace["validity_s"] * NS_PER_S,
        renew_interval_ns=NS_PER_S,
        client=script,
        runtime=ScriptRuntime(script),
        heartbeat=lambda _owner, _interval, _renew: script,
        threads=_ScriptThread(script),  # type: ignore[arg-type]
    )


def new_original(trace: Trace, script: Script) -> Subject:
    from lockref.originals.hudi_classes import HudiOriginal

    properties = {
        "hoodie.base.path": "s3://lake/table",
        "hoodie.write.lock.storage.validity.timeout.secs": trace["validity_s"],
        "hoodie.write.lock.storage.renew.interval.secs": 1,
    }
    return HudiOriginal(
        OWNER,
        properties,
        client=script,
        heartbeat=lambda _owner, _interval, _renew: script,
        now_ms=lambda: script.now_ms,
        sleep=script.sleep,
    )


def outcome(call: Callable[[], object]) -> list[Any]:
    """["answered", value] or ["raised", class, what matters of the message]."""
    try:
        return ["answered", call()]
    except HoodieLockException as error:
        return ["raised", "HoodieLockException", error.state.value if error.state else str(error)[:20]]
    except CorruptRecord as error:
        return ["raised", "CorruptRecord", NULL_RECORD if NULL_RECORD in str(error) else "unreadable"]
    except LockError as error:
        return ["raised", type(error).__name__, str(error)]


def run(trace: Trace, new: Callable[[Trace, Script], Subject], parse: Callable[..., LockFile]) -> list[Note]:
    """Play a trace; one note per step."""
    script = Script(parse)
    subject = new(trace, script)
    script.renew = subject.renew_lock
    calls: dict[str, Callable[[], object]] = {
        "try_lock": subject.try_lock,
        "renew": subject.renew_lock,
        "unlock": subject.unlock,
        "close": subject.close,
        "hook": subject.run_shutdown_hook,
    }
    notes: list[Note] = []
    for step in trace["steps"]:
        script.begin(step)
        answer = outcome(calls[step["op"]])
        lock = subject.get_lock()
        notes.append(
            {
                "outcome": answer,
                "log": script.log,
                "lock": None if lock is None else [serialize(lock.data).decode(), lock.version],
                "active": script.is_active,
            }
        )
        if new is new_original:
            from lockref.originals.hudi_classes import clear_interrupt

            clear_interrupt()
    return notes


def run_baseline(trace: Trace) -> list[Note]:
    return run(trace, new_baseline, parse_strictly_as_hudi)


def run_original(trace: Trace) -> list[Note]:
    from lockref.originals.hudi_classes import parse_with_jackson

    return run(trace, new_original, parse_with_jackson)


# Making traces.

_EDGES_MS = (-501, -500, -499, -1, 0, 1, 499, 500, 501)
_WRITES = ("success", "ACQUIRED_BY_OTHERS", "UNKNOWN_ERROR", "THROTTLED", "raise", "foreign")
_SWITCHES = (
    None, '{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":true}', '{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":false}',
    '{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":"true"}', '{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":1}', "{}", "[]", "nonsense",
    "", "raise",
)  # fmt: skip


def stored_body(rng: random.Random, now_ms: int) -> bytes:
    """Bytes that a try_lock may find: mostly records around their expiry, some oddities."""
    owner = rng.choice((OWNER, "other", "other"))
    kind = rng.random()
    valid_until_ms = now_ms + rng.choice((*_EDGES_MS, -100_000, 100_000))
    if kind < 0.75:
        return serialize(LockFile(owner, valid_until_ms, rng.random() < 0.3))
    if kind < 0.85:
        return serialize(LockFile(owner, valid_until_ms, rng.random() < 0.3, nonce="n", fence=7))
    return rng.choice(
        (
            b"", b"null", b"{}", b"[]", b'{"expired":false}', b"\xef\xbb\xbf" + serialize(LockFile("x", 1, False)),
            b'{"expired":"true","validUntil":"1","owner":null}', b'{"expired":true,"expiration":1,"owner":"x"}',
            serialize(LockFile("x", 1, False)) + b" trailing",
        )
    )  # fmt: skip


def make_trace(seed: int) -> Trace:
    """A random trace: calls in any order, half the world's answers out of the ordinary."""
    rng = random.Random(seed)
    validity_s = rng.choice((10, 30, 300))
    is_rough = rng.random() < 0.7
    now_ms = EPOCH_MS
    steps = []
    for _ in range(rng.randint(3, 12)):
        now_ms += rng.choice((0, 1, 999, 1000, 4000, validity_s * 1000, -2000))
        if rng.random() < 0.25:
            now_ms = max(now_ms, steps[-1]["now_ms"] if steps else now_ms) + validity_s * 1000 + rng.choice(_EDGES_MS)
        op = (
            rng.choices(("try_lock", "renew", "unlock", "hook", "close"), (8, 6, 5, 1, 0.15))[0]
            if steps
            else "try_lock"
        )
        step: dict[str, Any] = {"op": op, "now_ms": now_ms}
        if op == "try_lock":
            step["read"] = rng.choices(
                ("absent", {"body": stored_body(rng, now_ms).hex()}, "unknown", "raise"), (8, 6, 1, 0.7)
            )[0]
            step["start"] = rng.random() < 0.9
            step["switch"] = rng.choice(_SWITCHES)
        if is_rough:
            step["writes"] = [rng.choices(_WRITES, (9, 2, 2, 3, 2, 0.4))[0] for _ in range(4)]
            step["sleeps"] = [rng.random() < 0.1 for _ in range(3)]
            step["renewed_asleep"] = rng.random() < 0.2
            step["stop"] = rng.random() < 0.85
            step["unscheduled"] = rng.random() < 0.5
            step["audit"] = rng.choice((True, True, False, "raise"))
            if rng.random() < 0.2:
                step["read_ms"], step["write_ms"] = rng.choice(((0, 600), (1500, 0), (0, validity_s * 1000 + 501)))
            if op == "close" and rng.random() < 0.3:
                step["close"] = "raise"
        steps.append(step)
    steps.append({"op": "close", "now_ms": now_ms})
    return {"seed": seed, "validity_s": validity_s, "steps": steps}


def first_difference(trace: Trace, left: list[Note], right: list[Note]) -> dict[str, Any] | None:
    """The first step at which two plays of a trace part; None if they agree."""
    for number, (step, one, other) in enumerate(zip(trace["steps"], left, right, strict=True)):
        if one != other:
            return {"seed": trace["seed"], "step": number, "call": step, "original": one, "baseline": other}
    return None


# Bodies for the two readers.

PARSING_TABLE: tuple[bytes, ...] = (
    b'{"expired":false,"validUntil":1700000000000,"owner":"3f2504e0-4f89-41d3-9a0c-0305e82c3301"}',
    b'{"expired":true,"validUntil":1700000000000,"owner":"3f2504e0-4f89-41d3-9a0c-0305e82c3301"}',
    b'{"owner":"a","x":{"y":[1,{}]},"validUntil":1,"expired":false,"host":null}',
    b' \t\r\n{ "expired" : false , "validUntil" : 1 , "owner" : "a" } tail',
    b'{"expired":false,"validUntil":1,"owner":"a"}{"expired":true}',
    b'{"expired":false,"validUntil":1,"owner":"a","owner":"b","expired":true,"validUntil":2}',
    b'{"expired":false,"validUntil":"x","owner":"a","validUntil":2}',
    b'{"expired":false,"validUntil":2,"owner":"a","validUntil":"x"}',
    b'{"expired":false,"validUntil":2,"owner":"a","owner":null}',
    b'{"expired":false,"validUntil":2,"owner":"a","expired":null}',
    b'\xef\xbb\xbf{"expired":false,"validUntil":1,"owner":"a"}',
    '\ufeff{"expired":false,"validUntil":1,"owner":"ä"}'.encode("utf-16-le"),
    '\ufeff{"expired":false,"validUntil":1,"owner":"ä"}'.encode("utf-16-be"),
    '{"expired":false,"validUntil":1,"owner":"ä"}'.encode("utf-16-le"),
    '{"expired":false,"validUntil":1,"owner":"ä"}'.encode("utf-16-be"),
    '\ufeff{"expired":false,"validUntil":1,"owner":"ä"}'.encode("utf-32-le"),
    '\ufeff{"expired":false,"validUntil":1,"owner":"ä"}'.encode("utf-32-be"),
    '{"expired":false,"validUntil":1,"owner":"ä€😀"}'.encode(),
    '{"expired":false,"validUntil":1,"owner":"ä"}'.encode("latin-1"),
    b'{"expired":false,"validUntil":1,"owner":"a"}\xff',
    b'{"expired":false,"validUntil":1,"owner":"\\ud83d\\ude00\\u0041\\n"}',
    b'{"expired":false,"validUntil":1,"owner":"a\nb"}',
    b'{"expired":false,"validUntil":1,"owner":"\\x"}',
    b'{"Expired":false,"validUntil":1,"owner":"a"}',
    b'{"expired":false,"expiration":1,"owner":"a"}',
    b'{"expired":false,"validUntil":1}',
    b'{"validUntil":1,"owner":"a"}',
    b"{}", b"[]", b'[{"expired":false,"validUntil":1,"owner":"a"}]', b"", b" ", b"null", b" null ", b"nullx", b"nul",
    b"true", b"1", b'"x"', b'""', b"{", b'{"expired":false,"validUntil":1,"owner":"a"',
    b"{'expired':false,'validUntil':1,'owner':'a'}",
    b'{"expired":false,"validUntil":1,"owner":"a",}',
    b'{"expired":false,"validUntil":1,"owner":"a","x":NaN}',
    b'{"expired":false,"validUntil":1,"owner":"a","x":01}',
    b'/* c */{"expired":false,"validUntil":1,"owner":"a"}',
    *(
        b'{"expired":%s,"validUntil":1,"owner":"a"}' % value
        for value in (
            b'"true"', b'"True"', b'"TRUE"', b'"tRUE"', b'"false"', b'"False"', b'"FALSE"', b'" true "', b'""', b'" "',
            b'"yes"', b'"null"', b'"1"', b"0", b"1", b"2", b"-1", b"-0", b"99999999999999999999", b"1.0", b"0.0",
            b"1e0", b"null", b"[]", b"[true]", b"{}", b"NaN",
        )
    ),
    *(
        b'{"expired":false,"validUntil":%s,"owner":"a"}' % value
        for value in (
            b'"12"', b'" 12 "', b'"+12"', b'"-12"', b'""', b'" "', b'"1.9"', b'"null"', b'"x"', b'"1_0"',
            b'"9223372036854775807"', b'"9223372036854775808"', '"١٢"'.encode(), b"1.9", b"-1.9", b"1e3", b"1E+3",
            b"12e-1", b"-5", b"-0", b"0", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
            b"-9223372036854775809", b"9.3e18", b"9223372036854775807.0", b"1e400", b"true", b"null", b"NaN",
            b"Infinity", b"[]", b"[1]", b"{}", b"+1", b".5", b"1.", b"0x1", b"00012",
        )
    ),
    *(
        b'{"expired":false,"validUntil":1,"owner":%s}' % value
        for value in (
            b"null", b'""', b"12", b"1.90", b"1e3", b"-0", b"true", b"false", b"[]", b'["a"]', b"{}", b'" a "',
        )
    ),
)  # fmt: skip


def reading(parse: Callable[..., LockFile], body: bytes) -> list[Any]:
    """What a reader makes of a body, in a form that JSON keeps."""
    try:
        record = parse(body)
    except CorruptRecord as error:
        return ["refused", "null" if NULL_RECORD in str(error) else "unreadable"]
    return ["record", record.owner, record.valid_until_ms, record.expired]


# Paths, settings and bytes written.

BASE_PATHS = (
    "s3://lake/table", "s3a://lake/table/", "s3://lake//a///b//", "gs://under_score/x%20y", "abfs://c@a.dfs.core/t",
    "s3://lake", "s3://lake/", "s3://lake/ä/€", "s3://lake/x://y", "s3://lake:80/t", "s3://lake/a+b&c=d;e@f!g",
    "s3://lake/a%2Fb", "s3:///table", "s3://lake/a b", "s3://lake/a|b", "s3://lake/%zz", "s3://lake/%", "/tmp/table",
)  # fmt: skip
"""A base path with "?" or "#" is left out: Hudi then locks the table's own folder, and we refuse."""

_V, _R, _H = (f"hoodie.write.lock.storage.{name}" for name in (
    "validity.timeout.secs", "renew.interval.secs", "heartbeat.poll.secs",
))  # fmt: skip
SETTINGS: tuple[dict[str, object], ...] = (
    {}, {_V: 10, _R: 1}, {_V: "10", _R: "1"}, {_V: 10, _R: 2}, {_V: 9, _R: 0}, {_V: 10, _R: 0}, {_V: -1, _R: -1},
    {_V: 20, _H: 2}, {_V: 20, _H: 3}, {_V: 20, _H: 3, _R: 2}, {_V: 20, _R: 3, _H: 2}, {_V: 100}, {_R: 31}, {_R: 30},
)  # fmt: skip
WRITTEN = tuple(
    LockFile(owner, number, expired)
    for owner in (OWNER, None, "", 'q"\\/\b\f\n\r\t\x00\x1f\x7f', "ä€😀\u2028")
    for number in (0, -1, 1_700_000_000_000, 2**63 - 1, -(2**63))
    for expired in (True, False)
)


def location(split: Callable[[str], tuple[str, str]]) -> list[list[Any]]:
    """Bucket and key for each base path, or that it is refused."""
    found: list[list[Any]] = []
    for base_path in BASE_PATHS:
        try:
            found.append([base_path, *split(base_path)])
        except (LockError, ConfigError):
            found.append([base_path, "refused"])
    return found


def our_location(base_path: str) -> tuple[str, str]:
    place = lock_file_location(base_path)
    return place.bucket, place.key


def refusals(check: Callable[[dict[str, object]], object]) -> list[str]:
    """Hudi's words for each of the settings; "" where they are accepted."""
    found = []
    for chosen in [{}, *({"hoodie.base.path": "s3://lake/table", **chosen} for chosen in SETTINGS)]:
        try:
            check(chosen)
            found.append("")
        except (LockError, ConfigError) as error:
            found.append(str(error).removeprefix("IllegalArgumentException: "))
    return found


def _facts() -> dict[str, Any]:
    """What Hudi's classes say about paths, settings and bytes."""
    from lockref.originals.hudi_classes import HudiOriginal
    from tests.evidence.peers.hudi_jvm import bucket_and_key_of, lock_folder_of, serialize_with_jackson

    script = Script(parse_strictly_as_hudi)

    def check(properties: dict[str, object]) -> None:
        HudiOriginal(OWNER, properties, client=script, heartbeat=lambda *_: script, now_ms=lambda: 0).close()

    return {
        "locations": location(lambda path: bucket_and_key_of(f"{lock_folder_of(path)}/table_lock.json")),
        "refusals": refusals(check),
        "written": [serialize_with_jackson(record).decode() for record in WRITTEN],
    }


def our_facts() -> dict[str, Any]:
    """The same from our own code."""
    return {
        "locations": location(our_location),
        "refusals": refusals(StorageLockConfig.from_properties),
        "written": [serialize(record).decode() for record in WRITTEN],
    }


def _compare(traces: int, first_seed: int, bodies: int) -> dict[str, Any]:
    from lockref.originals.hudi_classes import parse_with_jackson
    from tests.conformance.hudi_bodies import find_parsing_difference

    differences, steps = [], 0
    for seed in range(first_seed, first_seed + traces):
        trace = make_trace(seed)
        steps += len(trace["steps"])
        found = first_difference(trace, run_original(trace), run_baseline(trace))
        if found is not None:
            differences.append(found)
    table = [
        [body.hex(), reading(parse_with_jackson, body), reading(parse_strictly_as_hudi, body)]
        for body in PARSING_TABLE
        if reading(parse_with_jackson, body) != reading(parse_strictly_as_hudi, body)
    ]
    beats = [hudi_heartbeats.make_trace(seed) for seed in range(first_seed, first_seed + traces)]
    return {
        "heartbeat_differences": [
            beat
            for beat in beats
            if hudi_heartbeats.run(beat, hudi_heartbeats.Original)
            != hudi_heartbeats.run(beat, hudi_heartbeats.Baseline)
        ][:3],
        "heartbeat_steps": sum(map(len, beats)),
        "traces": traces,
        "steps": steps,
        "differences": len(differences),
        "shown": differences[:3],
        "table_rows": len(PARSING_TABLE),
        "table_differences": table,
        "bodies": bodies,
        "facts_differences": [
            [name, theirs, ours]
            for name, original in _facts().items()
            for theirs, ours in zip(original, our_facts()[name], strict=True)
            if list(theirs) != list(ours)
        ],
        "body_difference": find_parsing_difference(parse_with_jackson, bodies),
    }


def _record(traces: int, first_seed: int) -> dict[str, Any]:
    from lockref.originals.hudi_classes import parse_with_jackson

    recorded = [
        {"trace": trace, "notes": run_original(trace)}
        for trace in map(make_trace, range(first_seed, first_seed + traces))
    ]
    DATA.mkdir(exist_ok=True)
    text = json.dumps(recorded, separators=(",", ":"), sort_keys=True)
    TRACES_FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
    rows = [[body.hex(), reading(parse_with_jackson, body)] for body in PARSING_TABLE]
    PARSING_FILE.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    beats = [hudi_heartbeats.make_trace(seed) for seed in range(first_seed, first_seed + traces)]
    told = [[beat, hudi_heartbeats.run(beat, hudi_heartbeats.Original)] for beat in beats]
    HEARTBEATS_FILE.write_bytes(gzip.compress(json.dumps(told, separators=(",", ":")).encode(), mtime=0))
    FACTS_FILE.write_text(json.dumps(_facts(), indent=1, ensure_ascii=False) + "\n")
    return {"recorded": len(recorded), "rows": len(rows)}


def _contend() -> dict[str, Any]:
    """The original and the baseline take turns on one object, and the original learns of a theft by interrupt."""
    from lockref.provider import LockContext, LockSettings
    from lockref.storage.hudi.lock_manager import HudiLock
    from lockref.stores.memory import MemoryStore
    from tests.evidence.peers.hudi import HudiOriginalLock

    store, key = MemoryStore(), LockSettings().key
    context = LockContext(runtime=ThreadRuntime(), open_store=lambda _timeout_ns: store, settings=LockSettings())
    original, baseline = HudiOriginalLock(context), HudiLock(context)
    turns = []
    for _ in range(3):
        for holder, other in ((original, baseline), (baseline, original)):
            turns.append([holder.lock(1), holder.holds(), other.try_lock()])
            holder.unlock()
    turns.append([original.lock(1), original.holds(), False])
    store.put(key, serialize(LockFile("thief", 2**62, expired=False)))
    thread = original.java_thread
    # Woken by Hudi's own interrupt, at the first renewal; the bound only ends a failed test.
    thread_class = type(thread)
    was_interrupted = False
    try:
        thread_class.sleep(20_000)
    except thread_interrupted():
        was_interrupted = True
    thread.interrupt()
    try:
        original.unlock()
        unlocked = "released"
    except LockError as error:
        unlocked = type(error).__name__
    left = store.read(key).body or b""
    original.close()
    baseline.close()
    return {"turns": turns, "interrupted": was_interrupted, "unlock": unlocked, "left": left.decode()}


def thread_interrupted() -> Any:
    import jpype

    return jpype.JClass("java.lang.InterruptedException")


def main() -> int:
    """Run one lane in this process; the answer goes to standard output as one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("lane", choices=("compare", "record", "contend"))
    parser.add_argument("--traces", type=int, default=400)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--bodies", type=int, default=500)
    arguments = parser.parse_args()
    from lockref.originals.hudi_classes import start_hudi

    try:
        start_hudi()
    except CapabilityMissing as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CAPABILITY_MISSING
    if arguments.lane == "record":
        result = _record(arguments.traces, arguments.first_seed)
    elif arguments.lane == "contend":
        result = _contend()
    else:
        result = _compare(arguments.traces, arguments.first_seed, arguments.bodies)
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    # Not a plain return: a Java thread that is still alive would keep the process (D12).
    os._exit(main())
