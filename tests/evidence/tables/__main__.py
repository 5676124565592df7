"""RFC-91's test plan on a real Hudi table.

    python -m tests.evidence.tables [--jvm ROLES …] [--batches N] [--rows N] [--seed N] [--minutes M]
    python -m tests.evidence.tables --lock none
    python -m tests.evidence.tables --strike stop|stop-early|kill

Spark 3.5 and the jars come on first use. Exit codes: 0 the table and the lock held; 1 something broke; 2 bad options,
or a table that is not ours; 3 too little happened; 5 something could not be had. Page, logs and history stay in the
folder of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable, ConfigError, LockrefError
from lockref.runtime import ThreadRuntime
from reports.checks.verdicts import decide
from reports.pipeline.analysis import analyse
from tests.evidence.tables.environment import table_environment
from tests.evidence.tables.measuring import costs, read_grants
from tests.evidence.tables.page import Judgement, doubts_about, page
from tests.evidence.tables.run import KINDS, LOCKS, ROLES, STRIKES, TableRun, TableSettings, run_tables
from tests.evidence.tables.validation import Finding, validate

FOLDER: Final = Path(".lockref/tables")
STOP_BEYOND_S: Final = 8
"""How long a stopped writer stays so beyond its lock's validity: 0.5 s of drift, and the time of another's commit."""


def parse(arguments: Sequence[str] | None) -> tuple[TableSettings, Path]:
    """The settings and the folder of a run. Errors: ConfigError for sizes and roles that cannot be."""
    plain = TableSettings()
    parser = argparse.ArgumentParser(
        prog="python -m tests.evidence.tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--jvm", action="append", metavar="ROLES", help=f"the roles of one JVM, of {', '.join(ROLES)}; once for each")
    add("--kind", choices=KINDS, default=plain.kind, help="of the table: merge on read, or copy on write")
    add("--batches", type=int, default=plain.batches, help="of each writing role")
    add("--rows", type=int, default=plain.rows, help="of each insert")
    add("--shared", type=int, default=plain.shared, help="rows on which all SQL writers count")
    add("--seed", type=int, default=plain.seed)
    add("--minutes", type=float, default=plain.minutes, help="after which nothing new begins")
    add("--lock", choices=LOCKS, default=plain.lock, help="in-process: each JVM for itself; none: Hudi's default")
    add("--validity", type=int, metavar="S", help=f"of the lock; {plain.validity_s}, and 10 where a writer is stopped")
    add(
        "--strike",
        choices=STRIKES,
        default="",
        help="what happens to n1: stop (SIGSTOP) or kill (SIGKILL) when it completes a commit; stop-early (SIGSTOP) "
        "when it takes the time of its instant",
    )
    add("--at-commit", type=int, default=plain.at_commit, metavar="N", help="which commit of n1 is struck")
    add("--stop-for", type=int, metavar="S", help="how long n1 is stopped; default 8 s more than the validity")
    add("--refresh", action="store_true", help="REFRESH TABLE before each SQL statement")
    add("--hudi", action="append", default=[], metavar="KEY=VALUE", help="a further option of each write")
    add("--store", default="", metavar="URI", help="an S3 server that runs already; default one of its own")
    add("--table", default=plain.table, help="where the table is made in the bucket")
    add("--out", type=Path, metavar="DIR", help=f"a new folder; default one below {FOLDER}")
    asked = parser.parse_args(arguments)
    usual_s = 10 if asked.strike.startswith("stop") else plain.validity_s
    validity_s = usual_s if asked.validity is None else asked.validity
    settings = TableSettings(
        jvms=plain.jvms if not asked.jvm else tuple(tuple(each.split(",")) for each in asked.jvm),
        kind=asked.kind,
        batches=asked.batches,
        rows=asked.rows,
        shared=asked.shared,
        seed=asked.seed,
        minutes=asked.minutes,
        lock=asked.lock,
        validity_s=validity_s,
        renew_s=max(1, validity_s // 10),
        strike=asked.strike,
        pause_s=validity_s + STOP_BEYOND_S if asked.stop_for is None else asked.stop_for,
        refresh=asked.refresh,
        hudi=_pairs(asked.hudi),
        at_commit=asked.at_commit,
        store=asked.store,
        table=asked.table.strip("/"),
    )
    settings.require_sense()
    folder = asked.out or FOLDER / f"{settings.lock}-{ThreadRuntime().token_bytes(3).hex()}"
    require_new(folder)
    return settings, folder


def require_new(folder: Path) -> None:
    """Errors: ConfigError for a place that is taken, or below a file; BackendUnavailable where nothing can be made.

    Asked before anything is fetched or started.
    """
    if folder.exists():
        raise ConfigError(f"--out {folder} exists already; name a new folder")
    above = next(each for each in folder.absolute().parents if each.exists())
    if not above.is_dir():
        raise ConfigError(f"--out {folder}: {above} is a file")
    if not os.access(above, os.W_OK | os.X_OK):
        raise BackendUnavailable(f"--out {folder}: {above} may not be written")


def _pairs(entries: Sequence[str]) -> dict[str, str]:
    found = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key.startswith("hoodie."):
            raise ConfigError(f"--hudi {entry!r} is not of the form hoodie.KEY=VALUE")
        found[key] = value
    return found


def judged(run: TableRun) -> Judgement:
    """The checks of the table, and the clauses of the lock."""
    verdicts = decide(run.wire.summary)
    findings = [
        Finding(check="the table can be read", asked=1, broken=tuple(run.unread)),
        *(
            validate(
                run.attempts,
                run.rows,
                run.timeline,
                services=run.settings.services,
            )
            if run.rows is not None and run.timeline is not None
            else ()
        ),
    ]
    return Judgement(findings=findings, verdicts=verdicts, doubts=doubts_about(run, verdicts))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    try:
        settings, folder = parse(arguments)
        print("Spark 3.5, Hudi and their jars (the first time a download of 400 MB)", flush=True)
        environment = table_environment()
        print(f"{len(settings.jvms)} JVMs, at most {settings.minutes:g} minutes, in {folder}", flush=True)
        run = run_tables(settings, environment, folder)
        judgement = judged(run)
        for finding in judgement.findings:
            print(f"  {finding.sentence}", flush=True)
        analyse([folder], folder / "analysis", title="Hudi's table under its lock")
        spent = costs(settings.clients, run.attempts, run.wire.events, read_grants(folder / "analysis"))
        (folder / "report.md").write_text(page(run, judgement, spent), encoding="utf-8")
        told = {
            "settings": asdict(settings),
            "code": judgement.code,
            "verdict": judgement.sentence,
            "findings": [asdict(finding) for finding in judgement.findings],
            "clauses": judgement.verdicts.clauses,
            "doubts": list(judgement.doubts),
            "costs": [asdict(each) for each in spent],
            "lasting_s": round(run.lasting_s, 1),
            "loads": run.loads,
        }
        (folder / "tables.json").write_text(json.dumps(told, indent=2), encoding="utf-8")
    except LockrefError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{error}; what was measured until then stays in the run's folder", file=sys.stderr)
        return BackendUnavailable.exit_code
    print(f"{judgement.sentence}\n{folder / 'report.md'}")
    return judgement.code


if __name__ == "__main__":
    sys.exit(main())
