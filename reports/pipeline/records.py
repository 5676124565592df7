"""Files to typed events, and what is wrong with the rest.

A record that is no event never stops a report and never silently vanishes: it
goes to quarantine with its reason, which is that of `reports.record_rules`, as in
the reader of this process. Lines are read by that module's own function in Spark's
Python workers; rejected: Spark's reader of JSON, which takes `1e3` or `"5"` for an
integer and 7 for a text. Runs are read in this process, by its reader. A lost record can look like a broken lock (a
lost reply leaves a gap in the chain of grants). So a run that lost a record is
not judged at all: it is *damaged* and counts as inconclusive. If a record does
not even name its run, all runs of its input are damaged. The one exception is a
torn last line, as a killed writer leaves it: its run is cut off there, and judged
up to there. Whether `seq` numbers the events without a gap or a repetition is
asked where runs are judged (`reports.checks.facts.surroundings.integrity`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark code uses)
from pyspark.sql import types as T  # noqa: N812

from lockref.history import RUNS_SCHEMA, SCHEMA
from reports.checks.facts.surroundings.integrity import UNNUMBERED
from reports.history_files import marked_cut_off, read_runs, torn_tail
from reports.pipeline.inputs import Source
from reports.record_rules import (
    COLUMNS,
    INT64,
    LINE_BYTES_MAX,
    NO_ROW_IN_RUNS,
    RUN,
    RUN_MAX,
    WHOLE_NUMBER,
    Column,
    read_record,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NAMES = tuple(SCHEMA.names)
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FLOATS = (T.FloatType, T.DoubleType)

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
_RECORD = T.StructType(
    [
        *(T.StructField(column.name, T.LongType() if column.is_integer else T.StringType()) for column in COLUMNS),
        T.StructField("_line", T.StringType()),
        T.StructField("problem", T.StringType()),
    ]
)
"""A line of JSON as it was read. _line: the line itself, of a record that is no event."""


@dataclass(frozen=True)
class Records:
    """A history on Spark.

    rows: every event record as it was read, with `problem`; to be persisted by a caller who reads more than once.
    runs: rows of `RUNS_SCHEMA`, run numbers made distinct between inputs.
    """

    rows: DataFrame
    runs: DataFrame

    @property
    def events(self) -> DataFrame:
        """Typed rows of `SCHEMA`."""
        return self.rows.where("problem is null").select(*NAMES)

    @property
    def quarantine(self) -> DataFrame:
        """source, run (null where even that was unreadable), reason, record as text."""
        text = F.coalesce("_line", F.to_json(F.struct(*NAMES)))
        return self.rows.where("problem is not null").select(
            F.col("_source").alias("source"), "run", F.col("problem").alias("reason"), text.alias("record")
        )


def read_records(spark: SparkSession, sources: list[Source]) -> Records:
    """Read every source. Of the events, nothing is read before it is asked for.

    Raises HistoryUnreadable for a table of runs of which a row describes no run.
    """
    checked = [_checked_events(spark, source) for source in sources]
    rows = reduce(lambda left, right: left.unionByName(right), checked)
    runs = reduce(lambda left, right: left.unionByName(right), [_runs(spark, source) for source in sources])
    known = F.broadcast(runs.select("run").distinct().withColumn("_known", F.lit(True)))
    joined = rows.join(known, "run", "left")
    problem = F.coalesce("problem", F.when(F.col("_known").isNull(), F.lit(NO_ROW_IN_RUNS)))
    return Records(rows=joined.withColumn("problem", problem), runs=runs)


def _checked_events(spark: SparkSession, source: Source) -> DataFrame:
    """Every record of a source, typed, with `problem` null or the first thing that is wrong with it.

    The expressions are SQL text: built as `Column` objects, each of their parts
    is a call to the JVM, and several sources take seconds before anything is read.
    """
    read = _parquet(spark, source) if source.files.is_parquet else _lines(spark, source)
    given = {
        # A number out of range must not become a run number of another source.
        "run": f"case when run between 0 and {RUN_MAX} then run + {source.run_base} end",
        # Lines written by hand need not be numbered: their order in the file is taken for their order in time.
        "seq": f"coalesce(seq, {UNNUMBERED} + monotonically_increasing_id())",
    }
    columns = (f"{given.get(name, f'`{name}`')} as `{name}`" for name in NAMES)
    return read.selectExpr(f"{source.index} as _source", *columns, "_line", "problem")


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


def _parquet(spark: SparkSession, source: Source) -> DataFrame:
    """The rows of a Parquet file or folder, typed, with `problem`."""
    read = _read_parquet(spark, source.files.events)
    present = {field.name: field.dataType for field in read.schema.fields}
    typed, problems = [], []
    for column in COLUMNS:
        kind = present.get(column.name, T.NullType())
        found, value = f"`{column.name}`", _value(column, kind)
        if column.is_required:
            absent = "true" if isinstance(kind, T.NullType) else f"{found} is null"
            problems.append(f"case when {absent} then '{column.absent}' end")
        if value != found and not isinstance(kind, T.NullType):
            problems.append(f"case when {found} is not null and {value} is null then '{column.wrong_type}' end")
        if column.words is not None:
            words = ", ".join(f"'{word}'" for word in sorted(column.words))
            problems.append(f"case when {value} not in ({words}) then '{column.wrong_value}' end")
        elif column.is_integer and column.allowed != INT64:
            least, most = column.allowed.start, column.allowed.stop - 1
            problems.append(f"case when {value} not between {least} and {most} then '{column.wrong_value}' end")
        if column.default is not None:
            value = f"coalesce({value}, '{column.default}')"
        typed.append(f"{value} as `{column.name}`")
    return read.selectExpr(*typed, "cast(null as string) as _line", f"coalesce({', '.join(problems)}) as problem")


def _value(column: Column, kind: T.DataType) -> str:
    """The value of a Parquet column of this type in SQL; null where it is none that the history can hold."""
    found = f"`{column.name}`"
    if not column.is_integer:
        return found if isinstance(kind, T.StringType) else "cast(null as string)"
    if isinstance(kind, _INTEGERS):
        return f"cast({found} as bigint)" if not isinstance(kind, T.LongType) else found
    if isinstance(kind, T.StringType) or (isinstance(kind, T.DecimalType) and kind.scale == 0):
        text = f"cast({found} as string)"
        return f"case when {text} rlike '{WHOLE_NUMBER}' then try_cast({text} as bigint) end"
    if isinstance(kind, _FLOATS):
        # A cast cuts a fraction off, and takes 2 to the 63rd, which is too large by one.
        is_whole = f"try_cast({found} as bigint) = {found} and {found} < 9.223372036854775807E18D"
        return f"case when {is_whole} then try_cast({found} as bigint) end"
    return "cast(null as bigint)"


def _lines(spark: SparkSession, source: Source) -> DataFrame:
    """The lines of a JSON-lines file, typed, with `problem`. Blank ones, and a torn last one, are no records."""
    # By default Spark ends a line at a bare carriage return, too, which JSON may have between two values.
    read = spark.read.option("lineSep", "\n").text(str(source.files.events))
    lines = read.selectExpr("cast(value as binary) as line")
    torn = torn_tail(source.files.events)
    if torn is not None:
        lines = lines.where(F.col("line") != F.lit(torn.line))
    return lines.mapInArrow(_typed_lines, _RECORD)


def _typed_lines(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """The typed rows for `_lines` of a batch of lines, in a worker of Spark."""
    types = {column.name: pa.int64() if column.is_integer else pa.string() for column in COLUMNS}
    types |= {"_line": pa.string(), "problem": pa.string()}
    for batch in batches:
        columns: dict[str, list[object]] = {name: [] for name in types}
        for whole in batch.column(0).to_pylist():
            # As the reader in this process does, which bounds its memory so.
            for begin in range(0, len(whole), LINE_BYTES_MAX):
                line = whole[begin : begin + LINE_BYTES_MAX]
                if not line.strip():
                    continue
                event, problem = read_record(line)
                row = {**event, "problem": problem, "_line": line.decode(errors="replace")} if problem else event
                for name, values in columns.items():
                    values.append(row.get(name))
        yield pa.RecordBatch.from_arrays([pa.array(columns[name], kind) for name, kind in types.items()], list(types))


def _runs(spark: SparkSession, source: Source) -> DataFrame:
    """The runs of a source."""
    if source.files.runs is None:
        return _runs_inferred(spark, source)
    runs = marked_cut_off(read_runs(source.files.runs), _cut_off(source))
    moved = pc.add(runs[RUN.name], source.run_base)
    runs = runs.set_column(runs.column_names.index(RUN.name), RUNS_SCHEMA.field(RUN.name), moved)
    return spark.createDataFrame(runs, T.StructType(RUNS_FIELDS))


def _cut_off(source: Source) -> list[int]:
    """The run whose last line is torn, by its number in the source, if there is one."""
    torn = None if source.files.is_parquet else torn_tail(source.files.events)
    return [] if torn is None else [torn.run]


def _runs_inferred(spark: SparkSession, source: Source) -> DataFrame:
    """Rows for a history without a runs table: the defaults that the checks themselves assume."""
    rows = _checked_events(spark, source).where("problem is null").select("run").distinct()
    given = {"scenario": "", "provider": "", "world": "", "is_inferred": True}
    columns = []
    for field in RUNS_FIELDS:
        if field.name == "run":
            columns.append(F.col("run"))
        elif isinstance(field.dataType, T.ArrayType):
            columns.append(F.array().cast(field.dataType).alias(field.name))
        elif field.name == "is_cut_off":
            columns.append(F.col("run").isin([run + source.run_base for run in _cut_off(source)]).alias(field.name))
        else:
            columns.append(F.lit(given.get(field.name)).cast(field.dataType).alias(field.name))
    return rows.select(*columns)
