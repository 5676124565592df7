"""The sweep and the search against brute force: small histories, small integer times, many ties."""

from __future__ import annotations

import random

import pytest

from reports.checks.search import search
from reports.checks.sweep import NEVER, Illegal, LockOp, Result, sweep

HISTORIES = 6_000


def brute_force(ops: list[LockOp]) -> bool:
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
                if grant is not None and grant == holder and extend(done | {i}, None, last, at):
                    return True
                was_retried = any(
                    j in done and ops[j].result is Result.UNKNOWN_RELEASE and grant_of[j] == grant for j in range(count)
                )
                is_found_done = grant is not None and grant != holder and op.result is Result.RELEASED and was_retried
                if is_found_done and extend(done | {i}, holder, last, at):
                    return True
        if holder is not None:
            if ops[holder].result is Result.UNKNOWN_ACQUIRE:
                return extend(done, None, last, now)
            if ops[holder].ends_ns < NEVER:
                return extend(done, None, last, max(now, ops[holder].ends_ns))
        return False

    return extend(frozenset(), None, 0, -NEVER)


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
            if holds:
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
            elif draw < 0.85:
                ops.append(LockOp(client=client, result=Result.DENIED, call_ns=call, return_ns=back))
            elif draw < 0.95:
                ops.append(LockOp(client=client, result=Result.UNKNOWN_ACQUIRE, call_ns=call, return_ns=back))
            else:
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
    first = rng.choice([1, 2])
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
]
"""Histories that chance draws too rarely."""


def verdicts(sweeper=sweep, histories: int = HISTORIES, seed: int = 1):
    """(history, brute force, sweep) of each drawn history."""
    for ops in DIRECTED:
        yield ops, brute_force(ops), sweeper(ops)
    rng = random.Random(seed)
    for _ in range(histories):
        ops = sorted_tokens(random_history(rng, tokens=True), rng)
        yield ops, brute_force(ops), sweeper(ops)


def test_the_sweep_agrees_with_brute_force():
    """S1, S2, S7 as swept: every random history gets the verdict that trying all orders gives it."""
    rules: dict[str, int] = {}
    for ops, is_legal, found in verdicts():
        assert (found is None) == is_legal, (found, sorted(ops, key=lambda op: (op.client, op.call_ns)))
        rule = "legal" if found is None else found.rule
        rules[rule] = rules.get(rule, 0) + 1
    # A differential test of one verdict alone would prove little.
    assert all(rules.get(rule, 0) > 100 for rule in ("legal", "overlap", "token repeated", "denied while free")), rules
    assert rules["release without a grant"] > 100


@pytest.mark.parametrize("tokens", [True, False])
def test_the_search_agrees_with_brute_force(tokens):
    """The fallback for locks without tokens decides as trying all orders does."""
    rng = random.Random(2)
    answers: dict[str, int] = {}
    for _ in range(HISTORIES // 3):
        ops = random_history(rng, tokens=tokens)
        answer = search(ops)
        answers[answer] = answers.get(answer, 0) + 1
        assert answer == ("legal" if brute_force(ops) else "illegal"), sorted(ops, key=lambda op: op.call_ns)
    assert min(answers.values()) > 50, answers


def test_the_search_says_when_its_budget_is_spent():
    """A search that was not finished is inconclusive, never a verdict."""
    ops = [LockOp(client=f"c{i}", result=Result.GRANTED, call_ns=0, return_ns=9, ends_ns=0) for i in range(16)] + [
        LockOp(client="x", result=Result.RELEASED, call_ns=0, return_ns=9)
    ]
    assert search(ops, states_max=1000) == "inconclusive"


def test_a_release_as_the_only_operation_is_illegal():
    """What an early version of a sweep let pass: giving back what was never had."""
    found = sweep([LockOp(client="a", result=Result.RELEASED, call_ns=0, return_ns=1)])
    assert isinstance(found, Illegal)
    assert found.rule == "release without a grant"


def test_a_grant_without_a_token_is_not_swept():
    """Without tokens nothing fixes the order; the caller must search."""
    with pytest.raises(ValueError, match=r"reports\.checks\.search"):
        sweep([LockOp(client="a", result=Result.GRANTED, call_ns=0, return_ns=1)])
