"""A scenario file as a test: `tests/pause.lock.yaml` is one item, called `pause`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockref.testing.checking import LockResult
from lockref.testing.conformance import require_held, run
from lockref.testing.options import PROVIDER, SUFFIX


class LockFile(pytest.File):
    """The file, with its one item."""

    def collect(self) -> Iterator[LockItem]:
        yield LockItem.from_parent(self, name=self.path.name.removesuffix(SUFFIX))


class LockItem(pytest.Item):
    """The scenario under the lock that pytest's configuration names."""

    result: LockResult

    def setup(self) -> None:
        provider = self.config.getoption(PROVIDER) or self.config.getini(PROVIDER)
        if not provider:
            pytest.fail(
                f"{self.path.name} needs a lock to test: give --lockref-provider file.py:Class, or set {PROVIDER} in "
                "pytest's configuration",
                pytrace=False,
            )
        self.result = run(self.config, provider, os.path.relpath(self.path))

    def runtest(self) -> None:
        require_held(self.result)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name
