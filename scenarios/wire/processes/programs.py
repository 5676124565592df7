"""The processes of the program under test: one for each client, started, stopped, killed and started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from lockref.clouds.uri import cloud_of
from lockref.errors import ConfigError
from lockref.runtime import ThreadRuntime
from lockref.stores.address import StoreAddress
from lockref.stores.endpoints import is_loopback
from scenarios.wire.processes import keeper

_STOP_TIMEOUT_S: Final = 5
_START_TIMEOUT_S: Final = 10
TEMPLATE_BYTES_MAX: Final = 1 << 20
TRUST: Final = (
    "AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "LOCKREF_CA", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE",
)  # fmt: skip
"""What tells SDKs and languages whose certificates count: AWS' SDKs, curl, Node, requests, OpenSSL and Go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of one client: its name and number, the endpoint that is its own, the bucket, and its own folder.

    ca: the certificate that vouches for its endpoint; None where that speaks plain HTTP.
    """

    client: str
    number: int
    endpoint: str
    bucket: str
    folder: Path
    ca: Path | None = None

    def fill(self, text: str) -> str:
        """The text with `{endpoint}`, `{port}`, `{client}`, `{number}`, `{bucket}`, `{folder}` and `{ca}` filled in.

        Other braces stay: templates of configuration files are full of them.
        """
        for name, value in (
            ("endpoint", self.endpoint),
            ("port", str(urlsplit(self.endpoint).port)),
            ("client", self.client),
            ("number", str(self.number)),
            ("bucket", self.bucket),
            ("folder", str(self.folder)),
            ("ca", str(self.ca or "")),
        ):
            text = text.replace(f"{{{name}}}", value)
        return text

    def environment(self, address: StoreAddress) -> dict[str, str]:
        """Our environment, with the variables that lead the SDKs of the clouds to this client's endpoint.

        Credentials of the user's stay; a test server on this machine that nobody has credentials for gets dummies.
        """
        found = dict(os.environ)
        found |= {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            "STORAGE_EMULATOR_HOST": self.endpoint,
            "LOCKREF_ENDPOINT": self.endpoint,
            "LOCKREF_CLIENT": self.client,
            "LOCKREF_BUCKET": self.bucket,
            "LOCKREF_FOLDER": str(self.folder),
        }
        if self.ca is not None:
            found |= dict.fromkeys(TRUST, str(self.ca))
        for name in ("NO_PROXY", "no_proxy"):
            found[name] = ",".join(filter(None, (found.get(name, ""), "127.0.0.1", "localhost")))
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            found.setdefault(name, address.region or "us-east-1")
        if (environment := cloud_of(address).environment) is not None:
            found |= environment(address, self.endpoint)
        if is_loopback(address.endpoint) and "AWS_ACCESS_KEY_ID" not in found and "AWS_PROFILE" not in found:
            found |= {"AWS_ACCESS_KEY_ID": "lockref", "AWS_SECRET_ACCESS_KEY": "lockref-loopback"}
        return found


def find_program(argv: Sequence[str]) -> tuple[str, ...]:
    """The command line with the program's absolute path. Errors: ConfigError if there is no such program."""
    if not argv:
        raise ConfigError("no program is named; write it after `--`, such as `lockref wire … -- ./program --flag`")
    found = shutil.which(argv[0])
    if found is None:
        # Only the name: the other arguments may hold secrets.
        what = "is no file that can be run" if Path(argv[0]).exists() else "was not found"
        raise ConfigError(f"the program {argv[0]!r} {what}; give its path, or a name that is on PATH")
    return (str(Path(found).absolute()), *argv[1:])


