"""One JVM of the study: it plays its roles on the table, each in a thread of its own, and logs what it was answered.

    python roles.py PLAN CLIENT

The log has a line before each attempt and one after it, so a process that is killed leaves the attempt open. Outcomes:
acknowledged; refused, where Hudi names a conflict or had no lock, so that nothing of it may be seen; unknown for any
other error. Times are those of the machine's monotonic clock in nanoseconds, as in the record of the requests.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from settings import (  # type: ignore[import-not-found]  # beside this script
    COLUMNS,
    hudi_options,
    open_session,
    read_plan,
)

REFUSALS = ("HoodieWriteConflictException", "HoodieClusteringUpdateException", "Unable to acquire the lock")
"""In the text of an error after which nothing was committed."""
TRIES = 12
SERVICES_EVERY_S = 15
"""Between two rounds of table services: a writer whose file group is being clustered is refused."""
TEXT_MAX = 400


class Log:
    """The attempts of one role, one JSON object a line."""

    def __init__(self, folder: Path, client: str, role: str) -> None:
        self._file = (folder / f"{client}-{role}.jsonl").open("a", encoding="utf-8", buffering=1)
        self._about = {"client": client, "role": role, "pid": os.getpid()}

    def write(self, **told: Any) -> None:
        self._file.write(json.dumps({**self._about, "at_ns": time.monotonic_ns(), **told}) + "\n")

    def attempt(self, batch: str, op: str, rows: dict[str, dict[str, Any]], work: Callable[[], object]) -> str:
        """Do it, and log how it ended. rows: by key what it does: `delete`, `count`, or the row that it writes."""
        self.write(event="begun", batch=batch, op=op, rows=rows)
        error = ""
        try:
            work()
            outcome = "acknowledged"
        except (Py4JError, PySparkException) as raised:
            error = f"{type(raised).__name__}: {raised}"
            outcome = "refused" if any(word in error for word in REFUSALS) else "unknown"
        self.write(event="ended", batch=batch, op=op, outcome=outcome, error=_cause(error))
        return outcome


def _cause(error: str) -> str:
    """The lines of a Java error that say something."""
    lines = [line.strip() for line in error.splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", "..."))]
    return " | ".join(dict.fromkeys(told))[:TEXT_MAX]


class Table:
    """The table as one role sees it: a session of its own in the JVM's context."""

    def __init__(self, session: SparkSession, plan: dict[str, Any]) -> None:
        self.session = session
        self.uri, self.kind, self.refresh = plan["table"], plan["kind"], plan["refresh"]
        self.options = hudi_options(plan)
        self.is_partial = self.options.get("hoodie.spark.sql.merge.into.partial.updates") != "false"
        for key, value in self.options.items():
            session.conf.set(key, value)

    def create(self) -> None:
        self.session.sql(
            f"CREATE TABLE IF NOT EXISTS t ({COLUMNS}) USING hudi "
            f"TBLPROPERTIES (type = '{self.kind}', primaryKey = 'id', preCombineField = 'ts') LOCATION '{self.uri}'"
        )

    def sql(self, batch: str, statement: str) -> Callable[[], object]:
        def work() -> None:
            # The batch stands in the metadata of the commit.
            self.session.conf.set("hoodie.lockref.batch", batch)
            if self.refresh:
                self.session.sql("REFRESH TABLE t")
            self.session.sql(statement)

        return work

    def upsert(self, batch: str, rows: DataFrame, operation: str = "upsert") -> Callable[[], object]:
        def work() -> None:
            writer = rows.write.format("hudi").mode("append").options(**self.options)
            writer.option("hoodie.table.name", "t").option("hoodie.lockref.batch", batch).option(
                "hoodie.datasource.write.operation", operation
            ).save(self.uri)

        return work


def _stamp() -> int:
    """The ordering field: microseconds of the wall clock, which all processes share."""
    return time.time_ns() // 1000


