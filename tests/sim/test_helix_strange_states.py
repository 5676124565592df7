"""What a participant of another make may write, and what our controller makes of it."""

from __future__ import annotations

from lockref.helix.pipeline import AlarmKind
from lockref.helix.zn_record import ZNRecord
from tests.sim.helix_world import PATHS, RESOURCE, Helix


def test_a_lock_whose_state_is_not_told_is_granted_to_nobody_else():
    """HJ8, T28: the instance may hold it. Once its session has ended, another one gets it."""
    helix = Helix(locks=2, rebalancer="mod")
    first, _, _ = helix.participant("a")
    second, heard, _ = helix.participant("b")
    controller, _ = helix.controller()

    def script() -> None:
        helix.join(first, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: len(first.held) == 2, "a holds both")
        path = PATHS.instance("a").current_state(helix.live_session("a"), RESOURCE)
        helix.put(path, ZNRecord(RESOURCE, maps={lock: {"INFO": ""} for lock in first.held}).to_json())
        helix.join(second, "b")
        helix.sleep_ms(5000)
        assert heard.heard == []
        assert AlarmKind.UNREADABLE in [alarm.kind for alarm in helix.alarms]
        helix.on("a", first.leave)
        helix.until(lambda: len(second.held) == 2, "b holds both")

    helix.play(script)
