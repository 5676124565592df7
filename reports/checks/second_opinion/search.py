"""The same question as `find_illegal` for locks without tokens: a bounded search.

Without tokens nothing fixes the order of grants, so orders are tried: at each
step one of the operations that no unfinished one precedes takes effect (Wing
and Gong 1993), and a state that was reached before with the same operations
left is not tried again (Lowe 2017). The search is exponential in the worst
case; after `states_max` states it answers "inconclusive" instead of guessing.

Histories fall apart at instants at which nothing runs and nothing is held over
from before; the caller may cut there, one lock at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from reports.checks.second_opinion.token_order import NEVER, LockOp, Result

STATES_MAX: Final = 200_000

Answer = Literal["legal", "illegal", "inconclusive"]

_FREE = -1


@dataclass(frozen=True, slots=True)
class _State:
    """Which operations have taken effect (bits), who holds (operation number), the highest token."""

    done: int
    holder: int
    token: int


def search(ops: Sequence[LockOp], *, token_min: int | None = None, states_max: int = STATES_MAX) -> Answer:
    """Decide whether one lock's history is legal under the rules of `find_illegal`; tokens may be None.

    token_min: the smallest token that this lock gives; None where nobody knows.
    Cost: up to `states_max` states of one integer triple each.
    """
    history = _History(ops)
    mandatory = history.mandatory
    start = _State(0, _FREE, -NEVER if token_min is None else token_min - 1)
    seen = {start}
    stack = [start]
    while stack:
        if len(seen) > states_max:
            return "inconclusive"
        state = stack.pop()
        if state.done & mandatory == mandatory:
            return "legal"
        for following in history.steps(state):
            assert following.done & state.done == state.done, "what took effect stays"
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return "illegal"


class _History:
    """One lock's operations by time of call, with the grant that each release gives back."""

    def __init__(self, ops: Sequence[LockOp]) -> None:
        # A stable sort: one client's operations stay in their order where times tie.
        self._ops = sorted(ops, key=lambda op: op.call_ns)
        self.mandatory = 0
        self._grant: list[int] = []
        holding: dict[str, int] = {}
        for number, op in enumerate(self._ops):
            self._grant.append(holding.get(op.client, _FREE))
            if op.result is Result.GRANTED:
                holding[op.client] = number
            elif op.result is Result.RELEASED:
                holding.pop(op.client, None)
            if op.result not in (Result.UNKNOWN_ACQUIRE, Result.UNKNOWN_RELEASE):
                self.mandatory |= 1 << number

    def steps(self, state: _State) -> list[_State]:
        """Every state that one effect leads to."""
        ops, left = self._ops, self.mandatory & ~state.done
        horizon = min((op.return_ns for number, op in enumerate(ops) if left >> number & 1), default=NEVER)
        steps: list[_State] = []
        for number, op in enumerate(ops):
            if op.call_ns > horizon:
                break
            if state.done >> number & 1:
                continue
            after = self._effect(state, number, op)
            if after is not None:
                steps.append(after)
        holder = state.holder
        if holder != _FREE and (ops[holder].result is Result.UNKNOWN_ACQUIRE or ops[holder].ends_ns <= horizon):
            steps.append(_State(state.done, _FREE, state.token))
        return steps

    def _effect(self, state: _State, number: int, op: LockOp) -> _State | None:
        done, holder, grant = state.done | 1 << number, state.holder, self._grant[number]
        match op.result:
            case Result.GRANTED:
                if holder != _FREE or (op.token is not None and op.token <= state.token):
                    return None
                return _State(done, number, state.token if op.token is None else op.token)
            case Result.UNKNOWN_ACQUIRE:
                return _State(done, number, state.token + 1) if holder == _FREE else None
            case Result.DENIED:
                return _State(done, holder, state.token) if holder != _FREE else None
            case Result.RELEASED | Result.UNKNOWN_RELEASE:
                if grant != _FREE and holder == grant:
                    return _State(done, _FREE, state.token)
                # It finds its work done: the grant has ended before, or there was none to give back.
                is_over = grant == _FREE or bool(state.done >> grant & 1)
                return _State(done, holder, state.token) if op.result is Result.RELEASED and is_over else None
