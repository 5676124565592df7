"""Files to typed events, and what is wrong with the rest.

A record that is not one never stops a report and never silently vanishes: it
goes to quarantine with its reason. A loss can look like a broken lock (a
dropped reply tears the chain of grants), so a run that lost a record is not
judged at all: it is *damaged* and counts as inconclusive. The one exception
is a torn last line, the usual end of a killed writer: its run is cut off
there, which the checks understand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark code uses)
from pyspark.sql import types as T  # noqa: N812

from lockref.history import ENUM_COLUMNS, INTEGER_COLUMNS, RUNS_SCHEMA, SCHEMA
from reports.pipeline.inputs import RUN_MAX, Source, torn_tail

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = tuple(SCHEMA.names)
_INTEGERS = frozenset(("run", *INTEGER_COLUMNS))
# What a row cannot be without, and how a reader calls its absence.
_REQUIRED = (("run", "missing run"), ("at_ns", "missing time"), ("node", "missing node"))
_PLAUSIBLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.StringType, T.NullType)
_RAW = T.StructType(
    [*(T.StructField(name, T.StringType()) for name in COLUMNS), T.StructField("_corrupt", T.StringType())]
)
_RUNS_JSON = T.StructType([T.StructField(name, T.StringType()) for name in RUNS_SCHEMA.names])

_RUNS_TYPES: dict[pa.DataType, T.DataType] = {
    pa.int64(): T.LongType(),
    pa.string(): T.StringType(),
    pa.bool_(): T.BooleanType(),
    pa.list_(pa.string()): T.ArrayType(T.StringType()),
}
RUNS_FIELDS = [T.StructField(field.name, _RUNS_TYPES[field.type]) for field in RUNS_SCHEMA]
"""`RUNS_SCHEMA` in Spark's words."""


@dataclass(frozen=True)
class Records:
    """A history on Spark.

    rows: every event record as it was read, with `problem`; persisted by whoever reads more than once.
    runs: rows of `RUNS_SCHEMA` and `source`, run numbers made distinct between inputs.
    bad_runs: run records that are none.
    """

    rows: DataFrame
    runs: DataFrame
    bad_runs: DataFrame

    @property
    def events(self) -> DataFrame:
        """Typed rows of `SCHEMA`."""
        return self.rows.where("problem is null").select(*COLUMNS)

    @property
    def quarantine(self) -> DataFrame:
        """source, run (null where even that was unreadable), reason, record as text."""
        text = F.coalesce("_corrupt", F.to_json(F.struct(*COLUMNS)))
        rejected = self.rows.where("problem is not null").select(
            F.col("_source").alias("source"), "run", F.col("problem").alias("reason"), text.alias("record")
        )
        return rejected.unionByName(self.bad_runs)


def read_records(spark: SparkSession, sources: list[Source]) -> Records:
    """Read every source. Lazy: nothing is computed before it is asked for."""
    checked = [_checked_events(spark, source) for source in sources]
    rows = reduce(lambda left, right: left.unionByName(right), checked)
    runs = reduce(lambda left, right: left.unionByName(right), [_runs(spark, source) for source in sources])
    described = runs.where("problem is null").drop("problem")
    known = F.broadcast(described.select("run").distinct().withColumn("_known", F.lit(True)))
    joined = rows.join(known, "run", "left")
    problem = F.coalesce("problem", F.when(F.col("_known").isNull(), F.lit("run without metadata")))
    bad_runs = runs.where("problem is not null").select(
        "source", "run", F.col("problem").alias("reason"), F.to_json(F.struct("run", "scenario")).alias("record")
    )
    return Records(rows=joined.withColumn("problem", problem), runs=described, bad_runs=bad_runs)


def _checked_events(spark: SparkSession, source: Source) -> DataFrame:
    """Every record of a source, typed, with `problem` null or the first thing that is wrong with it."""
    raw = _raw_parquet(spark, source) if source.suffix == "parquet" else _raw_jsonl(spark, source)
    problems: list[Column] = [F.when(F.col("_corrupt").isNotNull(), F.lit("not a JSON object"))]
    typed: list[Column] = [F.lit(source.index).alias("_source"), F.col("_corrupt")]
    for name in COLUMNS:
        value = F.col(f"`{name}`")
        if name in _INTEGERS:
            number = value.try_cast("bigint")
            problems.append(F.when(value.isNotNull() & number.isNull(), F.lit(f"wrong type: {name} is not an integer")))
            if name == "run":
                # A number out of range must not wander into another source's range.
                number = F.when((number >= 0) & (number <= RUN_MAX), number + F.lit(source.run_base))
            elif name == "seq":
                # Lines written by hand need not be numbered: their order in the file is theirs in time.
                number = F.coalesce(number, F.monotonically_increasing_id())
            typed.append(number.alias(name))
        else:
            typed.append((F.coalesce(value, F.lit("none")) if name in ("op", "outcome") else value).alias(name))
    problems += [F.when(F.col(f"`{name}`").isNull(), F.lit(reason)) for name, reason in _REQUIRED]
    run = F.col("run").try_cast("bigint")
    problems.append(F.when((run < 0) | (run > RUN_MAX), F.lit("run number out of range")))
    for name, members in ENUM_COLUMNS.items():
        known = [member.name.lower() for member in members]
        # Only the kind must be said; an event without an operation or an outcome has none.
        unknown = ~F.col(name).isin(known) | (F.col(name).isNull() if name == "kind" else F.lit(False))
        problems.append(F.when(unknown, F.lit(f"unknown {name}")))
    rows = raw.withColumn("problem", F.coalesce(*problems))
    return rows.select(*typed, "problem")


