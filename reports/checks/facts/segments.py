"""Array helpers for rows sorted by group: starts, ordinals, and the rows before.

A group is a run of equal keys in a sorted array. The helpers find the groups
where something *may* be wrong by comparing neighbours, which is enough: a
sequence that never falls from one element to the next never falls below an
earlier maximum. Only groups with a suspicious pair are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from reports.checks.facts.columns import Codes, Flags, Ints, is_first

SMALL: Final = 256
"""Rows that are sorted sooner than looked at: is their order there?"""


def ordinals(first: Flags, counted: Flags) -> Ints:
    """The number of counted rows in the group up to and including each row."""
    total = np.cumsum(counted, dtype=np.int64)
    assert len(first) == 0 or first[0], "the first row begins a group"
    starts = np.flatnonzero(first)
    before = total[starts] - counted[starts]
    lengths = np.diff(np.append(starts, len(first)))
    return total - np.repeat(before, lengths)


def suspicious_groups(group: Ints, suspicious: Flags) -> Iterator[slice]:
    """The groups that contain a suspicious row, as slices, in order."""
    if not suspicious.any():
        return
    assert bool(np.all(group[1:] >= group[:-1])), "the rows of one group stand together"
    starts = np.flatnonzero(is_first(group))
    ends = np.append(starts[1:], len(group))
    positions = np.unique(np.searchsorted(starts, np.flatnonzero(suspicious), side="right") - 1)
    for position in positions.tolist():
        yield slice(int(starts[position]), int(ends[position]))


def below_earlier_maximum(group: Ints, values: Ints, *, or_equal: bool = False) -> Flags:
    """True where a value is smaller than (or equal to, if asked) an earlier one of its group."""
    falls = np.zeros(len(values), dtype=np.bool_)
    if len(values) < 2:
        return falls
    compare = np.less_equal if or_equal else np.less
    drop = np.zeros(len(values), dtype=np.bool_)
    drop[1:] = compare(values[1:], values[:-1]) & (group[1:] == group[:-1])
    for rows in suspicious_groups(group, drop):
        part = values[rows]
        falls[rows][1:] = compare(part[1:], np.maximum.accumulate(part)[:-1])
    return falls


def last_at_or_before(
    *, known_group: Ints, known_row: Ints, asked_group: Ints, asked_row: Ints, row_count: int
) -> Ints:
    """For each question the index of the last known entry of its group at or before its row, or -1.

    Rows are positions in the history, so they order across runs, too; the
    caller sees to it that groups of different runs differ.
    """
    found = np.full(len(asked_group), -1, dtype=np.int64)
    if len(known_group) == 0 or len(asked_group) == 0:
        return found
    width = row_count + 1
    largest = max(int(known_group.max()), int(asked_group.max())) + 1
    assert largest < 2**62 // width, "group numbers too large to pack; renumber them"
    # Both sides in one order: then the search goes through memory once, and not back and forth for every question.
    known, asked = in_order(known_group, known_row), in_order(asked_group, asked_row)
    keys = known_group[known] * width + known_row[known]
    position = np.searchsorted(keys, asked_group[asked] * width + asked_row[asked], side="right") - 1
    candidate = np.arange(len(keys))[known][np.maximum(position, 0)]
    found[asked] = np.where((position >= 0) & (known_group[candidate] == asked_group[asked]), candidate, -1)
    return found


def in_order(group: Ints, row: Ints) -> Ints | slice:
    """By group, then by row, then as they come: what to index with, and nothing is moved where that order is there."""
    if len(row) <= SMALL:
        return np.lexsort((row, group))
    step = np.diff(row)
    if bool(np.all(step >= 0)):
        if bool(np.all(group[1:] >= group[:-1])):
            return slice(None)
        # Numbers of two bytes are sorted by counting, in time that grows with their count alone.
        if int(group.min()) >= 0 and int(group.max()) < 2**16:
            return np.argsort(group.astype(np.uint16), kind="stable")
        return np.argsort(group, kind="stable")
    return np.lexsort((row, group))


def rows_of_group(group: Ints, key: int) -> Ints:
    """Positions of one group in an ascending group column."""
    return np.arange(np.searchsorted(group, key, side="left"), np.searchsorted(group, key, side="right"))


def count_at_or_before(
    *, known_group: Ints, known_row: Ints, asked_group: Ints, asked_row: Ints, row_count: int
) -> Ints:
    """For each question how many known entries of its group lie at or before its row."""
    width = row_count + 1
    assert len(known_group) == len(known_row), "a row for every known entry"
    counts = np.zeros(len(asked_group), dtype=np.int64)
    if len(known_group) == 0 or len(asked_group) == 0:
        return counts
    known, asked = in_order(known_group, known_row), in_order(asked_group, asked_row)
    keys, begin = known_group[known] * width + known_row[known], asked_group[asked] * width
    until = np.searchsorted(keys, begin + asked_row[asked], side="right")
    counts[asked] = until - np.searchsorted(keys, begin, side="left")
    return counts


def renumber(*columns: Ints | Codes) -> tuple[Ints, int]:
    """Numbers 0… for distinct tuples of columns: the tuples packed where they fit, renumbered where they do not."""
    packed = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        if len(column) == 0:
            return packed, 0
        low = int(column.min())
        width = int(column.max()) - low + 1
        if width == 1:
            # One value tells no tuples apart: nearly every batch has one lock, and most runs one task on each node.
            continue
        if size * width >= 2**40:
            unique, packed = np.unique(packed, return_inverse=True)
            packed, size = packed.reshape(-1).astype(np.int64), len(unique)
            unique, column = np.unique(column, return_inverse=True)
            column, width, low = column.reshape(-1), len(unique), 0
        if size > 1:
            packed *= width
        packed += column
        packed -= low
        size *= width
    return packed, size


def one_of_each(*columns: Ints | Codes) -> Ints:
    """The position of one row for each distinct tuple of columns."""
    number, size = renumber(*columns)
    if size > 4 * len(number) + 1024:
        return np.unique(number, return_index=True)[1].astype(np.int64)
    row = np.full(size, -1, dtype=np.int64)
    row[number] = np.arange(len(number))
    return row[row >= 0]
