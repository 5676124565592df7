"""One Spark session for all tests of a process: a second start costs as much as the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lockref.java import search_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; tests that want it skip, with the reason, where there is no Java."""
    search = search_java()
    if search.home is None:
        pytest.skip(search.reason)
    from reports.spark.session import spark_session, stop

    yield spark_session(tmp_path_factory.mktemp("spark"))
    stop()
