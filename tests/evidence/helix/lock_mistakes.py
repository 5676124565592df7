"""The mistakes of Helix' own lock class, on the original and on a real ZooKeeper, with our build beside it."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from typing import Final

from lockref.coordination.session import COORDINATION
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.runtime import NS_PER_S, ThreadRuntime
from tests.evidence.helix.experiments import Experiment
from tests.evidence.helix.lock_class import LockClass
from tests.evidence.helix.lock_player import Place, played
from tests.evidence.helix.lock_scripts import NAMED, WAIT_MS, Script
from tests.evidence.helix.one_znode import REQUEST_NS, numbers, znode
from tests.evidence.helix.record_lock import play

ROUNDS_MAX: Final = 400
QUICK_MS, SPREAD_S = 400, 0.008
"""How long the original waits for an owner that cleans up at once, and how much later than that the third one asks."""


def mistakes(run: Experiment) -> bool:
    """The lock's mistakes on the original, and step by step the same with our build (HJ1 to HJ7, HJ13, HJ15)."""
    scripts = [each for each in NAMED if each["name"].startswith("hj")]
    with contextlib.ExitStack() as stack:
        original = stack.enter_context(LockClass(run.hosts, run.log_folder, name="helix-lock-mistakes"))
        theirs = play(original, scripts)
        runtime = ThreadRuntime()

        def place(client: str) -> Place:
            return COORDINATION.over(ZooKeeperChannel(run.hosts, client=client), REQUEST_NS), runtime

        session, _ = operator = place("operator")
        stack.callback(session.close)
        session.start(runtime, timeout_ns=30 * NS_PER_S)
        differing = []
        for each, trace in zip(scripts, theirs, strict=True):
            places = [place(settings["user"]) for settings in each["locks"]]
            path = f"/mistakes-{next(numbers)}/{each['name']}"
            answers = [step.get("answer", step.get("error")) for step in trace if "answer" in step or "error" in step]
            is_same = played(each, path, operator=operator, places=places) == trace
            differing += [] if is_same else [each["name"]]
            run.say(f"{each['name']}: {_in_words(each)}: {answers}; ours {'the same' if is_same else 'DIFFERS'}")
        return not differing


def _in_words(script: Script) -> str:
    """Who does what."""
    names = [settings["user"] for settings in script["locks"]]
    return ", ".join(
        kind if kind in ("put", "delete", "sleep") else f"{names[rest[0]]} {kind}" for kind, *rest in script["steps"]
    )


def quicker(run: Experiment) -> bool:
    """The owner gives way to the original, and a third one is quicker: both are told that they have the lock (HJ14)."""
    draws = random.Random(14)
    with znode(run) as at:
        # The third one has no listener, or it would give way in its turn, a moment later.
        owner, third = at.ours("ann", cleanup_ms=WAIT_MS), at.ours("cem", cleanup=None)
        for number in range(1, ROUNDS_MAX + 1):
            # A lock object waits once: its second waiting would be over at once (HJ15).
            user = f"bob-{number}"
            waiter = at.their(user, priority=1, waiting_ms=QUICK_MS)
            assert owner.lock.try_lock(), "nobody holds it"
            asked = at.theirs.ask(do="call", name=user, call="try")
            while not owner.cleanups:
                time.sleep(0.0005)
            time.sleep(draws.uniform(0, SPREAD_S))
            is_third = third.lock.try_lock()
            told, found = at.theirs.hear(asked), at.owner()
            waiter("unlock")
            third.lock.unlock()
            owner.cleanups.clear()
            if told.get("answer") is True and is_third:
                run.say(f"in round {number} both were told that they have the lock; the record names {found}")
                return found == "cem"
        run.say(f"in none of {ROUNDS_MAX} rounds")
        return False


LOCK_MISTAKES: Final[dict[str, Callable[[Experiment], bool]]] = {
    "lock-mistakes": mistakes,
    "lock-mistakes-quicker": quicker,
}
