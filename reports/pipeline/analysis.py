"""Histories in, results out: the pipeline on Spark, in one pass.

    files -> shares of runs (by the column of run numbers) -> in each worker: events,
    or quarantine; judgement; measures; tables -> facts that add up -> results.json

Workers read their own row groups of the Parquet and write every table themselves (`reports.pipeline.worker`), so no row
goes through the JVM, nothing is shuffled, and what the driver collects follows the number of runs, cells and clients,
not that of events. JSON lines, and files over which runs are strewn, are written once more first
(`reports.pipeline.staging`). Each table stays in `out_dir/tables`, so that a question that the report does not answer
can be put to it with any SQL engine. Several histories, each with results of its own, still are one pass.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reports.pipeline.inputs import find_sources
from reports.pipeline.one_pass import OnePass
from reports.pipeline.places import Place, hadoop_settings, is_address
from reports.pipeline.summary import Facts, summarise
from reports.pipeline.worker import peak_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reports.formats.results import Results

SPARK = "spark"
"""The folder, below that of the analysis, in which Spark has a folder of its own while it works."""
_EVENT_BYTES: Final = 1_000
"""About the memory that an event takes in a worker, while its run is judged and measured."""

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def analyse(
    inputs: Sequence[Path | str],
    out_dir: Path | str,
    spark: SparkSession | None = None,
    *,
    title: str = "",
    provenance: Mapping[str, Any] | None = None,
    run_events_max: int | None = None,
) -> dict[str, Any]:
    """Judge and measure the histories `inputs`; write tables and `results.json` under `out_dir`; return the results.

    inputs: run folders, or files of events (`reports.pipeline.inputs`).
    out_dir: a folder; like each input a path, or an address such as `s3a://…`, that every worker reaches.
    spark: a session to use, on any cluster that reaches the files; default
        the local one of `reports.spark.session`, kept under `out_dir`.
        Where its workers have no lockref, it is sent to them; they need numpy, pyarrow, pydantic and datasketches.
    provenance: put into the results as it is.
    run_events_max: the most events of one run that a worker has memory for; default by the memory of this machine.

    Raises HistoryUnreadable where an input is no history, or has a run that is too large for a worker,
    CapabilityMissing where there is no Java.
    """
    analysis = _Analysis(inputs, out_dir, spark, is_joint=True, run_events_max=run_events_max)
    [facts] = analysis.run()
    results = summarise(facts, title=title)
    return analysis.finished(results, facts, analysis.out, tables="", provenance=provenance or {})


def analyse_each(
    inputs: Sequence[Path | str],
    out_dir: Path | str,
    spark: SparkSession | None = None,
    *,
    titles: Sequence[str] = (),
    provenance: Sequence[Mapping[str, Any]] = (),
    run_events_max: int | None = None,
) -> list[dict[str, Any]]:
    """As `analyse`, but with results for each input, from one pass over all of them.

    titles, provenance: one for each input, if given.
    The tables are joint ones, with the run numbers of `reports.pipeline.inputs`;
    the n-th input's results are in `out_dir/n/results.json`.
    """
    analysis = _Analysis(inputs, out_dir, spark, is_joint=False, run_events_max=run_events_max)
    answers = []
    for part, facts in enumerate(analysis.run()):
        results = summarise(facts, title=titles[part] if titles else "")
        about = provenance[part] if provenance else {}
        folder = analysis.out.below(f"{part + 1}")
        answers.append(analysis.finished(results, facts, folder, tables="../", provenance=about))
    return answers


class _Analysis:
    """A pass on Spark, and what is written of it."""

    def __init__(
        self,
        inputs: Sequence[Path | str],
        out: Path | str,
        spark: SparkSession | None,
        *,
        is_joint: bool,
        run_events_max: int | None,
    ) -> None:
        from reports.spark.session import spark_session, worker_bytes
        from reports.spark.shipping import ship_judge

        # What is no history is refused before a session is started.
        named = [given for given in inputs if not is_address(given)]
        if named or not inputs:
            find_sources(named)
        if spark is None:
            spark = spark_session(Path(out) / SPARK)
        ship_judge(spark)
        self.spark = spark
        settings = hadoop_settings(spark)
        self.out = Place(str(out), settings)
        self.one_pass = OnePass(
            sources=find_sources(inputs, settings),
            out=self.out,
            executor=self._map,
            is_joint=is_joint,
            cores=int(spark.sparkContext.defaultParallelism),
            run_events_max=run_events_max or worker_bytes() // _EVENT_BYTES,
        )

    def run(self) -> list[Facts]:
        """The facts, part by part."""
        return self.one_pass.run()

    def _map(self, tasks: Sequence[Asked], work: Callable[[Asked], Answer], /) -> list[Answer]:
        if not tasks:
            return []
        answers: list[Answer] = self.spark.sparkContext.parallelize(tasks, len(tasks)).map(work).collect()
        return answers

    def finished(
        self, results: Results, facts: Facts, folder: Place, *, tables: str, provenance: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Results with where they come from, written to `folder`. tables: the way from there to the tables' folder."""
        jvm: Any = self.spark.sparkContext._jvm  # noqa: SLF001  (no public way to ask)
        results.provenance = {
            **provenance,
            "spark": self.spark.version,
            "java": str(jvm.System.getProperty("java.version")),
            "python": platform.python_version(),
            "inputs": list(facts.sources.values()),
            "worker_peak_mb": self.one_pass.peak_bytes >> 20,
            "driver_peak_mb": peak_bytes() >> 20,
        }
        results.files = {"results": "results.json", "tables": f"{tables}tables"}
        if results.quarantine:
            results.files["quarantine"] = f"{tables}quarantine"
        if is_address(folder.address):
            with folder.below("results.json").created() as file:
                file.write(results.model_dump_json(indent=1).encode())
        else:
            Path(folder.address).mkdir(parents=True, exist_ok=True)
            results.write(Path(folder.address) / "results.json")
        return results.model_dump(mode="json")
