"""Fixtures of the unit tests."""

from __future__ import annotations

import pytest

from tests.hardened_rig import Rig


@pytest.fixture
def rig() -> Rig:
    """A hardened lock on a machine whose time stands still, with a scripted store."""
    return Rig()
