"""The Spark session of every process of the study, and what its writers tell Hudi. Runs under Spark 3.5 alone."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

COLUMNS = "id string, writer string, n bigint, ts bigint, batch string"
"""Of the table: the record key, who owns the row, a counter, the ordering field, and the batch that wrote the row."""


def read_plan() -> dict[str, Any]:
    """The plan of the run, in the file that the first argument names."""
    plan: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    return plan


def open_session(plan: dict[str, Any], name: str) -> SparkSession:
    """A session whose S3 is the endpoint in the environment."""
    scratch = Path(plan["scratch"]) / name
    quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true"
    builder = SparkSession.builder.master("local[2]").appName(name)
    settings = {
        "spark.jars": ",".join(plan["jars"]),
        "spark.driver.memory": "1200m",
        "spark.driver.extraJavaOptions": f"{quick} -Dderby.system.home={scratch / 'derby'}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL_S3"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": os.environ["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "spark.hadoop.fs.s3a.bucket.probe": "0",
        "spark.hadoop.fs.s3a.fast.upload.buffer": "array",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def hudi_options(plan: dict[str, Any]) -> dict[str, str]:
    """What every write tells Hudi."""
    options = {
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        # The validation reads the whole timeline, so nothing of it may be moved away.
        "hoodie.archive.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.insert.shuffle.parallelism": "1",
        "hoodie.delete.shuffle.parallelism": "1",
        "hoodie.datasource.write.commitmeta.key.prefix": "hoodie.lockref.",
        "hoodie.compact.inline": "false",
        "hoodie.datasource.compaction.async.enable": "false",
        "hoodie.compact.inline.max.delta.commits": "2",
        "hoodie.clustering.async.enabled": "false",
        "hoodie.client.heartbeat.interval_in_ms": str(plan["heartbeat_ms"]),
    }
    options |= plan["hudi"]
    if plan["lock"] == "none":
        # Hudi's own default: a single writer, which asks nobody and rolls back what it finds unfinished.
        return options
    provider = {
        "storage": "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
        "in-process": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }[plan["lock"]]
    return options | {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": provider,
        "hoodie.write.lock.storage.validity.timeout.secs": str(plan["validity_s"]),
        "hoodie.write.lock.storage.renew.interval.secs": str(plan["renew_s"]),
    }
