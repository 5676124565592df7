"""The status of a cluster: what an operator sees of it at one moment.

The owner of a lock is the instance whose report under its present session says so. The leader derives the external view
from the reports; the view lags, so a lock whose view differs from the reports is marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lockref.helix.records.messages import STATE_TRANSITION
from lockref.helix.served import SWAP_OUT
from lockref.helix.state_model import DROPPED
from lockref.helix.zombies import silence_ns
from lockref.runtime import NS_PER_S
from lockref.words import counted

READ: Final = "read"
"""The MSG_STATE of a message that a participant of Helix has begun to execute. Ours leave it at `new`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus:
    """The controller that leads. session: "" if LEADER belongs to no session, so that nobody can lead."""

    name: str
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMessage:
    """A message in an instance's folder. age_ns: by the wall clocks of its sender and of this machine; None if the
    message has no time. created_zxid: the transaction that sent it. is_stale: it is for a session that is over.
    """

    id: str
    kind: str
    resource: str = ""
    lock: str = ""
    source: str = ""
    target: str = ""
    state: str = ""
    age_ns: int | None = None
    created_zxid: int = 0
    is_stale: bool = False

    def document(self) -> dict[str, object]:
        return {
            "id": self.id,
            "type": self.kind,
            "resource": self.resource,
            "lock": self.lock,
            "from": self.source,
            "to": self.target,
            "state": self.state,
            "age_seconds": None if self.age_ns is None else round(self.age_ns / NS_PER_S, 3),
            "is_stale": self.is_stale,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A message that waits for long. for_ns: a zombie's silence, or how long the message of a slow instance waits."""

    message: WaitingMessage
    for_ns: int
    is_zombie: bool

    def text(self) -> str:
        """The meaning of the silence, in one sentence."""
        message = self.message
        begun = ", which it has begun to execute" if message.state == READ else ""
        what = f"{message.source}-{message.target} of {message.lock} (message {message.id})"
        waits = f"for {self.for_ns // NS_PER_S} s"
        if self.is_zombie:
            return f"zombie: lives, and has answered no message {waits}; the oldest is {what}{begun}"
        return f"slow: has answered another message since, and {what}{begun} has waited {waits}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """One instance. session: "" if it does not live. is_configured: False for one that lives without configuration.

    disabled_locks: by resource. operation: Helix' operation on it, if one is in force. silence: a message that
    waits for longer than the operator's limit.
    """

    name: str
    host: str = ""
    port: str = ""
    session: str = ""
    is_configured: bool = True
    is_enabled: bool = True
    reason: str = ""
    operation: str = ""
    disabled_locks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    messages: tuple[WaitingMessage, ...] = ()
    owned: tuple[str, ...] = ()
    silence: Silence | None = None

    def notes(self) -> list[str]:
        """The remarks for an operator, most urgent first."""
        notes = [] if self.silence is None else [self.silence.text()]
        if not self.is_configured:
            notes.append("lives, and is not configured" if self.session else "is not configured")
        if self.reason:
            notes.append(f"disabled because: {self.reason}")
        if self.operation:
            result = "nothing is swapped here" if self.operation == SWAP_OUT else "it gets no lock"
            notes.append(f"Helix' operation {self.operation}: {result}")
        notes += [f"not for {', '.join(locks)} of {name}" for name, locks in self.disabled_locks.items()]
        stale = sum(each.is_stale for each in self.messages)
        if stale:
            notes.append(f"{counted(stale, 'message')} for a session that is over")
        return notes

    def document(self) -> dict[str, object]:
        return {
            "name": self.name,
            "host": self.host,
            "port": self.port,
            "is_configured": self.is_configured,
            "is_live": bool(self.session),
            "session": self.session or None,
            "is_enabled": self.is_enabled,
            "disabled_reason": self.reason,
            "operation": self.operation or None,
            "disabled_locks": {name: list(locks) for name, locks in self.disabled_locks.items()},
            "is_zombie": self.silence is not None and self.silence.is_zombie,
            "silence": None if self.silence is None else self.silence.text(),
            "owned": list(self.owned),
            "messages": [each.document() for each in self.messages],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LockStatus:
    """One lock. ideal: what its ideal state says, as text; "" where a rule decides. states: by live instance.

    view: by instance, from EXTERNALVIEW. owners: the instances that report the top state.
    """

    name: str
    ideal: str = ""
    states: Mapping[str, str] = field(default_factory=dict)
    view: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[str, ...] = ()

    @property
    def is_view_current(self) -> bool:
        return {name: state for name, state in self.states.items() if state != DROPPED} == dict(self.view)

    def document(self) -> dict[str, object]:
        return {
            "name": self.name,
            "owners": list(self.owners),
            "ideal_state": self.ideal,
            "current_states": dict(self.states),
            "external_view": dict(self.view),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceStatus:
    """One resource. rule: the name of its rebalancer; "" for none. refusal: why lockref's controller does not drive
    it; "" if it does. replicas: as it is stored.

    per_lock: the most instances that may own one lock; None for any number, or if the model cannot be read. top: the
    state of an owner; "" if the model cannot be read, and then no lock has an owner here.
    """

    name: str
    mode: str
    rule: str
    model: str
    replicas: str
    is_enabled: bool = True
    refusal: str = ""
    per_lock: int | None = None
    top: str = ""
    locks: tuple[LockStatus, ...] = ()

    @property
    def rule_text(self) -> str:
        """The rule by which lockref's controller assigns its locks, in words."""
        return f"the rule {self.rule}" if self.rule else f"its ideal state ({self.mode})"

    @property
    def unowned(self) -> list[str]:
        return [each.name for each in self.locks if not each.owners]

    @property
    def crowded(self) -> list[LockStatus]:
        """The locks with more owners than the state model allows."""
        return [each for each in self.locks if self.per_lock is not None and len(each.owners) > self.per_lock]

    def document(self) -> dict[str, object]:
        return {
            "name": self.name,
            "rebalance_mode": self.mode,
            "rebalancer": self.rule,
            "state_model": self.model,
            "replicas": self.replicas,
            "is_enabled": self.is_enabled,
            "is_driven": not self.refusal,
            "refusal": self.refusal,
            "locks": [each.document() for each in self.locks],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A whole cluster. controller: None if nobody leads. problems: what could not be read, and why.

    pause_reason: as the operator who paused it gave it; empty without one.

    unread: the paths of znodes that hold no record or belong to no session, so that what they say is not known.
    """

    name: str
    controller: ControllerStatus | None
    is_paused: bool
    pause_reason: str = ""
    is_in_maintenance: bool
    instances: tuple[InstanceStatus, ...]
    resources: tuple[ResourceStatus, ...]
    problems: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    reports: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def reporting(self, resource: str) -> list[str]:
        """The live instances that report something of a resource, whether it is configured or not."""
        return list(self.reports.get(resource, ()))

    def document(self) -> dict[str, object]:
        """The document of `--json`."""
        leader = self.controller
        return {
            "cluster": self.name,
            "controller": None if leader is None else {"name": leader.name, "session": leader.session or None},
            "is_paused": self.is_paused,
            "pause_reason": self.pause_reason,
            "is_in_maintenance": self.is_in_maintenance,
            "instances": [each.document() for each in self.instances],
            "resources": [each.document() for each in self.resources],
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReport:
    """The last write of an instance's reports. zxid: its transaction. ago_ns: its age by the wall clocks of the server
    and of this machine; None if the server did not say.
    """

    zxid: int = 0
    ago_ns: int | None = None


def silence_of(messages: Sequence[WaitingMessage], *, reported: LastReport, limit_ns: int) -> Silence | None:
    """The message of a live instance that tells of its silence; None if none has waited for `limit_ns`.

    That is the oldest. An instance that has reported after that one was sent has answered another one since: both are
    numbers of the server, so no clock decides that. It is a zombie where that report, too, is older than the limit.
    Source: `zombies`.
    """
    old = [
        each
        for each in messages
        if each.kind == STATE_TRANSITION and not each.is_stale and each.age_ns is not None and each.age_ns >= limit_ns
    ]
    if not old:
        return None
    oldest = min(old, key=lambda each: (each.created_zxid, each.lock))
    assert oldest.age_ns is not None, "only messages with an age are looked at"
    # A server that does not say when has said just now: nobody is called a zombie by a guess.
    ago_ns = None if reported.zxid < oldest.created_zxid else reported.ago_ns or 0
    silent_ns = silence_ns(oldest.age_ns, ago_ns)
    is_zombie = silent_ns >= limit_ns
    return Silence(message=oldest, for_ns=silent_ns if is_zombie else oldest.age_ns, is_zombie=is_zombie)
