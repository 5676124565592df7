"""python_dynamodb_lock as released, on a real table: what becomes of a holder whose heartbeats are late (B15)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from scenarios.backends.asked_process import AskedProcess
from scenarios.injection.faultproxy import FaultProxy
from sim.faults.answers import Error
from sim.faults.network import Delay
from tests.evidence.delta.findings import ANSWER_S, HOUR_NS, Experiment, await_strike
from tests.evidence.delta.lake import REGION
from tests.evidence.delta.originals import in_its_python

_HOLDER: Final = Path(__file__).with_name("holder.py")
_HEARTBEAT: Final = b"DynamoDB_20120810.UpdateItem"
_POLL_S: Final = 0.1


def _holder(run: Experiment, table: str, name: str, *, endpoint: str = "") -> AskedProcess:
    """A client whose lease is the experiment's; heartbeats come four times a lease, as its documentation advises."""
    endpoint = endpoint or run.lake.endpoint
    argument = {
        "endpoint": endpoint, "table": table, "owner": name,
        "heartbeat_s": run.lease_s / 4, "safe_s": run.lease_s / 2, "lease_s": float(run.lease_s),
        "retry_s": run.lease_s / 16,
    }  # fmt: skip
    env = {
        "AWS_DEFAULT_REGION": REGION, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    command = in_its_python("python_dynamodb_lock", _HOLDER)
    return AskedProcess("python_dynamodb_lock", command, argument, env=env, log_folder=run.lake.log_folder, name=name)


def _ask(peer: AskedProcess, do: str, **how: object) -> dict[str, Any]:
    peer.ask(do=do, **how)
    return peer.answer(ANSWER_S + float(str(how.get("timeout_s", 0))))


def _two(run: Experiment, stack: contextlib.ExitStack) -> tuple[FaultProxy, AskedProcess, AskedProcess]:
    """A proxy, a holder behind it that has the lock, and another client that has been refused."""
    table = run.lake.new_key()
    proxy = stack.enter_context(run.lake.proxy())
    holder = stack.enter_context(_holder(run, table, "holder", endpoint=proxy.endpoint))
    other = stack.enter_context(_holder(run, table, "other"))
    _ask(other, "create")
    run.say(f"the holder: {_ask(holder, 'acquire', key='k', timeout_s=1)}")
    refused = _ask(other, "acquire", key="k", timeout_s=2 * run.lease_s)
    run.say(f"another client, for two leases: {refused}")
    assert "error" in refused, "a holder that renews keeps its lock"
    return proxy, holder, other


def danger(run: Experiment) -> bool:
    """Heartbeats fail for the safe period and then could go through again: the client never sends one again."""
    with contextlib.ExitStack() as stack:
        proxy, holder, other = _two(run, stack)
        for number in range(10):
            proxy.when(_HEARTBEAT, Error(id=f"heartbeat {number}", status="reset", cut="c1"))
        status = _ask(holder, "status")
        end_s = time.monotonic() + ANSWER_S
        while status["status"] == "LOCKED" and time.monotonic() < end_s:
            time.sleep(_POLL_S)
            status = _ask(holder, "status")
        proxy.forget()
        proxy.count(_HEARTBEAT)
        run.say(f"{len(proxy.struck)} heartbeats failed, and from now on none would: {status}")
        began_s = time.monotonic()
        taken = _ask(other, "acquire", key="k", timeout_s=4 * run.lease_s)
        waited_s = time.monotonic() - began_s
        after = _ask(holder, "status")
        run.say(f"the other client: {taken} after {waited_s:.1f} s; the holder, alive and connected: {after}")
        (sent,) = proxy.counted.values()
        run.say(f"heartbeats that it sent meanwhile: {sent}; its release: {_ask(holder, 'release')}")
    return status["status"] == after["status"] == "IN_DANGER" and "acquired" in taken and sent == 0


def silent_loss(run: Experiment) -> bool:
    """A heartbeat's answer is late: the lock is taken over, and the first holder is told nothing."""
    with contextlib.ExitStack() as stack:
        proxy, holder, other = _two(run, stack)
        proxy.when(_HEARTBEAT, Delay(id="answer", by_ns=HOUR_NS, direction="reply"))
        await_strike(proxy)
        taken = _ask(other, "acquire", key="k", timeout_s=4 * run.lease_s)
        status = _ask(holder, "status")
        run.say(f"the answer to a heartbeat is late; the other client: {taken}; the holder meanwhile: {status}")
    return "acquired" in taken and status == {"status": "LOCKED", "told": []}


DANGERS: Final[dict[str, Callable[[Experiment], bool]]] = {
    "danger-state": danger,
    "silent-loss": silent_loss,
}
"""Every experiment on python_dynamodb_lock by name."""
