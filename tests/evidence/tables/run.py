"""One run: a server, the writers' JVMs behind endpoints that record each request, and what is left of the table."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from lockref.clouds.aws import aws_client
from lockref.clouds.uri import parse_store_uri
from lockref.errors import BackendUnavailable, ConfigError
from lockref.runtime import NS_PER_S, ThreadRuntime
from reports.history_files import write_history
from scenarios.backends import start_backend
from scenarios.definition.load import parse_scenario
from scenarios.definition.schema import Scenario
from scenarios.wire.run import WireOutcome, run_wire
from scenarios.wire.settings import WireSettings
from tests.evidence.tables.attempts import Attempt, read_attempts
from tests.evidence.tables.environment import FILES, TableEnvironment
from tests.evidence.tables.processes import ProcessWatch, Usage
from tests.evidence.tables.timeline import PROPERTIES, Timeline, read_timeline, require_key
from tests.evidence.tables.validation import SERVICES

SERVER: Final = "ministack"
"""It keeps conditions, and has ranged reads and multipart uploads, which S3A needs."""
PROTECTED: Final = ("commit", "deltacommit", "replacecommit", "rollback")
"""Completed instants of these actions are written under the lock, by Hudi's design; a request or a marker is not."""
ROLES: Final = ("sql", "stream", "services")
KINDS: Final = ("mor", "cow")
LOCKS: Final = ("storage", "in-process", "none")
COMPLETING: Final = "service: resource, op: write"
"""The request that completes an instant, under the lock."""
BEGINNING: Final = "op: acquire"
"""A commit takes the lock twice: for the time of its instant, and to complete it. The first time comes after an UPDATE
has read which files the table has. Where failed writes are rolled back in between, the count is another."""
STRIKES: Final = ("stop", "stop-early", "kill")
END_MARGIN_S: Final = 20
MINUTES_MAX: Final = 24 * 60
READ_TIMEOUT_S: Final = 300
RECORD_KEY: Final = "id"
_REQUEST_TIMEOUT_NS: Final = 20 * NS_PER_S
_TAIL: Final = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """What is played.

    jvms: the roles of each JVM. kind: of the table, of `KINDS`. batches: of each writing role. rows: of each insert.
    shared: rows on which all SQL writers count. minutes: after which writers begin nothing more. lock: of `LOCKS`;
    `in-process` is one for each JVM. validity_s, renew_s: of Hudi's lock. heartbeat_ms: of Hudi's writers, after which
    a dead one's work is rolled back. strike: what happens to n1, of `STRIKES`; "" for nothing. at_commit: in which of
    its commits. pause_s: for how long it is stopped. refresh: each SQL statement lists the table's files anew; without
    it, Spark keeps a session's listing until that session has written. hudi: further options of each write. store: the
    URI of a server that runs; "" starts one. table: where the table is made in the bucket.
    """

    jvms: tuple[tuple[str, ...], ...] = (("sql",), ("sql",), ("stream", "services"))
    kind: str = "mor"
    batches: int = 5
    rows: int = 10
    shared: int = 2
    seed: int = 1
    minutes: float = 8
    lock: str = "storage"
    validity_s: int = 30
    renew_s: int = 3
    heartbeat_ms: int = 60_000
    strike: str = ""
    pause_s: int = 0
    at_commit: int = 4
    refresh: bool = False
    hudi: Mapping[str, str] = field(default_factory=dict)
    store: str = ""
    table: str = "lake/t"

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(f"n{number}" for number in range(1, len(self.jvms) + 1))

    @property
    def services(self) -> tuple[str, ...]:
        """The table services that have to happen."""
        if not self.plays("services"):
            return ()
        return SERVICES if self.kind == "mor" else SERVICES[1:]

    def require_sense(self) -> None:
        """Errors: ConfigError for a role that does not exist, or a size that proves nothing."""
        unknown = [role for roles in self.jvms for role in roles if role not in ROLES]
        if unknown:
            raise ConfigError(f"the role {unknown[0]!r} is not known; expected {', '.join(ROLES)}")
        if not any(role != "services" for roles in self.jvms for role in roles):
            raise ConfigError("no JVM writes; give one of them the role sql or stream")
        for option, number, least in (
            ("batches", self.batches, 1),
            ("rows", self.rows, 1),
            ("shared", self.shared, 1),
            ("seed", self.seed, 0),
            ("at-commit", self.at_commit, 1),
            ("validity", self.validity_s, 10),
            ("stop-for", self.pause_s if self.strike.startswith("stop") else 1, 1),
        ):
            if number < least:
                raise ConfigError(f"--{option} is {number}; expected {least} or more")
        if self.minutes * 60 <= END_MARGIN_S:
            raise ConfigError(f"--minutes {self.minutes:g} is too short; the JVMs alone take one to start")
        if not self.minutes <= MINUTES_MAX:
            raise ConfigError(f"--minutes is {self.minutes:g}; expected at most {MINUTES_MAX}")
        if not self.table:
            raise ConfigError("--table names no place in the bucket")

    def plays(self, role: str) -> bool:
        """True if some JVM has the role."""
        return any(role in roles for roles in self.jvms)

    def plan(self) -> Scenario | None:
        """The fault that strikes n1; None where none does."""
        if not self.strike:
            return None
        where, what = {
            "stop": (COMPLETING, f"kind: pause, for: {self.pause_s}s"),
            "stop-early": (BEGINNING, f"kind: pause, for: {self.pause_s}s"),
            "kill": (COMPLETING, "kind: crash, restart_after: 2s"),
        }[self.strike]
        nth = self.at_commit if where == COMPLETING else 2 * self.at_commit - 1
        fault = f"{{{what}, client: n1, when: {{client: n1, {where}, nth: {nth}, cut: c0}}}}"
        name = f"{self.strike}-writer"
        lines = (
            "version: 1",
            f"name: {name}",
            "about: A writer is struck in a commit.",
            f"clients: {len(self.jvms)}",
            "faults:",
            f"  - {fault}",
        )
        return parse_scenario("\n".join(lines), file=f"{name}.yaml")


