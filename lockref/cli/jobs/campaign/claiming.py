"""One command at a time for a campaign in a bucket, kept by our own lease there. A folder has its run.json for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

from lockref.errors import CapabilityMissing, ConfigError
from lockref.opening import open_lock
from lockref.storage.config import BASE_PATH, RENEW_INTERVAL, VALIDITY
from scenarios.campaigns.places import ObjectPlace, Place, bucket_address, bucket_region

VALIDITY_S: Final = 60
"""Seconds for which the lease of a killed command keeps the next command waiting."""

RENEWALS: Final = 10
"""The lease is renewed ten times in one validity: Hudi's settings demand at least that."""


@contextmanager
def claimed(place: Place, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the lease of a bucket's prefix while the block runs; of a folder, do nothing.

    Two commands would give the same results, and pay twice: every file has a name that its content decides. So a store
    without conditional writes is told, and not refused; and nothing is asked of a lease that was lost on the way.

    Raises ConfigError where another command has the lease, and renews it; else as `lockref.opening.open_lock`.
    """
    if not isinstance(place, ObjectPlace):
        yield
        return
    properties = {BASE_PATH: str(place), VALIDITY: VALIDITY_S, RENEW_INTERVAL: VALIDITY_S // RENEWALS}
    try:
        lock = open_lock(properties, endpoint=bucket_address(), region=bucket_region())
    except CapabilityMissing as error:
        tell(f"{place}: nothing keeps a second command from this campaign: {error}")
        yield
        return
    with closing(lock):
        if not lock.try_lock():
            tell(f"{place}: another command has its lease; if that one was killed, the lease ends in {VALIDITY_S} s")
            if not lock.lock():
                raise ConfigError(f"{place}: another command runs this campaign: wait for its end")
        yield
