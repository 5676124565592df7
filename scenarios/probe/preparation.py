"""The requests before the one that carries the condition: an upload that is begun, a source to copy from."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from typing import TYPE_CHECKING

from lockref.clouds.calls import (
    BEGIN_UPLOAD,
    BLOCKS,
    COMPLETE,
    COPY,
    COPYING,
    MULTIPART,
    PART,
    RESUMABLE,
    Answer,
    Call,
    WriteMode,
)
from lockref.words import Outcome

if TYPE_CHECKING:
    from scenarios.probe.session import Session


class ModeRefused(Exception):
    """The store has no such way to write."""


def prepared(session: Session, mode: WriteMode, call: Call) -> Call | Answer:
    """The request that writes `call` in that mode; or the answer, where the condition was refused at the beginning.

    Errors: ModeRefused where the store takes no such upload; Unanswered.
    """
    if mode.name == MULTIPART:
        begun = session.ask(Call(verb=BEGIN_UPLOAD, key=call.key))
        _require(begun, bool(begun.upload))
        session.uploads[call.key, begun.upload] = None
        part = session.ask(Call(verb=PART, key=call.key, upload=begun.upload, body=call.body))
        _require(part, part.is_applied)
        return dataclasses.replace(call, verb=COMPLETE, upload=begun.upload, parts=(part.version,))
    if mode.name == COPYING:
        source = session.key("copied")
        session.make(source, call.body)
        return dataclasses.replace(call, verb=COPY, source=source)
    if mode.name == RESUMABLE:
        begun = session.ask(dataclasses.replace(call, verb=BEGIN_UPLOAD, mode=mode.name))
        if begun.is_refused:
            return begun
        _require(begun, bool(begun.upload))
        # The condition was given at the beginning; the service checks it at the end.
        return dataclasses.replace(call, verb=COMPLETE, upload=begun.upload, mode=mode.name)
    if mode.name == BLOCKS:
        # Blocks of several writers wait beside each other, so each has a name of its own.
        block = base64.b64encode(hashlib.sha256(call.body).digest()[:12]).decode()
        part = session.ask(Call(verb=PART, key=call.key, upload=block, body=call.body))
        _require(part, part.is_applied)
        return dataclasses.replace(call, verb=COMPLETE, parts=(block,))
    return dataclasses.replace(call, mode=mode.name)


def _require(answer: Answer, is_fine: bool) -> None:
    if not is_fine:
        told = "refused as unknown" if answer.outcome is Outcome.REJECTED else "not taken"
        raise ModeRefused(f"{told} ({answer.words})")
