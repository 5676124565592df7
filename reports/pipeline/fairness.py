"""The grants of each client, counted in Spark SQL.

Counted from granted answers, so that a client that asked and never got is in
the table with zero. Jain's index of a run is (Σx)² / (n·Σx²) over its clients
that asked: 1 where all got the same, 1/n where one got everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CLIENTS = """
    select run, node, task, count(*) as asked, count_if(outcome = 'applied') as granted,
           percentile(return_ns - call_ns, 0.5) as wait_p50_ns, max(return_ns - call_ns) as wait_max_ns
    from calls where op = 'acquire'
    group by run, node, task
"""

_RUNS = """
    select run, count(*) as clients, sum(granted) as grants,
           pow(sum(granted), 2) / nullif(count(*) * sum(granted * granted), 0) as jain,
           max(granted) as most, min(granted) as least
    from clients group by run
"""

# Successive grants of one run: how long one client kept it, how soon it had it again.
_STREAKS = """
    with numbered as (
        select run, lock, concat_ws('/', node, task) as client, return_ns,
               row_number() over (partition by run, lock order by return_ns, request) as at,
               row_number() over (partition by run, lock, node, task order by return_ns, request) as own
        from calls where op = 'acquire' and outcome = 'applied'
    ),
    streaks as (select run, count(*) as length from numbered group by run, lock, client, at - own)
    select run, max(length) as longest_streak from streaks group by run
"""


def clients(spark: SparkSession) -> DataFrame:
    """Per run and client: calls, grants, median and longest wait. Needs the view `calls`."""
    return spark.sql(_CLIENTS)


def runs(spark: SparkSession) -> DataFrame:
    """Per run: clients, grants, Jain index, longest streak of one client. Needs the views `clients` and `calls`."""
    return spark.sql(f"""
        select run, clients, grants, jain, most, least, coalesce(longest_streak, 0) as longest_streak
        from ({_RUNS}) left join ({_STREAKS}) using (run)
    """)


def by_cell() -> str:
    """Query: per part and cell, how Jain's index is distributed over its runs. Needs `fairness` and `cells`."""
    return """
        select part, cell, count(*) as runs, sum(grants) as grants, min(jain) as jain_min,
               percentile(jain, 0.5) as jain_p50, max(longest_streak) as longest_streak
        from fairness join cells using (run) group by part, cell
    """


def clients_by_cell(limit: int) -> str:
    """Query: grants per client name over all runs of a cell, at most `limit` rows a part, busiest first.

    total: how many clients the part has.
    """
    return f"""
        select part, cell, client, asked, granted, wait_max_ns, total from (
            select *, row_number() over (partition by part order by cell, granted desc, client) as place,
                   count(*) over (partition by part) as total from (
                select part, cell, concat_ws('/', node, nullif(task, 'main')) as client, sum(asked) as asked,
                       sum(granted) as granted, max(wait_max_ns) as wait_max_ns
                from clients join cells using (run) group by part, cell, node, task
            )
        ) where place <= {limit}
    """
