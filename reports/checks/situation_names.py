"""The names of situations: a scenario may demand each of them, and every run's are counted.

Names alone, without the arrays in which `reports.checks.situations` finds them.
"""

from __future__ import annotations

from typing import Final

GRANT: Final = "grant"
COMMIT: Final = "commit"
"""The situation without which a run proves nothing, demanded or not."""

REDELIVERY: Final = "redelivery"

TOKEN: Final = "token"
"""A client was granted the lock with a fencing token: without that, whoever asks for tokens shows nothing."""

UNFENCED: Final = "late_write_without_token"
"""A late write that only a token could have refused, of a lock that shows none: it is counted, and S4 holds."""

STRUCK: Final = "fault"
IDLE: Final = "idle:"
"""Before the kind of a fault: its strikes that changed nothing."""

SITUATIONS: Final[dict[str, str]] = {
    GRANT: "a client became owner",
    TOKEN: "an acquire was granted and returned a fencing token",
    "clients_served": "clients that were granted the lock, each counted once in a run",
    "handoff": "the lock was granted to another client than the time before",
    "denied": "an acquire returned without a grant, in its client's own time",
    "cut_short": "an acquire was not granted by the end of the run, and its client would have waited on",
    "contention": "an acquire met an unended grant of another client, or lost a race for the write",
    "renewal": "a grant was renewed",
    "release": "a grant was released",
    "reentry": "a client gave back one of several entries of the grant that it held",
    "fork": "a process forked while it held, and its child used what it had inherited",
    "takeover_after_expiry": "an unreleased grant was replaced, or removed by another, after its validity or session",
    "resumption": "a client's next process took back the grant of its crashed one before the validity had ended",
    "renewal_race": "a renewal was refused, or another write landed while it was under way",
    "lost_reply_acquire": "a granting write took effect and its author was not told",
    "lost_reply_release": "a releasing write took effect and its author was not told",
    "lost_reply_renew": "a renewing write took effect and its author was not told",
    "unknown_outcome": "a call ended without knowing its outcome",
    "failed_call": "an acquire ended in an error that says that nothing was granted",
    "lost_at_work": "a client was told that its grant was lost before it gave the lock back",
    "paused_holder_resumed": "a holder was paused and ran on",
    "late_write_attempted": "a protected write arrived after its grant had ended",
    "rejected_write": "the resource refused a protected write",
    "effect": "the resource accepted a protected write",
    COMMIT: "a commit to a Delta log was acknowledged",
    REDELIVERY: "a commit was acknowledged whose item a queue had delivered more than once",
    "expired_while_believed": "a client believed at an instant at which its grant was over or lapsed",
    "partition": "the network was cut, and a message was lost by that",
    "clock_fault": "a clock was disturbed while its process ran",
    "crash": "a running process ended at once",
    STRUCK: "a fault struck, of whatever kind, and changed something",
}
"""Situation to what it means. Faults that struck and changed something are counted besides, as `fault:<kind>`."""

NEED_CALLS: Final = frozenset(
    {
        "clients_served", "handoff", "denied", "cut_short", "reentry", "fork", "unknown_outcome",
        "paused_holder_resumed", "expired_while_believed", COMMIT, "rejected_write", TOKEN,
    }
)  # fmt: skip
"""Situations that only a record of calls and their answers shows. Requests alone do not show them."""
