"""What a controller asks its server for: a look at everything in every pass, and no body twice."""

from __future__ import annotations

from lockref.coordination.port import CHILDREN, EXISTS, GET
from lockref.ports import Reply, Request
from lockref.runtime import NS_PER_S
from tests.sim.helix_world import CLUSTER, PATHS, RESOURCE, Asked, Helix


def test_a_pass_reads_no_body_again_that_has_not_changed():
    """Versions and lists alone are asked for, messages before current states (T27); what an operator writes is read."""
    helix = Helix(locks=3)
    participant, _, _ = helix.participant("a")
    controller, channel = helix.controller(period_ns=NS_PER_S)
    asked: list[tuple[str, str]] = []

    def noting(request: Request, ask: Asked) -> Reply:
        if request.verb in (GET, EXISTS, CHILDREN):
            asked.append((request.verb, request.key.removeprefix(f"/{CLUSTER}/")))
        return ask(request)

    def script() -> None:
        helix.join(participant, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: len(participant.held) == 3 and not helix.pending("a"), "a holds all")
        helix.sleep_ms(2500)
        channel.disturb = noting
        passes = len(helix.passes)
        helix.until(lambda: len(helix.passes) == passes + 1, "one more pass")
        verbs = {verb for verb, _ in asked}
        assert verbs - {"exists", "children"} == set()
        folders = [path.split("/")[2] for verb, path in asked if path.startswith("INSTANCES/") and path.count("/") >= 2]
        assert folders == ["MESSAGES", "CURRENTSTATES", "CURRENTSTATES"]
        asked.clear()
        path = PATHS.instance("a").current_state(helix.live_session("a"), RESOURCE)
        body = helix.body(path)
        assert body is not None, "a reports what it holds"
        helix.put(path, body)
        passes = len(helix.passes)
        helix.until(lambda: len(helix.passes) == passes + 1, "the pass that the watch begins")
        assert [path for verb, path in asked if verb == GET] == [path.removeprefix(f"/{CLUSTER}/")]

    helix.play(script)


def test_a_message_that_is_gone_is_forgotten():
    """A controller that leads for months must not remember every message that it ever sent."""
    helix = Helix(locks=3)
    participant, _, _ = helix.participant("a")
    controller, _ = helix.controller(period_ns=NS_PER_S)

    def script() -> None:
        helix.join(participant, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: len(participant.held) == 3 and not helix.pending("a"), "a holds all")
        passes = len(helix.passes)
        helix.until(lambda: len(helix.passes) == passes + 2, "two more passes")
        assert controller._reader._messages == {}

    helix.play(script)
