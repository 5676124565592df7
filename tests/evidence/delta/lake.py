"""One server with S3 and DynamoDB: buckets with Delta tables, the lock table, and what can be read of both."""

from __future__ import annotations

import collections
import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.clouds.aws import aws_client
from lockref.clouds.dynamodb.client import DynamoChannel
from lockref.clouds.tables import require_table
from lockref.clouds.uri import parse_store_uri
from lockref.delta.options import DEFAULT_TABLE_NAME
from lockref.dynamodb.table import TABLE, Item, TableClient, text
from lockref.runtime import NS_PER_S
from lockref.temporary_folders import owned_folder
from scenarios.backends import start_backend
from scenarios.backends.asked_process import AskedProcess
from scenarios.injection.faultproxy import FaultProxy
from scenarios.workloads.delta.log_rows import FILE_NAME, TABLE_PATH, LogRows, open_rows
from scenarios.workloads.delta.places import LogPlaces
from scenarios.worlds.log_server import ROWS_TABLE
from tests.evidence.delta.originals import in_its_python

REGION: Final = "us-east-1"
_REQUEST_TIMEOUT_NS: Final = 20 * NS_PER_S
_WRITER: Final = Path(__file__).with_name("writer.py")
LOG_STORE: Final[Mapping[str, str]] = {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}
"""Options of a writer with the helping log store; its table is `delta_log`."""
UNSAFE: Final[Mapping[str, str]] = {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
"""Options of an old writer without any lock."""


def lock_options(key: str, *, owner: str, lease_s: int, additional_s: int = 1) -> dict[str, str]:
    """Options of an old writer with the lease in the row `key`. Source: dynamodb_lock, `DynamoDbOptions`.

    additional_s: how long one attempt lasts beyond the lease that it found.
    """
    return {
        "AWS_S3_LOCKING_PROVIDER": "dynamodb",
        "DYNAMO_LOCK_TABLE_NAME": DEFAULT_TABLE_NAME,
        "DYNAMO_LOCK_PARTITION_KEY_VALUE": key,
        "DYNAMO_LOCK_OWNER_NAME": owner,
        "DYNAMO_LOCK_LEASE_DURATION": str(lease_s),
        "DYNAMO_LOCK_REFRESH_PERIOD_MILLIS": "1000",
        "DYNAMO_LOCK_ADDITIONAL_TIME_TO_WAIT_MILLIS": str(1000 * additional_s),
    }


def add_action(label: str) -> bytes:
    """The line of a log entry that adds one file with this label; the file is not there, for nobody reads it."""
    add = {
        "path": f"label={label}/{label}.parquet",
        "partitionValues": {"label": label},
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
    }
    return json.dumps({"add": add}).encode()


@dataclass(frozen=True, slots=True)
class LabelledLog:
    """What a table's log holds in the store. versions: the labels that each version adds, by the version's number."""

    versions: Mapping[int, tuple[str, ...]]

    def times(self, label: str) -> int:
        """How many versions have it: 0 is lost, 2 is twice."""
        return sum(labels.count(label) for labels in self.versions.values())

    @property
    def is_contiguous(self) -> bool:
        return sorted(self.versions) == list(range(len(self.versions)))


class Lake:
    """The server behind `endpoint`. Its buckets and its lock table are made here."""

    def __init__(self, endpoint: str, log_folder: Path) -> None:
        self.endpoint = endpoint
        self.log_folder = log_folder
        self._s3 = aws_client(
            "s3", endpoint=endpoint, region=REGION, request_timeout_ns=_REQUEST_TIMEOUT_NS, pool_size=4
        )
        self._dynamodb = aws_client(
            "dynamodb", endpoint=endpoint, region=REGION, request_timeout_ns=_REQUEST_TIMEOUT_NS, pool_size=4
        )
        self._channel = DynamoChannel(
            DEFAULT_TABLE_NAME, endpoint=endpoint, region=REGION, request_timeout_ns=_REQUEST_TIMEOUT_NS
        )
        self._channel.create_table()
        self._create_rows_table()
        self._numbers = collections.Counter[str]()

    @property
    def table(self) -> TableClient:
        """The lock table."""
        return TABLE.over(self._channel, _REQUEST_TIMEOUT_NS)

    @property
    def lock_uri(self) -> str:
        """The lock table, for our locks."""
        return self._table_uri(DEFAULT_TABLE_NAME)

    def _table_uri(self, table: str) -> str:
        return f"dynamodb://{table}?endpoint={self.endpoint}&region={REGION}"

    def places(self, bucket: str) -> LogPlaces:
        """That bucket for logs of ours, and the rows table that they share with the originals."""
        objects = f"s3://{bucket}?endpoint={self.endpoint}&region={REGION}"
        return LogPlaces(objects=objects, rows=self._table_uri(ROWS_TABLE))

    def rows(self, bucket: str) -> TableClient:
        """The rows of the logs in that bucket, as our helping log store sees them."""
        channel = open_rows(self.places(bucket), wall_ns=time.time_ns, request_timeout_ns=_REQUEST_TIMEOUT_NS)
        return TABLE.over(channel, _REQUEST_TIMEOUT_NS)

    def log_row(self, table: str, file_name: str) -> Item | None:
        """The row of a version as the table has it. table: `s3://BUCKET/NAME`."""
        key = {TABLE_PATH: text(table), FILE_NAME: text(file_name)}
        found: Item | None = self._dynamodb.get_item(TableName=ROWS_TABLE, Key=key, ConsistentRead=True).get("Item")
        return found

    def _create_rows_table(self) -> None:
        naming = LogRows("", time.time_ns)
        address = parse_store_uri(self._table_uri(ROWS_TABLE))
        require_table(address, request_timeout_ns=_REQUEST_TIMEOUT_NS, may_create=True, naming=naming)

    def proxy(self) -> FaultProxy:
        """A network between one client and the server, for faults. Not started yet."""
        host, _, port = self.endpoint.removeprefix("http://").partition(":")
        return FaultProxy((host, int(port)))

    def new_bucket(self) -> str:
        """An empty bucket."""
        self._numbers["bucket"] += 1
        bucket = f"lake-{self._numbers['bucket']}"
        self._s3.create_bucket(Bucket=bucket)
        return bucket

    def new_key(self) -> str:
        """A name for a lock that nobody has used."""
        self._numbers["key"] += 1
        return f"lock-{self._numbers['key']}"

    def writer(
        self, original: str, table: str, options: Mapping[str, str], *, name: str, endpoint: str = ""
    ) -> AskedProcess:
        """A `deltalake` that appends to `table`. endpoint: of a proxy, instead of the server itself."""
        env = {**self.writer_options(endpoint), **options}
        command = in_its_python(original, _WRITER)
        return AskedProcess(
            original, command, {"table": table, "options": env}, env=env, log_folder=self.log_folder, name=name
        )

    def writer_options(self, endpoint: str = "") -> dict[str, str]:
        """Where a `deltalake` finds the server. endpoint: of a proxy, instead of the server itself."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_STORAGE_ALLOW_HTTP": "1",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "k",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def row(self, key: str) -> Item | None:
        """The lock's row now."""
        found: Item | None = self.table.get(key).item()
        return found

    def log(self, table: str) -> LabelledLog:
        """The log of the table at `s3://BUCKET/NAME`, as it is in the store."""
        bucket, _, name = table.removeprefix("s3://").partition("/")
        versions = {}
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{name}/_delta_log/")
        for found in (each for page in pages for each in page.get("Contents", ())):
            number, _, suffix = found["Key"].rpartition("/")[2].partition(".")
            if suffix != "json" or not number.isdecimal():
                continue
            entry = self._s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read().decode()
            actions = [json.loads(line) for line in entry.splitlines()]
            versions[int(number)] = tuple(
                action["add"]["partitionValues"]["label"] for action in actions if "add" in action
            )
        return LabelledLog(dict(sorted(versions.items())))

    def put_version(self, table: str, version: int, label: str) -> None:
        """Commit without a condition."""
        bucket, _, name = table.removeprefix("s3://").partition("/")
        self._s3.put_object(Bucket=bucket, Key=f"{name}/_delta_log/{version:020}.json", Body=add_action(label))

    def close(self) -> None:
        self._channel.close()
        self._dynamodb.close()
        self._s3.close()


@contextlib.contextmanager
def started_lake(backend: str = "ministack") -> Iterator[Lake]:
    """A server with nothing in it, stopped on the way out. Errors: BackendUnavailable if it cannot be had."""
    with owned_folder("originals") as folder, start_backend(backend) as running:
        lake = Lake(parse_store_uri(running.uri).endpoint, folder)
        with contextlib.closing(lake):
            yield lake
