"""The arguments that a lock may hand to a store: keys are text, bodies are bytes, versions are versions.

Anything else is the lock's mistake: ConfigError, in a line that names the call.
"""

from __future__ import annotations

from lockref.errors import ConfigError
from lockref.words import IF_ABSENT


def is_text(value: object) -> bool:
    """True for text that the history can hold: a half surrogate pair is none."""
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def quote(value: object) -> str:
    """The value for a message, in at most 60 characters."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def require_key(call: str, key: object) -> None:
    """Raises ConfigError for what cannot be the key of an object."""
    if key.__class__ is str and key and key.isascii():
        # What nearly every key is.
        return
    if not is_text(key) or not key:
        raise ConfigError(f"the lock's {call} was given the key {quote(key)}, expected text that is not empty")


def require_write(call: str, key: object, body: object, version: object = "-") -> None:
    """Raises ConfigError where a write names no object, no bytes or no version.

    A condition on nothing would be no condition at all: on one store the write
    would be refused, on the next it would replace whatever is there.
    """
    require_key(call, key)
    if not isinstance(body, bytes):
        raise ConfigError(f"the lock's {call} was given the body {quote(body)} ({type(body).__name__}), expected bytes")
    require_version(call, version)


def require_version(call: str, version: object) -> None:
    """Raises ConfigError for what cannot be the version of a reply."""
    if version.__class__ is str and version and version != IF_ABSENT and version.isascii():
        # What nearly every version is.
        return
    if not is_text(version) or not version or version == IF_ABSENT:
        raise ConfigError(f"the lock's {call} was given the version {quote(version)}, expected the version of a reply")
