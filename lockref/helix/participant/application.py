"""The interface between an application and its participant: settings, handlers of transitions, and a listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lockref.helix.records.messages import Message
from lockref.runtime import NS_PER_MS

Handler = Callable[[Message], None]
"""Called for one transition of one lock. It may block. What it raises puts the lock into ERROR."""

Handlers = Mapping[tuple[str, str], Handler]
"""By source and target state. Every declared transition has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantSettings:
    """The settings of a participant. Durations in nanoseconds.

    session_timeout_ns: how long the server waits for it when it is silent. rate_bound_ppm, margin_ns: see
    `Session.safe_until_ns`. fences_itself: it holds by its own clock too; False is the original (Z9, Z10).
    requires_handlers: it does not start with a transition that nobody handles; False is the original (Z8).
    """

    session_timeout_ns: int = 30_000_000_000
    rate_bound_ppm: int = 10_000
    margin_ns: int = 200 * NS_PER_MS
    fences_itself: bool = True
    requires_handlers: bool = True


class Listener:
    """The events that an application is told of. Override the ones that you need; no method may block for long."""

    def granted(self, lock: str, token: int) -> None:
        """The lock is held, and the cluster knows."""

    def revoked(self, lock: str) -> None:
        """The controller takes the lock back. It is not held any more, and not yet given to another."""

    def lost(self, lock: str, reason: str) -> None:
        """The session has ended, or may have ended, while the lock was held. If it lives, `granted` follows again.

        That grant has the same token.
        """

    def alarm(self, text: str) -> None:
        """Something is not as it should be: a message that cannot be read, a handler that failed."""
