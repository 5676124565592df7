"""The Spark pipeline: histories in; verdicts, latencies, fairness and tables out.

`analyse(inputs, out_dir)` is the whole of it. The name loads on first use:
Spark's Python workers import this package for `daemon` and need nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.pipeline.analysis import analyse

__all__ = ["analyse"]


def __getattr__(name: str) -> object:
    if name == "analyse":
        from reports.pipeline.analysis import analyse

        return analyse
    raise AttributeError(f"module 'reports.pipeline' has no attribute {name!r}")
