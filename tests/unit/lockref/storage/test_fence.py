"""H21, S2: tokens of hardened clients rise, whoever else writes, whatever is deleted, whichever request is lost."""

from __future__ import annotations

import contextlib
import json
import logging
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from lockref.errors import LockError, OutcomeUnknown
from lockref.locks.fence import BLOCK, FenceMark, fence_key
from lockref.locks.values import Refusal, Reserved, Stored
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage import lockfile
from lockref.storage.lockfile import LockFile
from lockref.stores.memory import MemoryStore
from lockref.stores.port import Version
from tests.hardened_rig import (
    FENCE_KEY,
    KEY,
    Rig,
    ScriptedStore,
    conflict,
    error_503,
    late_reply,
    lose_reply,
    lose_request,
    ok,
    refuse,
    throttle,
)

HUDI = LockFile("hudi", 1, expired=True)


def mark(rig: Rig) -> int:
    body = MemoryStore.read(rig.store, FENCE_KEY).body
    assert body is not None
    return int(json.loads(body)["mark"])


def cycle(lock) -> int | None:
    with lock:
        return lock.fencing_token


def test_the_fence_object_lies_beside_the_lock_object():
    """Hudi's folder, a name of our own."""
    assert fence_key(KEY) == FENCE_KEY
    assert fence_key("locks/orders") == "locks/orders.fence.json"


def test_a_fleet_without_foreigners_asks_once_in_a_block(rig):
    """Rule 2: two requests in a warm cycle; the fence object is written once for every block of tokens."""
    other = rig.another()
    tokens = [cycle(lock) for _ in range(BLOCK + 10) for lock in (rig.lock, other)]
    assert tokens == list(range(1, 2 * BLOCK + 21))
    assert rig.store.fence_log == ["create", "replace", "replace"]
    assert mark(rig) == 3 * BLOCK


def test_clients_that_find_no_lock_at_the_same_time_send_one_request_more_each(rig):
    """One makes the fence object. The other neither reads it nor looks again at once: the first one gets the lock."""
    other, log = rig.another(), rig.store.fence_log

    def after_another(_store: ScriptedStore, perform: Callable[[], Any], _is_read: bool) -> Any:
        cycle(other)
        return perform()

    rig.store.fence_script = [after_another]
    began_ns = rig.runtime.monotonic_ns()
    assert cycle(rig.lock) == 2
    assert log == ["create", "create"]
    assert rig.runtime.monotonic_ns() - began_ns >= NS_PER_S // 5, "a fifth of the poll interval, at least"


def test_a_newcomer_learns_the_mark_from_the_record(rig):
    """A client that lives for one cycle costs no request more, as long as no foreigner writes."""
    cycle(rig.lock)
    rig.store.fence_log.clear()
    assert cycle(rig.another()) == 2
    assert rig.store.fence_log == []


@pytest.mark.parametrize("who", ["same", "other"])
def test_after_a_foreign_writer_the_token_is_above_the_mark(rig, who):
    """Rule 3: "token 40 after token 40" came from clients that remembered differently."""
    cycle(rig.lock)
    other = rig.another()
    assert cycle(other) == 2
    rig.store.plant(HUDI)
    rig.store.fence_log.clear()
    assert cycle(rig.lock if who == "same" else rig.another()) == BLOCK + 1
    assert rig.store.fence_log == ["read", "replace"]


@pytest.mark.parametrize("is_renewed_by_hudi", [False, True])
def test_a_deleted_record_does_not_start_the_tokens_again(rig, is_renewed_by_hudi):
    """U9, S2: deleted, and perhaps made anew by Hudi; a client that remembers nothing goes on above."""
    assert cycle(rig.lock) == 1
    rig.store.delete(KEY)
    if is_renewed_by_hudi:
        rig.store.plant(HUDI)
    assert cycle(rig.another()) > 1


def test_no_token_is_above_the_mark_that_is_durable(rig):
    """Rule 1, at the very end of a block: the mark is raised before the token is used."""
    rig.store.plant(LockFile("old", 1, expired=True, nonce="x", fence=BLOCK, mark=BLOCK))
    marks = []
    rig.store.before = lambda name: marks.append(mark(rig)) if name == "replace" else None
    assert rig.lock.try_lock()
    assert rig.lock.fencing_token == BLOCK + 1
    assert marks == [2 * BLOCK]


def test_a_record_of_a_version_without_the_mark(rig):
    """It carries a token and no mark: the mark is raised above it before the next one is used."""
    rig.store.plant(LockFile("old", 1, expired=True, nonce="x", fence=41))
    assert cycle(rig.lock) == 42
    assert mark(rig) >= 42
    rig.store.plant(HUDI)
    assert cycle(rig.another()) > 42


