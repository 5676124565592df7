"""Write down, with digests, every package that the environment of a server or an original gets.

Run `python -m tests.evidence.relock` after a change to the pins. A server's
own version is not enough: more than one published version has stopped starting
because a package below it moved on. The files hold for every Python from the
server's oldest on, and for every platform.
"""

from __future__ import annotations

import subprocess
import sys

from lockref.errors import BackendUnavailable
from scenarios.backends.environments import find_uv, lock_file
from scenarios.backends.further import FURTHER
from scenarios.backends.node import resolve
from scenarios.backends.pins import BACKENDS, Named, NodeNative, Packages
from scenarios.wire.plan import FAKETIME, FAKETIME_PACKAGES
from tests.evidence.delta.originals import ORIGINALS
from tests.evidence.tables.environment import PYSPARK
from tests.evidence.wire.programs import ON_THE_WIRE

_TIMEOUT_S = 300


def relock(program: Named, packages: Packages, *, uv: str) -> None:
    """Resolve the requirements of one server or original anew.

    Errors: BackendUnavailable with uv's own words if they do not resolve.
    """
    oldest = ".".join(map(str, packages.python_min))
    done = subprocess.run(
        [
            *(uv, "pip", "compile", "-", "--quiet", "--universal", "--python-version", oldest, "--generate-hashes"),
            *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
            *("--output-file", str(lock_file(program, packages))),
        ],
        input="\n".join(packages.requirements),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise BackendUnavailable(f"resolving the requirements of {program.name} failed:\n{done.stderr}")


def main() -> int:
    """Resolve all of them anew, by uv and npm; 0 if every file was written."""
    uv = find_uv()
    if uv is None:
        raise BackendUnavailable("resolving needs uv; install it and try again")
    for backend in (*BACKENDS.values(), *FURTHER.values()):
        for native in backend.natives:
            if isinstance(native, NodeNative):
                lock_file(backend, native).write_text(resolve(backend.name, native.requirements), encoding="utf-8")
                continue
            relock(backend, native, uv=uv)
    for original in (*ORIGINALS.values(), *ON_THE_WIRE, PYSPARK):
        relock(original, original.packages, uv=uv)
    relock(FAKETIME, FAKETIME_PACKAGES, uv=uv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
