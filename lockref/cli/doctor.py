"""`lockref doctor`: what is installed, what each absence disables, what shadows us, and what a store is worth."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

import lockref
from lockref.cli.console import Console, printable
from lockref.runtime import NS_PER_S

if TYPE_CHECKING:
    from lockref.stores.probe.measured import Measured

STORE_TIMEOUT_NS = 5 * NS_PER_S
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
    """A foreign package called `sim`, `reports` or `scenarios` earlier on the path would run instead of ours."""
    home = Path(lockref.__file__).resolve().parent.parent
    findings = []
    for room in ROOMS:
        spec = importlib.util.find_spec(room)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None:
            findings.append(Inspection(f"package {room}", "wrong", "not found", "the laboratory: reinstall lockref"))
        elif origin.parent.parent != home:
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
    from lockref.java import find_java

    java = find_java()
    if java is None:
        return Inspection(
            "Java", "absent", "none of version 17 or newer", "Spark: reports come from Python alone; Hudi's own class"
        )
    return Inspection("Java", "ok", f"{java.version} ({java.path}, {java.source})")


def _distribution(name: str, disables: str) -> Inspection:
    try:
        return Inspection(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Inspection(name, "absent", "not installed", disables)


def _program(names: tuple[str, ...], label: str, disables: str) -> Inspection:
    path = next((found for name in names if (found := shutil.which(name))), None)
    return Inspection(label, "ok", path) if path else Inspection(label, "absent", "not on PATH", disables)


def _uv() -> Inspection:
    from scenarios.backends.environments import find_uv

    path = find_uv()
    if path is None:
        return Inspection("uv", "absent", "not on PATH", "nothing: real servers install through pip, more slowly")
    return Inspection("uv", "ok", path)


def _docker() -> Inspection:
    from scenarios.backends import docker_engine

    engine = docker_engine()
    if engine is None:
        return Inspection(
            "Docker engine", "absent", "no engine answers", "servers in containers (the same run natively)"
        )
    return Inspection("Docker engine", "ok", engine)


def _credentials() -> list[Inspection]:
    """Presence only: a secret is never shown."""
    aws = "AWS_ACCESS_KEY_ID" in os.environ or (Path.home() / ".aws" / "credentials").exists()
    gcp = "GOOGLE_APPLICATION_CREDENTIALS" in os.environ
    return [
        Inspection(
            "AWS credentials", "ok" if aws else "absent", "present" if aws else "none", "" if aws else "buckets on AWS"
        ),
        Inspection(
            "Google credentials",
            "ok" if gcp else "absent",
            "present" if gcp else "none",
            "" if gcp else "buckets on GCS",
        ),
    ]


def examine() -> list[Inspection]:
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
@click.option(
    "--store", metavar="URI", help="Measure this store as well: which conditions it keeps, alone and in races."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> int:
    """Tell what is installed and what each absence disables.

    \b
    lockref doctor --store 's3://bucket/prefix?endpoint=http://127.0.0.1:9000'

    --store writes small objects below lockref-doctor/ and removes them. It takes some seconds. Exit code 5: the
    store ignored a condition or could not be used, or something that lockref needs is missing.
    """
    console = Console(ctx.obj, as_json=as_json)
    # A store that cannot be used is one error line, not a list with an error behind it.
    measured = _measure(store, console) if store is not None else None
    findings = examine()
    is_well = all(finding.status != "wrong" for finding in findings)
    is_fit = measured is None or not measured.ignored
    if as_json:
        document: dict[str, object] = {
            "ok": is_well and is_fit,
            "findings": [asdict(finding) for finding in findings],
        }
        if measured is not None:
            document["store"] = {"uri": store, "is_fit": is_fit, "measured": measured.facts()}
        console.document(document)
        return 0 if is_well and is_fit else 5
    marks = {"ok": ("✓", "good"), "absent": ("–", "dim"), "wrong": ("✗", "bad")}
    for finding in findings:
        mark, style = marks[finding.status]
        console.say(f"{mark} {finding.name:<22} {printable(finding.found)}", style=style)
        if finding.disables:
            console.say(
                f"    without it: {finding.disables}" if finding.status == "absent" else f"    {finding.disables}"
            )
    console.say("everything needed is there" if is_well else "something must be mended: see ✗ above")
    if measured is not None:
        _say_store(console, str(store), measured)
    return 0 if is_well and is_fit else 5


def _measure(uri: str, console: Console) -> Measured:
    """Errors: ConfigError for a bad URI; BackendUnavailable if the store does not answer."""
    from lockref.stores.probe.selftest import RACERS_THOROUGH, RACES_NS_THOROUGH, ROUNDS_THOROUGH, measure
    from lockref.stores.uri import open_store, parse_store_uri

    address = str(parse_store_uri(uri))
    console.progress(f"measuring {address}", force=True)
    with closing(open_store(uri, request_timeout_ns=STORE_TIMEOUT_NS, pool_size=RACERS_THOROUGH)) as store:
        return measure(
            store,
            "lockref-doctor",
            address=address,
            racers=RACERS_THOROUGH,
            rounds=ROUNDS_THOROUGH,
            races_ns=RACES_NS_THOROUGH,
        )


def _say_store(console: Console, uri: str, measured: Measured) -> None:
    from lockref.stores.uri import parse_store_uri

    marks = {"kept": ("✓", "good"), "refused": ("–", "dim"), "not_measured": ("–", "dim"), "ignored": ("✗", "bad")}
    console.say(f"the store {printable(str(parse_store_uri(uri)))} — {measured.latency}")
    if measured.credentials:
        console.say(f"– {measured.credentials}", style="dim")
    for status, line in measured.lines():
        mark, style = marks[status]
        console.say(f"{mark} {printable(line)}", style=style)
    for finding in measured.ignored:
        console.say(f"    {finding.condition.clause}: on such a store {finding.condition.harm}")
    if measured.ignored:
        console.say("do not use this store for locks", style="bad")
    else:
        console.say("it kept every condition that it claims to know; that bounds its defects, and proves nothing")
