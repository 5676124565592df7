"""Workers that own a table's queue, with the current `deltalake` and an SQS FIFO queue: one is killed in its commit."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Final

from lockref.clouds.aws import aws_client
from lockref.delta.options import LEASE_DURATION, OWNER_NAME, PARTITION_KEY_VALUE, REFRESH_PERIOD_MILLIS
from lockref.runtime import NS_PER_S
from scenarios.backends.asked_process import AskedProcess
from sim.faults.fault import Fault
from sim.faults.network import LoseReply, LoseRequest
from tests.evidence.delta.findings import ANSWER_S, Experiment, await_strike, committed
from tests.evidence.delta.lake import REGION
from tests.evidence.delta.today import CREATE, CURRENT

_OWNER: Final = "tests.evidence.delta.queue_owner"
WRITERS: Final = ("ada", "bob", "cyd")


class Queue:
    """The SQS queue of one table. Writers enqueue; each has a message group of its own."""

    def __init__(self, run: Experiment, name: str, *, visibility_s: int) -> None:
        self._client = aws_client(
            "sqs", endpoint=run.lake.endpoint, region=REGION, request_timeout_ns=20 * NS_PER_S, pool_size=2
        )
        attributes = {"FifoQueue": "true", "VisibilityTimeout": str(visibility_s)}
        self.url: str = self._client.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]
        self.labels: list[str] = []

    def enqueue(self, *, each: int) -> None:
        """So many more items of each writer."""
        for _ in range(each):
            for writer in WRITERS:
                number = sum(label.startswith(f"{writer}-") for label in self.labels)
                label = f"{writer}-{number}"
                self._client.send_message(
                    QueueUrl=self.url,
                    MessageBody=json.dumps({"writer": writer, "number": number, "label": label}),
                    MessageGroupId=writer,
                    MessageDeduplicationId=label,
                )
                self.labels.append(label)

    def close(self) -> None:
        self._client.delete_queue(QueueUrl=self.url)
        self._client.close()


def _owner(
    run: Experiment, table: str, queue: Queue, key: str, name: str, *, endpoint: str, checks: bool
) -> AskedProcess:
    """A worker in a process of its own. endpoint: of a proxy before its `deltalake`; "" for the server's."""
    told = {
        "name": f"{name}-deltalake", "original": CURRENT, "table": table, "queue": queue.url, "checks": checks,
        "options": run.lake.writer_options(endpoint), "folder": str(run.lake.log_folder),
        "lock_endpoint": run.lake.endpoint, "region": REGION,
        "lock": {
            PARTITION_KEY_VALUE: key, OWNER_NAME: name, LEASE_DURATION: str(run.lease_s), REFRESH_PERIOD_MILLIS: "500",
        },
    }  # fmt: skip
    return AskedProcess(
        "worker", [sys.executable, "-m", _OWNER], told, env={}, log_folder=run.lake.log_folder, name=name
    )


def _killed_in_its_commit(run: Experiment, fault: Fault, *, checks: bool) -> Mapping[str, int]:
    """By label, how many versions have it, after a worker was killed while its create was under way."""
    table, key = run.new_table("t"), run.lake.new_key()
    with contextlib.ExitStack() as stack:
        queue = stack.enter_context(contextlib.closing(Queue(run, key, visibility_s=run.lease_s)))
        with run.lake.writer(CURRENT, table, {}, name="maker") as maker:
            committed(maker, "first")
        queue.enqueue(each=2)
        proxy = stack.enter_context(run.lake.proxy())
        proxy.when(CREATE, fault)
        dying = stack.enter_context(_owner(run, table, queue, key, "dying", endpoint=proxy.endpoint, checks=checks))
        await_strike(proxy)
        standby = stack.enter_context(_owner(run, table, queue, key, "next", endpoint="", checks=checks))
        dying.kill()
        proxy.let_go()
        queue.enqueue(each=2)
        waits, again, batches = {*queue.labels}, list[str](), 0
        while waits:
            said = standby.answer(ANSWER_S)
            if "error" in said:
                run.say(f"the next worker: {said}")
            waits -= {*said.get("deleted", ())}
            again += said.get("again", ())
            batches += "deleted" in said
    log = run.lake.log(table)
    times = {label: log.times(label) for label in queue.labels}
    run.say(
        f"{len(queue.labels)} items of {len(WRITERS)} writers, {len(again)} delivered again; {batches} batches of the "
        f"next worker, {len(log.versions) - 1} versions; in the table: {sorted(set(times.values()))} times"
    )
    assert log.is_contiguous, "a log without gaps"
    assert again, "what the killed worker had received comes again"
    return times


def killed_worker(run: Experiment) -> bool:
    """A worker is killed before its create leaves, and after it landed: every item is in the table exactly once.

    Without the look into the log, what had landed is there twice.
    """
    before = _killed_in_its_commit(run, LoseRequest(id="before"), checks=True)
    after = _killed_in_its_commit(run, LoseReply(id="after"), checks=True)
    blind = _killed_in_its_commit(run, LoseReply(id="after"), checks=False)
    return {*before.values()} == {1} and {*after.values()} == {1} and {*blind.values()} == {1, 2}


QUEUES: Final[dict[str, Callable[[Experiment], bool]]] = {"killed-worker": killed_worker}
"""Every experiment on queues by name."""
