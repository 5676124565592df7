"""Bugs in what a lock says of its token: the record is right, the number in the holder's hands is not."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.provider import Grant
from lockref.storage.provider import StorageLock


class ShowsTheNextToken(StorageLock):
    """`grant.token` is one more than the record says: it rises as it should, and fences nobody whom it should (H21)."""

    def _grant_of(self, tenure: Any) -> Grant:
        grant = super()._grant_of(tenure)
        return dataclasses.replace(grant, token=None if grant.token is None else grant.token + 1)


class ShowsItsOwnCount(StorageLock):
    """`grant.token` counts this client's own grants, whatever the record says (H21)."""

    _granted: int = 0
    _last: Any = None

    def _grant_of(self, tenure: Any) -> Grant:
        if tenure is not self._last:
            self._last, self._granted = tenure, self._granted + 1
        return dataclasses.replace(super()._grant_of(tenure), token=self._granted)