def test_renewal_and_release_carry_the_mark(rig):
    """So that whoever comes next need not ask."""
    rig.lock.try_lock()
    assert rig.store.record().mark == BLOCK
    rig.renew()
    assert (rig.store.record().fence, rig.store.record().mark) == (1, BLOCK)
    rig.lock.unlock()
    assert (rig.store.record().fence, rig.store.record().mark) == (1, BLOCK)


# ---- races ----


def test_two_clients_raise_one_mark(rig):
    """The loser looks at the record again, and finds the winner."""
    cycle(rig.lock)
    rig.store.plant(HUDI)
    other = rig.another()

    def overtake(store, perform, _is_read):
        assert other.try_lock()
        return perform()

    rig.store.fence_script = [ok, overtake]
    assert rig.lock.try_lock() is False
    assert other.fencing_token == BLOCK + 1


def test_a_client_paused_after_its_raise_wastes_numbers_only(rig):
    """Between its raise and its write others come and go; its write fails, and its next token is above theirs."""
    cycle(rig.lock)
    rig.store.plant(HUDI)
    other, tokens = rig.another(), []

    def meanwhile(name):
        if name == "replace" and not tokens:
            tokens.append(None)
            tokens.append(cycle(other))
            rig.store.plant(LockFile("hudi", 2, expired=True))

    rig.store.before = meanwhile
    mine = cycle(rig.another())
    assert tokens[1] == 2 * BLOCK + 1
    assert mine > tokens[1]


@pytest.mark.parametrize("rule", [lose_reply, lose_request, conflict, throttle, error_503])
@pytest.mark.parametrize("request_number", [0, 1])
def test_a_request_to_the_fence_object_that_fails_is_repeated(rig, rule, request_number):
    """H16: within the caller's time; what may have landed wastes a block at most."""
    cycle(rig.lock)
    rig.store.plant(HUDI)
    rig.store.fence_script = [ok] * request_number + [rule]
    assert rig.lock.lock(5)
    assert rig.lock.fencing_token in (BLOCK + 1, 2 * BLOCK + 1)
    assert rig.lock.fencing_token <= mark(rig)


def test_what_was_reserved_serves_a_repeated_write(rig):
    """The record did not change, so nobody was granted anything: one raise, however often the write is refused."""
    cycle(rig.lock)
    rig.store.plant(HUDI)
    rig.store.fence_log.clear()
    rig.store.script = [ok, ok, conflict, ok, throttle]
    assert rig.lock.lock(5)
    assert rig.store.fence_log == ["read", "replace"]


