"""Histories in, results out: the pipeline from end to end.

    files -> records (typed, or in quarantine) -> judgement (the checks, group
    by group) -> samples and counts (SQL) -> Parquet tables + results.json

Each stage's tables stay in `out_dir/tables`, so that a question that the
report does not answer can be put to them with any SQL engine. Several
histories, each with results of its own, still are one pass, in which every count
carries its part: on a small history most of the time goes into planning Spark's jobs.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import HistoryUnreadable
from reports.checks.facts.surroundings.integrity import CUT_OFF, WHOLE
from reports.checks.measures.endings import ENDINGS
from reports.checks.verdicts import Party
from reports.pipeline import fairness, latency
from reports.pipeline.counts import collect_counts, ordered, verdict_counts
from reports.pipeline.inputs import RUN_BITS, Source, find_sources, split_run
from reports.pipeline.summary import (
    CLIENTS_MAX,
    POINTS_MAX,
    TIMELINE_EVENTS_MAX,
    TIMELINES_MAX,
    Facts,
    FailureRow,
    summarise,
)  # fmt: skip
from reports.pipeline.timeline import KINDS_SHOWN
from reports.record_rules import NAMELESS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reports.formats.results import Results
    from reports.pipeline.records import Records

LONG_BYTES = 64 << 20
"""From here on, some millions of events, the JVM's second compiler is worth its time."""
SPARK = "spark"
"""The folder, below that of the analysis, in which Spark has a folder of its own while it works."""

JOBS_MAX = 4
"""Spark jobs under way at once."""


