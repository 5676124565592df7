"""H25: Hudi's audit, off the lock path, and what can be concluded from it."""

from __future__ import annotations

import json

import pytest

from lockref.errors import ConfigError
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime, WallNs
from lockref.storage import audit as audit_module
from lockref.storage.audit import (
    AuditRecord,
    AuditState,
    AuditTrail,
    is_enabled,
    parse_file,
    set_enabled,
    validate,
    validate_as_hudi,
)
from lockref.storage.lock import StorageLock
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ReadReply
from lockref.words import Outcome
from tests.hardened_rig import CONFIG, Rig, late_reply

LOCKS = "table/.hoodie/.locks"


def lines(owner: str, *records: tuple[str, int, int]) -> bytes:
    began_ms = records[0][1]
    return "".join(
        AuditRecord(
            began_ms=began_ms, is_held=True, state=AuditState(state), expires_ms=expires, owner=owner, at_ms=at
        ).to_line()
        for state, at, expires in records
    ).encode()


def files(store: MemoryStore) -> dict[str, bytes]:
    bodies = store._objects.bodies
    return {key.rpartition("/")[2]: body for key, (body, _) in bodies.items() if "/audit/" in key}


def rig_with_audit(*, is_on: bool = True):
    rig = Rig()
    notes = MemoryStore()
    set_enabled(notes, LOCKS, to=is_on)
    trail = AuditTrail(notes, locks_key=LOCKS, validity_ns=CONFIG.validity_ns, runtime=rig.runtime)
    rig.lock = rig.another(audit=trail)
    return rig, notes, trail


def test_record_is_hudis_line():
    """§8: field order, no spaces, one newline."""
    record = AuditRecord(began_ms=1, is_held=True, state=AuditState.START, expires_ms=2, owner="o", at_ms=1)
    assert record.to_line() == (
        '{"transactionStartTime":1,"lockHeld":true,"state":"START","lockExpiration":2,"ownerId":"o","timestamp":1}\n'
    )


def test_one_file_per_cycle():
    """H25, §8 (c): two cycles of one lock, even within one millisecond, are two windows."""
    rig, notes, _ = rig_with_audit()
    for _ in range(2):
        with rig.lock:
            rig.renew()
    rig.runtime.run("audit")
    found = files(notes)
    assert len(found) == 2
    for name, body in found.items():
        states = [json.loads(line)["state"] for line in body.splitlines()]
        assert states == ["START", "RENEW", "END"]
        assert name == f"{json.loads(body.splitlines()[0])['transactionStartTime']}_{rig.lock.owner}.jsonl"


def test_the_end_is_when_the_holder_stopped():
    """H25: END carries the instant before the release left, not that of its answer."""
    rig, notes, _ = rig_with_audit()
    rig.lock.try_lock()
    ended_ms = rig.runtime.wall // NS_PER_MS
    rig.store.script = [late_reply(NS_PER_S)]
    rig.lock.unlock()
    rig.runtime.run("audit")
    [body] = files(notes).values()
    assert json.loads(body.splitlines()[-1])["timestamp"] == ended_ms


def test_audit_is_off_the_lock_path():
    """H25, D17: the lock hands records over and goes on; a task of its own writes them."""
    rig, notes, _ = rig_with_audit()
    with rig.lock:
        pass
    assert files(notes) == {}
    assert rig.store.log == ["read", "create", "release"]
    rig.runtime.run("audit")
    assert len(files(notes)) == 1


