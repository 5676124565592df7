"""A read may lag, and show a state that is over (A8): what it must not be taken for. Functions of values.

A state of the past is no successor of a grant (H5, H8), and no reason to tell a caller that somebody else has the
lock (S7).
"""

from __future__ import annotations

from collections.abc import Collection

from lockref.locks.values import R, Record


def is_own_past(record: R | None, current: R) -> bool:
    """Is `record` an earlier state of the grant that `current` belongs to, by owner and token? The read lags (A8)."""
    if record is None or record.is_released or record.token is None:
        return False
    return record.owner == current.owner and record.token == current.token


def is_past(record: R | None, current: R) -> bool:
    """Is `record` older than `current`, as far as tokens tell? Then it is no successor's; the read lags (A8)."""
    if is_own_past(record, current):
        return True
    if record is None or record.token is None or current.token is None:
        return False
    return record.token < current.token


def shows_other(record: Record | None, *, written: Collection[str | None], token_max: int) -> bool:
    """True if `record` shows another holder (S7): it is not ours, and not older than one that we have seen (A8).

    written: the nonces of our writes. token_max: the highest token that we have seen.
    """
    if record is None or record.is_released or (record.nonce is not None and record.nonce in written):
        return False
    return record.token is None or record.token >= token_max