def parse_environment(entries: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` entries. Errors: ConfigError for one of another form; its value is not repeated."""
    found: dict[str, str] = {}
    for entry in entries:
        name, separator, value = entry.partition("=")
        if not separator or not name:
            raise ConfigError(f"--env {name!r} is not of the form NAME=VALUE")
        found[name] = value
    return found


def read_templates(paths: Sequence[Path]) -> dict[str, str]:
    """File name to text. Errors: ConfigError for what cannot be read as text, and for two of one name."""
    texts: dict[str, str] = {}
    for path in paths:
        try:
            data = path.read_bytes()
            text = data.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the template {path} cannot be read as text ({type(error).__name__})") from error
        if len(data) > TEMPLATE_BYTES_MAX:
            raise ConfigError(f"the template {path} has {len(data):,} bytes; at most {TEMPLATE_BYTES_MAX:,}")
        if path.name in texts:
            raise ConfigError(f"two templates are called {path.name}; each client has one folder for all of them")
        texts[path.name] = text
    return texts


class Program:
    """The process of one client, again and again.

    argv, templates: with places to be filled in. With templates the program runs in the client's folder.
    exit_codes: of the processes that have ended by themselves.
    """

    def __init__(
        self,
        place: Place,
        argv: Sequence[str],
        *,
        templates: Mapping[str, str],
        environment: Mapping[str, str],
        is_shown: bool,
    ) -> None:
        self.place = place
        self._templates = templates
        self._environment = {name: place.fill(value) for name, value in environment.items()}
        filled = [place.fill(word) for word in argv]
        if templates:
            # The user meant relative paths from the folder in which the command was started.
            filled = [str(Path(word).absolute()) if Path(word).exists() else word for word in filled]
        self._argv = filled
        self._is_shown = is_shown
        self._keeper: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._ended = ThreadRuntime().event()
        self.exit_codes: list[int] = []
        self.is_ended_by_us = False

    def start(self) -> None:
        """Start a new process. The one before must have ended."""
        folder = self.place.folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self._templates.items():
            (folder / name).write_text(self.place.fill(text), encoding="utf-8")
        self.is_ended_by_us = False
        runtime = ThreadRuntime()
        self._ended = runtime.event()
        started = runtime.event()
        child = subprocess.Popen(
            [sys.executable, "-I", keeper.__file__, "show" if self._is_shown else "hide", *self._argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder if self._templates else None,
            env=self._environment,
            start_new_session=True,
        )
        self._keeper = child
        ended = self._ended

        def listen() -> None:
            assert child.stdout is not None, "it was asked for"
            for line in child.stdout:
                word, _, number = line.decode("ascii").strip().partition(" ")
                if word == "started":
                    self._pid = int(number)
                    started.set()
                elif word == "ended":
                    self._pid = 0
                    if not self.is_ended_by_us:
                        self.exit_codes.append(int(number))
            started.set()
            ended.set()

        runtime.spawn(listen, name=f"{self.place.client}-end")
        started.wait(_START_TIMEOUT_S * 10**9)

    @property
    def is_running(self) -> bool:
        return self._keeper is not None and not self._ended.is_set()

    def wait(self, timeout_ns: int) -> bool:
        """True once it has ended."""
        return self._ended.wait(timeout_ns)

    def signal(self, number: int) -> bool:
        """Send a signal to the program and all of its group; False if it has ended."""
        pid = self._pid
        if not pid:
            return False
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return False
        return True

    def ask_to_end(self) -> bool:
        """SIGTERM, so that it may give its lock back as at its own end; False if it has ended before."""
        is_at_work = self.is_running
        self.is_ended_by_us = self.is_ended_by_us or is_at_work
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        return is_at_work

    def kill(self) -> None:
        """End the program at once, with whatever it has started (SIGKILL)."""
        self.is_ended_by_us = True
        self.signal(signal.SIGKILL)

    def stop(self) -> None:
        """End it, and the process that keeps it. Idempotent."""
        if self._keeper is None:
            return
        self.is_ended_by_us = True
        assert self._keeper.stdin is not None, "it was asked for"
        with contextlib.suppress(BrokenPipeError):
            self._keeper.stdin.close()
        try:
            self._keeper.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._keeper.kill()
            self._keeper.wait()
        self._ended.wait(_STOP_TIMEOUT_S * 10**9)
