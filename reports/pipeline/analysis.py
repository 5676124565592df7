"""Histories in, results out: the pipeline from end to end.

    files -> records (typed, or in quarantine) -> judgement (the checks, group
    by group) -> samples and counts (SQL) -> Parquet tables + results.json

Each stage's tables stay in `out_dir/tables`, so that a question that the
report does not answer can be put to them with any SQL engine.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockref.errors import HistoryUnreadable
from reports.pipeline import fairness, latency
from reports.pipeline.inputs import Source, find_sources
from reports.pipeline.summary import TIMELINE_EVENTS_MAX, Facts, FailureRow, summarise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reports.formats.results import Results
    from reports.pipeline.records import Records

POINTS_MAX = 10_000
"""Single samples kept for one picture."""
CLIENTS_MAX = 500
TIMELINES_MAX = 8
LONG_BYTES = 64 << 20
"""From here on, some millions of events, the JVM's second compiler is worth its time."""
JOBS_MAX = 4
"""Spark jobs under way at once."""


def analyse(
    inputs: Sequence[Path | str],
    out_dir: Path | str,
    spark: SparkSession | None = None,
    *,
    title: str = "",
    provenance: Mapping[str, Any] | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Judge and measure the histories `inputs`; write tables and `results.json` under `out_dir`; return the results.

    inputs: run folders, or files of events (`reports.pipeline.inputs`).
    spark: a session to use, on any cluster that reaches the files; default
        the local one of `reports.spark_session`, kept under `out_dir`.
    provenance, capabilities: put into the results as they are.

    Raises HistoryUnreadable where an input is no history, CapabilityMissing
    where there is no Java.
    """
    sources = find_sources(inputs)
    out = Path(out_dir)
    if spark is None:
        from reports.spark_session import spark_session

        spark = spark_session(out / "spark", is_long=_bytes(sources) > LONG_BYTES)
    results = _Analysis(spark, sources, out).run(title)
    results.provenance = {**(provenance or {}), **_versions(spark), "inputs": [source.name for source in sources]}
    results.capabilities = dict(capabilities or {})
    results.files = {"results": "results.json", "tables": "tables"}
    if results.quarantine:
        results.files["quarantine"] = "quarantine"
    results.write(out / "results.json")
    return results.model_dump(mode="json")


def _versions(spark: SparkSession) -> dict[str, str]:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  (no public way to ask)
    return {
        "spark": spark.version,
        "java": str(jvm.System.getProperty("java.version")),
        "python": platform.python_version(),
    }


def _bytes(sources: Sequence[Source]) -> int:
    """How much there is to read."""
    paths = [
        path
        for source in sources
        for path in ([source.events] if source.events.is_file() else source.events.rglob("*"))
    ]
    return sum(path.stat().st_size for path in paths)


class _Analysis:
    """One pass over one set of histories; every method is a stage."""

    def __init__(self, spark: SparkSession, sources: list[Source], out: Path) -> None:
        self.spark = spark
        self.sources = sources
        self.out = out
        self.facts = Facts(sources={source.index: source.name for source in sources})

    def run(self, title: str) -> Results:
        from reports.pipeline.records import read_records

        records = read_records(self.spark, self.sources)
        rows = records.rows.persist()
        try:
            self._take_stock(records)
            judged = self._judge(records)
            try:
                self._measure(judged)
            finally:
                judged.unpersist()
        finally:
            rows.unpersist()
        return summarise(self.facts, title=title)

    def _take_stock(self, records: Records) -> None:
        """Count events and rejects; write the rejects; note which runs lost a record."""
        facts = self.facts
        for row in records.rows.groupBy("_source", "problem").count().collect():
            if row["problem"] is None:
                facts.events[row["_source"]] = row["count"]
            else:
                facts.rejects[row["_source"], row["problem"]] = row["count"]
        for row in records.bad_runs.groupBy("source", "reason").count().collect():
            facts.rejects[row["source"], row["reason"]] = row["count"]
        for source in self.sources:
            if not facts.events.get(source.index):
                reasons = [
                    f"{number} x {reason}" for (index, reason), number in facts.rejects.items() if index == source.index
                ]
                raise HistoryUnreadable(f"{source.name} holds no event ({'; '.join(reasons) or 'it is empty'})")
        if facts.rejects:
            quarantine = records.quarantine
            quarantine.write.mode("overwrite").json(str(self.out / "quarantine"))
            known = quarantine.where("run is not null").select("run").distinct()
            facts.damaged = {row["run"] for row in known.collect()}
        for row in records.runs.select("run", "scenario", "provider", "is_cut_off", "must_happen").collect():
            if row["run"] in facts.damaged:
                continue
            facts.runs += 1
            facts.cut_off += row["is_cut_off"]
            facts.demanded.setdefault((row["scenario"], row["provider"]), set()).update(row["must_happen"])

    def _judge(self, records: Records) -> DataFrame:
        from reports.pipeline.verdicts import group_count, judge_groups
        from reports.spark_session import cores

        events, runs = records.events, records.runs
        if self.facts.damaged:
            lost = self.spark.createDataFrame([(run,) for run in sorted(self.facts.damaged)], "run bigint")
            events, runs = events.join(lost, "run", "left_anti"), runs.join(lost, "run", "left_anti")
        latency.register_views(self.spark, events, runs)
        groups = group_count(events=sum(self.facts.events.values()), runs=max(1, self.facts.runs), cores=cores())
        return judge_groups(events, runs, groups=groups).persist()

    def _measure(self, judged: DataFrame) -> None:
        """Write the tables, then count from them. What does not depend on one another runs side by side:
        on small histories most of a job's time is planning, which uses one core.
        """
        from reports.pipeline.verdicts import judgement_schemas, unpacked

        spark, facts = self.spark, self.facts
        self._table("verdicts", unpacked(judged, "verdicts"))
        others = [name for name in judgement_schemas() if name != "verdicts"]
        _together(
            lambda: self._table("calls", latency.calls(spark)),
            lambda: self._table("requests", latency.requests(spark)),
            *(partial(self._table, name, unpacked(judged, name)) for name in others),
        )
        _together(
            lambda: self._table("samples", latency.samples(spark)),
            lambda: self._table("clients", fairness.clients(spark)),
            self._count_verdicts,
        )
        self._table("fairness", fairness.runs(spark))
        aggregates = {
            "quantiles": latency.quantiles(spark),
            "outcomes": latency.outcomes(spark),
            "scatter": latency.scatter(spark, POINTS_MAX),
            "fairness": fairness.by_cell(spark),
            "clients": fairness.clients_by_cell(spark, CLIENTS_MAX),
        }
        rows = _together(*(partial(_rows, frame) for frame in aggregates.values()))
        for name, found in zip(aggregates, rows, strict=True):
            setattr(facts, name, found)
        for failure in facts.failures[:TIMELINES_MAX]:
            self._load_timeline(failure)

    def _table(self, name: str, frame: DataFrame) -> None:
        """Write a table and name what was written: what follows does not compute it again."""
        path = str(self.out / "tables" / name)
        frame.write.mode("overwrite").parquet(path)
        self.spark.read.schema(frame.schema).parquet(path).createOrReplaceTempView(name)

    def _count_verdicts(self) -> None:
        facts = self.facts
        facts.verdicts = _rows(
            self.spark.sql("select clause, verdict, count(*) as runs from verdicts group by clause, verdict")
        )
        broken = "select count(distinct run) as runs from verdicts where verdict = 'violated' and clause like 'S%'"
        facts.runs_broken = self.spark.sql(broken).collect()[0]["runs"]
        facts.classes = _rows(self.spark.sql("select class, count(*) as runs from classes group by class"))
        facts.reach = _rows(
            self.spark.sql("""
                select scenario, provider, situation, count_if(count > 0) as runs, sum(count) as count
                from reach join runs using (run) group by scenario, provider, situation
            """)
        )
        # Distinct failures: the same clause broken in the same way in the same cell.
        found = self.spark.sql("""
            select clause, cell, kind, count(*) as runs,
                   min_by(struct(run, seed, scenario, provider, backend, world, at_ns, count, witness), run) as first
            from (
                select v.*, r.seed, r.scenario, r.provider, r.backend, r.world, cell,
                       coalesce(get_json_object(witness, '$.kind'), '') as kind
                from verdicts v join runs r using (run) join cells using (run) where verdict = 'violated'
            ) group by clause, cell, kind order by clause, runs desc, cell
        """)
        facts.failures = [FailureRow.of(row) for row in _rows(found)]

    def _load_timeline(self, failure: FailureRow) -> None:
        of_run = f"from {{}} where run = {failure.run}"
        kinds = "('call', 'believed', 'effect', 'fault', 'clock')"
        events = self.spark.sql(
            "select seq, at_ns, node, task, lock, kind, outcome, request, token, owner, detail "
            f"{of_run.format('events')} and kind in {kinds} order by seq limit {TIMELINE_EVENTS_MAX}"
        )
        begin = self.spark.sql(f"select min(at_ns) as begin_ns {of_run.format('events')}").collect()
        failure.begin_ns = begin[0]["begin_ns"]
        failure.events = events.toArrow().to_pylist()
        failure.grants = self.spark.sql(f"select * {of_run.format('grants')}").toArrow().to_pylist()


def _together(*jobs: Callable[[], Any]) -> list[Any]:
    """Run jobs on threads of their own; their answers in order. The first error is raised when all have ended."""
    with ThreadPoolExecutor(JOBS_MAX, thread_name_prefix="pipeline") as pool:
        pending = [pool.submit(job) for job in jobs]
    return [job.result() for job in pending]


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]
