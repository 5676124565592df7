"""The parent of Spark's Python workers, without the zip importers.

Before CPython 3.12 `importlib.invalidate_caches()`, which pyspark's worker
calls for every task, makes each zip importer read its archive again: with the
jars that Spark puts on the path, 0.2 to 0.3 CPU seconds a task (CPython issue
103200, SPARK-54744). Nothing we run lives in an archive, so they leave the
path before the workers are forked. Named by `spark.python.daemon.module`.
"""

from __future__ import annotations

import sys

ARCHIVES = (".zip", ".jar")


def without_archives(path: list[str]) -> list[str]:
    """The entries of a module search path that are folders."""
    return [entry for entry in path if not entry.endswith(ARCHIVES)]


def main() -> None:
    """Clean the path, then serve as `pyspark.daemon` does."""
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
