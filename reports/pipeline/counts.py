"""Small counts off the cluster: many queries, one Spark job, split by part.

On a small history a query costs what it costs to plan and to launch, so all
that is counted at the same stage is one union. Each row says which part of
the analysis it belongs to (view `cells`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lockref.strict_json import read_object
from reports.checks.measures.endings import ENDINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Counts = defaultdict[tuple[str, int], list[dict[str, Any]]]
"""(name of the query, part) to rows."""


def collect_counts(spark: SparkSession, queries: Mapping[str, str]) -> Counts:
    """Each query's rows, in no order. Every query must have a column `part`.

    Rows travel as JSON, because a union has one schema. 64-bit integers and
    doubles come back as they were.
    """
    packed = (
        f"select '{name}' as name, part, to_json(struct(*), map('ignoreNullFields', 'false')) as row from ({query})"
        for name, query in queries.items()
    )
    found: Counts = defaultdict(list)
    for name, part, text in spark.sql(" union all ".join(packed)).collect():
        row = read_object(text)
        del row["part"]
        found[name, part].append(row)
    return found


def ordered(rows: Iterable[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Rows by the columns named, a leading "-" for numbers from the largest down."""

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(-row[name[1:]] if name.startswith("-") else row[name] for name in names)

    return sorted(rows, key=place)


def verdict_counts() -> dict[str, str]:
    """The counts behind a verdict: clauses broken, situations that came about, distinct failures.

    Needs the views `verdicts`, `classes`, `reach`, `answers`, `speeds`, `endings` and `cells`.
    """
    return {
        "verdicts": """
            select part, clause, verdict, count(*) as runs
            from verdicts join cells using (run) group by part, clause, verdict
        """,
        "broken": """
            select part, count(distinct run) as runs
            from verdicts join cells using (run) where verdict = 'violated' and clause like 'S%' group by part
        """,
        "classes": "select part, class, count(*) as runs from classes join cells using (run) group by part, class",
        "reach": """
            select part, scenario, provider, situation, count_if(count > 0) as runs, sum(count) as count
            from reach join cells using (run) group by part, scenario, provider, situation
        """,
        "answers": "select part, answers.* from answers join cells using (run)",
        "endings": f"""
            select part, max(longest_gap_ns) as longest_gap_ns,
                   max(host_late_ns) as host_late_ns,
                   {", ".join(f"sum({name}) as {name}" for name in ENDINGS)}
            from endings join cells using (run) group by part
        """,
        "speeds": "select part, speeds.* from speeds join cells using (run)",
        # Distinct: the same clause broken in the same way in the same cell.
        "distinct": """
            select part, clause, cell, kind, count(*) as runs,
                   min_by(struct(run, seed, scenario, provider, backend, world, at_ns, count, witness), run) as first
            from (
                select v.*, part, cell, seed, scenario, provider, backend, world,
                       coalesce(get_json_object(witness, '$.kind'), '') as kind
                from verdicts v join cells using (run) where verdict = 'violated'
            ) group by part, clause, cell, kind
        """,
    }
