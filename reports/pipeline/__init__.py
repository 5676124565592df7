"""The Spark pipeline: histories in; verdicts, latencies, fairness and tables out.

`analyse(inputs, out_dir)` is the whole of it, `analyse_each` the same with
results for each input. The names load on first use: Spark's Python workers
import this package for `daemon` and need nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.pipeline.analysis import analyse, analyse_each

__all__ = ["analyse", "analyse_each"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from reports.pipeline import analysis

        return getattr(analysis, name)
    raise AttributeError(f"module 'reports.pipeline' has no attribute {name!r}")
