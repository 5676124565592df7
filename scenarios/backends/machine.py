"""The equipment of this machine, and what each absence disables.

Nothing is started, installed, or contacted over a network.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import lockref
from lockref.clouds.azure.account import CONNECTION_STRING, KEY, SAS
from lockref.extras import install
from lockref.java import find_java
from lockref.rooms import HOME, MOVABLE
from scenarios.backends.docker import docker_engine, why_no_engine
from scenarios.backends.environments import find_uv

ROOMS = ("sim", "scenarios", "reports")


@dataclass(frozen=True, slots=True)
class Inspection:
    """One thing looked at. `status` is ok, absent (a lane is off) or wrong (something must be mended)."""

    name: str
    status: str
    found: str
    disables: str = ""


def _python() -> Inspection:
    return Inspection("Python", "ok", f"{platform.python_version()} ({sys.executable})")


def _rooms() -> list[Inspection]:
    """The places of our packages: a foreign one of the same name would run instead of ours."""
    inside = "" if MOVABLE else f"{lockref.__name__}."
    findings = []
    for room in ROOMS:
        spec = importlib.util.find_spec(inside + room)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None:
            findings.append(Inspection(f"package {room}", "wrong", "not found", "the laboratory: reinstall lockref"))
        elif origin.parent.parent != HOME:
            findings.append(
                Inspection(
                    f"package {room}",
                    "wrong",
                    str(origin),
                    f"the laboratory: this is not lockref's `{room}`; install lockref in an environment of its own "
                    "(pipx, uvx) or start it from another folder",
                )
            )
        else:
            findings.append(Inspection(f"package {room}", "ok", str(origin.parent)))
    return findings


def _java() -> Inspection:
    java = find_java()
    if java is None:
        return Inspection(
            "Java", "absent", "none of version 17 or newer", "Spark: reports come from Python alone; Hudi's own class"
        )
    return Inspection("Java", "ok", f"{java.version} ({java.path}, {java.source})")


def _distribution(name: str, extra: str, disables: str) -> Inspection:
    try:
        return Inspection(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Inspection(name, "absent", f"not installed: {install(extra)}", disables)


def _program(names: tuple[str, ...], label: str, disables: str) -> Inspection:
    path = next((found for name in names if (found := shutil.which(name))), None)
    return Inspection(label, "ok", path) if path else Inspection(label, "absent", "not on PATH", disables)


def _uv() -> Inspection:
    path = find_uv()
    if path is None:
        return Inspection("uv", "absent", "not on PATH", "nothing: real servers install through pip, more slowly")
    return Inspection("uv", "ok", path)


def _docker() -> Inspection:
    engine = docker_engine()
    if engine is None:
        return Inspection("Docker engine", "absent", why_no_engine(), "servers in containers (the same run natively)")
    return Inspection("Docker engine", "ok", engine)


def _credentials() -> list[Inspection]:
    """Presence only: a secret is never shown."""
    environment = set(os.environ)
    here = {
        ("AWS", "buckets on AWS"): "AWS_ACCESS_KEY_ID" in environment
        or (Path.home() / ".aws" / "credentials").exists(),
        ("Google", "buckets on GCS"): "GOOGLE_APPLICATION_CREDENTIALS" in environment,
        ("Azure", "containers on Azure"): not environment.isdisjoint((CONNECTION_STRING, *KEY, SAS)),
    }
    return [
        Inspection(f"{cloud} credentials", "ok", "present")
        if is_here
        else Inspection(f"{cloud} credentials", "absent", "none", disables)
        for (cloud, disables), is_here in here.items()
    ]


def examine() -> list[Inspection]:
    """Look at everything; nothing is started, installed or contacted beyond a local socket."""
    return [
        _python(),
        *_rooms(),
        _java(),
        _distribution("pyspark", "spark", "the Spark pipeline: reports come from Python alone"),
        _distribution("boto3", "s3", "S3, and tables of DynamoDB"),
        _distribution("obstore", "obstore", "the second client of S3 (client=obstore)"),
        _distribution("google-cloud-storage", "gcs", "GCS"),
        _distribution("azure-storage-blob", "azure", "Azure"),
        _distribution("kazoo", "zookeeper", "ZooKeeper"),
        _program(("chromium", "chromium-browser", "google-chrome"), "Chromium", "the test that opens the report"),
        _uv(),
        _program(
            ("npm",), "Node with npm", "the servers azurite, for Azure, and dynalite, a second opinion for tables"
        ),
        _docker(),
        *_credentials(),
    ]
