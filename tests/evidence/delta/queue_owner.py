"""A worker that owns a table's queue by our lease, and commits what it receives with the current `deltalake`.

The queue is an SQS FIFO queue; each writer has a message group of its own, and numbers its items. The version that has
them tells the newest number of each writer as a transaction (`txn`), so what is delivered again and has landed is
deleted and makes no version. It is told in one argument, as JSON, and runs until it is killed. It says, in lines:

    {"ready": true}                       once its `deltalake` runs
    {"owns": TOKEN}                       each time it is granted the lease
    {"deleted": [LABEL, ...], "again": [LABEL, ...], "landed": [LABEL, ...]}

after each batch: what it deleted, and of this what had been delivered before, and what it has written to the table now.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from lockref import open_lock
from lockref.clouds.aws import aws_client
from lockref.errors import LockError
from lockref.runtime import NS_PER_S
from scenarios.backends.asked_process import AskedProcess
from tests.evidence.delta.originals import in_its_python

BATCH: Final = 10
"""The most messages that SQS gives at once."""
_COMMIT_S: Final = 120
_WRITER: Final = Path(__file__).with_name("writer.py")


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def _serve(queue: Any, url: str, deltalake: AskedProcess, *, checks: bool) -> None:
    """Receive a batch, commit it, delete it. What was not committed comes again after its visibility timeout."""
    found = queue.receive_message(
        QueueUrl=url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=1, AttributeNames=["ApproximateReceiveCount"]
    ).get("Messages", [])
    if not found:
        return
    items = [json.loads(message["Body"]) for message in found]
    deltalake.ask(commit=items, checks=checks)
    answer = deltalake.answer(_COMMIT_S)
    if "error" in answer:
        _say(**answer)
        return
    entries = [{"Id": str(number), "ReceiptHandle": each["ReceiptHandle"]} for number, each in enumerate(found)]
    deleted = {int(each["Id"]) for each in queue.delete_message_batch(QueueUrl=url, Entries=entries)["Successful"]}
    _say(
        deleted=[item["label"] for number, item in enumerate(items) if number in deleted],
        again=[
            item["label"]
            for item, message in zip(items, found, strict=True)
            if int(message["Attributes"]["ApproximateReceiveCount"]) > 1
        ],
        landed=answer["landed"],
    )


def main() -> None:
    """Own, serve, own again."""
    told = json.loads(sys.argv[1])
    where = {"endpoint": told["lock_endpoint"], "region": told["region"]}
    lock = open_lock(told["lock"], **where)
    queue = aws_client("sqs", **where, request_timeout_ns=20 * NS_PER_S, pool_size=2)
    command = in_its_python(told["original"], _WRITER)
    child = {"table": told["table"], "options": told["options"]}
    with AskedProcess(
        told["original"], command, child, env=told["options"], log_folder=Path(told["folder"]), name=told["name"]
    ) as deltalake:
        _say(ready=True)
        while True:
            try:
                is_held = lock.holds() or lock.lock(1)
            except LockError:
                continue
            if is_held:
                _say(owns=lock.fencing_token)
                while lock.holds():
                    _serve(queue, told["queue"], deltalake, checks=told["checks"])


if __name__ == "__main__":
    main()
