"""What a stranger's lock says is looked at before it is written down."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

from lockref.errors import ConfigError
from lockref.lab.contract import CheckedDecoder, CheckedStateDecoder, OneRecord, checked_grant, checked_yes
from lockref.provider import Grant, LockView, RecordView
from lockref.runtime import WallNs
from lockref.stores.arguments import quote
from lockref.stores.port import Version


def test_sound_grants_pass() -> None:
    """A grant is handed on as it is; none is one without an owner."""
    grant = Grant(owner="mé", token=2**63 - 1, version=Version("v"))
    assert checked_grant(grant) is grant
    assert checked_grant(None) == Grant(owner="")


@pytest.mark.parametrize(
    ("grant", "words"),
    [
        (("me", 1), "tuple"),
        (Grant(owner=17), "grant.owner is 17"),  # type: ignore[arg-type]
        (Grant(owner="\ud800"), "expected Unicode text"),
        (Grant(owner="me", token="7"), "grant.token is '7'"),  # type: ignore[arg-type]
        (Grant(owner="me", token=2**63), "64 bits"),
        (Grant(owner="me", token=-(2**63)), "64 bits"),
        (Grant(owner="me", version=3.5), "grant.version is 3.5"),  # type: ignore[arg-type]
    ],
)
def test_a_grant_that_no_history_can_hold_is_the_locks_fault(grant: Any, words: str) -> None:
    """One line instead of a failure deep inside the recorder."""
    with pytest.raises(ConfigError, match=words):
        checked_grant(grant)


def view(body: bytes) -> Any:
    return {
        b"none": None,
        b"dict": {"owner": "x"},
        b"owner": RecordView(owner=None),  # type: ignore[arg-type]
        b"token": RecordView(owner="x", token=1.5),  # type: ignore[arg-type]
        b"until": RecordView(owner="x", valid_until_ns=2**70),  # type: ignore[arg-type]
        b"good": RecordView(owner="x", token=1),
    }[body]


def test_a_decoder_that_keeps_its_promises_is_not_noticed() -> None:
    """None and a RecordView pass, also through a pickle, as a spec for another process needs."""
    decode = pickle.loads(pickle.dumps(CheckedDecoder(view, "mine")))
    assert decode("key", b"none") == ()
    assert decode("key", b"good") == (LockView(owner="x", token=1),)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"other", "raised KeyError"),
        (b"dict", "dict"),
        (b"owner", "record.owner is None"),
        (b"token", "record.token is 1.5"),
        (b"until", "record.valid_until_ns"),
    ],
)
def test_a_decoder_that_breaks_them_is_named(body: bytes, words: str) -> None:
    """`decode_record` never raises and answers a RecordView or None."""
    with pytest.raises(ConfigError, match=f"provider 'mine': decode_record .*{words}"):
        CheckedDecoder(view, "mine")("key", body)


def views(key: str, body: bytes) -> Any:
    return {
        b"none": [],
        b"view": LockView(owner="x"),
        b"record": [RecordView(owner="x")],
        b"text": "LockView",
        b"owner": [LockView(owner=None)],  # type: ignore[arg-type]
        b"lock": [LockView(owner="x", lock="\ud800")],
        b"duration": [LockView(owner="x", duration_ns=1.5)],  # type: ignore[arg-type]
        b"twice": [LockView(owner="x", lock="a"), LockView(owner="y", lock="a")],
        b"good": [LockView(owner="x", lock=f"{key}/a", duration_ns=5), LockView(owner="y", lock="b", token=1)],
    }[body]


def test_a_state_may_tell_of_several_locks() -> None:
    """`decode_state` answers a view for each, in its own order, also through a pickle."""
    decode = pickle.loads(pickle.dumps(CheckedStateDecoder(views, "mine")))
    assert decode("key", b"none") == ()
    assert decode("key", b"good") == (
        LockView(owner="x", lock="key/a", duration_ns=5),
        LockView(owner="y", lock="b", token=1),
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"other", "raised KeyError"),
        (b"view", "expected a list"),
        (b"text", "expected a list"),
        (b"record", "RecordView"),
        (b"owner", "view.owner is None"),
        (b"lock", "view.lock is"),
        (b"duration", "view.duration_ns is 1.5"),
        (b"twice", "two views of one lock"),
    ],
)
def test_a_state_decoder_that_breaks_its_promises_is_named(body: bytes, words: str) -> None:
    """`decode_state` never raises and answers a list of LockView, one for each lock."""
    with pytest.raises(ConfigError, match=f"provider 'mine': decode_state .*{words}"):
        CheckedStateDecoder(views, "mine")("key", body)


def test_what_is_called_without_await_is_no_answer() -> None:
    """A coroutine, a generator and an async generator are true, whatever they would have said."""

    async def later() -> bool:
        return False

    async def one_by_one() -> Any:
        yield False

    coroutine = later()
    for answer, kind in ((coroutine, "coroutine"), (one_by_one(), "async_generator"), (iter([False]), "list_iterator")):
        with pytest.raises(ConfigError, match=f"the lock's try_lock answered a {kind}"):
            checked_yes("try_lock", answer)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED, "nobody will await it"
    assert (checked_yes("holds", 1), checked_yes("holds", None)) == (True, False)


def test_a_message_shows_a_value_in_sixty_characters() -> None:
    """A lock's record may be large; the line that names it stays one."""
    assert quote("x" * 58) == repr("x" * 58)
    assert quote("x" * 59) == repr("x" * 59)[:57] + "..."


def test_one_record_is_one_view_with_all_that_it_says() -> None:
    """Objects of one lock each: the view of interface version 1 becomes one of the list, under the object's name."""
    said = RecordView(owner="x", token=3, valid_until_ns=WallNs(5), is_released=True, nonce="n")
    assert OneRecord(lambda _body: said)("key", b"") == (
        LockView(owner="x", token=3, valid_until_ns=WallNs(5), is_released=True, nonce="n"),
    )
    assert OneRecord(lambda _body: None)("key", b"") == ()
