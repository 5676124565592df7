"""What an instance says of its locks fits into the request that also removes the messages which it answers."""

from __future__ import annotations

import pytest

from lockref.coordination.port import ZNODE_BYTES_MAX, create, delete
from lockref.helix.cluster.cluster_file import OPERATION_BYTES
from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.participant.current_states import STATES_BYTES_MAX, Replica, States
from lockref.helix.participant.transitions import PUBLISHED_AT_ONCE
from lockref.helix.records import layout

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
