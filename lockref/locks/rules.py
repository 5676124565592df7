"""The decisions as one value, so that a variant of the lock can replace exactly one. A port calls the functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lockref.locks import decisions, lag
from lockref.locks.values import Attempt, Deadline, LeaseTerms, Moment, Record, Sight, Step, Take, Wait
from lockref.stores.port import WriteReply


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The decisions as a value: each field is the function of its name in `decisions.py` or `lag.py`."""

    decide: Callable[..., Take | Wait] = decisions.decide
    next_step: Callable[[WriteReply], Step] = decisions.next_step
    is_lapsed: Callable[[Attempt[Any], Moment, LeaseTerms], bool] = decisions.is_lapsed
    deadline_after: Callable[[Moment, LeaseTerms], Deadline] = decisions.deadline_after
    recognise: Callable[..., Any] = decisions.recognise
    sight: Callable[..., Sight] = decisions.sight
    shows_other: Callable[..., bool] = lag.shows_other
    is_denied: Callable[..., bool] = decisions.is_denied
    is_own_past: Callable[[Record | None, Record], bool] = lag.is_own_past
    is_past: Callable[[Record | None, Record], bool] = lag.is_past
    backoff_ns: Callable[[int, float], int] = decisions.backoff_ns
