"""The contract of a lock: each value that a foreign lock gives is checked before it is recorded.

The history takes text that is Unicode and numbers of 64 bits. A lock that
answers something else has broken its contract, and must hear of it in a line
that names the lock; deeper inside the same value would look like a defect of
the laboratory. For the same reason a lock's decoder may neither raise nor
answer anything but views: `decode_record` (interface version 1) a `RecordView`
or None, `decode_state` a sequence of `LockView`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator, Sequence
from dataclasses import dataclass

from lockref.errors import ConfigError
from lockref.provider import Grant, LockView, RecordDecoder, RecordView, StateDecoder
from lockref.stores.arguments import is_text, quote

_LONG_MAX = 2**63 - 1


def _is_number(value: object) -> bool:
    """True for what a column of whole numbers can hold, and for None."""
    return value is None or (isinstance(value, int) and -_LONG_MAX <= value <= _LONG_MAX)


def _complaint(what: str, owner: object, **numbers: object) -> str | None:
    if not is_text(owner):
        return f"{what}.owner is {quote(owner)}, expected Unicode text"
    for name, value in numbers.items():
        if not _is_number(value):
            return f"{what}.{name} is {quote(value)}, expected a whole number of 64 bits or None"
    return None


def checked_yes(call: str, answer: object) -> bool:
    """The answer of `lock`, `try_lock` or `holds`, as a bool.

    Raises ConfigError for a coroutine, which would count as True.
    """
    if answer is True or answer is False:
        # What nearly every lock answers. The check of its type below costs twenty times as much.
        return answer
    if isinstance(answer, Awaitable | AsyncIterator | Iterator):
        if isinstance(answer, Coroutine):
            # Nobody will await it, and Python would say so on its own.
            answer.close()
        raise ConfigError(
            f"the lock's {call} answered a {type(answer).__name__}, expected True or False: "
            "it is called as a blocking function, without async or yield"
        )
    return bool(answer)


def checked_grant(grant: object) -> Grant:
    """A lock's `grant`, fit for the record; no grant is one without an owner. Raises ConfigError."""
    if grant is None:
        return Grant(owner="")
    if not isinstance(grant, Grant):
        raise ConfigError(
            f"the lock's grant is {quote(grant)} ({type(grant).__name__}), expected a lockref.Grant or None"
        )
    complaint = None
    # Checked first: to collect the numbers by their names takes longer than to look at them.
    if not (is_text(grant.owner) and _is_number(grant.token)):
        complaint = _complaint("grant", grant.owner, token=grant.token)
    if complaint is None and grant.version is not None and not is_text(grant.version):
        complaint = f"grant.version is {quote(grant.version)}, expected the version of a reply, or None"
    if complaint is not None:
        raise ConfigError(f"the lock's {complaint}")
    return grant


@dataclass(frozen=True, slots=True)
class OneRecord:
    """The states of objects that hold one lock record each, read by a `RecordDecoder`. A `StateDecoder`.

    A class of its own, as those below, so that a spec made in code can be pickled.
    """

    decode: RecordDecoder

    def __call__(self, _key: str, body: bytes) -> tuple[LockView, ...]:
        return _views_of(self.decode(body))


def _views_of(view: RecordView | None) -> tuple[LockView, ...]:
    if view is None:
        return ()
    return (LockView(view.owner, view.token, "", view.valid_until_ns, None, view.is_released, view.nonce),)


@dataclass(frozen=True, slots=True)
class CheckedDecoder:
    """A lock's own `decode_record`, held to its promises; a `StateDecoder` for locks of interface version 1.

    Raises ConfigError where a promise is broken.
    """

    decode: RecordDecoder
    name: str

    def __call__(self, _key: str, body: bytes) -> tuple[LockView, ...]:
        try:
            view = self.decode(body)
        except Exception as error:  # A stranger's code may raise anything.
            raise _raised(self.name, "decode_record", error, "None", body) from error
        if view is not None and not isinstance(view, RecordView):
            raise ConfigError(
                f"provider {self.name!r}: decode_record answered {quote(view)} ({type(view).__name__}), "
                "expected a lockref.RecordView or None"
            )
        if view is not None and not (
            is_text(view.owner) and _is_number(view.token) and _is_number(view.valid_until_ns)
        ):
            complaint = _complaint("record", view.owner, token=view.token, valid_until_ns=view.valid_until_ns)
            raise ConfigError(f"provider {self.name!r}: decode_record answered a view whose {complaint}")
        return _views_of(view)


@dataclass(frozen=True, slots=True)
class CheckedStateDecoder:
    """A lock's own `decode_state`, held to its promises. Raises ConfigError where they are broken."""

    decode: StateDecoder
    name: str

    def __call__(self, key: str, body: bytes) -> tuple[LockView, ...]:
        try:
            found = self.decode(key, body)
        except Exception as error:  # A stranger's code may raise anything.
            raise _raised(self.name, "decode_state", error, "nothing, ()", body) from error
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            raise self._broken(f"answered {quote(found)} ({type(found).__name__}), expected a list of lockref.LockView")
        views = tuple(found)
        for view in views:
            if not isinstance(view, LockView):
                raise self._broken(f"answered {quote(view)} ({type(view).__name__}) in its list, expected a LockView")
            numbers = {"token": view.token, "valid_until_ns": view.valid_until_ns, "duration_ns": view.duration_ns}
            complaint = _complaint("view", view.owner, **numbers)
            if complaint is None and not is_text(view.lock):
                complaint = f"view.lock is {quote(view.lock)}, expected Unicode text"
            if complaint is not None:
                raise self._broken(f"answered a view whose {complaint}")
        names = [view.lock for view in views]
        if len(set(names)) != len(names):
            raise self._broken(f"answered two views of one lock: {quote(sorted(names))}")
        return views

    def _broken(self, complaint: str) -> ConfigError:
        return ConfigError(f"provider {self.name!r}: decode_state {complaint}")


def _raised(name: str, decoder: str, error: Exception, nothing: str, body: bytes) -> ConfigError:
    return ConfigError(
        f"provider {name!r}: {decoder} raised {type(error).__name__}: {error}; "
        f"it answers {nothing} for what is no record, here {quote(body)}"
    )
