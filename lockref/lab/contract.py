"""What a stranger's lock says is looked at before it is written down.

The history takes text that is Unicode and numbers of 64 bits. A lock that
answers something else has broken its contract, and must hear of it in a line
that names the lock; deeper inside the same value would look like a defect of
the laboratory. For the same reason `decode_record` may neither raise nor
answer anything but a `RecordView` or None.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from dataclasses import dataclass

from lockref.errors import ConfigError
from lockref.provider import Grant, RecordDecoder, RecordView

_LONG_MAX = 2**63 - 1


def _text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(value: object) -> bool:
    return isinstance(value, int) and -_LONG_MAX <= value <= _LONG_MAX


def _complaint(what: str, owner: object, **numbers: object) -> str | None:
    if not _text(owner):
        return f"{what}.owner is {_shown(owner)}, expected Unicode text"
    for name, value in numbers.items():
        if value is not None and not _number(value):
            return f"{what}.{name} is {_shown(value)}, expected a whole number of 64 bits or None"
    return None


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def require_key(call: str, key: object) -> None:
    """Raises ConfigError for what cannot be the key of an object."""
    if not _text(key) or not key:
        raise ConfigError(f"the lock's {call} was given the key {_shown(key)}, expected text that is not empty")


def require_write(call: str, key: object, body: object, version: object = "-") -> None:
    """Raises ConfigError where a write names no object, no bytes or no version.

    A condition on nothing would be no condition at all: on one store the write
    would be refused, on the next it would replace whatever is there.
    """
    require_key(call, key)
    if not isinstance(body, bytes):
        raise ConfigError(
            f"the lock's {call} was given the body {_shown(body)} ({type(body).__name__}), expected bytes"
        )
    require_version(call, version)


def require_version(call: str, version: object) -> None:
    """Raises ConfigError for what cannot be the version of a reply."""
    if not _text(version) or not version:
        raise ConfigError(f"the lock's {call} was given the version {_shown(version)}, expected the version of a reply")


def screened_yes(call: str, answer: object) -> bool:
    """What `lock`, `try_lock` or `holds` answered. Raises ConfigError for a promise of an answer: it is always true."""
    if isinstance(answer, Awaitable | AsyncIterator | Iterator):
        if isinstance(answer, Coroutine):
            # Nobody will await it, and Python would say so on its own.
            answer.close()
        raise ConfigError(
            f"the lock's {call} answered a {type(answer).__name__}, expected True or False: "
            "it is called as a blocking function, without async or yield"
        )
    return bool(answer)


def screened_grant(grant: object) -> Grant:
    """A lock's `grant`, fit for the record; no grant is one without an owner. Raises ConfigError."""
    if grant is None:
        return Grant(owner="")
    if not isinstance(grant, Grant):
        raise ConfigError(
            f"the lock's grant is {_shown(grant)} ({type(grant).__name__}), expected a lockref.Grant or None"
        )
    complaint = _complaint("grant", grant.owner, token=grant.token)
    if complaint is None and grant.version is not None and not _text(grant.version):
        complaint = f"grant.version is {_shown(grant.version)}, expected the version of a reply, or None"
    if complaint is not None:
        raise ConfigError(f"the lock's {complaint}")
    return grant


@dataclass(frozen=True, slots=True)
class ScreenedDecoder:
    """A lock's own `decode_record`, held to its promises. Raises ConfigError where they are broken.

    A class of its own, so that a spec made in code can be pickled.
    """

    decode: RecordDecoder
    name: str

    def __call__(self, body: bytes) -> RecordView | None:
        try:
            view = self.decode(body)
        except Exception as error:  # A stranger's code may raise anything.
            raise ConfigError(
                f"provider {self.name!r}: decode_record raised {type(error).__name__}: {error}; "
                f"it answers None for what is no record, here {_shown(body)}"
            ) from error
        if view is None:
            return None
        if not isinstance(view, RecordView):
            raise ConfigError(
                f"provider {self.name!r}: decode_record answered {_shown(view)} ({type(view).__name__}), "
                "expected a lockref.RecordView or None"
            )
        complaint = _complaint("record", view.owner, token=view.token, valid_until_ns=view.valid_until_ns)
        if complaint is not None:
            raise ConfigError(f"provider {self.name!r}: decode_record answered a view whose {complaint}")
        return view
