"""`lockref doctor` names what is missing with the way to get it."""

from __future__ import annotations

import importlib.metadata

import pytest

from scenarios.backends import machine


@pytest.mark.parametrize(
    ("extra", "way"), [("hudi-jvm", "pip install 'lockref[hudi-jvm]'"), ("", "pip install absent-package")]
)
def test_a_missing_package_is_told_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, extra: str, way: str
) -> None:
    """It said "not installed" alone, although the package is one of lockref's own extras."""

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    found = machine._distribution("absent-package", "a lane", extra=extra)
    assert (found.status, found.found, found.disables) == ("absent", f"not installed: {way}", "a lane")