class SqlWriter:
    """INSERT, UPDATE, DELETE and MERGE on rows of its own, and counting on rows that all share."""

    def __init__(self, table: Table, log: Log, plan: dict[str, Any], client: str) -> None:
        self.table, self.log, self.client = table, log, client
        self.rows, self.shared = plan["rows"], plan["shared"]
        self.random = random.Random(f"{plan['seed']}/{client}")
        self.mine: list[str] = []
        self.made = 0

    def insert(self, batch: str) -> tuple[dict[str, Any], str]:
        keys = [f"{self.client}-{self.made + i:04}" for i in range(self.rows)]
        self.made += self.rows
        rows = {key: self._row(0, batch) for key in keys}
        values = ", ".join(f"('{k}', '{self.client}', 0, {row['ts']}, '{batch}')" for k, row in rows.items())
        return rows, f"INSERT INTO t VALUES {values}"

    def update(self, batch: str) -> tuple[dict[str, Any], str]:
        chosen = sorted(self.random.sample(self.mine, max(1, len(self.mine) // 2)))
        n, ts = self.random.randrange(1, 1_000_000), _stamp()
        names = ", ".join(f"'{key}'" for key in chosen)
        row = {"n": n, "ts": ts, "batch": batch}
        return dict.fromkeys(chosen, row), (f"UPDATE t SET n = {n}, ts = {ts}, batch = '{batch}' WHERE id IN ({names})")

    def delete(self, batch: str) -> tuple[dict[str, Any], str]:
        key = self.random.choice(self.mine)
        return {key: {"delete": True, "batch": batch}}, f"DELETE FROM t WHERE id = '{key}'"

    def merge(self, batch: str) -> tuple[dict[str, Any], str]:
        shared, key, ts = self._shared(), f"{self.client}-{self.made:04}", _stamp()
        self.made += 1
        values = ", ".join(f"('{k}', '{self.client}', cast({ts} as bigint), '{batch}')" for k in (shared, key))
        # On merge-on-read an assignment may not name the target's own column, so the source reads the counter.
        source = (
            "SELECT v.id, v.writer, coalesce(o.n, -1L) + 1L n, v.ts, v.batch "
            f"FROM VALUES {values} AS v(id, writer, ts, batch) LEFT JOIN t o ON o.id = v.id"
        )
        # Hudi takes an UPDATE of some columns only where it writes partial updates.
        changed = "n = s.n, ts = s.ts, batch = s.batch" if self.table.is_partial else "*"
        return {shared: {"count": 1, "batch": batch}, key: {"n": 0, "ts": ts, "batch": batch}}, (
            f"MERGE INTO t USING ({source}) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET {changed} WHEN NOT MATCHED THEN INSERT *"
        )

    def count(self, batch: str) -> tuple[dict[str, Any], str]:
        key = self._shared()
        return {key: {"count": 1, "batch": batch}}, (
            f"UPDATE t SET n = n + 1, ts = {_stamp()}, batch = '{batch}' WHERE id = '{key}'"
        )

    def _shared(self) -> str:
        return f"shared-{self.random.randrange(self.shared)}"

    def _row(self, n: int, batch: str) -> dict[str, Any]:
        return {"n": n, "ts": _stamp(), "batch": batch}

    def play(self, batches: int, is_over: Callable[[], bool]) -> None:
        cycle = [self.insert, self.count, self.update, self.merge, self.delete]
        for number in range(batches):
            op = cycle[number % len(cycle)]
            if not self.mine and op in (self.update, self.delete):
                # Its inserts have failed: there is nothing of its own to change.
                op = self.insert
            for attempt in range(TRIES):
                if is_over():
                    return
                # Each attempt is a batch of its own: it reads the table anew.
                batch = f"{self.client}-sql-{number}-{attempt}"
                made = self.made
                rows, statement = op(batch)
                outcome = self.log.attempt(batch, op.__name__, rows, self.table.sql(batch, statement))
                if outcome == "refused":
                    self.made = made
                    time.sleep(self.random.uniform(0.1, 1.5))
                    continue
                if outcome == "acknowledged":
                    self._learn(rows)
                break

    def _learn(self, rows: dict[str, Any]) -> None:
        for key, row in rows.items():
            if row.get("delete"):
                self.mine.remove(key)
            elif key.startswith(self.client) and key not in self.mine:
                self.mine.append(key)


def stream(table: Table, log: Log, plan: dict[str, Any], client: str, is_over: Callable[[], bool]) -> None:
    """Structured streaming: each micro-batch inserts rows and updates those of the one before; then a row goes."""
    rows, total = plan["rows"], plan["batches"]
    source = (
        table.session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", 1)
        .load()
    )
    done: list[int] = []
    chance = random.Random(f"{plan['seed']}/{client}/stream")

    def write(batch_rows: DataFrame, epoch: int) -> None:
        if is_over() or epoch >= total:
            done.append(epoch)
            return
        values = [row.value for row in batch_rows.collect()]
        keys = [f"{client}-s{value:04}" for value in values]
        before = [f"{client}-s{value - rows:04}" for value in values if value >= rows]
        _retried(
            log,
            f"{client}-stream-{epoch}",
            "upsert",
            is_over,
            chance,
            lambda batch: upsert(batch, keys + before, epoch),
        )
        if before and not is_over():
            _retried(log, f"{client}-delete-{epoch}", "delete", is_over, chance, lambda batch: delete(batch, before[0]))
        done.append(epoch)

    def upsert(batch: str, keys: list[str], epoch: int) -> tuple[dict[str, Any], Callable[[], object]]:
        ts = _stamp()
        told: dict[str, Any] = {key: {"n": epoch, "ts": ts, "batch": batch} for key in keys}
        frame = [(key, client, row["n"], row["ts"], batch) for key, row in told.items()]
        # A late record: an older value of the ordering field must not win.
        late = f"{client}-late"
        first = epoch == 0
        frame.append((late, client, 1 if first else -1, ts if first else 1, batch))
        if first:
            told[late] = {"n": 1, "ts": ts, "batch": batch}
        return told, table.upsert(batch, _frame(table.session, frame))

    def delete(batch: str, key: str) -> tuple[dict[str, Any], Callable[[], object]]:
        frame = _frame(table.session, [(key, client, 0, _stamp(), batch)])
        return {key: {"delete": True, "batch": batch}}, table.upsert(batch, frame, "delete")

    place = Path(plan["scratch"]) / f"{client}-checkpoint"
    query = (
        source.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(place))
        .trigger(processingTime="1 second")
        .start()
    )
    while query.isActive and len(done) < total and not is_over():
        query.awaitTermination(1)
    query.stop()


def _frame(session: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    """A small frame without a Python worker."""
    values = ", ".join(f"('{k}', '{w}', cast({n} as bigint), cast({ts} as bigint), '{b}')" for k, w, n, ts, b in rows)
    return session.sql(f"SELECT * FROM VALUES {values} AS v(id, writer, n, ts, batch)").coalesce(1)


def _retried(
    log: Log,
    name: str,
    op: str,
    is_over: Callable[[], bool],
    chance: random.Random,
    make: Callable[[str], tuple[dict[str, Any], Callable[[], object]]],
) -> None:
    for attempt in range(TRIES):
        batch = f"{name}-{attempt}"
        rows, work = make(batch)
        if log.attempt(batch, op, rows, work) != "refused" or is_over():
            return
        time.sleep(chance.uniform(0.1, 1.5))


def services(table: Table, log: Log, is_over: Callable[[], bool], is_quiet: Callable[[], bool]) -> None:
    """Compaction and clustering while the others write, and once more when they have ended."""
    number = 0
    while True:
        is_last = is_quiet() or is_over()
        compaction = (
            ("compaction-schedule", "CALL run_compaction(op => 'schedule', table => 't')"),
            ("compaction", "CALL run_compaction(op => 'run', table => 't')"),
        )
        clustering = ("clustering", "CALL run_clustering(table => 't')")
        for op, statement in (*(compaction if table.kind == "mor" else ()), clustering):
            batch = f"{op}-{number}"

            def work(statement: str = statement, batch: str = batch) -> None:
                table.session.conf.set("hoodie.lockref.batch", batch)
                table.session.sql(statement).collect()

            log.attempt(batch, op, {}, work)
            if is_over():
                return
        number += 1
        if is_last:
            return
        _pause(SERVICES_EVERY_S, lambda: is_quiet() or is_over())


def _pause(seconds: float, is_over: Callable[[], bool]) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s and not is_over():
        time.sleep(0.2)


def main() -> int:
    plan, client = read_plan(), sys.argv[2]
    roles = plan["roles"][client]
    logs = Path(plan["logs"])
    made = logs / "table-is-made"

    def is_over() -> bool:
        return time.monotonic_ns() >= int(plan["until_ns"])

    name = client + _life(logs / f"{client}-jvm.jsonl")
    life = Log(logs, client, "jvm")
    life.write(event="process")
    session = open_session(plan, client)
    life.write(event="session", java_pid=_java_pid(session))
    table = Table(session, plan)
    if client == plan["maker"] and not made.exists():
        life.attempt("create-0", "create", {}, table.create)
        rows = {f"shared-{i}": {"n": 0, "ts": _stamp(), "batch": "create-1"} for i in range(plan["shared"])}
        values = ", ".join(f"('{key}', 'shared', 0, {row['ts']}, 'create-1')" for key, row in rows.items())
        life.attempt("create-1", "insert", rows, table.sql("create-1", f"INSERT INTO t VALUES {values}"))
        made.touch()
    else:
        while not made.exists():
            if is_over():
                return 3
            time.sleep(0.2)
        table.create()

    def play(role: str, own: Table, log: Log) -> None:
        try:
            if role == "sql":
                SqlWriter(own, log, plan, name).play(plan["batches"], is_over)
            elif role == "stream":
                stream(own, log, plan, name, is_over)
            else:
                services(own, log, is_over, lambda: _others_have_ended(plan, logs))
        except Exception as error:
            log.write(event="failed", error=_cause(f"{type(error).__name__}: {error}"))
            raise
        finally:
            (logs / f"{client}-{role}.ended").touch()

    threads = [
        threading.Thread(
            target=play, name=role, args=(role, Table(session.newSession(), plan), Log(logs, client, role))
        )
        for role in roles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    life.write(event="over")
    session.stop()
    return 0


def _life(log: Path) -> str:
    """What makes the keys and batches of a client that was killed and started again others than before."""
    begun = log.read_text(encoding="utf-8").count('"event": "process"') if log.exists() else 0
    return f"r{begun}" if begun else ""


def _others_have_ended(plan: dict[str, Any], logs: Path) -> bool:
    writers = [(client, role) for client, roles in plan["roles"].items() for role in roles if role != "services"]
    return all((logs / f"{client}-{role}.ended").exists() for client, role in writers)


def _java_pid(session: SparkSession) -> int:
    jvm: Any = session._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


if __name__ == "__main__":
    sys.exit(main())
