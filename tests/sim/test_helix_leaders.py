"""What a leader sent earlier does not land beside what is decided later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockref.coordination.port import MULTI
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.stores.port import Outcome
from tests.sim.helix_world import PATHS, RESOURCE, Asked, Helix, paths_of

LOCK = f"{RESOURCE}_0"


def is_batch(request: Request) -> bool:
    return request.verb == MULTI and any("/MESSAGES/" in path for path in paths_of(request))


@pytest.mark.parametrize("checks_leadership", [True, False])
def test_a_batch_that_arrives_late(checks_leadership: bool):
    """Z11, T18: it names the version of HISTORY, which has changed since. Without that two hold: so this can fail."""
    helix = Helix(rebalancer="mod")
    a, _, _ = helix.participant("a")
    b, _, _ = helix.participant("b")
    controller, channel = helix.controller(checks_leadership=checks_leadership)
    late: list[Callable[[], Reply]] = []

    def first_one_late(request: Request, ask: Asked) -> Reply:
        if not is_batch(request) or late:
            return ask(request)
        late.append(lambda: ask(request))
        while helix.stat(PATHS.instance("a").live) is None:
            helix.sleep_ms(1)
        return TIMED_OUT

    def script() -> None:
        helix.join(b, "b")
        channel.disturb = first_one_late
        helix.start("controller", controller.run)
        helix.until(lambda: bool(late), "b is sent the lock, and nobody hears whether that arrives")
        helix.join(a, "a")
        helix.until(lambda: a.holds(LOCK), "a, which comes first by the rule, is granted the lock")
        reply = helix.on("controller", late[0])
        assert (reply.outcome is Outcome.APPLIED) != checks_leadership
        if not checks_leadership:
            helix.until(lambda: a.holds(LOCK) and b.holds(LOCK), "two hold")
            return
        helix.sleep_ms(1000)
        assert (a.holds(LOCK), b.holds(LOCK)) == (True, False)

    helix.play(script)


def test_who_finds_out_late_that_it_has_led_sends_nothing():
    """T20: the answer to its election is lost; it looks whose LEADER is, and leads once, not twice."""
    helix = Helix()
    a, _, _ = helix.participant("a")
    controller, channel = helix.controller()
    lost: list[str] = []

    def elections_unheard(request: Request, ask: Asked) -> Reply:
        reply = ask(request)
        is_election = request.key in (PATHS.leader, PATHS.leader_history) and request.verb in ("create", MULTI)
        if is_election and lost.count(request.key) < 2:
            lost.append(request.key)
            return TIMED_OUT
        return reply

    def script() -> None:
        helix.join(a, "a")
        channel.disturb = elections_unheard
        helix.start("controller", controller.run)
        helix.until(lambda: a.holds(LOCK), "it leads")
        assert lost == [PATHS.leader, PATHS.leader_history, PATHS.leader_history]
        assert helix.names(f"{PATHS.leader_history.rpartition('/')[0]}").count("LEADER") == 1
        # The book is that of the last entry, so no batch of an earlier one could pass.
        term = helix.stat(PATHS.leader_history)
        assert term is not None
        assert f'"TERM":"{term.version}"'.encode() in (helix.body(PATHS.grants) or b"")

    helix.play(script)
