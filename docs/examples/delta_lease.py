"""The lease of one Delta table, opened with delta-rs' names. ENDPOINT: of a server of one's own; empty for AWS."""

import os

from lockref import finish_rename, open_lock, open_store

endpoint = os.environ.get("ENDPOINT", "")
lock = open_lock(
    {"DYNAMO_LOCK_PARTITION_KEY_VALUE": "s3://lake/orders", "DYNAMO_LOCK_LEASE_DURATION": "10"},
    endpoint=endpoint,
    region="us-east-1",
)
where = f"&endpoint={endpoint}" if endpoint else ""
bucket = open_store(f"s3://lake?region=us-east-1{where}", request_timeout_ns=5_000_000_000)
with lock:
    # First of all: what a dead writer left. Otherwise that writer, if it was only stopped, may overwrite our commit.
    finish_rename(lock, bucket)
    if lock.holds():  # The guard: ask before each protected write.
        print("commit under token", lock.fencing_token)
lock.close()
bucket.close()
