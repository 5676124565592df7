"""When a controller decides anew: never about what it has decided already, unless a stranger's rule is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockref.helix.controller.controller import Controller
from lockref.helix.pipeline import decide
from lockref.helix.records.zn_record import ZNRecord
from tests.sim.helix_world import PATHS, RESOURCE, Helix

LOCK = f"{RESOURCE}_0"

asked: list[int] = []


def strangers_rule(question: Any) -> dict[str, tuple[str, ...]]:
    """A rule that may know more than its question."""
    asked.append(1)
    return dict.fromkeys(question.locks, question.live[:1])


@pytest.mark.parametrize("rule", ["sticky", f"{__name__}:strangers_rule"])
def test_a_decision_is_made_once_for_what_was_read(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """A pass that finds nothing new sends what the last one sent. What changes leads to a new decision."""
    decided: list[int] = []

    def counted(*question: Any, **how: Any) -> Any:
        decided.append(1)
        return decide(*question, **how)

    monkeypatch.setattr(Controller, "_decide", staticmethod(counted))
    helix = Helix(rebalancer=rule)
    controller, _ = helix.controller()
    ann, _, _ = helix.participant("ann")
    bob, _, _ = helix.participant("bob")

    def passes_after(change: Any) -> tuple[int, int, int]:
        """How many passes, decisions and questions to the stranger a change leads to, until all is quiet."""
        before = len(helix.passes), len(decided), len(asked)
        change()
        helix.sleep_ms(1000)
        return len(helix.passes) - before[0], len(decided) - before[1], len(asked) - before[2]

    def script() -> None:
        helix.start("controller", controller.run)
        helix.join(ann, "ann")
        helix.until(lambda: helix.state("ann") == "LOCKED", "ann holds")
        helix.sleep_ms(1000)
        # It wakes the controller and changes nothing of what is decided about.
        config = PATHS.instance("ann").config
        passes, decisions, questions = passes_after(lambda: helix.put(config, helix.body(config) or b""))
        assert passes > 0
        assert (decisions, questions) == ((0, 0) if rule == "sticky" else (passes, passes))
        passes, decisions, _ = passes_after(lambda: helix.join(bob, "bob"))
        assert 0 < decisions <= passes
        helix.put(config, ZNRecord("ann", {"HELIX_ENABLED": "false"}).to_json())
        helix.until(lambda: helix.state("bob") == "LOCKED", "bob holds what ann may not")

    helix.play(script)


@pytest.mark.parametrize("mode", ["SEMI_AUTO", "CUSTOMIZED"])
def test_lists_and_maps_are_decided_about_once(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """The rule of such a resource is its ideal state: as long as that says the same, so does the decision."""
    decided: list[int] = []

    def counted(*question: Any, **how: Any) -> Any:
        decided.append(1)
        return decide(*question, **how)

    monkeypatch.setattr(Controller, "_decide", staticmethod(counted))
    helix = Helix()
    controller, _ = helix.controller()
    ann, _, _ = helix.participant("ann")
    bob, _, _ = helix.participant("bob")
    path = PATHS.ideal_state(RESOURCE)

    def order(name: str) -> None:
        """Let this instance hold the lock. The record is written anew, equal or not."""
        old = ZNRecord.from_json(helix.body(path) or b"", path)
        maps = {LOCK: {name: "LOCKED"}} if mode == "CUSTOMIZED" else {LOCK: {}}
        lists = {LOCK: [name]} if mode == "SEMI_AUTO" else {}
        helix.put(path, replace(old, simple={**old.simple, "REBALANCE_MODE": mode}, maps=maps, lists=lists).to_json())

    def script() -> None:
        order("ann")
        helix.start("controller", controller.run)
        helix.join(ann, "ann")
        helix.join(bob, "bob")
        helix.until(lambda: helix.state("ann") == "LOCKED", "ann holds")
        helix.sleep_ms(1000)
        for _ in range(2):
            before = len(helix.passes), len(decided)
            order("ann")
            helix.sleep_ms(1000)
            assert (len(helix.passes) > before[0], len(decided) - before[1]) == (True, 0)
        order("bob")
        helix.until(lambda: helix.state("bob") == "LOCKED", "bob holds")

    helix.play(script)