@pytest.mark.parametrize("timeout_s", [0, 1, 5])
@pytest.mark.parametrize("rule", [lose_request, lose_reply, throttle])
def test_calls_keep_their_time_while_the_fence_object_is_silent(rig, rule, timeout_s):
    """L5: and no lock is given without the token it should have."""
    rig.store.plant(HUDI)
    rig.store.fence_rule_for_all = rule
    began_ns = rig.runtime.mono
    with pytest.raises(OutcomeUnknown, match="fence object"):
        rig.lock.lock(timeout_s)
    assert rig.runtime.mono - began_ns <= max(timeout_s * NS_PER_S, NS_PER_S // 3) + NS_PER_S // 3
    assert rig.store.record() == HUDI


def test_slow_requests_do_not_starve_a_try(rig):
    """L1, L5: a try ends in its time; what it has reserved serves the next one, while the record stands."""
    rig.store.plant(HUDI)
    timeout_ns = NS_PER_S // 3
    rig.store.rule_for_all = rig.store.fence_rule_for_all = late_reply(timeout_ns * 45 // 100)
    tries = 0
    for _ in range(5):
        tries += 1
        try:
            assert rig.lock.try_lock()
            break
        except OutcomeUnknown:
            continue
    assert rig.lock.holds()
    assert tries <= 3


def delete(rig: Rig) -> None:
    MemoryStore.delete(rig.store, KEY)


def write_as_hudi(rig: Rig) -> None:
    rig.store.plant(LockFile("hudi", rig.runtime.wall // NS_PER_MS, expired=True))


def lock_as_another(rig: Rig) -> None:
    with contextlib.suppress(LockError), rig.another():
        pass


MEANWHILE = {
    "deleted": [delete],
    "hudi": [write_as_hudi],
    "another": [lock_as_another],
    "another, then hudi": [lock_as_another, write_as_hudi],
    "hudi, then another": [write_as_hudi, lock_as_another],
    "deleted, then another": [delete, lock_as_another],
    "another twice, then hudi, then another": [lock_as_another, lock_as_another, write_as_hudi, lock_as_another],
}


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("start", ["hudi", "ours"])
@pytest.mark.parametrize("others", MEANWHILE)
def test_tokens_rise_whatever_others_do_at_any_request(rig, others, start, at, is_after):
    """S2: before or after each request of one call, to either object, others come and go; every grant is above all."""
    lock_as_another(rig)
    if start == "hudi":
        write_as_hudi(rig)
    chain: list[int] = []
    requests = [0]

    def rule(store, perform, _is_read):
        number, requests[0] = requests[0], requests[0] + 1
        if number == at and not is_after:
            for act in MEANWHILE[others]:
                act(rig)
        reply = perform()
        body = MemoryStore.read(store, KEY).body
        record = None if body is None else lockfile.parse(body)
        if record is not None and record.fence is not None and record.fence not in chain[-1:]:
            chain.append(record.fence)
        if number == at and is_after:
            for act in MEANWHILE[others]:
                act(rig)
        return reply

    rig.store.rule_for_all = rig.store.fence_rule_for_all = rule
    with contextlib.suppress(LockError), rig.another():
        pass
    requests[0] = 100
    lock_as_another(rig)
    assert len(chain) >= 2
    assert all(before < after for before, after in pairwise(chain))


# ---- no fence ----


@pytest.mark.parametrize("script", [[refuse], [ok, refuse]])
def test_without_access_to_the_fence_object_there_is_no_token(rig, script, caplog):
    """The lock excludes as before; a token of None cannot be mistaken for a number. The log says why, once."""
    rig.store.plant(HUDI)
    rig.store.fence_script = [*script, *script]
    with caplog.at_level(logging.WARNING, "lockref"), rig.lock:
        assert rig.lock.holds()
        assert rig.lock.fencing_token is None
        assert rig.lock.grant.token is None
        assert (rig.store.record().fence, rig.store.record().mark) == (None, None)
        rig.renew()
        assert rig.store.record().fence is None
    assert cycle(rig.lock) is None
    assert len([line for line in caplog.records if "fencing token" in line.message]) == 1
    rig.store.fence_script = []
    assert cycle(rig.another()) is not None


def test_tokens_that_are_lost_a_second_time_are_told_of_a_second_time(rig, caplog):
    """H21: without, with, without again: the log says why each time that they end, not at every grant."""
    with caplog.at_level(logging.WARNING, "lockref"):
        for number, is_fenced in enumerate((False, False, True, False)):
            rig.store.plant(LockFile(f"hudi-{number}", 1, expired=True))
            # Twice: what the lock knows from its last cycle is tried first.
            rig.store.fence_script = [] if is_fenced else [refuse, refuse]
            assert (cycle(rig.lock) is not None) is is_fenced
    assert len([line for line in caplog.records if "fencing token" in line.message]) == 2


class Broken(Exception):
    """What a store may raise that is no answer of a store."""


def test_a_raise_that_ended_in_an_exception_is_looked_up(rig):
    """Rule 1: whether it landed is not known, so the mark is read before the next token above it is used."""
    fence = FenceMark(rig.store, KEY, new_nonce=iter("abcdefgh").__next__, on_void=lambda _why: None)

    def reserve(token: int) -> Reserved | Refusal:
        record = LockFile("old", 1, expired=True, nonce="x", fence=token, mark=None)
        return fence.reserve(Stored(Version("v"), record), seen=token, is_over=lambda: False)

    assert reserve(1) == Reserved(2, BLOCK + 1)

    def lands_and_raises(_store, perform, _is_read):
        perform()
        raise Broken

    rig.store.fence_script = [lands_and_raises]
    with pytest.raises(Broken):
        reserve(BLOCK + 1)
    rig.store.fence_log.clear()
    assert reserve(BLOCK + 1) == Reserved(BLOCK + 2, 2 * BLOCK + 1)
    assert rig.store.fence_log == ["read"]


def test_the_mark_of_an_earlier_raise_serves_while_a_later_raise_is_in_doubt(rig):
    """Rule 2, Cost: the mark only rises, so a token below one that this client made durable needs no request."""
    fence = FenceMark(rig.store, KEY, new_nonce=iter("abcdefgh").__next__, on_void=lambda _why: None)

    def reserve(token: int | None) -> Reserved | Refusal:
        stored = Stored(Version(f"v{token}"), LockFile("old", 1, expired=True, nonce="x", fence=token))
        return fence.reserve(stored, seen=token or 0, is_over=lambda: False)

    assert reserve(None) == Reserved(1, BLOCK)
    rig.store.fence_script = [lose_request]
    assert reserve(BLOCK) is Refusal.TROUBLE
    rig.store.fence_log.clear()
    assert reserve(1) == Reserved(2, BLOCK)
    assert rig.store.fence_log == []


def test_a_token_is_above_what_was_seen_whatever_the_mark_says(rig):
    """Rule 3, S2: the fence object was deleted and a foreigner wrote last: above what this client has seen."""
    fence = FenceMark(rig.store, KEY, new_nonce=iter("abcdefgh").__next__, on_void=lambda _why: None)
    foreign = Stored(Version("v"), LockFile("hudi", 1, expired=True))
    assert fence.reserve(foreign, seen=40, is_over=lambda: False) == Reserved(41, 40 + BLOCK)


def test_a_client_without_access_cannot_pull_the_tokens_of_others_down(rig):
    """It writes records without tokens, like Hudi: whoever comes next takes one above the mark."""
    first = cycle(rig.lock)
    excluded = rig.another()
    rig.store.plant(HUDI)
    rig.store.fence_script = [refuse]
    assert cycle(excluded) is None
    assert cycle(rig.another()) > first


def test_a_token_beyond_the_mark_is_never_used(rig):
    """Rule 1 without access at the end of a block: no token rather than one that a foreigner could make us repeat."""
    rig.store.plant(LockFile("old", 1, expired=True, nonce="x", fence=BLOCK, mark=BLOCK))
    rig.store.fence_script = [refuse]
    assert cycle(rig.lock) is None


@pytest.mark.parametrize(
    "junk", [b"", b"{", b"[]", b'{"mark":"7"}', b'{"mark":-1}', b'{"mark":true}', b"\xff", b'{"mark":1e3}']
)
def test_a_fence_object_that_holds_something_else(rig, junk):
    """Nobody can know how far the tokens have come: no token, until somebody has put it right."""
    rig.store.plant(HUDI)
    MemoryStore.put(rig.store, FENCE_KEY, junk)
    assert cycle(rig.lock) is None
    assert MemoryStore.read(rig.store, FENCE_KEY).body == junk
    MemoryStore.put(rig.store, FENCE_KEY, b'{"mark":7000}')
    assert cycle(rig.lock) == 7001


def test_a_client_goes_on_above_its_own_token_when_all_objects_are_deleted(rig):
    """Rule 3, S2: its own grant counts among what it has seen, though it never read that record."""
    given = cycle(rig.lock)
    rig.store.delete(KEY)
    rig.store.delete(FENCE_KEY)
    again = cycle(rig.lock)
    assert given is not None
    assert again is not None
    assert again > given


def test_a_deleted_fence_object_is_made_anew_above_the_tokens_on_record(rig):
    """While records carry tokens nothing is lost by it."""
    rig.store.plant(LockFile("old", 1, expired=True, nonce="x", fence=BLOCK + 500, mark=2 * BLOCK))
    assert cycle(rig.lock) == BLOCK + 501
    rig.store.plant(LockFile("old", 1, expired=True, nonce="x", fence=2 * BLOCK, mark=2 * BLOCK))
    assert cycle(rig.another()) == 2 * BLOCK + 1
    assert mark(rig) == 3 * BLOCK


# ---- everything together ----


@pytest.mark.parametrize("seed", range(60))
def test_tokens_rise_whatever_happens(seed):
    """S2 over random lives of four hardened clients and a foreigner, with requests lost and others in between."""
    rng, rig = random.Random(seed), Rig(seed=seed)
    locks = [rig.lock, *(rig.another() for _ in range(3))]
    busy: list[object] = []
    chain: list[tuple[str | None, int]] = []

    def note_grant() -> None:
        """As the store has it: grants in the order of their records."""
        body = MemoryStore.read(rig.store, KEY).body
        record = None if body is None else lockfile.parse(body)
        if record is not None and not record.expired and record.fence is not None:
            grant = (record.owner, record.fence)
            if not chain or chain[-1] != grant:
                chain.append(grant)

    def foreigner() -> None:
        now_ms = rig.runtime.wall // NS_PER_MS
        body = MemoryStore.read(rig.store, KEY).body
        held = None if body is None else lockfile.parse(body)
        match rng.randrange(4):
            case 0 if held is None or held.expired or held.valid_until_ms + 500 < now_ms:
                rig.store.plant(LockFile(f"hudi-{rng.random()}", now_ms, expired=True))
            case 1 if not busy:
                # Deleted twice within one acquire: see `fence.py`.
                MemoryStore.delete(rig.store, KEY)

    def hardened() -> None:
        lock = rng.choice(locks)
        if lock in busy:
            return
        busy.append(lock)
        try:
            if lock.try_lock():
                lock.unlock()
        except LockError:
            pass
        busy.remove(lock)

    def fate(store, perform, is_read):
        if len(busy) < 3 and rng.random() < 0.4:
            rng.choice([foreigner, hardened])()
        reply = rng.choice([ok] * 12 + [lose_request, lose_reply, conflict, throttle])(store, perform, is_read)
        note_grant()
        return reply

    rig.store.rule_for_all = rig.store.fence_rule_for_all = fate
    for _ in range(40):
        hardened()
        foreigner()
        rig.runtime.advance(rng.randrange(12) * NS_PER_S)
    tokens = [token for _, token in chain]
    assert len(tokens) > 10
    assert all(before < after for before, after in pairwise(tokens))
