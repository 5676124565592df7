"""The executor of a campaign: this machine's processes, or Spark, with our code and the user's lock shipped to it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lockref
from lockref.errors import ConfigError
from lockref.lab.loading import is_installed_code
from lockref.rooms import HOME, MOVABLE
from scenarios.campaign import default_processes
from scenarios.definition.contradictions import foreign_code
from scenarios.executor import Restarted, executor_for

if TYPE_CHECKING:
    from lockref.lab.loading import ProviderSpec
    from scenarios.definition.schema import Scenario
    from scenarios.executor import Executor

LOCAL_TRIES: Final = 4
"""Tries of a piece on Spark, as on a cluster: `local[N]` gives up after the first."""

FILES_MAX: Final = 2_000
SHIPPED_BYTES_MAX: Final = 50_000_000
_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\*|[0-9]+)(?:,[0-9]+)?\])?")
_STORE_SETTINGS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")
"""Variables that executors need for an object store. Credentials are theirs, and are never sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Spark that the user names. master: as Spark writes it. settings: what the user sets besides (`--conf`)."""

    master: str
    settings: Mapping[str, str]

    @property
    def is_local(self) -> bool:
        """Does Spark run in this machine's files, with nothing to ship?"""
        return _LOCAL.fullmatch(self.master) is not None


def cluster_of(master: str, settings: Sequence[str]) -> Cluster:
    """The cluster that the options name. Raises ConfigError."""
    local = _LOCAL.fullmatch(master)
    if local is not None:
        master = f"local[{local['cores'] or 1},{LOCAL_TRIES}]"
    elif not master.startswith(("spark://", "yarn", "k8s://")):
        raise ConfigError(f"--master {master!r}; expected local[N], local[*], spark://host:port, yarn or k8s://…")
    told = {}
    for text in settings:
        name, separator, value = text.partition("=")
        if not separator or not name.startswith("spark."):
            raise ConfigError(f"--conf {text!r}; expected spark.NAME=VALUE")
        told[name] = value
    return Cluster(master=master, settings=told)


def shipped(spec: ProviderSpec, cluster: Cluster | None) -> tuple[ProviderSpec, dict[str, Path]]:
    """The lock as executors load it, and the files that they need for it, by their names in the archive.

    Of a file: itself, what lies beside it, and the packages beside it. Of a module: its package.
    """
    if cluster is None or cluster.is_local or spec.reference is None or is_installed_code(spec.reference):
        return spec, {}
    from reports.spark.shipping import shipped_name

    source, _, name = spec.reference.rpartition(":")
    if source.endswith(".py"):
        path = Path(source)
        files = _sources_beside(path.parent)
        return replace(spec, reference=f"{shipped_name(path.name)}:{name}"), files
    file = getattr(sys.modules.get(source.partition(".")[0]), "__file__", None)
    if file is None:
        return spec, {}
    path = Path(file).resolve()
    if path.name != "__init__.py":
        return spec, {path.name: path}
    return spec, _named(path.parent.rglob("*.py"), path.parent.parent)


def _sources_beside(folder: Path) -> dict[str, Path]:
    packages = [path.parent for path in folder.glob("*/__init__.py")]
    return _named([*folder.glob("*.py"), *(path for each in packages for path in each.rglob("*.py"))], folder)


def _named(paths: Sequence[Path] | Iterator[Path], root: Path) -> dict[str, Path]:
    found = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    if len(found) > FILES_MAX or sum(path.stat().st_size for path in found.values()) > SHIPPED_BYTES_MAX:
        raise ConfigError(
            f"{root} holds more Python files than can be shipped to executors ({len(found):,}): put the lock and what "
            "it imports into a folder of its own"
        )
    return found


@contextmanager
def executor_of(
    cluster: Cluster | None,
    *,
    processes: int | None,
    seeds: int,
    chunks: int,
    files: Mapping[str, Path],
    scenarios: Sequence[Scenario],
    work: Path,
    tell: Callable[[str], None],
) -> Iterator[Executor]:
    """The executor of a command. cluster: None for processes of this machine.

    processes: None for one on each core, where that is faster. files: see `shipped`. work: a folder for what Spark
    writes meanwhile. tell: is told what was lost and runs again.
    Errors: those of `reports.spark.session.spark_session`; ConfigError for a scenario that cannot be shipped.
    """
    if cluster is None:
        yield Restarted(executor_for(processes or default_processes(seeds), chunks), tell)
        return
    from reports.spark.fan_out import SparkExecutor
    from reports.spark.session import ended_by_signals, spark_session, stop

    settings: dict[str, str] = {}
    if not cluster.is_local:
        settings = _shipping(files, scenarios, work)
    with ended_by_signals():
        session = spark_session(work, master=cluster.master, further={**settings, **cluster.settings})
        try:
            yield SparkExecutor(session, tell=tell)
        finally:
            stop()
            # The archive, and what a JVM that was killed has left.
            shutil.rmtree(work, ignore_errors=True)


def _shipping(files: Mapping[str, Path], scenarios: Sequence[Scenario], work: Path) -> dict[str, str]:
    """The Spark settings by which executors of other machines get our code, the lock, and a Python to run it."""
    from reports.spark.shipping import archive, shipping_settings

    for scenario in scenarios:
        for _, strange in foreign_code(scenario):
            raise ConfigError(
                f"{scenario.name}: {strange}, which it names, is not shipped to a cluster; run it with --jobs, or with "
                "--master 'local[*]'"
            )
    work.mkdir(parents=True, exist_ok=True)
    code = [Path(lockref.__file__).resolve().parent, *(HOME / name for name in MOVABLE)]
    settings = shipping_settings(archive(work / "shipped.zip", code, files))
    if python := os.environ.get("PYSPARK_PYTHON"):
        settings["spark.pyspark.python"] = python
    settings |= {f"spark.executorEnv.{name}": os.environ[name] for name in _STORE_SETTINGS if name in os.environ}
    return settings
