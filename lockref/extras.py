"""The extras of `pip install 'lockref[…]'`: what lockref needs beside the standard library, by what is done with it.

The lock itself needs nothing. A cloud needs its SDK, the laboratory its tools. What is missing is named with the extra
that brings it, and not by a traceback.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lockref.errors import CapabilityMissing


@dataclass(frozen=True, slots=True)
class Extra:
    """gives: what it is for. modules: those that it brings and that our code imports."""

    gives: str
    modules: tuple[str, ...]


EXTRAS: Final[Mapping[str, Extra]] = {
    "lab": Extra(
        "the command line: simulation, contention, reports",
        (
            "click", "rich", "pydantic", "pydantic_core", "annotated_types", "numpy", "pyarrow", "greenlet", "yaml",
            "jinja2", "markupsafe", "matplotlib", "psutil", "cryptography", "datasketches", "requests",
            "urllib3",
        ),
    ),
    "s3": Extra("locks in S3", ("boto3", "botocore", "urllib3")),
    "obstore": Extra("locks in S3 through its second client", ("obstore",)),
    "dynamodb": Extra("locks in a table of DynamoDB", ("boto3", "botocore", "urllib3")),
    "gcs": Extra(
        "locks in Google Cloud Storage",
        ("google.cloud.storage", "google.auth", "google.api_core", "requests", "urllib3"),
    ),
    "azure": Extra("locks in Azure Blob Storage", ("azure.storage.blob", "azure.core", "requests", "urllib3")),
    "zookeeper": Extra("locks on ZooKeeper", ("kazoo",)),
    "metrics": Extra("a lock's metrics for Prometheus", ("prometheus_client",)),
    "spark": Extra("reports through Spark", ("pyspark", "pandas", "py4j")),
    "originals": Extra("Hudi's own lock", ("jpype",)),
    "containers": Extra("servers in containers", ("docker", "testcontainers")),
}  # fmt: skip
"""By name. Where two bring one module, the first is named to people who did not say what they want to do."""


def install(extra: str) -> str:
    """The line that a user types to get an extra."""
    return f"pip install 'lockref[{extra}]'"


def extra_of(module: str | None) -> str:
    """The extra that brings a module which could not be imported; "" where none does."""
    return next((name for name in EXTRAS if module and _brings(name, module)), "")


def missing_from(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra].modules if not _is_there(name)]


def require(extra: str) -> None:
    """Raise CapabilityMissing if a module of an extra is not installed. Nothing is imported."""
    if missing := missing_from(extra):
        raise CapabilityMissing(f"{EXTRAS[extra].gives} need {missing[0]}, which is not installed: {install(extra)}")


@contextmanager
def naming_the_extra(what: str, *, extra: str = "") -> Iterator[None]:
    """Raise CapabilityMissing for a module of an extra that the block cannot import.

    what: the beginning of the sentence, such as "locks in S3 need". extra: what the block needs, where that is known.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        named = extra if extra and error.name and _brings(extra, error.name) else extra_of(error.name)
        if not named:
            raise
        raise CapabilityMissing(f"{what} {error.name}, which is not installed: {install(named)}") from error


def _brings(extra: str, module: str) -> bool:
    """True also for a package above or below what the extra brings: of `google.cloud.storage` it may be `google`."""
    return any(f"{name}.".startswith(f"{module}.") or module.startswith(f"{name}.") for name in EXTRAS[extra].modules)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # A package above it is missing.
        return False
