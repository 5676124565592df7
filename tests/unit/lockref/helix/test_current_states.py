"""What an instance says of its locks fits into the request that also removes the messages which it answers."""

from __future__ import annotations

import pytest

from lockref.coordination.port import ZNODE_BYTES_MAX, create, delete
from lockref.helix.cluster.cluster_file import OPERATION_BYTES
from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.participant.current_states import COMPRESSION, ENTRY_BYTES, STATES_BYTES_MAX, Replica, States
from lockref.helix.participant.transitions import PUBLISHED_AT_ONCE
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.helix.records.views import TOKEN
from lockref.helix.state_model import DROPPED

N1 = layout.InstancePaths("c" * 100, "i" * 100)


@pytest.mark.parametrize("count", [3_500, 4_000, 7_600, 8_000])
def test_current_states_fit_beside_the_removals_of_what_they_answer(count: int):
    """T28: both are one request. At 8,000 locks the record alone filled it: nothing was answered any more, for ever."""
    states = States("lock-group", LOCK_UNLOCK)
    for number in range(count):
        states.replicas[f"lock-group_{number}"] = Replica("LOCKED", token=2**40, since_ms=2**40, before="RELEASED")
    body = states.record("f" * 16).to_json(STATES_BYTES_MAX)
    removals = [delete(N1.message("f" * 32))] * PUBLISHED_AT_ONCE
    request = [create(N1.current_state("f" * 16, "lock-group"), body), *removals]
    assert sum(len(each.path) + len(each.body) + OPERATION_BYTES for each in request) <= ZNODE_BYTES_MAX


def message(lock: str, target: str = "LOCKED") -> Message:
    return Message(instance="a", session="1", resource="g", lock=lock, model="m", source="RELEASED", target=target)


def test_what_was_dropped_is_not_named():
    """T28: it counts as being in the initial state, and leaves no entry."""
    states = States("g", LOCK_UNLOCK)
    states.replicas |= {"g_0": Replica("LOCKED", token=7), "g_1": Replica("RELEASED", is_reported=False)}
    assert states.record("1").maps == {"g_0": {"CURRENT_STATE": "LOCKED", TOKEN: "7"}}


def full(*, compressed_bytes: int) -> States:
    """A report with as many locks as a plain record may have, and one more."""
    states = States("g", LOCK_UNLOCK)
    states.entries = COMPRESSION * STATES_BYTES_MAX // (ENTRY_BYTES + 3)
    states.compressed_bytes = compressed_bytes
    return states


def test_a_record_that_is_full_takes_no_lock_more_and_gives_every_one_back():
    """T28: what cannot be answered is not begun. To drop a lock makes the record smaller."""
    states = full(compressed_bytes=0)
    assert not states.fits(message("g_0"))
    assert states.fits(message("g_0", DROPPED))
    states.entries -= 1
    assert states.fits(message("g_0"))
    states.unwritten["m"] = message("g_1")
    assert not states.fits(message("g_0")), "what is executed and not yet written needs room, too"


@pytest.mark.parametrize(("free_bytes", "fits"), [(ENTRY_BYTES + 3, True), (ENTRY_BYTES + 2, False)])
def test_a_record_that_compresses_well_has_room_as_long_as_it_is_small(free_bytes: int, fits: bool):
    """Its size as it was written last counts, and one whole entry for each lock that comes."""
    assert full(compressed_bytes=STATES_BYTES_MAX - free_bytes).fits(message("g_0")) is fits


def test_only_a_compressed_record_says_how_well_it_compresses():
    """A plain one is small, and says nothing of a large one."""
    states = States("g", LOCK_UNLOCK)
    states.replicas["g_0"] = Replica("LOCKED", token=7)
    record = states.record("1")
    states.written(record, record.to_json(STATES_BYTES_MAX))
    assert (states.compressed_bytes, states.entries) == (0, 1)
