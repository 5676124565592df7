"""`lockref doctor` names what is missing with the way to get it."""

from __future__ import annotations

import importlib.metadata

import pytest

from scenarios.backends import machine


def test_a_missing_package_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It said "not installed" alone."""

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    found = machine._distribution("absent-package", "gcs", "a lane")
    way = "not installed: pip install 'lockref[gcs]'"
    assert (found.status, found.found, found.disables) == ("absent", way, "a lane")
