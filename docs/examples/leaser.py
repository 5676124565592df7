"""A program that guards an object by a lease in another one, over S3, with the plain SDK.

Usage: leaser.py CYCLES HOLD_SECONDS TTL_SECONDS [careless]

A correct one creates the lease on the condition that there is none, and gives it back on the condition that it is
still its own; it stops well before the lease ends. A careless one unlocks without a condition, as several tools do.
"""

import json
import os
import sys
import time
import uuid

import boto3
from botocore.exceptions import ClientError

KEY, STATE = "locks/lease.json", "state/counter"


def main(cycles: int, hold_s: float, ttl_s: float, *, is_careless: bool) -> None:
    s3 = boto3.client("s3")
    bucket = os.environ["LOCKREF_BUCKET"]
    owner = os.environ["LOCKREF_CLIENT"]
    done = 0
    while done < cycles:
        lease = acquire(s3, bucket, owner, ttl_s)
        if lease is None:
            time.sleep(0.05)
            continue
        etag, until = lease
        time.sleep(hold_s)
        if is_careless or time.time() < until - ttl_s / 3:
            s3.put_object(Bucket=bucket, Key=STATE, Body=f"{owner} {done}".encode())
            done += 1
        release(s3, bucket, etag, is_careless=is_careless)


def acquire(s3, bucket: str, owner: str, ttl_s: float) -> tuple[str, float] | None:
    condition = {"IfNoneMatch": "*"}
    try:
        found = s3.get_object(Bucket=bucket, Key=KEY)
        if time.time() < json.loads(found["Body"].read())["until"] + ttl_s / 3:
            return None
        condition = {"IfMatch": found["ETag"]}
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchKey":
            raise
    until = time.time() + ttl_s
    body = json.dumps({"id": f"{owner}-{uuid.uuid4()}", "until": until}).encode()
    try:
        made = s3.put_object(Bucket=bucket, Key=KEY, Body=body, **condition)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 409, 412):
            return None
        raise
    return made["ETag"], until


def release(s3, bucket: str, etag: str, *, is_careless: bool) -> None:
    try:
        if is_careless:
            s3.delete_object(Bucket=bucket, Key=KEY)
        else:
            s3.delete_object(Bucket=bucket, Key=KEY, IfMatch=etag)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (404, 409, 412):
            raise


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), is_careless="careless" in sys.argv[4:])
