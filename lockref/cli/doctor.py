"""`lockref doctor`: what is installed, what each absence disables, and what shadows us."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

import lockref
from lockref.cli.console import Console, printable

ROOMS = ("sim", "scenarios", "reports")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `status` is ok, absent (a lane is off) or wrong (something must be mended)."""

    name: str
    status: str
    found: str
    disables: str = ""


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} ({sys.executable})")


def _rooms() -> list[Finding]:
    """A foreign package called `sim`, `reports` or `scenarios` earlier on the path would run instead of ours."""
    home = Path(lockref.__file__).resolve().parent.parent
    findings = []
    for room in ROOMS:
        spec = importlib.util.find_spec(room)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None:
            findings.append(Finding(f"package {room}", "wrong", "not found", "the laboratory: reinstall lockref"))
        elif origin.parent.parent != home:
            findings.append(
                Finding(
                    f"package {room}",
                    "wrong",
                    str(origin),
                    f"the laboratory: this is not lockref's `{room}`; install lockref in an environment of its own "
                    "(pipx, uvx) or start it from another folder",
                )
            )
        else:
            findings.append(Finding(f"package {room}", "ok", str(origin.parent)))
    return findings


def _java() -> Finding:
    from lockref.java import find_java

    java = find_java()
    if java is None:
        return Finding(
            "Java", "absent", "none of version 17 or newer", "Spark: reports come from Python alone; Hudi's own class"
        )
    return Finding("Java", "ok", f"{java.version} ({java.path}, {java.source})")


def _distribution(name: str, disables: str) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "absent", "not installed", disables)


def _program(names: tuple[str, ...], label: str, disables: str) -> Finding:
    path = next((found for name in names if (found := shutil.which(name))), None)
    return Finding(label, "ok", path) if path else Finding(label, "absent", "not on PATH", disables)


def _uv() -> Finding:
    from scenarios.backends.environments import find_uv

    path = find_uv()
    if path is None:
        return Finding("uv", "absent", "not on PATH", "nothing: real servers install through pip, more slowly")
    return Finding("uv", "ok", path)


def _docker() -> Finding:
    from scenarios.backends import docker_engine

    engine = docker_engine()
    if engine is None:
        return Finding("Docker engine", "absent", "no engine answers", "servers in containers (the same run natively)")
    return Finding("Docker engine", "ok", engine)


def _credentials() -> list[Finding]:
    """Presence only: a secret is never shown."""
    aws = "AWS_ACCESS_KEY_ID" in os.environ or (Path.home() / ".aws" / "credentials").exists()
    gcp = "GOOGLE_APPLICATION_CREDENTIALS" in os.environ
    return [
        Finding(
            "AWS credentials", "ok" if aws else "absent", "present" if aws else "none", "" if aws else "buckets on AWS"
        ),
        Finding(
            "Google credentials",
            "ok" if gcp else "absent",
            "present" if gcp else "none",
            "" if gcp else "buckets on GCS",
        ),
    ]


def examine() -> list[Finding]:
    """Look at everything; nothing is started, installed or contacted beyond a local socket."""
    return [
        _python(),
        *_rooms(),
        _java(),
        _distribution("pyspark", "the Spark pipeline: reports come from Python alone"),
        _distribution("boto3", "S3"),
        _distribution("google-cloud-storage", "GCS"),
        _distribution("jpype1", "the comparison with Hudi's own class"),
        _program(("chromium", "chromium-browser", "google-chrome"), "Chromium", "the test that opens the report"),
        _uv(),
        _docker(),
        *_credentials(),
    ]


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> int:
    """Tell what is installed and what each absence disables."""
    console = Console(ctx.obj, as_json=as_json)
    findings = examine()
    is_well = all(finding.status != "wrong" for finding in findings)
    if as_json:
        console.document({"ok": is_well, "findings": [asdict(finding) for finding in findings]})
        return 0 if is_well else 5
    marks = {"ok": ("✓", "good"), "absent": ("–", "dim"), "wrong": ("✗", "bad")}
    for finding in findings:
        mark, style = marks[finding.status]
        console.say(f"{mark} {finding.name:<22} {printable(finding.found)}", style=style)
        if finding.disables:
            console.say(
                f"    without it: {finding.disables}" if finding.status == "absent" else f"    {finding.disables}"
            )
    console.say("everything needed is there" if is_well else "something must be mended: see ✗ above")
    return 0 if is_well else 5