def analyse(
    inputs: Sequence[Path | str],
    out_dir: Path | str,
    spark: SparkSession | None = None,
    *,
    title: str = "",
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Judge and measure the histories `inputs`; write tables and `results.json` under `out_dir`; return the results.

    inputs: run folders, or files of events (`reports.pipeline.inputs`).
    spark: a session to use, on any cluster that reaches the files; default
        the local one of `reports.spark.session`, kept under `out_dir`.
    provenance: put into the results as it is.

    Raises HistoryUnreadable where an input is no history, CapabilityMissing
    where there is no Java.
    """
    out = Path(out_dir)
    analysis = _Analysis(find_sources(inputs), out, spark, is_joint=True)
    [facts] = analysis.run()
    results = summarise(facts, title=title)
    return analysis.finished(results, facts, out, tables="", provenance=provenance or {})


def analyse_each(
    inputs: Sequence[Path | str],
    out_dir: Path | str,
    spark: SparkSession | None = None,
    *,
    titles: Sequence[str] = (),
    provenance: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """As `analyse`, but with results for each input, from one pass over all of them.

    titles, provenance: one for each input, if given.
    The tables are joint ones, with the run numbers of `reports.pipeline.inputs`;
    the n-th input's results are in `out_dir/n/results.json`.
    """
    out = Path(out_dir)
    analysis = _Analysis(find_sources(inputs), out, spark, is_joint=False)
    answers = []
    for part, facts in enumerate(analysis.run()):
        results = summarise(facts, title=titles[part] if titles else "")
        about = provenance[part] if provenance else {}
        answers.append(analysis.finished(results, facts, out / f"{part + 1}", tables="../", provenance=about))
    return answers


def _bytes(sources: Sequence[Source]) -> int:
    """The number of bytes to read."""
    paths = [
        path
        for source in sources
        for path in ([source.files.events] if source.files.events.is_file() else source.files.events.rglob("*"))
    ]
    return sum(path.stat().st_size for path in paths)


class _Analysis:
    """One pass over one set of histories; every method is a stage.

    is_joint: all inputs are one part, with one account; otherwise each is a
        part of its own.
    """

    def __init__(self, sources: list[Source], out: Path, spark: SparkSession | None, *, is_joint: bool) -> None:
        if spark is None:
            from reports.spark.session import spark_session

            spark = spark_session(out / SPARK, is_long=_bytes(sources) > LONG_BYTES)
        self.spark = spark
        self.sources = sources
        self.out = out
        self.is_joint = is_joint
        self.described: dict[int, Any] = {}
        parts = [sources] if is_joint else [[source] for source in sources]
        self.facts = [Facts(sources={source.index: source.name for source in part}) for part in parts]

    def run(self) -> list[Facts]:
        """Every stage; what was counted, part by part."""
        from reports.pipeline.records import read_records

        records = read_records(self.spark, self.sources)
        with _kept(records.runs), _kept(records.rows):
            self._take_stock(records)
            with _kept(self._judge(records)) as judged:
                self._set_aside(records, judged)
                self._measure(judged)
        return self.facts

    def finished(
        self, results: Results, facts: Facts, folder: Path, *, tables: str, provenance: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Results with where they come from, written to `folder`. tables: the way from there to the tables' folder."""
        jvm: Any = self.spark.sparkContext._jvm  # noqa: SLF001  (no public way to ask)
        results.provenance = {
            **provenance,
            "spark": self.spark.version,
            "java": str(jvm.System.getProperty("java.version")),
            "python": platform.python_version(),
            "inputs": list(facts.sources.values()),
        }
        results.files = {"results": "results.json", "tables": f"{tables}tables"}
        if results.quarantine:
            results.files["quarantine"] = f"{tables}quarantine"
        folder.mkdir(parents=True, exist_ok=True)
        results.write(folder / "results.json")
        return results.model_dump(mode="json")

    def _part(self, source: int) -> Facts:
        return self.facts[0 if self.is_joint else source]

    def _take_stock(self, records: Records) -> None:
        """Count events and rejects; write the rejects; note which runs lost a record."""
        counts, described = _together(
            lambda: records.rows.groupBy("_source", "problem").count().collect(),
            lambda: records.runs.select("run", "scenario", "provider", "must_happen", "unsafe", "thresholds").collect(),
        )
        for index, problem, count in counts:
            if problem is None:
                self._part(index).events[index] = count
            else:
                self._part(index).rejects[index, problem] = count
        for source in self.sources:
            facts = self._part(source.index)
            if not facts.events.get(source.index):
                reasons = [
                    f"{number} x {reason}" for (index, reason), number in facts.rejects.items() if index == source.index
                ]
                raise HistoryUnreadable(f"{source.name} holds no event ({'; '.join(reasons) or 'it is empty'})")
        if any(facts.rejects for facts in self.facts):
            quarantine = records.quarantine
            quarantine.write.mode("overwrite").json(str(self.out / "quarantine"))
            for (run,) in quarantine.where("run is not null").select("run").distinct().collect():
                self._part(split_run(run)[0]).damaged.add(run)
        # A record that names no run may belong to any run of its input.
        suspect = {index for index, problem, _ in counts if problem in NAMELESS}
        self.described = {row["run"]: row for row in described}
        for run in self.described:
            if split_run(run)[0] in suspect:
                self._part(split_run(run)[0]).damaged.add(run)
        for facts in self.facts:
            facts.counts.nameless = sum(count for (_, reason), count in facts.rejects.items() if reason in NAMELESS)

    def _judge(self, records: Records) -> DataFrame:
        from reports.pipeline.verdicts import group_count, judge_groups
        from reports.spark.session import cores

        events, runs = self._register_views(records)
        event_count = sum(sum(facts.events.values()) for facts in self.facts)
        run_count = max(1, len(self.described))
        return judge_groups(events, runs, groups=group_count(events=event_count, runs=run_count, cores=cores()))

    def _register_views(self, records: Records) -> tuple[DataFrame, DataFrame]:
        """Name the events and runs that are not known to be damaged, and answer them."""
        events, runs = records.events, records.runs
        damaged = sorted(run for facts in self.facts for run in facts.damaged)
        if damaged:
            lost = self.spark.createDataFrame([(run,) for run in damaged], "run bigint")
            events, runs = events.join(lost, "run", "left_anti"), runs.join(lost, "run", "left_anti")
        part = "0" if self.is_joint else f"shiftright(run, {RUN_BITS})"
        latency.register_views(self.spark, events, runs, part=part)
        return events, runs

    def _set_aside(self, records: Records, judged: DataFrame) -> None:
        """The account of damaged records: damaged runs are counted as such and nowhere else."""
        from reports.pipeline.verdicts import unpacked

        unfit = unpacked(judged, "records").where(f"state <> '{WHOLE}'").collect()
        for run, state, why in sorted(unfit):
            index, number = split_run(run)
            facts = self._part(index)
            if state == CUT_OFF:
                facts.counts.cut_off += 1
            else:
                facts.damaged.add(run)
                where = f" of {facts.sources[index]}" if len(facts.sources) > 1 else ""
                facts.counts.damage[f"run {number}{where}"] = why
        if any(facts.counts.damage for facts in self.facts):
            self._register_views(records)
        for run, row in sorted(self.described.items()):
            facts = self._part(split_run(run)[0])
            if run in facts.damaged:
                continue
            facts.counts.runs += 1
            facts.counts.demand((row["scenario"], row["provider"]), row["must_happen"])
            facts.counts.note_unsafe(row["unsafe"])
        for facts in self.facts:
            facts.counts.damaged = len(facts.damaged)

    def _measure(self, judged: DataFrame) -> None:
        """Write the tables and count from them. What does not depend on one another runs side by side:
        on small histories most of a job's time is planning, which uses one core.
        """
        from reports.pipeline.verdicts import judgement_schemas, unpacked

        spark = self.spark
        names = list(judgement_schemas())
        for name in names:
            unpacked(judged, name).createOrReplaceTempView(name)
        _together(
            lambda: self._write("verdicts", spark.table("verdicts")),
            lambda: self._table("calls", latency.calls(spark)),
            lambda: self._table("requests", latency.requests(spark)),
        )
        _together(
            lambda: self._table("samples", latency.samples(spark)),
            self._count_verdicts,
            self._rank_clients,
            *(partial(self._write, name, spark.table(name)) for name in names if name != "verdicts"),
        )
        found = collect_counts(
            spark,
            {
                "quantiles": latency.quantiles(),
                "outcomes": latency.outcomes(),
                "scatter": latency.scatter(POINTS_MAX),
                "fairness": fairness.by_cell(),
                "clients": fairness.clients_by_cell(CLIENTS_MAX),
            },
        )
        for part, facts in enumerate(self.facts):
            facts.quantiles = ordered(found["quantiles", part], "measure", "op", "outcome", "cell")
            facts.outcomes = ordered(found["outcomes", part], "cell", "kind", "op", "-count", "outcome")
            facts.scatter = ordered(found["scatter", part], "measure", "cell", "outcome")
            facts.fairness = ordered(found["fairness", part], "cell")
            facts.clients = ordered(found["clients", part], "cell", "-granted", "client")
            facts.clients_total = max((row.pop("total") for row in facts.clients), default=0)

    def _rank_clients(self) -> None:
        self._table("clients", fairness.clients(self.spark))
        self._table("fairness", fairness.runs(self.spark))

    def _write(self, name: str, frame: DataFrame) -> str:
        path = str(self.out / "tables" / name)
        frame.write.mode("overwrite").parquet(path)
        return path

    def _table(self, name: str, frame: DataFrame) -> None:
        """Write a table and name what was written: what follows does not compute it again."""
        path = self._write(name, frame)
        self.spark.read.schema(frame.schema).parquet(path).createOrReplaceTempView(name)

    def _count_verdicts(self) -> None:
        found = collect_counts(self.spark, verdict_counts())
        for part, facts in enumerate(self.facts):
            facts.count_verdicts(found["verdicts", part], found["reach", part])
            for row in found["endings", part]:
                facts.counts.count_endings({name: row[name] for name in ENDINGS}, row["longest_gap_ns"])
                facts.counts.note_host(row["host_late_ns"])
            facts.counts.answers = [_own_run(row) for row in ordered(found["answers", part], "run")]
            facts.counts.speeds = [_own_run(row) for row in ordered(found["speeds", part], "run")]
            facts.counts.broken_runs = sum(row["runs"] for row in found["broken", part])
            facts.classes = found["classes", part]
            distinct = ordered(found["distinct", part], "clause", "-runs", "cell")
            facts.failures = [FailureRow.of(row) for row in distinct]
        self._take_limits()
        self._load_timelines([failure for facts in self.facts for failure in facts.failures[:TIMELINES_MAX]])

    def _take_limits(self) -> None:
        """The samples of what thresholds limit, party by party. Where nobody asks for any, nothing is read."""
        limited: dict[tuple[int, Party, str], list[int]] = {}
        for part, facts in enumerate(self.facts):
            for run, row in sorted(self.described.items()):
                if (0 if self.is_joint else split_run(run)[0]) == part and run not in facts.damaged:
                    for text in row["thresholds"] or ():
                        limited.setdefault((part, (row["scenario"], row["provider"]), text), []).append(run)
        if not limited:
            return
        samples = self.spark.table("threshold_samples").orderBy("run").toArrow()
        for (part, party, text), runs in limited.items():
            own = samples.filter(pc.is_in(samples["run"], value_set=pa.array(runs, pa.int64())))
            own_run = pa.array([split_run(run)[1] for run in own["run"].to_pylist()], pa.int64())
            own = own.set_column(own.column_names.index("run"), "run", own_run)
            self.facts[part].counts.note_limits(party, [text], own)

    def _load_timelines(self, failures: Sequence[FailureRow]) -> None:
        """Events and grants of the failures' runs, all in one go."""
        if not failures:
            return
        kinds = ", ".join(f"'{kind}'" for kind in KINDS_SHOWN)
        chosen = ", ".join(str(run) for run in sorted({failure.run for failure in failures}))
        events = self.spark.sql(f"""
            select * from (
                select seq, at_ns, node, task, lock, kind, outcome, request, token, owner, detail, run,
                       row_number() over (partition by run order by seq) as place
                from events where run in ({chosen}) and kind in ({kinds})
            ) where place <= {TIMELINE_EVENTS_MAX}
        """)
        grants = self.spark.sql(f"select * from grants where run in ({chosen})")
        shown, granted = _together(lambda: _by_run(events), lambda: _by_run(grants))
        for failure in failures:
            failure.events, failure.grants = shown.get(failure.run, []), granted.get(failure.run, [])


def _own_run(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its run's number in its own history."""
    return {**row, "run": split_run(row["run"])[1]}


def _by_run(frame: DataFrame) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in frame.toArrow().to_pylist():
        found.setdefault(row["run"], []).append(row)
    return found


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame, computed once: its rows stay in memory, or on disk, for the length of the block."""
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _together(*jobs: Callable[[], Any]) -> list[Any]:
    """Run jobs on threads of their own; their answers in order. The first error is raised when all have ended."""
    with ThreadPoolExecutor(JOBS_MAX, thread_name_prefix="pipeline") as pool:
        pending = [pool.submit(job) for job in jobs]
    return [job.result() for job in pending]
