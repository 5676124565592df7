"""The place of a campaign's files: a folder that all executors see, or a prefix in an object store.

Every file appears whole or not at all, under a name that its content decides: who writes one twice writes the same
again. So a place needs no lock and no order of writers.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from lockref.atomic_files import write_atomically
from lockref.errors import BackendUnavailable, ConfigError, quote

if TYPE_CHECKING:
    from pyarrow import fs

OBJECT_SCHEMES: Final = ("s3a", "s3")
CONNECT_S: Final = 10.0
REQUEST_S: Final = 60.0
REGION: Final = "us-east-1"


class Place(Protocol):
    """A folder of files by name; a name has `/` between its parts. Each method raises BackendUnavailable or OSError."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole, in the place of an earlier one."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files in one folder of the place, without that of the folder, sorted."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it. Does nothing where there is none."""
        ...

    def below(self, name: str) -> Place:
        """A folder of this place."""
        ...


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """A folder, by its absolute path: executors stand in folders of their own."""

    path: Path

    def write(self, name: str, content: bytes) -> None:
        write_atomically(self.path / name, content)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            raise ConfigError(f"{self.path / name} is a folder; a file belongs there") from None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self.path / folder) if not entry.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def remove(self, name: str) -> None:
        path = self.path / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def below(self, name: str) -> FolderPlace:
        return FolderPlace(self.path / name)

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """A prefix in a bucket. The address and the credentials are those of the process (`AWS_…`), not of this value.

    prefix: `bucket/key`, without a `/` at its end.
    """

    prefix: str

    def write(self, name: str, content: bytes) -> None:
        # An object is there when its upload is closed, and whole.
        with self._told(name), _bucket().open_output_stream(f"{self.prefix}/{name}") as stream:
            stream.write(content)

    def read(self, name: str) -> bytes | None:
        with self._told(name):
            try:
                with _bucket().open_input_stream(f"{self.prefix}/{name}") as stream:
                    content: bytes = stream.read()
                    return content
            except FileNotFoundError:
                return None

    def names(self, folder: str) -> list[str]:
        from pyarrow import fs

        with self._told(folder):
            found = _bucket().get_file_info(fs.FileSelector(f"{self.prefix}/{folder}", allow_not_found=True))
        return sorted(info.base_name for info in found)

    def remove(self, name: str) -> None:
        from pyarrow import fs

        with self._told(name), suppress(FileNotFoundError):
            path = f"{self.prefix}/{name}"
            if _bucket().get_file_info(path).type == fs.FileType.Directory:
                _bucket().delete_dir(path)
            else:
                _bucket().delete_file(path)

    def below(self, name: str) -> ObjectPlace:
        return ObjectPlace(f"{self.prefix}/{name}")

    def __str__(self) -> str:
        return f"s3a://{self.prefix}"

    def _told(self, name: str) -> _RefusalsNamed:
        return _RefusalsNamed(f"{self}/{name}")


@dataclass(frozen=True, slots=True)
class _RefusalsNamed:
    """Errors of the object store in the block become BackendUnavailable with the object's name."""

    what: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            reason = str(error).splitlines()[0][:300]
            raise BackendUnavailable(f"{self.what}: the object store refused: {reason}") from error


def bucket_address() -> str:
    """The address of the object store, as the environment says; "" for the cloud's own."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def bucket_region() -> str:
    """The region of the object store, as the environment says; else `REGION`."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION


def _bucket() -> fs.FileSystem:
    from pyarrow import fs

    address = bucket_address()
    options: dict[str, object] = {}
    if address:
        parts = urlsplit(address)
        options = {"scheme": parts.scheme or "https", "endpoint_override": parts.netloc or parts.path}
    return fs.S3FileSystem(
        region=bucket_region(),
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        **options,
    )


def place_of(text: str, what: str = "--out") -> Place:
    """The place that a user names: a folder, or `s3a://bucket/prefix`.

    what: the option or argument that named it, for the message. Raises ConfigError.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return FolderPlace(Path(text).resolve())
    if scheme not in OBJECT_SCHEMES:
        known = " or ".join(f"{name}://bucket/prefix" for name in OBJECT_SCHEMES)
        raise ConfigError(f"{what} {quote(text)}: expected a folder, or {known}")
    prefix = rest.strip("/")
    bucket, _, key = prefix.partition("/")
    if not bucket or not key:
        raise ConfigError(f"{what} {quote(text)}: expected {scheme}://bucket/prefix")
    return ObjectPlace(prefix)
