"""The executor of a command: this machine's processes, or Spark, with our code and the user's lock shipped to it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lockref
from lockref.cli.jobs.shown.console import printable
from lockref.errors import ConfigError
from lockref.lab.loading import is_installed_code
from lockref.rooms import HOME, MOVABLE
from scenarios.campaign import Cluster, default_processes
from scenarios.campaigns.sheltered import shelter
from scenarios.definition.contradictions import foreign_code
from scenarios.executor import Restarted, executor_for

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.spark.fan_out import SparkExecutor
    from scenarios.definition.schema import Scenario
    from scenarios.executor import Executor

LOCAL_TRIES: Final = 4
"""Tries of a piece on Spark, as on a cluster: `local[N]` gives up after the first."""

FILES_MAX: Final = 2_000
SHIPPED_BYTES_MAX: Final = 50_000_000
_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\*|[0-9]+)(?:,[0-9]+)?\])?")
SPARK_FOLDER: Final = ".spark"
"""The folder of what Spark writes meanwhile, in that of a run."""

_STORE_SETTINGS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")
"""Variables that executors need for an object store. Credentials are theirs, and are never sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAddress:
    """A Spark that the user names. master: as Spark writes it. settings: what the user sets besides (`--conf`)."""

    master: str
    settings: Mapping[str, str]

    @property
    def is_local(self) -> bool:
        """Does Spark run in this machine's files, with nothing to ship?"""
        return _LOCAL.fullmatch(self.master) is not None


def address_of(master: str | None, settings: Sequence[str]) -> SparkAddress | None:
    """The Spark that the options name; None for processes of this machine. Raises ConfigError."""
    if master is None:
        if settings:
            raise ConfigError("--conf sets up Spark; give --master as well")
        return None
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
    return SparkAddress(master=master, settings=told)


def shipped(spec: ProviderSpec, address: SparkAddress | None) -> tuple[ProviderSpec, dict[str, Path]]:
    """The lock as executors load it, and the files that they need for it, by their names in the archive.

    Of a file: itself, what lies beside it, and the packages beside it. Of a module: its package.
    """
    if address is None or address.is_local or spec.reference is None or is_installed_code(spec.reference):
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
    address: SparkAddress | None,
    *,
    processes: int | None,
    seeds: int,
    chunks: int,
    files: Mapping[str, Path],
    work: Path,
    tell: Callable[[str], None],
    apart: bool = False,
) -> Iterator[Executor]:
    """The executor of a campaign. address: None for processes of this machine.

    processes: None for one on each core, where that is faster. files: see `shipped`. work: a folder for what Spark
    writes meanwhile. tell: is told what was lost and runs again. apart: as of `scenarios.executor.executor_for`.
    Errors: those of `reports.spark.session.spark_session`.
    """
    if address is None:
        try:
            yield Restarted(executor_for(processes or default_processes(seeds), chunks, apart=apart), tell)
        finally:
            # The next command in this process may stand in another folder, with another environment.
            shelter().close()
        return
    with _spark(address, files=files, work=work, tell=tell) as executor:
        yield executor


@contextmanager
def cluster_at(
    address: SparkAddress | None,
    specs: Sequence[ProviderSpec],
    *,
    work: Path,
    tell: Callable[[str], None],
) -> Iterator[Cluster | None]:
    """The cluster of a command that runs many campaigns; None for no address. The rest: as of `executor_of`.

    Errors: as of `executor_of`; ConfigError for two locks whose files have one name.
    """
    if address is None:
        yield None
        return
    sent: dict[str, ProviderSpec] = {}
    files: dict[str, Path] = {}
    for spec in specs:
        sent[spec.name], beside = shipped(spec, address)
        if twice := sorted(name for name, path in beside.items() if files.get(name, path) != path):
            raise ConfigError(
                f"{files[twice[0]]} and {beside[twice[0]]} have one name, and are shipped to the same executors: "
                "rename one, or run the locks one by one"
            )
        files |= beside
    with _spark(address, files=files, work=work, tell=tell) as executor:
        yield Cluster(executor=executor, sent=sent, slots=lambda: executor.slots)


@contextmanager
def _spark(
    address: SparkAddress,
    *,
    files: Mapping[str, Path],
    work: Path,
    tell: Callable[[str], None],
) -> Iterator[SparkExecutor]:
    from reports.spark.fan_out import SparkExecutor
    from reports.spark.session import ended_by_signals, spark_session, stop

    settings: dict[str, str] = {}
    if not address.is_local:
        settings = _shipping(files, work)
    with ended_by_signals():
        session = spark_session(work, master=address.master, further={**settings, **address.settings})
        try:
            yield SparkExecutor(session, tell=tell)
        finally:
            stop()
            # The archive, and what a JVM that was killed has left.
            shutil.rmtree(work, ignore_errors=True)


def loss_teller(console: Console, losses: list[str]) -> Callable[[str], None]:
    """Tells the user what was lost and runs again, and adds it to `losses`."""

    def lost(text: str) -> None:
        losses.append(text)
        console.step(printable(text, limit=1000))

    return lost


def expect_shipped(address: SparkAddress | None, scenarios: Iterable[Scenario]) -> None:
    """Raise ConfigError for a scenario that names code of somebody's own: only the lock under test is shipped."""
    if address is None or address.is_local:
        return
    for scenario in scenarios:
        for _, strange in foreign_code(scenario):
            raise ConfigError(
                f"{scenario.name}: {strange}, which it names, is not shipped to a cluster; run it with --jobs, or with "
                "--master 'local[*]'"
            )


def _shipping(files: Mapping[str, Path], work: Path) -> dict[str, str]:
    """The Spark settings by which executors of other machines get our code, the lock, and a Python to run it."""
    from reports.spark.shipping import archive, shipping_settings

    work.mkdir(parents=True, exist_ok=True)
    code = [Path(lockref.__file__).resolve().parent, *(HOME / name for name in MOVABLE)]
    settings = shipping_settings(archive(work / "shipped.zip", code, files))
    if python := os.environ.get("PYSPARK_PYTHON"):
        settings["spark.pyspark.python"] = python
    settings |= {f"spark.executorEnv.{name}": os.environ[name] for name in _STORE_SETTINGS if name in os.environ}
    return settings
