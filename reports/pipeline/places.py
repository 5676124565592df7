"""Places of histories and tables: a path of this machine, or an address as Hadoop writes it (`s3a://…`, `hdfs://…`).

Workers read and write by Arrow's own file systems, in the process that judges, so that no row passes through the JVM.
The settings `fs.s3a.*` of the Spark session apply. `hdfs://` needs Hadoop's libhdfs on the machines that read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from lockref.errors import HistoryUnreadable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3: Final = ("s3", "s3a", "s3n")
_SCHEMES: Final = {
    **dict.fromkeys(_S3, "s3"),
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
    "hdfs": "hdfs",
    "file": "file",
}
_S3A: Final = (
    "fs.s3a.endpoint", "fs.s3a.endpoint.region", "fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token",
    "fs.s3a.connection.ssl.enabled",
)  # fmt: skip

Settings = tuple[tuple[str, str], ...]


def is_address(given: object) -> bool:
    """True for an address with a scheme, such as `s3a://bucket/run`; False for a path."""
    return "://" in str(given)


def hadoop_settings(spark: SparkSession) -> Settings:
    """The settings of a session that say how object stores are reached."""
    context: Any = spark.sparkContext
    known = context._jsc.hadoopConfiguration()  # noqa: SLF001  (no public way to ask)
    return tuple((name, value) for name in _S3A if (value := known.get(name)))


@dataclass(frozen=True, slots=True)
class Place:
    """A file or a folder. Workers get it pickled, with the settings that they need to reach it."""

    address: str
    settings: Settings = ()

    def __repr__(self) -> str:
        return f"Place({self.address})"

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.address.rstrip("/").rpartition("/")[2]

    def beside(self, name: str) -> Place:
        """Another entry of the same folder."""
        return Place(f"{self.address.rstrip('/').rpartition('/')[0]}/{name}", self.settings)

    def below(self, *names: str) -> Place:
        """An entry of this folder."""
        return Place("/".join([self.address.rstrip("/"), *names]), self.settings)

    def files(self) -> list[Place]:
        """Itself if it is a file; of a folder all files below it, by name, but hidden ones; empty where nothing is."""
        system, path = self._resolved()
        found = self._asked(lambda: system.get_file_info(path))
        if found.type == fs.FileType.File:
            return [self]
        if found.type == fs.FileType.NotFound:
            return []
        listed = self._asked(lambda: system.get_file_info(fs.FileSelector(path, recursive=True)))
        inner = sorted(one.path[len(path.rstrip("/")) + 1 :] for one in listed if one.type == fs.FileType.File)
        return [self.below(name) for name in inner if not any(part[0] in "._" for part in name.split("/"))]

    def open(self) -> pa.NativeFile:
        """The bytes of a file, to be read anywhere. Raises HistoryUnreadable."""
        system, path = self._resolved()
        return self._asked(lambda: system.open_input_file(path))

    def write_table(self, table: pa.Table, row_group_size: int | None = None) -> None:
        """A Parquet file here, and the folders above it. Written twice, it is the second one: a task may run again."""
        with self.created() as file:
            pq.write_table(table, file, compression="zstd", row_group_size=row_group_size)

    def created(self) -> IO[bytes]:
        """A new file, in the place of one that was here."""
        system, path = self._resolved()
        self._asked(lambda: system.create_dir(path.rpartition("/")[0], recursive=True))
        opened: IO[bytes] = self._asked(lambda: system.open_output_stream(path))
        return opened

    def removed(self) -> None:
        """Remove a folder and all in it, if it is there."""
        system, path = self._resolved()
        if self._asked(lambda: system.get_file_info(path)).type == fs.FileType.Directory:
            self._asked(lambda: system.delete_dir(path))

    def _resolved(self) -> tuple[Any, str]:
        if not is_address(self.address):
            return fs.LocalFileSystem(), str(Path(self.address).absolute())
        parts = urlsplit(self.address)
        if parts.scheme not in _SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
            raise HistoryUnreadable(f"{self.address}: no reader for {parts.scheme}://; there are {known}, and paths")
        if parts.scheme in _S3:
            system = self._asked(lambda: fs.S3FileSystem(**self._s3_options()))
            return system, f"{parts.netloc}{parts.path}"
        _, rest = self.address.split("://", 1)
        system, path = self._asked(lambda: fs.FileSystem.from_uri(f"{_SCHEMES[parts.scheme]}://{rest}"))
        return system, path

    def _s3_options(self) -> dict[str, Any]:
        known = dict(self.settings)
        endpoint = known.get("fs.s3a.endpoint", "")
        scheme = "http" if known.get("fs.s3a.connection.ssl.enabled") == "false" else "https"
        if is_address(endpoint):
            scheme, _, endpoint = endpoint.partition("://")
        options = {
            "endpoint_override": endpoint,
            "scheme": scheme if endpoint else "",
            "region": known.get("fs.s3a.endpoint.region", ""),
            "access_key": known.get("fs.s3a.access.key", ""),
            "secret_key": known.get("fs.s3a.secret.key", ""),
            "session_token": known.get("fs.s3a.session.token", ""),
        }
        return {name: value for name, value in options.items() if value}

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0][:200]
            raise HistoryUnreadable(f"{self.address} cannot be reached: {reason}") from error
