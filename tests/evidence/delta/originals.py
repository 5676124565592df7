"""Which originals, in which version, and the environment of each, built once.

Old `deltalake` wheels carry the crate dynamodb_lock as it was released. Which version of it is in which wheel, and what
is wrong with it, is the reason for this list. Their pins need an old numpy and an old pyarrow, so each has an
environment of its own, kept like those of the servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable, ConfigError, did_you_mean
from scenarios.backends.environments import ensure_environment, find_python
from scenarios.backends.pins import Packages

PACKAGE_LISTS: Final = Path(__file__).parents[1] / "package_lists"
"""What is in the environment of each original, with digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A released program. role: what it is here for."""

    name: str
    role: str
    packages: Packages

    def python(self) -> Path:
        """The Python of its environment, which is built on first use.

        Errors: BackendUnavailable if this machine has no Python for it, or the packages cannot be had.
        """
        packages = self.packages
        interpreter = find_python(packages.python_min, packages.python_max)
        if interpreter is None:
            oldest, newest = (".".join(map(str, each)) for each in (packages.python_min, packages.python_max))
            raise BackendUnavailable(f"{self.name} {packages.version} needs Python {oldest} to {newest}; install one")
        return ensure_environment(self, packages, interpreter) / "python"


def _deltalake(version: str, role: str, *, beside: tuple[str, ...], python_max: tuple[int, int]) -> Original:
    packages = Packages(
        version=version,
        requirements=(f"deltalake=={version}", *beside),
        python_min=(3, 11),
        python_max=python_max,
        listed_in=PACKAGE_LISTS,
    )
    return Original(name="deltalake", role=role, packages=packages)


_OLD_ARROW: Final = ("numpy<2", "pyarrow==14.0.2")

ORIGINALS: Final[dict[str, Original]] = {
    "0.13.0": _deltalake("0.13.0", "dynamodb_lock 0.4.3: the lock that works", beside=_OLD_ARROW, python_max=(3, 12)),
    "0.14.0": _deltalake(
        "0.14.0", "dynamodb_lock 0.6.0: a dead holder's lease never ends (B1)", beside=_OLD_ARROW, python_max=(3, 12)
    ),
    "1.2.1": _deltalake("1.2.1", "the helping log store: a row in DynamoDB decides", beside=(), python_max=(3, 13)),
    "1.6.6": _deltalake("1.6.6", "no lock: conditional put", beside=(), python_max=(3, 14)),
    "python_dynamodb_lock": Original(
        name="python-dynamodb-lock",
        role="a Python port of the Java client: its danger state (B15)",
        packages=Packages(
            version="0.9.1",
            requirements=("python-dynamodb-lock==0.9.1",),
            python_min=(3, 11),
            listed_in=PACKAGE_LISTS,
        ),
    ),
}
"""Every original, by the name that commands take."""


def find_original(name: str) -> Original:
    """Errors: ConfigError for an unknown name, with the nearest one."""
    original = ORIGINALS.get(name)
    if original is None:
        raise ConfigError(
            f"the original {name!r} is not known; expected one of {', '.join(ORIGINALS)}."
            f"{did_you_mean(name, [*ORIGINALS])}"
        )
    return original


def in_its_python(original: str, script: Path) -> list[str]:
    """The command that runs `script` in the environment of an original, by its name in `ORIGINALS`.

    Errors: BackendUnavailable if the environment cannot be had.
    """
    return [str(find_original(original).python()), "-I", str(script)]
