"""The server that shown commands contend on."""

from __future__ import annotations

import pytest

from scenarios.backends import RunningBackend
from tests.backends.conftest import ministack

__all__ = ["ministack"]


@pytest.fixture
def ministack_uri(ministack: RunningBackend) -> str:
    """An address that any command can use."""
    return ministack.uri
