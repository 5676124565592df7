"""Tokens of a client that does not know the fence object: only such as the record itself vouches for (H21, S2).

A record that a fencing client wrote carries its token and the mark that its writer knew. Every number up to the mark
was set aside before, so the next token may be used without asking anybody. Beyond the mark, or where the record carries
no token, this client cannot know which number is larger than all before it. Hudi drops both fields, and a client that
counts on from nothing gives 1 after 3. So the grant has no token, which a resource refuses.

A fleet without any fence object has no tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from lockref.locks.decisions import next_token
from lockref.locks.fence import M
from lockref.locks.values import UNFENCED, Reserved, Stored


class WithinTheMark(Generic[M]):
    """Implements `Tokens` without a request. The arguments are those of `FenceMark`; none is needed."""

    def __init__(self, *_arguments: Any, **_parts: Any) -> None:
        pass

    def reserve(self, stored: Stored[M], *, seen: int, is_over: Callable[[], bool]) -> Reserved:
        """The record's token + 1, where the record's mark covers it; else none."""
        record = stored.record
        if record is None or record.token is None or record.mark is None:
            return UNFENCED
        token = next_token(stored, seen)
        return Reserved(token, record.mark) if token <= record.mark else UNFENCED
