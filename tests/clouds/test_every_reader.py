"""One answer has one meaning, whoever reads it: the store, the probe and the wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.clouds.answer_table import Row, rows
from tests.clouds.readers import ProbeReader, StoreReader, WireReader, canned_server, meaning_of

ROWS = list(rows())


@pytest.fixture(scope="module", autouse=True)
def _credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "reader-id")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "reader-secret")
        yield


@pytest.fixture(scope="module")
def store() -> Iterator[StoreReader]:
    with canned_server() as server:
        reader = StoreReader(server)
        yield reader
        reader.close()


@pytest.fixture(scope="module")
def probe() -> ProbeReader:
    return ProbeReader()


@pytest.fixture(scope="module")
def wire(store: StoreReader) -> WireReader:
    return WireReader(store)


def test_the_table_is_whole() -> None:
    """No answer stands there twice, and every cloud has its share."""
    assert not [title for title, times in Counter(map(str, ROWS)).items() if times > 1]
    assert all(count >= 100 for count in Counter(row.scheme for row in ROWS).values())


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_reader_reads_the_same(row: Row, store: StoreReader, probe: ProbeReader, wire: WireReader) -> None:
    """A1, A5, C5: outcome, absence and version are those of the table."""
    told = {"store": store(row), "probe": probe(row), "wire": wire(row)}
    assert told == dict.fromkeys(told, meaning_of(row))
