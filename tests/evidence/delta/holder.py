"""What runs inside the environment of `python_dynamodb_lock`: one client, which locks as its parent says.

A program of its own: it imports nothing of this project. Its argument is JSON: `endpoint`, `table`, `owner`, and the
client's periods `heartbeat_s`, `safe_s`, `lease_s`, `retry_s`. Lines of its input, each answered by one line:

    {"do": "create"}                       makes the table, by the library's own call
    {"do": "acquire", "key": KEY, "timeout_s": S}  `{"acquired": true}`, or `{"error": CODE}`
    {"do": "status"}                       `{"status": ..., "told": [CODE, ...]}`: the lock's state, and what the
                                           library has told the application by its callback so far
    {"do": "release"}                      `{"released": STATUS}`, or `{"error": CODE}`
"""

from __future__ import annotations

import ctypes
import datetime
import json
import signal
import sys
from typing import Any

import boto3
from botocore.config import Config
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient, DynamoDBLockError

_PR_SET_PDEATHSIG = 1


def _seconds(count: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=count)


class _Holder:
    """One client with one lock."""

    def __init__(self, told: dict[str, Any]) -> None:
        # Without the SDK's own retries, so that a heartbeat that fails is one that failed.
        how: dict[str, Any] = {"endpoint_url": told["endpoint"], "config": Config(retries={"total_max_attempts": 1})}
        self._made: Any = boto3.client("dynamodb", **how)
        self._table = told["table"]
        self._client = DynamoDBLockClient(
            boto3.resource("dynamodb", **how),
            table_name=self._table,
            owner_name=told["owner"],
            heartbeat_period=_seconds(told["heartbeat_s"]),
            safe_period=_seconds(told["safe_s"]),
            lease_duration=_seconds(told["lease_s"]),
        )
        self._retry = _seconds(told["retry_s"])
        self._lock: Any = None
        self._told: list[str] = []

    def create(self) -> dict[str, object]:
        DynamoDBLockClient.create_dynamodb_table(self._made, table_name=self._table)
        return {"created": self._table}

    def acquire(self, key: str, timeout_s: float) -> dict[str, object]:
        self._lock = self._client.acquire_lock(
            key,
            retry_period=self._retry,
            retry_timeout=_seconds(timeout_s),
            app_callback=lambda code, _lock: self._told.append(code),
        )
        return {"acquired": True}

    def status(self) -> dict[str, object]:
        return {"status": self._lock.status, "told": self._told}

    def release(self) -> dict[str, object]:
        self._lock.release(best_effort=False)
        return {"released": self._lock.status}


def main() -> None:
    """Hold the lock as the input says, until the input ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    holder = _Holder(json.loads(sys.argv[1]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = getattr(holder, asked.pop("do"))(**asked)
        except DynamoDBLockError as error:
            answer = {"error": error.code}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
