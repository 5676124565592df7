"""Files to typed events, and what is wrong with the rest.

A record that is no event never stops a report and never silently vanishes: it
goes to quarantine with its reason. A lost record can look like a broken lock (a
lost reply leaves a gap in the chain of grants). So a run that lost a record is
not judged at all: it is *damaged* and counts as inconclusive. If a record does
not even name its run, all runs of its input are damaged. The one exception is a
torn last line, as a killed writer leaves it: its run is cut off there, and judged
up to there. Whether `seq` numbers the events without a gap or a repetition is
asked where runs are judged (`reports.checks.facts.surroundings.integrity`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark code uses)
from pyspark.sql import types as T  # noqa: N812

from lockref.history import ENUM_COLUMNS, INTEGER_COLUMNS, RUNS_SCHEMA, SCHEMA
from reports.history_files import CLOCK_MAX_NS, CLOCK_MIN_NS, CLOCKS, RUN_MAX, torn_tail
from reports.pipeline.inputs import Source

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

COLUMNS = tuple(SCHEMA.names)
UNNUMBERED = 1 << 62
"""From here on, `seq` was not in the record: it is the place in the file of a record that carries no `seq`."""
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
    pa.map_(pa.string(), pa.string()): T.MapType(T.StringType(), T.StringType()),
    pa.map_(pa.string(), pa.int64()): T.MapType(T.StringType(), T.LongType()),
}
_FOOTER_TYPES: dict[pa.DataType, T.DataType] = {
    **_RUNS_TYPES,
    pa.int8(): T.ByteType(),
    pa.int16(): T.ShortType(),
    pa.int32(): T.IntegerType(),
    pa.large_string(): T.StringType(),
}
RUNS_FIELDS = [T.StructField(field.name, _RUNS_TYPES[field.type]) for field in RUNS_SCHEMA]
"""`RUNS_SCHEMA` in Spark's words."""


