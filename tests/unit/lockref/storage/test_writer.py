"""The records that RFC-91's lock writes: which instant they promise, and what a renewal keeps."""

from __future__ import annotations

import pytest

from lockref.locks.rules import Rules
from lockref.locks.values import Lease, Moment, Reserved, Stored
from lockref.runtime import NS_PER_MS, MonoNs, WallNs
from lockref.storage.config import StorageLockConfig
from lockref.storage.writer import LockFileWriter
from lockref.stores.port import Version
from tests.hardened_rig import ManualRuntime

TERMS = StorageLockConfig(base_path="").terms()


def writer(runtime: ManualRuntime) -> LockFileWriter:
    nonces = iter("abcdefgh")
    return LockFileWriter("owner", terms=TERMS, rules=Rules(), runtime=runtime, new_nonce=lambda: next(nonces))


@pytest.mark.parametrize(("beyond_ns", "more_ms"), [(0, 0), (1, 1), (NS_PER_MS, 1), (NS_PER_MS + 1, 2)])
def test_a_stamp_never_promises_less_than_its_holder_believes(beyond_ns: int, more_ms: int) -> None:
    """H1: whole milliseconds, rounded up."""
    least_ms = TERMS.validity_ns // NS_PER_MS
    assert LockFileWriter.valid_until_ms(beyond_ns, TERMS) == least_ms + more_ms


def test_an_acquiring_write_carries_the_token_and_the_mark_that_were_reserved() -> None:
    """H21: a later client must find the mark in the record, whoever wrote the fence object."""
    record = writer(ManualRuntime()).attempt(Stored(None, None), Reserved(token=3, mark=9)).record
    assert (record.owner, record.fence, record.mark, record.nonce, record.expired) == ("owner", 3, 9, "a", False)


def test_a_renewal_keeps_token_and_mark_and_has_a_nonce_of_its_own() -> None:
    """H21, H22: two writes of one owner are told apart, and the grant is the same."""
    runtime = ManualRuntime()
    mine = writer(runtime)
    first = mine.attempt(Stored(None, None), Reserved(token=3, mark=9))
    runtime.advance(7 * NS_PER_MS)
    renewal = mine.renewal(Lease(version=Version("v"), attempt=first))
    record = renewal.record
    assert (record.fence, record.mark, record.nonce, renewal.if_version) == (3, 9, "b", "v")
    assert record.valid_until_ms == first.record.valid_until_ms + 7


@pytest.mark.parametrize(("back_ns", "is_corrected"), [(TERMS.margin_ns, False), (TERMS.margin_ns + 1, True)])
def test_a_step_back_of_the_wall_clock_is_corrected_beyond_the_margin(back_ns: int, is_corrected: bool) -> None:
    """H19, E31: within the margin the clock may have been put right, and others go by it."""
    runtime = ManualRuntime()
    mine = writer(runtime)
    first = mine.attempt(Stored(None, None), Reserved(token=None, mark=None))
    now = Moment(WallNs(first.sent.wall_ns + 10 - back_ns), MonoNs(first.sent.mono_ns + 10))
    expected_ns = first.sent.wall_ns + 10
    estimate_ns = LockFileWriter.estimate_wall(first, now, TERMS)
    assert estimate_ns == (expected_ns if is_corrected else now.wall_ns)
    runtime.mono, runtime.wall = now.mono_ns, now.wall_ns
    renewal = mine.renewal(Lease(version=Version("v"), attempt=first))
    assert renewal.wall_estimate_ns == estimate_ns
    assert renewal.record.valid_until_ms >= first.record.valid_until_ms
