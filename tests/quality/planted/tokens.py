"""Bugs in what a lock says of its token: the record is right, the number in the holder's hands is not."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from lockref.locks.tenure import Tenure
from lockref.provider import Grant
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from tests.quality.planted.broken import other


class _ShowsTheNext(Tenure[LockFile]):
    def grant(self) -> Grant:
        grant = super().grant()
        return dataclasses.replace(grant, token=None if grant.token is None else grant.token + 1)


class ShowsTheNextToken(StorageLock):
    """`grant.token` is one more than the record says: it rises as it should, and fences nobody whom it should (H21)."""

    parts = other(tenure=_ShowsTheNext)


class _ShowsItsNumber(Tenure[LockFile]):
    def __init__(self, *args: Any, given: list[object], **more: Any) -> None:
        super().__init__(*args, **more)
        given.append(self)
        self.number = len(given)

    def grant(self) -> Grant:
        return dataclasses.replace(super().grant(), token=self.number)


class ShowsItsOwnCount(StorageLock):
    """`grant.token` counts this client's own grants, whatever the record says (H21)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.parts = other(tenure=partial(_ShowsItsNumber, given=[]))  # type: ignore[misc]
        super().__init__(*args, **options)
