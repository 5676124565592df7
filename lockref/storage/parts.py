"""What the hardened lock is made of, and how a variant of it is made.

A variant replaces one part, and is loaded by its name like any lock:

    class Forgetful(StorageLock):
        parts = replace(StorageLock.parts, cell=ForgetfulCell)

    class Bold(StorageLock):
        parts = replace(StorageLock.parts, rules=Rules(deadline_after=no_margin))
"""

from __future__ import annotations

from lockref.errors import ConfigError
from lockref.locks.adaptive_waiting import AdaptiveWaiting
from lockref.locks.assembly import Parts
from lockref.locks.fence import FenceMark
from lockref.locks.returning import ReturningAcquisition
from lockref.locks.shortcut import RememberedVersion
from lockref.runtime import Runtime
from lockref.storage.lockfile import owner_id
from lockref.storage.writer import LockFileWriter


def new_owner(runtime: Runtime) -> str:
    """An owner that nobody else has: a random UUID, as Hudi's (H22)."""
    return owner_id(runtime.token_bytes(16))


RFC91 = Parts(
    owner=new_owner,
    writer=LockFileWriter,
    acquisition=ReturningAcquisition,
    waiting=AdaptiveWaiting,
    tokens=FenceMark,
    shortcut=RememberedVersion,
)
"""The parts of the hardened lock."""


FORMER_STEPS = frozenset(
    {
        "_acquire",
        "_acquire_write",
        "_answer_without_grant",
        "_attempt",
        "_backoff_ns",
        "_become_user",
        "_check_left_behind",
        "_check_process",
        "_check_usable",
        "_clean_up",
        "_contend",
        "_deadline",
        "_decide",
        "_disown",
        "_end_use",
        "_extend",
        "_give_back",
        "_grant",
        "_grant_of",
        "_interpret",
        "_is_in_force",
        "_is_in_time",
        "_is_over",
        "_leave",
        "_leave_one_level",
        "_look",
        "_lose",
        "_loss_error",
        "_metric",
        "_new_attempt",
        "_new_nonce",
        "_new_renewal",
        "_next_token",
        "_note",
        "_now",
        "_pass",
        "_poll_pause_ns",
        "_re_enter",
        "_read",
        "_read_or_none",
        "_release",
        "_release_budget_ns",
        "_release_write",
        "_remaining_ns",
        "_renew",
        "_renew_write",
        "_reserve",
        "_resolve_renewal",
        "_retry_renewal_ns",
        "_settle",
        "_start_cleanup",
        "_step_back",
        "_stop_contending",
        "_supersede",
        "_take_left_behind",
        "_tell",
        "_try_to_undo",
        "_undo",
        "_unlapsed",
        "_withdraw",
        "_write",
    }
)
"""What a variant could override while the lock was one class of many steps. Nothing calls these any more."""


def refuse_former_steps(variant: type) -> None:
    """Raise ConfigError for a variant of the old form: it would run as the unbroken lock, and be called safe."""
    overridden = sorted(FORMER_STEPS.intersection(vars(variant)))
    if overridden:
        raise ConfigError(
            f"{variant.__name__} overrides {', '.join(overridden)} of StorageLock, which nothing calls any more: "
            "replace a part of the lock instead (docs/bring-your-own-lock.md, 'Starting from the reference')"
        )
