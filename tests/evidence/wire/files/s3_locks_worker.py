"""A program around the released s3-locks: it guards one object.

Usage: s3_locks_worker.py CYCLES HOLD_SECONDS TTL_SECONDS [create]

Where the object itself is to be got or created, the last word is `create`: then s3-locks' own `get_or_create` does it.
"""

import os
import sys
import time

import boto3
from s3_locks.main import S3Lock, get_or_create

bucket, me = os.environ["LOCKREF_BUCKET"], os.environ["LOCKREF_CLIENT"]
cycles, hold_s, ttl_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
s3 = boto3.client("s3")


def created() -> bytes:
    time.sleep(hold_s)
    return me.encode()


def guarded(number: int) -> None:
    with S3Lock(bucket, "locks/s3.json", ttl=ttl_s, retries=600, retry_interval=0.1, s3_client=s3):
        time.sleep(hold_s)
        s3.put_object(Bucket=bucket, Key="state/x", Body=f"{me} {number}".encode())


for number in range(cycles):
    if "create" in sys.argv[4:]:
        get_or_create(
            bucket, "state/y", created, lock_ttl=ttl_s, lock_retries=600, lock_retry_interval=0.1, s3_client=s3
        )
    else:
        guarded(number)
    time.sleep(0.02)
