"""One answer has one meaning, whoever reads it: the store, the probe, the wire, faults, and a simulated server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from lockref.clouds.uri import CLOUDS
from tests.clouds.answer_table import Row, rows
from tests.clouds.readers import Readers, assert_simulated, canned_server, meaning_of, untried

ROWS = list(rows())


@pytest.fixture(scope="module", autouse=True)
def _credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "reader-id")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "reader-secret")
        yield


@pytest.fixture(scope="module")
def readers() -> Iterator[Readers]:
    with canned_server() as server:
        found = Readers(server)
        yield found
        found.close()


def test_the_table_is_whole() -> None:
    """No answer stands there twice, and every cloud has its share."""
    assert not [title for title, times in Counter(map(str, ROWS)).items() if times > 1]
    assert all(count >= 100 for count in Counter(row.scheme for row in ROWS).values())


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_reader_reads_the_same(row: Row, readers: Readers) -> None:
    """A1, A5, C5: outcome, absence and version are those of the table."""
    told = readers.told(row)
    assert told == dict.fromkeys(told, meaning_of(row))


def test_every_code_of_a_clouds_table_has_an_answer_here() -> None:
    """A row of the facts that no answer is held against could change unnoticed."""
    assert untried(ROWS) == {scheme: [] for scheme in {row.scheme for row in ROWS}}


@pytest.mark.parametrize("scheme", sorted({row.scheme for row in ROWS if CLOUDS[row.scheme].holds_objects}))
def test_a_simulated_server_answers_as_the_table_says(scheme: str) -> None:
    assert_simulated(scheme, ROWS)