@dataclass(frozen=True)
class Records:
    """A history on Spark.

    rows: every event record as it was read, with `problem`; persisted by whoever reads more than once.
    runs: rows of `RUNS_SCHEMA` and `source`, run numbers made distinct between inputs.
    bad_runs: records of runs that describe no run.
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
    """Every record of a source, typed, with `problem` null or the first thing that is wrong with it.

    The expressions are SQL text: built as `Column` objects, each of their parts
    is a call to the JVM, and several sources take seconds before anything is read.
    """
    raw = _raw_parquet(spark, source) if source.files.is_parquet else _raw_jsonl(spark, source)
    problems = ["case when _corrupt is not null then 'not a JSON object' end"]
    typed = [f"{source.index} as _source", "_corrupt"]
    for name in COLUMNS:
        if name in _INTEGERS:
            number = f"try_cast(`{name}` as bigint)"
            problems.append(
                f"case when `{name}` is not null and {number} is null then 'wrong type: {name} is not an integer' end"
            )
            if name == "run":
                # A number out of range must not become a run number of another source.
                number = f"case when {number} between 0 and {RUN_MAX} then {number} + {source.run_base} end"
            elif name == "seq":
                # Lines written by hand need not be numbered: their order in the file is taken for their order in time.
                number = f"coalesce({number}, {UNNUMBERED} + monotonically_increasing_id())"
            typed.append(f"{number} as `{name}`")
        else:
            typed.append(f"coalesce(`{name}`, 'none') as `{name}`" if name in ("op", "outcome") else f"`{name}`")
    problems += [f"case when `{name}` is null then '{reason}' end" for name, reason in _REQUIRED]
    problems.append(f"case when try_cast(run as bigint) not between 0 and {RUN_MAX} then 'run number out of range' end")
    problems += [
        f"case when try_cast(`{name}` as bigint) not between {CLOCK_MIN_NS} and {CLOCK_MAX_NS} "
        f"then '{name} is out of range' end"
        for name in CLOCKS
    ]
    for name, members in ENUM_COLUMNS.items():
        known = ", ".join(f"'{member.name.lower()}'" for member in members)
        # Only the kind must be said; an event without an operation or an outcome has none.
        missing = f" or `{name}` is null" if name == "kind" else ""
        problems.append(f"case when `{name}` not in ({known}){missing} then 'unknown {name}' end")
    return raw.selectExpr(*typed, f"coalesce({', '.join(problems)}) as problem")


def _read_parquet(spark: SparkSession, path: Path) -> DataFrame:
    """A file read with the schema of its footer: Spark would run a job to learn it, and does for unusual types."""
    if path.is_file():
        found = pq.read_schema(path)
        types = {field.name: _plain_type(field.type) for field in found}
        if None not in types.values():
            schema = T.StructType([T.StructField(name, kind) for name, kind in types.items() if kind is not None])
            return spark.read.schema(schema).parquet(str(path))
    return spark.read.parquet(str(path))


def _plain_type(found: pa.DataType) -> T.DataType | None:
    if pa.types.is_dictionary(found):
        found = found.value_type
    return _FOOTER_TYPES.get(found)


def _raw_parquet(spark: SparkSession, source: Source) -> DataFrame:
    """Columns by name; one that is absent, or of a type that cannot be meant, reads as null or as its text."""
    read = _read_parquet(spark, source.files.events)
    present = {field.name: field.dataType for field in read.schema.fields}
    columns = []
    for name in COLUMNS:
        if name not in present:
            columns.append(f"cast(null as string) as `{name}`")
        elif isinstance(present[name], _PLAUSIBLE):
            columns.append(f"`{name}`")
        else:
            columns.append(f"concat('?', cast(`{name}` as string)) as `{name}`")
    return read.selectExpr(*columns, "cast(null as string) as _corrupt")


def _raw_jsonl(spark: SparkSession, source: Source) -> DataFrame:
    lines = spark.read.text(str(source.files.events)).where(F.trim("value") != "")
    torn = torn_tail(source.files.events)
    if torn is not None:
        lines = lines.where(F.col("value") != F.lit(torn.text))
    # Every field is read as text, so that a wrong type is seen instead of becoming null.
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    parsed = lines.select(F.from_json("value", _RAW, options).alias("record"))
    return parsed.select("record.*")


def _runs(spark: SparkSession, source: Source) -> DataFrame:
    """The runs of a source with `source` and `problem`."""
    if source.files.runs is None:
        return _runs_inferred(spark, source)
    if source.files.runs.suffix == ".parquet":
        read = _read_parquet(spark, source.files.runs)
        present = set(read.columns)
        texts = read.selectExpr(
            *(f"`{name}`" if name in present else f"null as `{name}`" for name in RUNS_SCHEMA.names)
        )
        typed = [f"try_cast(`{field.name}` as {field.dataType.simpleString()})" for field in RUNS_FIELDS]
    else:
        lines = spark.read.text(str(source.files.runs)).where(F.trim("value") != "")
        texts = lines.select(F.from_json("value", _RUNS_JSON).alias("record")).select("record.*")
        typed = [
            f"from_json(`{field.name}`, '{field.dataType.simpleString()}')"
            if isinstance(field.dataType, (T.ArrayType, T.MapType))
            else f"try_cast(`{field.name}` as {field.dataType.simpleString()})"
            for field in RUNS_FIELDS
        ]
    rows = texts.selectExpr(*(f"{value} as `{field.name}`" for value, field in zip(typed, RUNS_FIELDS, strict=True)))
    torn = torn_tail(source.files.events) if not source.files.is_parquet else None
    is_torn = f"run <=> {torn.run}" if torn is not None and torn.run is not None else "false"
    out_of_range = f"run not between 0 and {RUN_MAX}"
    given = {
        "run": f"case when run between 0 and {RUN_MAX} then run + {source.run_base} end",
        "scenario": "coalesce(scenario, '')",
        "provider": "coalesce(provider, '')",
        "world": "coalesce(world, '')",
        "is_cut_off": f"coalesce(is_cut_off, false) or {is_torn}",
        "end_ns": f"case when not ({is_torn}) then end_ns end",
        "must_happen": "coalesce(must_happen, cast(array() as array<string>))",
        "claims": "coalesce(claims, cast(array() as array<string>))",
    }
    return rows.selectExpr(
        *(f"{given.get(name, f'`{name}`')} as `{name}`" for name in RUNS_SCHEMA.names),
        f"{source.index} as source",
        f"""case when run is null then "run's metadata without a run number"
                 when {out_of_range} then 'run number out of range' end as problem""",
    )


def _runs_inferred(spark: SparkSession, source: Source) -> DataFrame:
    """Rows for a history without a runs table: the defaults that the checks themselves assume."""
    rows = _checked_events(spark, source).where("problem is null").select("run").distinct()
    given = {"scenario": "", "provider": "", "world": "", "is_cut_off": False, "is_inferred": True}
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