def _raw_parquet(spark: SparkSession, source: Source) -> DataFrame:
    """Columns by name; one that is absent, or of a type that cannot be meant, reads as null or as its text."""
    read = spark.read.parquet(str(source.events))
    present = {field.name: field.dataType for field in read.schema.fields}
    columns = []
    for name in COLUMNS:
        if name not in present:
            columns.append(F.lit(None).cast("string").alias(name))
        elif isinstance(present[name], _PLAUSIBLE):
            columns.append(F.col(f"`{name}`").alias(name))
        else:
            columns.append(F.concat(F.lit("?"), F.col(f"`{name}`").cast("string")).alias(name))
    return read.select(*columns, F.lit(None).cast("string").alias("_corrupt"))


def _raw_jsonl(spark: SparkSession, source: Source) -> DataFrame:
    lines = spark.read.text(str(source.events)).where(F.trim("value") != "")
    torn = torn_tail(source.events)
    if torn is not None:
        lines = lines.where(F.col("value") != F.lit(torn.text))
    # Every field is read as text, so that a wrong type is seen instead of becoming null.
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    parsed = lines.select(F.from_json("value", _RAW, options).alias("record"))
    return parsed.select("record.*")


def _runs(spark: SparkSession, source: Source) -> DataFrame:
    """The runs of a source with `source` and `problem`."""
    if source.runs is None:
        return _runs_inferred(spark, source)
    if source.runs.suffix == ".parquet":
        read = spark.read.parquet(str(source.runs))
        present = set(read.columns)
        texts = read.select(
            *(F.col(name) if name in present else F.lit(None).alias(name) for name in RUNS_SCHEMA.names)
        )
        typed = [F.col(field.name).try_cast(field.dataType).alias(field.name) for field in RUNS_FIELDS]
    else:
        lines = spark.read.text(str(source.runs)).where(F.trim("value") != "")
        texts = lines.select(F.from_json("value", _RUNS_JSON).alias("record")).select("record.*")
        typed = [
            (
                F.from_json(F.col(field.name), field.dataType)
                if isinstance(field.dataType, T.ArrayType)
                else F.col(field.name).try_cast(field.dataType)
            ).alias(field.name)
            for field in RUNS_FIELDS
        ]
    rows = texts.select(*typed)
    problem = F.coalesce(
        F.when(F.col("run").isNull(), F.lit("run's metadata without a run number")),
        F.when((F.col("run") < 0) | (F.col("run") > RUN_MAX), F.lit("run number out of range")),
    )
    rows = rows.withColumn("problem", problem)
    torn = torn_tail(source.events) if source.suffix == "jsonl" else None
    is_torn = F.col("run") == torn.run if torn is not None and torn.run is not None else F.lit(False)
    return rows.select(
        *(
            {
                "run": F.when(F.col("problem").isNull(), F.col("run") + F.lit(source.run_base)),
                "scenario": F.coalesce("scenario", F.lit("")),
                "provider": F.coalesce("provider", F.lit("")),
                "world": F.coalesce("world", F.lit("")),
                "is_cut_off": F.coalesce("is_cut_off", F.lit(False)) | is_torn,
                "must_happen": F.coalesce("must_happen", F.array().cast("array<string>")),
                "claims": F.coalesce("claims", F.array().cast("array<string>")),
            }.get(name, F.col(name)).alias(name)
            for name in RUNS_SCHEMA.names
        ),
        F.lit(source.index).alias("source"),
        "problem",
    )


def _runs_inferred(spark: SparkSession, source: Source) -> DataFrame:
    """A history that nobody described: the defaults that the checks themselves assume."""
    rows = _checked_events(spark, source).where("problem is null").select("run").distinct()
    given = {"scenario": "", "provider": "", "world": "", "is_cut_off": False}
    columns = []
    for field in RUNS_FIELDS:
        if field.name == "run":
            columns.append(F.col("run"))
        elif isinstance(field.dataType, T.ArrayType):
            columns.append(F.array().cast(field.dataType).alias(field.name))
        else:
            columns.append(F.lit(given.get(field.name)).cast(field.dataType).alias(field.name))
    return rows.select(
        *columns,
        F.lit(source.index).alias("source"),
        F.lit(None).cast("string").alias("problem"),
    )