@dataclass(slots=True, kw_only=True)
class TableRun:
    """What a run left. rows: of the table, read by a fresh session; None where they cannot be: `unread` says why.

    loads: of the machine, over the last minute, at the beginning and at the end of the writers' time.
    """

    settings: TableSettings
    wire: WireOutcome
    attempts: list[Attempt]
    rows: list[dict[str, Any]] | None
    timeline: Timeline | None
    usage: Mapping[str, Usage]
    lasting_s: float
    loads: tuple[float, float]
    unread: list[str] = field(default_factory=list)


def run_tables(settings: TableSettings, environment: TableEnvironment, folder: Path) -> TableRun:
    """Play the roles, then read the table and its timeline. folder: a new one, which keeps all that was measured.

    Errors: BackendUnavailable if the server does not start; those of `run_wire`.
    """
    logs, scratch = folder / "writers", folder / "scratch"
    runtime = ThreadRuntime()
    with ExitStack() as stack:
        uri = settings.store or stack.enter_context(start_backend(SERVER, log_folder=folder / "server")).uri
        address = parse_store_uri(uri)
        if address.scheme != "s3" or not address.endpoint:
            raise ConfigError(
                f"--store {uri} is no S3 server of this machine; expected s3://BUCKET?endpoint=http://HOST:PORT"
            )
        s3 = aws_client(
            "s3", endpoint=address.endpoint, region="us-east-1", request_timeout_ns=_REQUEST_TIMEOUT_NS, pool_size=2
        )
        require_no_table(s3, address.container, settings.table)
        for each in (logs, scratch):
            each.mkdir(parents=True)
        # Spark has copies of its jars there, for each JVM.
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        began_ns, load = runtime.monotonic_ns(), os.getloadavg()[0]
        lasting_ns = round(settings.minutes * 60 * NS_PER_S)
        plan = {
            **asdict(settings),
            "table": f"s3a://{address.container}/{settings.table}",
            "jars": [str(jar) for jar in environment.jars],
            "roles": dict(zip(settings.clients, settings.jvms, strict=True)),
            "maker": settings.clients[0],
            "logs": str(logs.absolute()),
            "scratch": str(scratch.absolute()),
            "until_ns": began_ns + lasting_ns - END_MARGIN_S * NS_PER_S,
        }
        path = folder / "plan.json"
        path.write_text(json.dumps(plan, indent=2), encoding="utf-8")
        script = FILES / "roles.sh"
        wire = WireSettings(
            argv=("sh", str(script), str(environment.python), str(path.absolute()), "{client}"),
            clients=len(settings.jvms),
            plan=settings.plan(),
            protects=tuple(f"{settings.table}/.hoodie/timeline/*_*.{action}" for action in PROTECTED),
            decoder="hudi",
            lasting_ns=lasting_ns,
            environment=environment.variables,
            seed=settings.seed,
            handover_ns=60 * NS_PER_S,
        )
        with ProcessWatch(logs, runtime) as watch:
            outcome = run_wire(uri, wire, folder=folder)
        lasting_s = (runtime.monotonic_ns() - began_ns) / NS_PER_S
        write_history(folder, outcome.events, outcome.runs)
        run = TableRun(
            settings=settings,
            wire=outcome,
            attempts=read_attempts(logs),
            rows=None,
            timeline=None,
            usage=watch.usage,
            lasting_s=lasting_s,
            loads=(load, os.getloadavg()[0]),
        )
        run.timeline = _timeline_left(s3, address.container, settings.table, folder)
        (folder / "timeline.json").write_text(json.dumps(run.timeline.told(), indent=2), encoding="utf-8")
        try:
            run.rows = read_rows(environment, path, folder, endpoint=address.endpoint)
        except BackendUnavailable as error:
            run.unread.append(str(error))
    return run


