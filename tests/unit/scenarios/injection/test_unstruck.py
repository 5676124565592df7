"""Why a fault never struck: each sentence is about what this fault waited for, and says nothing that did not happen."""

from __future__ import annotations

import pytest

from lockref.runtime import NS_PER_S
from scenarios.injection.unstruck import why_never_struck
from sim.faults.fault import Fault, Trigger
from sim.faults.network import LoseReply
from sim.faults.process import Pause

THIRD = Trigger(client="n1", op="acquire", nth=3)


@pytest.mark.parametrize(
    ("fault", "armed", "heal_ns", "told"),
    [
        pytest.param(
            LoseReply(id="l", op="acquire"),
            2,
            None,
            "2 requests matched it, and another fault struck first or none got to where it acts",
            id="another fault took what it would have struck: no chance was at work",
        ),
        pytest.param(
            LoseReply(id="l", op="acquire", probability=0.25),
            2,
            None,
            "it could have struck 2×, and its probability of 0.25 never did",
            id="rare",
        ),
        pytest.param(
            LoseReply(id="l", op="acquire", at_ns=2 * NS_PER_S, for_ns=3 * NS_PER_S),
            0,
            None,
            "no request of this run matched it (op acquire, from 2 s on, before 5 s)",
            id="there were requests, but not in its window",
        ),
        pytest.param(
            LoseReply(id="l", op="acquire", at_ns=2 * NS_PER_S, for_ns=30 * NS_PER_S),
            0,
            20 * NS_PER_S,
            "no request of this run matched it (op acquire, from 2 s on, before everything heals at 20 s)",
            id="its window is cut by the healing",
        ),
        pytest.param(
            Pause(id="p", client="n1", for_ns=1, when=THIRD),
            0,
            20 * NS_PER_S,
            "no request of this run matched it (client n1, op acquire, nth 3, before everything heals at 20 s)",
            id="its request came after the healing",
        ),
        pytest.param(
            Pause(id="p", client="n1", for_ns=1, when=THIRD.model_copy(update={"after_ns": 6 * NS_PER_S})),
            2,
            None,
            "2 requests matched it, and none was the one number 3 (client n1, op acquire, nth 3, from 6 s on)",
            id="a trigger with a window",
        ),
        pytest.param(
            LoseReply(id="l", when=THIRD),
            3,
            None,
            "3 requests matched it, and none was the one number 3, or another fault struck that one first "
            "(client n1, op acquire, nth 3)",
            id="another fault of its kind struck the very request",
        ),
        pytest.param(
            Pause(id="p", client="n1", for_ns=1, at_ns=20 * NS_PER_S),
            0,
            20 * NS_PER_S,
            "its plan heals everything at 20 s, and it was to begin at that time or later",
            id="dropped, because all was healed by then",
        ),
        pytest.param(
            Pause(id="p", client="n1", for_ns=1, at_ns=20 * NS_PER_S), 0, None, "the run ended before", id="late"
        ),
    ],
)
def test_the_reason_is_true(fault: Fault, armed: int, heal_ns: int | None, told: str) -> None:
    assert why_never_struck(fault, armed, heal_ns=heal_ns) == told