@pytest.mark.parametrize("body", [None, b"{", b"[]", b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":"yes"}'])
def test_missing_or_malformed_switch_means_off(body):
    """§8: as in Hudi."""
    store = MemoryStore()
    if body is not None:
        store.put(f"{LOCKS}/audit_enabled.json", body)
    assert is_enabled(store, LOCKS) is False


def test_unreadable_switch_means_off():
    """§8: no answer is a no."""

    class Silent(MemoryStore):
        def read(self, key):
            return ReadReply(outcome=Outcome.AMBIGUOUS)

    assert is_enabled(Silent(), LOCKS) is False


def test_switched_off_nothing_is_written():
    """§8: nothing but the switch is read, once."""
    rig, notes, _ = rig_with_audit(is_on=False)
    for _ in range(3):
        with rig.lock:
            pass
        rig.runtime.run("audit")
    assert files(notes) == {}


def test_queue_is_bounded(monkeypatch):
    """H25: the audit is best effort, the lock is not."""
    monkeypatch.setattr(audit_module, "QUEUE_MAX", 2)
    rig, notes, trail = rig_with_audit()
    for _ in range(5):
        with rig.lock:
            rig.runtime.advance(NS_PER_MS)
    rig.runtime.run("audit")
    assert len(files(notes)) == 2
    assert trail.dropped == 3


def test_flush_waits_for_the_writer():
    """With real threads, `flush` returns when everything is written."""
    notes = MemoryStore()
    set_enabled(notes, LOCKS, to=True)
    trail = AuditTrail(notes, locks_key=LOCKS, validity_ns=NS_PER_S, runtime=ThreadRuntime())
    with StorageLock(MemoryStore(), config=CONFIG, audit=trail):
        pass
    assert trail.flush(10 * NS_PER_S)
    assert len(files(notes)) == 1
    assert validate_as_hudi(files(notes)).result == "PASSED"


def test_lost_grant_has_no_end():
    """§8: END only when the release is confirmed."""
    rig, notes, _ = rig_with_audit()
    rig.lock.try_lock()
    rig.store.plant(rig.live())
    with pytest.raises(Exception, match="lost"):
        rig.lock.unlock()
    rig.runtime.run("audit")
    assert validate_as_hudi(files(notes)).result == "WARNING"


def test_hudis_verdicts_and_words():
    """§8: PASSED, WARNING and FAILED in Hudi's own words."""
    assert validate_as_hudi(None).details == "No audit folder found - nothing to validate"
    assert validate_as_hudi({}).details == "No audit files found - nothing to validate"
    good = {"a": lines("a", ("START", 0, 100), ("END", 50, 150)), "b": lines("b", ("START", 50, 150), ("END", 60, 160))}
    assert validate_as_hudi(good).result == "PASSED"
    assert validate_as_hudi(good).transactions == 2
    overlap = {**good, "c": lines("c", ("START", 49, 149), ("END", 55, 155))}
    report = validate_as_hudi(overlap)
    assert report.result == "FAILED"
    assert report.details.splitlines() == ["[ERROR] a => overlaps with c", "[ERROR] c => overlaps with b"]
    died = {"a": lines("a", ("START", 0, 100))}
    assert validate_as_hudi(died).details == (
        "[WARNING] a => transaction did not end gracefully. This could be due to driver OOM or non-graceful shutdown."
    )
    assert validate_as_hudi({"x": b"junk"}).details == "[ERROR] Failed to parse audit file: x"


def test_theft_by_expiry_is_seen():
    """§8 (b), E36: what Hudi reports as an ungraceful end is reported as a takeover, by whom and of whom."""
    stolen = {
        "a": lines("a", ("START", 0, 10_000), ("RENEW", 1000, 11_000)),
        "b": lines("b", ("START", 11_501, 21_501), ("END", 12_000, 22_000)),
    }
    assert [line for line in validate_as_hudi(stolen).lines if "b" in line.split("=>")[1].split()] == []
    report = validate(stolen)
    assert report.result == "WARNING"
    assert report.lines == ("[WARNING] a => b took the lock by expiry, its holder wrote no END",)


def test_early_theft_is_an_error():
    """§8: a successor that begins well before the victim had to stop is no matter of clocks."""
    stolen = {"a": lines("a", ("START", 0, 10_000)), "b": lines("b", ("START", 5000, 15_000), ("END", 6000, 16_000))}
    report = validate(stolen)
    assert report.result == "FAILED"
    assert "4500 ms before its holder had to stop" in report.details


def test_clock_difference_is_allowed_for():
    """§8 (a): a clean handover from a holder whose clock is ahead is Hudi's false overlap, not ours."""
    ahead = {
        "a": lines("a", ("START", 0, 10_000), ("END", 700, 10_700)),
        "b": lines("b", ("START", 400, 10_400), ("END", 900, 10_900)),
    }
    assert validate_as_hudi(ahead).result == "FAILED"
    assert validate(ahead).result == "WARNING"
    assert validate(ahead, drift_ms=200).result == "FAILED"


def test_activity_after_the_lease_is_an_error():
    """H25, §8 (f): RENEW records say how long the lease lasted; a later END means work without a lease."""
    late = {"a": lines("a", ("START", 0, 10_000), ("RENEW", 1000, 11_000), ("END", 11_001, 21_001))}
    assert validate_as_hudi(late).result == "PASSED"
    assert validate(late).result == "FAILED"


def test_clean_history_passes():
    """No finding where there is nothing to find; the last window may still be open."""
    good = {"a": lines("a", ("START", 0, 100), ("END", 50, 150)), "b": lines("b", ("START", 50, 150))}
    assert validate({"a": good["a"]}).result == "PASSED"
    assert validate(good).lines == (f"[WARNING] b => {audit_module._NOT_GRACEFUL}",)
    assert validate({"x": b"\xff"}).result == "ERROR"


@pytest.mark.parametrize("body", [b"", b"[]\n", b'{"state":"START"}', b"\xff"])
def test_no_audit_file_is_named(body):
    """Unreadable files are errors with the file's name."""
    with pytest.raises(ConfigError, match=r"x\.jsonl"):
        parse_file("x.jsonl", body)


def test_window_without_start_begins_with_its_transaction():
    """§8: [first START, else transactionStartTime; last END, else the last expiration]."""
    window = parse_file("x", lines("o", ("RENEW", 5, 15), ("RENEW", 6, 16)))
    assert (window.started_ms, window.ended_ms, window.covered_ms) == (5, None, 16)


def test_cycles_of_one_millisecond_keep_their_order():
    """One window per cycle: names never collide and never go back."""
    trail = AuditTrail(MemoryStore(), locks_key=LOCKS, validity_ns=NS_PER_S, runtime=Rig().runtime)
    names = [trail._start_ms(AuditState.START, "o", WallNs(ns)) for ns in (5_000_000, 5_000_001, 4_000_000, 9_000_000)]
    assert names == [5, 6, 7, 9]
    assert trail._start_ms(AuditState.RENEW, "o", WallNs(9_000_000)) == 9


def test_a_written_cycle_is_forgotten():
    """H25: a client that lives for months keeps the lines of its present cycle alone."""
    rig, _, trail = rig_with_audit()
    for _ in range(3):
        with rig.lock:
            pass
        rig.runtime.run("audit")
    assert trail._lines == {}


def test_switched_off_nothing_more_is_taken_down():
    """H25: once the switch was found off, a cycle costs the audit no task and no memory."""
    rig, _, trail = rig_with_audit(is_on=False)
    for _ in range(2):
        with rig.lock:
            pass
        rig.runtime.run("audit")
    before = len(rig.runtime.tasks)
    with rig.lock:
        pass
    assert not [task for task in rig.runtime.tasks[before:] if "audit" in task.name]
    assert trail.flush(0)


def test_an_error_outranks_a_warning():
    """§8: a theft is FAILED, although the thief ended without grace, too."""
    stolen = {"a": lines("a", ("START", 0, 10_000)), "b": lines("b", ("START", 5000, 15_000))}
    for report in (validate(stolen), validate_as_hudi(stolen)):
        assert report.result == "FAILED"
        assert any("WARNING" in line for line in report.lines)