def _timeline_left(s3: Any, bucket: str, table: str, folder: Path) -> Timeline:
    """The timeline after the run. Errors: ConfigError if no table was made; BackendUnavailable if the server is gone.

    In either case what was recorded is in the folder.
    """
    kept = f"; what was recorded is in {folder}: `lockref check {folder}` judges the lock"
    try:
        return read_timeline(_objects(s3, bucket, f"{table}/.hoodie/"))
    except BackendUnavailable as error:
        raise BackendUnavailable(f"{error}{kept}") from error
    except ConfigError as error:
        raise ConfigError(f"{error}; see {folder / 'writers'}{kept}") from error


def require_no_table(s3: Any, bucket: str, table: str) -> None:
    """Errors: ConfigError where there is a table already, and what is wrong with it; those of `_objects`."""
    found = list(_objects(s3, bucket, f"{table}/.hoodie/{PROPERTIES}"))
    if found:
        timeline = read_timeline((f"{PROPERTIES}{key}", body) for key, body in found)
        require_key(timeline, RECORD_KEY)
        raise ConfigError(f"there is a table at {bucket}/{table} already; name another place with --table")


def _objects(s3: Any, bucket: str, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Key below the prefix, and body. Errors: BackendUnavailable where nothing answers like S3."""
    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for entry in page.get("Contents", ()):
                key = entry["Key"]
                yield key.removeprefix(prefix), s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except (BotoCoreError, ClientError) as error:
        raise BackendUnavailable(f"{s3.meta.endpoint_url} did not answer a listing like S3: {error}") from error


def read_rows(environment: TableEnvironment, plan: Path, folder: Path, *, endpoint: str) -> list[dict[str, Any]]:
    """The rows of the table, in a session of its own. Errors: BackendUnavailable if Spark cannot read it."""
    out, log = folder / "rows.jsonl", folder / "reader.log"
    variables = {
        **os.environ,
        **environment.variables,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ACCESS_KEY_ID": "lockref",
        "AWS_SECRET_ACCESS_KEY": "lockref-loopback",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    command = [str(environment.python), str(FILES / "reader.py"), str(plan), str(out)]
    try:
        with log.open("wb") as stream:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=variables, timeout=READ_TIMEOUT_S,
                check=False,
            )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise BackendUnavailable(f"reading the table took more than {READ_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise BackendUnavailable(f"the table cannot be read:\n{log.read_text(errors='replace')[-_TAIL:]}")
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
