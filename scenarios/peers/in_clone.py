"""Files of the repository that no wheel holds: documents and recordings, which programs beside the originals read."""

from __future__ import annotations

from pathlib import Path

from lockref.errors import ConfigError

_ROOT = Path(__file__).parents[2]


def in_clone(*parts: str) -> Path:
    """The path of a file or folder of the repository; parts: below its root.

    Errors: ConfigError where this package is installed without its repository.
    """
    path = _ROOT.joinpath(*parts)
    if not path.exists():
        raise ConfigError(f"{'/'.join(parts)} is a part of lockref's repository, not of its package: run it in a clone")
    return path
