"""The columnar checks against plain replays: random histories, small times with ties, one step at a time."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lockref.words import Kind, Op, Outcome
from reports.checks import judge
from tests.histories import Held, History, tables
from tests.thoroughness import examples

BATCH = st.integers(1, 3)


def counts(judgement: Any, clause: str) -> list[int]:
    return [row["count"] for row in judgement.verdicts.to_pylist() if row["clause"] == clause]


# S3.

_tenures = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 12), st.integers(0, 6)), max_size=8)


def believed(spans: list[tuple[str, int, int]]) -> History:
    h = History()
    for node, first, length in spans:
        request = h.call(node, Op.ACQUIRE, 0)
        h.believes(Held(node, "main", request, "", None, ""), first, first + length)
    return h


def naive_intruders(spans: list[tuple[str, int, int]]) -> int:
    """Tenures that begin inside another node's, by the order of the record: at one instant, that of being written."""
    ordered = sorted(
        (
            ((first, 2 * place), (first + length, 2 * place + 1), node)
            for place, (node, first, length) in enumerate(spans)
        )
    )
    return sum(
        any(ordered[i][2] != node and ordered[i][1] > first for i in range(j))
        for j, (first, _, node) in enumerate(ordered)
    )


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(_tenures, min_size=1, max_size=3))
def test_overlaps_are_those_that_comparing_all_pairs_finds(batch):
    """S3: per run, as many intruders as a quadratic comparison counts; ties at the first instant either way round."""
    judgement = judge(*tables(*[believed(spans) for spans in batch]))
    for found, spans in zip(counts(judgement, "S3"), batch, strict=True):
        expected = naive_intruders(spans)
        # Tenures that begin together may be called intruder in either order, which changes the count, not the verdict.
        ties = len(spans) - len({first for _, first, _ in spans})
        assert (found > 0) == (expected > 0)
        assert abs(found - expected) <= ties


# S4.

_effects = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 4), st.integers(-1, 1), st.booleans()), max_size=8
)


def written(effects: list[tuple[str, int, int, bool]]) -> tuple[History, int]:
    """The history, and how many accepted writes a replay calls wrong."""
    h = History()
    tenures: dict[tuple[str, int], Held] = {}
    at, length, wrong = 0, 0, 0
    best_token, last_tenure = 0, None
    for token in range(1, 5):
        for node in "abc":
            at += 2
            tenures[node, token] = h.granted(
                node, call=at, applied=at, returned=at, token=token, owner=f"{node}{token}"
            )
    order = {key: place for place, key in enumerate(tenures)}
    best_place = -1
    for node, token, shift, is_accepted in effects:
        at += 1
        base = max(0, length + shift)
        h.effect(tenures[node, token], at=at, base=base, is_accepted=is_accepted)
        if not is_accepted:
            continue
        stale = token < best_token or order[node, token] < best_place
        lost = last_tenure is not None and last_tenure != (node, token) and base != length
        wrong += stale or lost
        best_token, best_place = max(best_token, token), max(best_place, order[node, token])
        last_tenure, length = (node, token), length + 1
    return h, wrong


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(_effects, min_size=1, max_size=3))
def test_stale_and_lost_writes_are_those_that_a_replay_finds(batch):
    """S4: per run, as many wrong accepted writes as stepping through them finds."""
    replayed = [written(effects) for effects in batch]
    judgement = judge(*tables(*[h for h, _ in replayed]))
    assert counts(judgement, "S4") == [wrong for _, wrong in replayed]


# S1, S2 and the grants.

