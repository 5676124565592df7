"""The lease of one Delta table, opened with delta-rs' names. ENDPOINT: of a server of one's own; empty for AWS."""

import os

from lockref import open_lock

lock = open_lock(
    {"DYNAMO_LOCK_PARTITION_KEY_VALUE": "s3://lake/orders", "DYNAMO_LOCK_LEASE_DURATION": "10"},
    endpoint=os.environ.get("ENDPOINT", ""),
    region="us-east-1",
)
with lock:
    if lock.holds():  # The guard: ask before each protected write.
        print("commit under token", lock.fencing_token)
lock.close()
