"""Requests to a table that cross to another process: a real run with faults sends them from there."""

from __future__ import annotations

import pickle

from lockref.dynamodb.table import KEY, Condition, Merge, absent, changes_of, equals, number, text


def test_a_condition_crosses_with_its_clauses():
    """As a string alone it would hold of everything."""
    condition = Condition([absent(KEY), equals("owner", text("n1"))])
    crossed = pickle.loads(pickle.dumps(condition))
    assert (crossed, crossed.clauses) == (condition, condition.clauses)
    assert not crossed.holds({KEY: text("k"), "owner": text("n1")})


def test_a_merge_crosses_with_its_changes():
    """Its own attributes are set or removed; the item alone would not say which."""
    merge = Merge({KEY: text("k"), "n": number(1), "beside": text("x")}, ["n", "gone"])
    crossed = pickle.loads(pickle.dumps(merge))
    assert (crossed, changes_of(crossed)) == (merge, changes_of(merge))
    assert changes_of(crossed) == {"ADD": {}, "REMOVE": ["gone"], "SET": {"n": number(1)}}
