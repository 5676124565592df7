"""The helping log store's rows as Delta Lake writes them, on a real table.

The table has the hash key `tablePath` and the range key `fileName`. A row also has `tempPath`, relative to
`_delta_log`, `complete` as the text "true" or "false", and, once it is complete, `expireTime` in epoch seconds (N).

Our protocol speaks of one key, a truth value and a version. A row of Delta Lake has no version attribute. `tempPath`
stands in for one: no two rows have the same, and it never changes.

Source: delta `BaseExternalLogStore.java`; delta-rs `dynamodb_logstore`, `CommitEntry`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lockref.clouds.tables import table_channel
from lockref.clouds.uri import parse_store_uri
from lockref.dynamodb.table import KEY, VERSION, Clause, Item, flag, number, text
from lockref.errors import CapabilityMissing, LockrefError
from lockref.ports import Channel
from lockref.runtime import NS_PER_S
from scenarios.workloads.delta.places import LogPlaces

TABLE_PATH: Final = "tablePath"
FILE_NAME: Final = "fileName"
TEMP_PATH: Final = "tempPath"
COMPLETE: Final = "complete"
EXPIRE_TIME: Final = "expireTime"
EXPIRE_AFTER_S: Final = 24 * 3600
"""A complete row may go after a day, when nobody starts from its version any more (B16)."""

_LOG: Final = "/_delta_log/"


class LogRows:
    """See `lockref.clouds.dynamodb.client.Naming`.

    root: what stands before a table's name in `tablePath`, such as `s3://bucket/`. wall_ns: for `expireTime` alone.
    Errors: LockrefError for a row without what every row has.
    """

    attributes: tuple[str, ...] = (TABLE_PATH, FILE_NAME)

    def __init__(self, root: str, wall_ns: Callable[[], int]) -> None:
        self._root, self._wall_ns = root, wall_ns

    def key_as_sent(self, key: str) -> Item:
        table, _, file_name = key.rpartition(_LOG)
        return {TABLE_PATH: text(self._root + table), FILE_NAME: text(file_name)}

    def as_sent(self, item: Item) -> Item:
        key = item[KEY]["S"]
        is_complete = item[COMPLETE] == flag(True)
        kept = {name: value for name, value in item.items() if name not in (KEY, VERSION, FILE_NAME)}
        expires: Item = (
            {EXPIRE_TIME: number(self._wall_ns() // NS_PER_S + EXPIRE_AFTER_S)}
            if is_complete and EXPIRE_TIME not in kept
            else {}
        )
        relative = item[TEMP_PATH]["S"].removeprefix(f"{key.rpartition(_LOG)[0]}{_LOG}")
        return {
            **kept, **self.key_as_sent(key), **expires,
            TEMP_PATH: text(relative), COMPLETE: text("true" if is_complete else "false"),
        }  # fmt: skip

    def as_kept(self, item: Item) -> Item:
        for name in (*self.attributes, TEMP_PATH, COMPLETE):
            if "S" not in item.get(name, {}):
                raise LockrefError(f"a row of the log store has no text {name}: {dict(item)}")
        table = item[TABLE_PATH]["S"].removeprefix(self._root)
        rest = {name: value for name, value in item.items() if name != TABLE_PATH}
        return {
            **rest, KEY: text(f"{table}{_LOG}{item[FILE_NAME]['S']}"), VERSION: item[TEMP_PATH],
            TEMP_PATH: text(f"{table}{_LOG}{item[TEMP_PATH]['S']}"), COMPLETE: flag(item[COMPLETE]["S"] == "true"),
        }  # fmt: skip

    def clause(self, clause: Clause) -> Clause:
        if clause.attribute == KEY:
            return clause._replace(attribute=FILE_NAME)
        if clause.attribute == VERSION:
            return clause._replace(attribute=TEMP_PATH)
        assert clause.attribute not in (TEMP_PATH, COMPLETE), "a condition compares what the table has"
        return clause


def open_rows(
    places: LogPlaces, *, wall_ns: Callable[[], int], request_timeout_ns: int, pool_size: int = 10
) -> Channel:
    """A channel to the rows of the logs at `places`.

    Errors: CapabilityMissing where there is no table; ConfigError for an address that is none.
    """
    if not places.rows:
        raise CapabilityMissing(
            "the protocol 'helping' needs a table beside the log: take a server that has both by its name, or memory:"
        )
    objects = parse_store_uri(places.objects)
    root = f"{objects.scheme}://{objects.container}/{objects.prefix}".rstrip("/") + "/"
    return table_channel(
        parse_store_uri(places.rows),
        request_timeout_ns=request_timeout_ns,
        pool_size=pool_size,
        naming=LogRows(root, wall_ns),
    )
