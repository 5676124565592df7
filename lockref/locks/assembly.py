"""A lease's parts put together: what each kind of lock chooses, and how the chosen parts meet.

A lock of another record (RFC-91's object, Delta Lake's row) chooses other parts; how they know each other is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from lockref.locks.acquisition import Acquisition
from lockref.locks.cell import Cell
from lockref.locks.cleanup import Cleanup
from lockref.locks.client import LeaseClient
from lockref.locks.gate import Gate
from lockref.locks.gated import GatedClient
from lockref.locks.heartbeat import Heartbeat
from lockref.locks.notices import Audit, LossCallback, Notices
from lockref.locks.rules import Rules
from lockref.locks.tenure import Tenure
from lockref.locks.values import ConditionalStore, LeaseTerms, R, Tokens, Writer
from lockref.locks.waiting import Shortcut, Waiting
from lockref.provider import LockListener
from lockref.runtime import MonoNs, Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Generic[R]):
    """The rules, and who makes each part: a class, or a function with the arguments of that class."""

    rules: Rules = field(default_factory=Rules)
    owner: Callable[[Runtime], str]
    cell: Callable[..., Cell[R]] = Cell
    writer: Callable[..., Writer[R]]
    gate: Callable[[Runtime, str], Gate] = Gate
    acquisition: Callable[[LeaseClient[R], int, MonoNs], Acquisition[R]] = Acquisition
    tenure: Callable[..., Tenure[R]] = Tenure
    heartbeat: Callable[..., Heartbeat[R]] = Heartbeat
    cleanup: Callable[..., Cleanup[R]] = Cleanup
    waiting: Callable[[int, int, Runtime], Waiting]
    tokens: Callable[..., Tokens[R]]
    shortcut: Callable[[], Shortcut[R]]


def assemble(
    parts: Parts[R],
    store: ConditionalStore,
    key: str,
    *,
    owner: str,
    serialize: Callable[[R], bytes],
    parse: Callable[..., R],
    terms: LeaseTerms,
    poll_interval_ns: int,
    runtime: Runtime,
    listener: LockListener | None,
    on_loss: LossCallback | None,
    audit: Audit | None = None,
) -> GatedClient[R]:
    """One client's lease on `key`, of these parts. The arguments are those of the parts."""
    waiting, shortcut = parts.waiting(poll_interval_ns, terms.validity_ns, runtime), parts.shortcut()
    notices = Notices(
        key, runtime=runtime, waiting=waiting, shortcut=shortcut, listener=listener, on_loss=on_loss, audit=audit
    )
    rules = parts.rules
    cell = parts.cell(store, key, serialize=serialize, parse=parse, rules=rules, runtime=runtime, notices=notices)
    gate = parts.gate(runtime, key)
    client = LeaseClient(
        cell=cell,
        terms=terms,
        poll_interval_ns=poll_interval_ns,
        writer=parts.writer(owner, terms=terms, rules=rules, runtime=runtime, new_nonce=cell.new_nonce),
        gate=gate,
        cleanup=parts.cleanup(cell, terms=terms, name=f"lockref-{owner[:6]}-cleanup"),
        waiting=waiting,
        tokens=parts.tokens(store, key, new_nonce=cell.new_nonce, on_void=notices.fencing_is_void),
        notices=notices,
        new_acquisition=parts.acquisition,
        new_tenure=parts.tenure,
        new_heartbeat=parts.heartbeat,
    )
    return GatedClient(client, gate)
