"""The Spark pipeline: histories in; verdicts, latencies, fairness and tables out. `analysis` is the way in.

`analyse` and `analyse_each` may be imported from here. They are looked up when they are asked for: whoever imports one
module of this package, such as a worker of Spark, does not load all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reports.pipeline.analysis import analyse, analyse_each

__all__ = ["analyse", "analyse_each"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from reports.pipeline import analysis

    return getattr(analysis, name)
