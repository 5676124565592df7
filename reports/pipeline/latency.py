"""Latencies: the lengths of waits, holds, hand-offs and requests, in Spark SQL.

A *sample* is one duration with what it measures. All quantiles are exact and
all come from one aggregation, on a grid fine enough to draw a percentile
curve; averaged percentiles and means say nothing about a tail. Nothing is
dropped: a wait that ended in a denial, a timeout or an unknown outcome is a
sample with that outcome.

    wait      call of an acquire to its answer, by outcome
    hold      a grant's answer to the same task's call of release
    release   call of a release to its answer, by outcome
    request   a store request from leaving the client to its answer, by operation and outcome
    lease     what was left of the promised validity, by the holder's own clock, when it
              sent a renewal; below zero the promise had already ended
    handoff   from the end of a grant to the grant of one who waits for it, after
              release, expiry or death: as the checks measure it (`reports.checks.measures.handoff`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockref.history import CUT_SHORT
from reports.checks.witness_rows import CUT_SHORT_WORD
from reports.record_rules import RUN_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GRID = (
    *(step / 100 for step in range(100)),
    0.991, 0.992, 0.993, 0.994, 0.995, 0.996, 0.997, 0.998, 0.999, 0.9995, 0.9999, 1.0,
)  # fmt: skip
"""The quantiles taken of every measure."""
QUOTED = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
"""The quantiles that tables quote, by name."""

_CALLS = f"""
    select run, request, first(node) as node, first(task) as task, first(lock) as lock, first(op) as op,
           min(case when kind = 'call' then at_ns end) as call_ns,
           max(case when kind = 'return' then at_ns end) as return_ns,
           max(case when kind = 'return' and detail = '{CUT_SHORT}' then '{CUT_SHORT_WORD}'
                    when kind = 'return' then outcome end) as outcome
    from events where kind in ('call', 'return') and request is not null
    group by run, request
    having call_ns is not null
"""

_REQUESTS = """
    select run, request, first(node) as node,
           max(case when kind = 'sent' then op end) as op,
           min(case when kind = 'sent' then at_ns end) as sent_ns,
           min(case when kind = 'replied' then at_ns end) as replied_ns,
           max(case when kind = 'replied' then outcome end) as outcome
    from events where kind in ('sent', 'replied') and request is not null
    group by run, request
    having sent_ns is not null
"""

# The next call of the same task: a hold ends where its owner sets out to release.
_CALLS_IN_ORDER = f"""
    select *, lead(op) over task_order as next_op, lead(call_ns) over task_order as next_call_ns
    from ({_CALLS})
    window task_order as (partition by run, node, task order by call_ns, request)
"""

_SAMPLES = """
    select run, 'wait' as measure, '' as op, outcome, return_ns - call_ns as value_ns, call_ns as at_ns
    from calls where op = 'acquire' and return_ns is not null
    union all
    select run, 'release', '', outcome, return_ns - call_ns, call_ns
    from calls where op = 'release' and return_ns is not null
    union all
    select run, 'hold', '', outcome, next_call_ns - return_ns, return_ns
    from calls where op = 'acquire' and outcome = 'applied' and next_op = 'release'
    union all
    select run, 'request', op, outcome, replied_ns - sent_ns, sent_ns
    from requests where replied_ns is not null
    union all
    select run, 'lease', '', 'sent', promised_ns - wall_ns, at_ns from (
        select run, op, at_ns, wall_ns, lag(valid_until_ns) over
                   (partition by run, node, lock, owner order by at_ns, request) as promised_ns
        from events where kind = 'sent' and op in ('acquire', 'renew') and owner is not null
    ) where op = 'renew' and promised_ns is not null
    union all
    select run, 'handoff', concat('after ', after), 'applied', handoff_ns, at_ns from handoffs
"""


def register_views(spark: SparkSession, events: DataFrame, runs: DataFrame, *, part: str = "0") -> None:
    """Name `events`, `runs` and `cells`, from which everything else is derived.

    part: SQL over a run's row for the part of the analysis that counts it.
    """
    events.createOrReplaceTempView("events")
    runs.createOrReplaceTempView("runs")
    cell = "concat_ws(' · ', nullif(scenario, ''), nullif(provider, ''), nullif(backend, ''))"
    spark.sql(f"""
        select run, {part} as part, {cell} as cell, seed, scenario, provider, backend, world from runs
    """).createOrReplaceTempView("cells")


def calls(spark: SparkSession) -> DataFrame:
    """One row for each call of a lock, with its answer and what the same task called next."""
    return spark.sql(_CALLS_IN_ORDER)


def requests(spark: SparkSession) -> DataFrame:
    """One row for each store request, with its answer."""
    return spark.sql(_REQUESTS)


def samples(spark: SparkSession) -> DataFrame:
    """Every duration: (run, measure, op, outcome, value_ns, at_ns). Needs the views `calls`, `requests`, `handoffs`."""
    return spark.sql(_SAMPLES)


def quantiles() -> str:
    """Query: quantiles on `GRID` for each (part, cell, measure, op, outcome), with their number.

    Exact. Needs the view `samples`.
    """
    grid = ", ".join(str(point) for point in GRID)
    return f"""
        select part, cell, measure, op, outcome, count(*) as samples, percentile(value_ns, array({grid})) as at
        from samples join cells using (run)
        group by part, cell, measure, op, outcome
    """


def outcomes() -> str:
    """Query: how calls and requests ended, counted; 'open' where no answer was recorded."""
    return """
        select part, cell, kind, op, outcome, count(*) as count from (
            select run, 'call' as kind, op, coalesce(outcome, 'open') as outcome from calls
            union all
            select run, 'request', op, coalesce(outcome, 'open') from requests
        ) join cells using (run)
        group by part, cell, kind, op, outcome
    """


def scatter(limit: int) -> str:
    """Query: single samples of waits and leases: (part, cell, measure, outcome, total, points of (instant, value)).

    An instant counts from the zero of its run (`reports.checks.facts.case.Case.origin_ns`).
    At most `limit` per part and measure over all cells, chosen by a hash of
    the sample, so that the same history gives the same picture.
    """
    return f"""
        select part, cell, measure, outcome, max(total) as total,
               array_sort(collect_list(struct(at_ns, value_ns))) as points
        from (
            select part, cell, measure, outcome, value_ns,
                   samples.at_ns - if(world = 'simulated', 0, first_ns) as at_ns,
                   count(*) over (partition by part, cell, measure, outcome) as total,
                   row_number() over (
                       partition by part, measure
                       order by crc32(concat_ws(' ', run & {RUN_MAX}L, samples.at_ns, value_ns)),
                                run, samples.at_ns, value_ns
                   ) as place
            from samples join cells using (run)
                 join (select run, min(at_ns) as first_ns from events group by run) using (run)
            where measure in ('wait', 'lease')
        ) where place <= {limit}
        group by part, cell, measure, outcome
    """
