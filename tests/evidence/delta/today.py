"""The current `deltalake`: commits by conditional put, from several processes, and with a lost answer (W19)."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from typing import Final

from sim.faults.answers import Error
from sim.faults.fault import Fault
from sim.faults.network import LoseReply
from tests.evidence.delta.findings import ANSWER_S, Experiment, committed

CURRENT: Final = "1.6.6"
CREATE: Final = b"if-none-match"


def conditional_put(run: Experiment) -> bool:
    """Several processes append at once: acknowledged, refused, lost, twice, and the attempts that it took."""
    table = run.new_table("t")
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(run.lake.proxy())
        peers = [
            stack.enter_context(run.lake.writer(CURRENT, table, {}, name=f"w{number}", endpoint=proxy.endpoint))
            for number in range(run.writers)
        ]
        committed(peers[0], "first")
        proxy.count(CREATE)
        began_s = time.monotonic()
        for peer in peers:
            peer.ask(append=[f"{peer.name}-{number}" for number in range(run.appends)])
        answers = [peer.answer(ANSWER_S) for peer in peers for _ in range(run.appends)]
        took_s = time.monotonic() - began_s
    acknowledged = [answer["label"] for answer in answers if "acknowledged" in answer]
    refused = [answer for answer in answers if "error" in answer]
    seconds = sorted(answer["seconds"] for answer in answers if "acknowledged" in answer)
    log = run.lake.log(table)
    wrong = [answer["label"] for answer in answers if log.times(answer["label"]) != ("acknowledged" in answer)]
    attempts = proxy.counted[CREATE]
    run.say(
        f"{run.writers} processes of {CURRENT}: {len(acknowledged)} of {len(answers)} acknowledged, {len(refused)} "
        f"refused, {len(log.versions) - 1} versions, {len(wrong)} lost or twice; {attempts} creates sent, "
        f"{attempts - len(log.versions) + 1} of them met a version that was there"
    )
    run.say(
        f"{len(acknowledged) / took_s:.1f} commits/s; one commit: median {statistics.median(seconds):.3f} s, "
        f"p99 {seconds[round(0.99 * (len(seconds) - 1))]:.3f} s"
    )
    for answer in refused[:3]:
        run.say(f"  refused: {answer['error']}: {answer['reason'][:200]}")
    return not wrong and log.is_contiguous


def _reply_lost(run: Experiment, fault: Fault, told: str) -> int:
    """One append whose create lands and whose answer is lost. Returns how many versions have its actions."""
    table = run.new_table("t")
    with run.lake.proxy() as proxy:
        # The client's own time-out, in its own notation; it resends after that.
        options = {"timeout": "3s"}
        with run.lake.writer(CURRENT, table, options, name="writer", endpoint=proxy.endpoint) as peer:
            committed(peer, "first")
            proxy.count(CREATE)
            proxy.when(CREATE, fault)
            [answer] = committed(peer, "once")
    log = run.lake.log(table)
    run.say(
        f"create landed, {told} ({len(proxy.struck)} struck, {proxy.counted[CREATE]} creates sent): {answer}; "
        f"{dict(log.versions)}"
    )
    return log.times("once")


def reply_lost(run: Experiment) -> bool:
    """W19: the create lands and its answer is lost.

    After a 503 the client sends the create again, finds its own version there, takes it for a rival's, and commits the
    same actions once more (B19). After a broken connection or silence it does not send again: the append is reported as
    failed although it landed, and a caller who repeats it commits it twice.
    """
    times = {
        told: _reply_lost(run, fault, told)
        for told, fault in (
            ("answered 503", Error(id="gateway", status=503, cut="c2")),
            ("connection reset", Error(id="reset", status="reset", cut="c2")),
            ("no answer", LoseReply(id="silence")),
        )
    }
    run.say(f"versions with its actions: {times}")
    return [*times.values()] == [2, 1, 1]


TODAY: Final[dict[str, Callable[[Experiment], bool]]] = {
    "conditional-put": conditional_put,
    "reply-lost": reply_lost,
}
"""Every experiment on the current release by name."""