_writes = st.lists(
    st.tuples(
        st.sampled_from(["live", "live", "release", "delete", "foreign"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from(["right", "right", "right", "none", "old", "absent"]),
        st.sampled_from([None, "same"]),
    ),
    max_size=10,
)


def chained(writes: list[tuple[str, str, int | None, str, str | None]]) -> tuple[History, list[tuple[Any, ...]], int]:
    """The history, the grants of a replay, and how many writes it calls broken."""
    h = History()
    state: tuple[str, int | None] | None = None
    version, old, is_absent, is_begun = "", "absent", True, False
    grants: list[list[Any]] = []
    broken = 0

    def end(at: int, kind: str) -> None:
        if state is not None:
            grants[-1][4:] = [at, kind]

    for at, (kind, node, token, condition, name) in enumerate(writes):
        right = "absent" if is_absent else version
        wanted = {"right": right, "none": "", "old": old, "absent": "absent"}[condition]
        if kind == "delete" and wanted == "absent":
            wanted = ""
        is_idle_delete = kind == "delete" and is_absent
        broken += is_begun and wanted not in ("", right) and not is_idle_delete
        old = right
        op = {"live": Op.ACQUIRE, "release": Op.RELEASE, "delete": Op.DELETE, "foreign": Op.WRITE}[kind]
        owner = node if kind in ("live", "release") else ""
        h.write(
            node, op, sent=at, owner=owner, token=token if kind == "live" else None, if_version=wanted, version=name
        )
        is_begun = True
        version = h.version
        is_absent = kind == "delete"
        if kind == "live":
            if state != (node, token):
                end(at, "taken_over")
                grants.append([node, node, token, at, None, "open"])
            state = (node, token)
        else:
            end(at, {"release": "released", "delete": "deleted", "foreign": "overwritten"}[kind])
            state = None
    return h, [tuple(grant) for grant in grants], broken


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(_writes, min_size=1, max_size=3))
def test_grants_and_broken_links_are_those_that_a_replay_finds(batch):
    """S1 and truth: owners, tokens, ends and illegal links of any sequence of writes, versions repeating or not."""
    replayed = [chained(writes) for writes in batch]
    judgement = judge(*tables(*[h for h, _, _ in replayed]))
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in judgement.grants.to_pylist():
        found.setdefault(row["run"], []).append(
            (row["node"], row["owner"], row["token"], row["begin_hi_ns"], row["end_hi_ns"], row["end_kind"])
        )
    for run, (h, grants, broken) in enumerate(replayed):
        assert found.get(run, []) == grants
        readable = any(event["owner"] for _, _, event in h._events) or not h._events
        assert counts(judgement, "S1")[run] == (broken if readable else 0)


@settings(max_examples=examples(100), deadline=None)
@given(_writes, st.permutations(range(3)))
def test_a_run_is_judged_alike_alone_and_in_company(writes, order):
    """A batch changes nothing: verdicts of a run do not depend on its neighbours or their order."""
    histories = [chained(writes)[0], believed([("a", 0, 5), ("b", 3, 3)]), written([("a", 1, 0, True)])[0]]
    alone = [judge(*tables(h)).verdicts.drop_columns("run").to_pylist() for h in histories]
    together = judge(*tables(*[histories[place] for place in order])).verdicts
    for run, place in enumerate(order):
        rows = [row for row in together.to_pylist() if row.pop("run") == run]
        assert rows == alone[place]


SAID = ["", "{}", "[]", "{", '{"kind":"pause","phase":"begin","id":"x"}', '{"kind":"crash","phase":"begin"}']


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(Kind)),
            st.integers(0, 30),
            st.sampled_from(["a", "b", "operator"]),
            st.sampled_from(list(Op)),
            st.sampled_from(list(Outcome)),
            st.sampled_from([None, 0, 1, 2, 3, 10**12]),
            st.sampled_from(["", "absent", "v1", "v2"]),
            st.sampled_from(["", "v1", "v2"]),
            st.sampled_from(["", "o1", "o2"]),
            st.sampled_from([None, -1, 1, 2**62]),
            st.sampled_from([None, 0, 10, 2**62]),
            st.sampled_from(SAID),
        ),
        max_size=25,
    ),
    st.booleans(),
)  # fmt: skip
def test_no_history_however_senseless_breaks_the_judge(rows, is_timed):
    """Foreign histories are judged, whatever they say: every verdict has a name and a readable witness."""
    timing = {
        "validity_ns": 10,
        "poll_interval_ns": 1,
        "request_timeout_ns": 1,
        "wait_timeout_ns": 5,
        "faults_end_ns": 3,
    }
    h = History(run=timing if is_timed else {})
    for kind, at, node, op, outcome, request, if_version, version, owner, token, until, said in rows:
        fields: dict[str, Any] = {} if request is None else {"request": request}
        h.event(kind, at, node, op=op, outcome=outcome, if_version=if_version, version=version, owner=owner,
                token=token, valid_until_ns=until, detail=said, **fields)  # fmt: skip
    judgement = h.judged()
    names = Counter(row["verdict"] for row in judgement.verdicts.to_pylist())
    assert set(names) <= {"held", "violated", "inconclusive", "not_applicable"}
    assert all(json.loads(row["witness"] or "{}") is not None for row in judgement.verdicts.to_pylist())
