"""Token order and search against brute force: small histories, small integer times, many ties."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest

from reports.checks.second_opinion.search import search
from reports.checks.second_opinion.token_order import NEVER, LockOp, Result, find_illegal

HISTORIES = 6_000


def brute_force(ops: list[LockOp], token_min: int | None = None) -> bool:
    """Legal? Tries every order of effects, without memory or cleverness, and without a line of the code under test.

    A history is a list of events that must, or may, take effect. Real time:
    whatever returned before another was called comes first.
    """
    count = len(ops)
    optional = {i for i, op in enumerate(ops) if op.result in (Result.UNKNOWN_ACQUIRE, Result.UNKNOWN_RELEASE)}

    grant_of: dict[int, int | None] = {}
    for i, op in enumerate(ops):
        mine = [j for j in range(i) if ops[j].client == op.client]
        ends = [j for j in mine if ops[j].result in (Result.GRANTED, Result.RELEASED)]
        grant_of[i] = ends[-1] if ends and ops[ends[-1]].result is Result.GRANTED else None

    def returns(i: int) -> int:
        return NEVER if i in optional else ops[i].return_ns

    def extend(done: frozenset[int], holder: int | None, last: int, now: int) -> bool:
        # `now` is an instant that is not before any effect so far; effects happen at instants.
        left = [i for i in range(count) if i not in done]
        if all(i in optional for i in left):
            return True
        if any(returns(i) < now for i in left):
            return False
        for i in left:
            op, at = ops[i], max(now, ops[i].call_ns)
            if at > returns(i):
                continue
            if op.result is Result.GRANTED:
                is_next = holder is None and (op.token is None or op.token > last)
                if is_next and extend(done | {i}, i, last if op.token is None else op.token, at):
                    return True
            elif op.result is Result.UNKNOWN_ACQUIRE:
                if holder is None and extend(done | {i}, i, last + 1, at):
                    return True
            elif op.result is Result.DENIED:
                if holder is not None and extend(done | {i}, holder, last, at):
                    return True
            else:
                grant = grant_of[i]
                if grant is not None and holder == grant and extend(done | {i}, None, last, at):
                    return True
                # It finds its work done: nothing of the grant is left, however it ended, or there was none.
                is_found_done = grant is None or (grant != holder and grant in done)
                if op.result is Result.RELEASED and is_found_done and extend(done | {i}, holder, last, at):
                    return True
        if holder is not None:
            if ops[holder].result is Result.UNKNOWN_ACQUIRE:
                return extend(done, None, last, now)
            if ops[holder].ends_ns < NEVER:
                return extend(done, None, last, max(now, ops[holder].ends_ns))
        return False

    return extend(frozenset(), None, -NEVER if token_min is None else token_min - 1, -NEVER)


def random_history(rng: random.Random, *, tokens: bool) -> list[LockOp]:
    """Clients take turns at random; tokens and outcomes are drawn, mostly plausibly, times are few so that they tie."""
    queues: list[list[LockOp]] = []
    token = 0
    span = rng.choice([4, 8, 16])
    for client in [f"c{i}" for i in range(rng.randint(1, 4))]:
        now, holds = rng.randint(0, 3), False
        ops: list[LockOp] = []
        queues.append(ops)
        for _ in range(rng.randint(0, 3)):
            call = now + rng.randint(0, 2)
            back = call + rng.randint(0, span // 3)
            now = back + rng.randint(0, 1)
            draw = rng.random()
            # Now and then a client asks again without having unlocked, as after a lapse.
            if holds and rng.random() < 0.9:
                holds = draw >= 0.75 and rng.random() < 0.5
                ops.append(
                    LockOp(
                        client=client,
                        result=Result.RELEASED if draw < 0.75 else Result.UNKNOWN_RELEASE,
                        call_ns=call,
                        return_ns=back,
                    )
                )
            elif draw < 0.55:
                holds = True
                token = max(1, token + rng.choice([1, 1, 1, 2, 0, -1]))
                ends = back + rng.randint(0, 4) if rng.random() < 0.3 else NEVER
                ops.append(
                    LockOp(
                        client=client,
                        result=Result.GRANTED,
                        call_ns=call,
                        return_ns=back,
                        token=token if tokens else None,
                        ends_ns=ends,
                    )
                )
            elif draw < 0.8:
                ops.append(LockOp(client=client, result=Result.DENIED, call_ns=call, return_ns=back))
            elif draw < 0.88:
                # It may have landed, so its client may well give it back.
                holds = rng.random() < 0.5
                ops.append(LockOp(client=client, result=Result.UNKNOWN_ACQUIRE, call_ns=call, return_ns=back))
            else:
                # An unlock of what was given back already, or never held.
                ops.append(LockOp(client=client, result=Result.RELEASED, call_ns=call, return_ns=back))
    merged: list[LockOp] = []
    while any(queues):
        merged.append(rng.choice([queue for queue in queues if queue]).pop(0))
    return merged[:7]


def sorted_tokens(ops: list[LockOp], rng: random.Random) -> list[LockOp]:
    """Half of the histories get their tokens in the order of calls, or few would be legal."""
    if rng.random() < 0.5:
        return ops
    granted = sorted((op for op in ops if op.result is Result.GRANTED), key=lambda op: (op.call_ns, op.return_ns))
    numbers = {id(op): place for place, op in enumerate(granted)}
    step = rng.choice([1, 2])
    first = rng.choice([-1, 0, 1, 2])
    return [
        LockOp(
            client=op.client,
            result=op.result,
            call_ns=op.call_ns,
            return_ns=op.return_ns,
            ends_ns=op.ends_ns,
            token=first + step * numbers[id(op)] if id(op) in numbers else None,
        )
        for op in ops
    ]


def smallest_token(ops: list[LockOp], rng: random.Random) -> int | None:
    """What the caller may know of where tokens begin: nothing, or a number not above the least that was given."""
    given = [op.token for op in ops if op.token is not None]
    return rng.choice([None, min(given, default=0), min(given, default=0) - 1])


def op(client: str, result: Result, call_ns: int, return_ns: int, token: int | None = None) -> LockOp:
    return LockOp(client=client, result=result, call_ns=call_ns, return_ns=return_ns, token=token)


DIRECTED = [
    # A release that takes long, overtaken by a whole tenure: the free time begins where the later one ended.
    [
        op("a", Result.GRANTED, 0, 0, 1),
        op("a", Result.RELEASED, 1, 1),
        op("a", Result.GRANTED, 1, 1, 2),
        op("a", Result.RELEASED, 2, 10),
        op("b", Result.GRANTED, 3, 3, 3),
        op("b", Result.RELEASED, 4, 4),
        op("c", Result.DENIED, 6, 7),
    ],
    # A grant that lapsed, somebody else's, an acquire of unknown outcome, and one release for all that.
    [
        LockOp(client="a", result=Result.GRANTED, call_ns=0, return_ns=1, token=1, ends_ns=3),
        op("b", Result.GRANTED, 4, 5, 2),
        op("a", Result.UNKNOWN_ACQUIRE, 6, 7),
        op("a", Result.RELEASED, 8, 9),
        op("b", Result.RELEASED, 10, 11),
    ],
    # A grant after the unknown acquire: the release is that grant's, which may have ended by itself before.
    [
        op("a", Result.UNKNOWN_ACQUIRE, 0, 1),
        LockOp(client="a", result=Result.GRANTED, call_ns=2, return_ns=3, token=1, ends_ns=4),
        op("b", Result.GRANTED, 5, 6, 2),
        op("a", Result.RELEASED, 8, 9),
        op("b", Result.RELEASED, 10, 11),
    ],
]
"""Histories that chance draws too rarely."""


def verdicts(decide=find_illegal, histories: int = HISTORIES, seed: int = 1):
    """(history, brute force, token order) of each drawn history."""
    for ops, known, is_legal in by_brute_force(histories, seed):
        yield ops, is_legal, decide(ops, **known)


@cache
def by_brute_force(histories: int, seed: int):
    """(history, what else is known of it, brute force) of each drawn history: the same for all who decide."""
    found = [(ops, {}, brute_force(ops)) for ops in DIRECTED]
    rng = random.Random(seed)
    for _ in range(histories):
        ops = sorted_tokens(random_history(rng, tokens=True), rng)
        least = smallest_token(ops, rng)
        found.append((ops, {"token_min": least}, brute_force(ops, least)))
    return found


def test_token_order_agrees_with_brute_force():
    """S1, S2, S7 by token order: every random history gets the verdict that trying all orders gives it."""
    rules: dict[str, int] = {}
    for ops, is_legal, found in verdicts():
        assert (found is None) == is_legal, (found, sorted(ops, key=lambda op: (op.client, op.call_ns)))
        rule = "legal" if found is None else found.rule
        rules[rule] = rules.get(rule, 0) + 1
    # A differential test of one verdict alone would prove little.
    assert all(rules.get(rule, 0) > 100 for rule in ("legal", "overlap", "token repeated", "denied while free")), rules


@pytest.mark.parametrize("tokens", [True, False])
def test_the_search_agrees_with_brute_force(tokens):
    """The fallback for locks without tokens decides as trying all orders does."""
    rng = random.Random(2)
    answers: dict[str, int] = {}
    for _ in range(HISTORIES // 3):
        ops = random_history(rng, tokens=tokens)
        least = smallest_token(ops, rng)
        answer = search(ops, token_min=least)
        answers[answer] = answers.get(answer, 0) + 1
        assert answer == ("legal" if brute_force(ops, least) else "illegal"), sorted(ops, key=lambda op: op.call_ns)
    assert min(answers.values()) > 50, answers


def test_the_search_says_when_its_budget_is_spent():
    """A search that was not finished is inconclusive, never a verdict."""
    ops = [LockOp(client=f"c{i}", result=Result.GRANTED, call_ns=0, return_ns=9, ends_ns=0) for i in range(16)] + [
        op("x", Result.GRANTED, 20, 21),
        op("y", Result.GRANTED, 22, 23),
    ]
    assert search(ops, states_max=1000) == "inconclusive"


U, R, G, D = Result.UNKNOWN_ACQUIRE, Result.RELEASED, Result.GRANTED, Result.DENIED


@pytest.mark.parametrize(
    ("ops", "is_legal"),
    [
        # It may have landed and been given back, or not have landed: either way the release tells the truth.
        ([op("a", U, 0, 1), op("a", R, 2, 3)], True),
        # An unlock of what is not held says that nothing is held, which is so: twice, or of what was never had.
        ([op("a", U, 0, 1), op("a", R, 2, 3), op("a", R, 4, 5)], True),
        ([op("a", U, 0, 1), op("b", R, 2, 3)], True),
        ([op("a", G, 0, 1, 1), op("a", R, 2, 3), op("a", R, 4, 5), op("b", G, 6, 7, 2)], True),
        # It gives back nobody else's grant: b still holds, so c cannot be granted, and may be denied.
        ([op("a", G, 0, 1, 1), op("a", R, 2, 3), op("b", G, 4, 5, 2), op("a", R, 6, 7), op("c", D, 8, 9)], True),
        ([op("a", G, 0, 1, 1), op("a", R, 2, 3), op("b", G, 4, 5, 2), op("a", R, 6, 7), op("c", G, 8, 9, 3)], False),
        # The first unlock must have been true; a second one repairs nothing.
        ([op("a", G, 0, 1, 1), op("a", R, 2, 3), op("b", D, 4, 5), op("a", R, 6, 7)], False),
        # Nobody else's release, and no grant in the way of the next.
        ([op("a", U, 0, 1), op("a", R, 2, 3), op("b", G, 2, 3, 1), op("b", R, 4, 5)], True),
        # The grant before it has no end of its own: it is what the release gave back.
        ([op("a", G, 0, 1, 1), op("a", U, 2, 3), op("a", R, 8, 9), op("b", G, 4, 5, 2)], False),
        ([op("a", G, 0, 1, 1), op("a", U, 2, 3), op("a", R, 8, 9), op("b", G, 8, 9, 2)], True),
        # Tokens that begin at 0 or below: nobody said where they begin.
        ([op("a", G, 0, 1, 0), op("a", R, 2, 3), op("b", G, 4, 5, 1)], True),
        ([op("c", U, 0, 1), op("b", D, 2, 3), op("a", G, 4, 5, 1)], True),
        ([op("c", U, 0, 1), op("b", D, 2, 3), op("a", G, 4, 5, 0)], True),
        ([op("a", G, 0, 1, -7), op("a", R, 2, 3), op("b", G, 4, 5, 0)], True),
    ],
)
def test_all_three_agree_on_unknown_acquires_and_on_where_tokens_begin(ops, is_legal):
    """S7, S2: an unlock after an acquire of unknown outcome is no lie, and a first token of 0 no second one."""
    assert brute_force(ops) == is_legal
    assert (find_illegal(ops) is None) == is_legal
    assert search(ops) == ("legal" if is_legal else "illegal")


def test_a_release_says_that_the_grant_is_over_however_it_ended():
    """S7: a grant that lapsed and was replaced is over by the return of its release; one without an end is not."""
    lapsed = [one for one in DIRECTED[1] if one.result is not U]
    lasting = [replace(one, ends_ns=NEVER) for one in lapsed]
    for ops, is_legal in ((DIRECTED[1], True), (lapsed, True), (lasting, False)):
        assert brute_force(ops) == is_legal
        assert (find_illegal(ops) is None) == is_legal
        assert search(ops) == ("legal" if is_legal else "illegal")


def test_where_tokens_are_known_to_begin_there_is_no_room_below():
    """An unknown acquire needs a token; below the smallest one there is none."""
    ops = [op("c", U, 0, 1), op("b", D, 2, 3), op("a", G, 4, 5, 1)]
    for least, is_legal in ((1, False), (0, True), (None, True)):
        assert brute_force(ops, least) == is_legal
        assert (find_illegal(ops, token_min=least) is None) == is_legal
        assert search(ops, token_min=least) == ("legal" if is_legal else "illegal")


def test_a_grant_without_a_token_has_no_place_in_the_order():
    """Without tokens nothing fixes the order; the caller must search."""
    with pytest.raises(ValueError, match=r"second_opinion\.search"):
        find_illegal([LockOp(client="a", result=Result.GRANTED, call_ns=0, return_ns=1)])
