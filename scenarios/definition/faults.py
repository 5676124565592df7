"""Faults as a scenario writes them: times with units, clients by name, values that a seed may draw.

Each kind is a model of its own, so that an unknown key or a missing length is
refused where it stands. `scenarios.definition.fault_plan` turns a fault into the simulator's
own form (`sim.faults.vocabulary`), which is whole numbers only.

A fault strikes at an instant (`at:`, for some kinds `for:`) or when a client
gets somewhere (`when: {client: n1, op: acquire, nth: 1, cut: c2}`). The five
cut points of a request: c0 not sent, c1 sent and not applied, c2 applied and
not answered, c3 answer on its way, c4 answered.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenarios.definition.units import Count, Duration, Probability, Rate, Shift

ClientName = Annotated[str, Field(pattern=r"^n[1-9][0-9]{0,3}$")]
StoreOp = Literal["acquire", "renew", "release", "read", "write", "delete"]
Service = Literal["store", "resource"]
Cut = Literal["c0", "c1", "c2", "c3", "c4"]


class Model(BaseModel):
    """Strict: unknown keys are errors; frozen: a scenario is read by many runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, arbitrary_types_allowed=True)


class When(Model):
    """A place in a client's life instead of an instant: its `nth` request of kind `op`, at cut point `cut`.

    after, before: only requests made in that span count. Locks renew and look as
    often as they like, so the third renewal is no instant; the first one after
    6 s is.
    """

    client: ClientName
    op: StoreOp | None = None
    nth: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    cut: Cut
    service: Service | None = None
    after: Duration | None = None
    before: Duration | None = None


class _Fault(Model):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")] | None = None
    at: Duration | None = None
    when: When | None = None

    @model_validator(mode="after")
    def _strikes_once(self) -> _Fault:
        if self.at is not None and self.when is not None:
            raise ValueError("has both 'at' and 'when'; a fault strikes in one way")
        if self.at is None and self.when is None:
            raise ValueError("needs 'at: 2s' or 'when: {client, op, nth, cut}'")
        return self


class _OfClient(_Fault):
    client: ClientName


class Pause(_OfClient):
    """The whole process stops (`task` names one task instead); requests already sent still land. U2, E8."""

    kind: Literal["pause"]
    for_: Duration = Field(alias="for")
    task: Literal["main", "heartbeat"] | None = None


class Suspend(_OfClient):
    """The machine sleeps: a pause in which its clocks stand still; then the wall clock catches up. H1."""

    kind: Literal["suspend"]
    for_: Duration = Field(alias="for")


class Crash(_OfClient):
    """The process ends at once; `restart_after` starts a new one with nothing remembered. E3."""

    kind: Literal["crash"]
    restart_after: Duration | None = None


class Drift(_OfClient):
    """Both clocks of a process run too fast or too slow, for good or for `for`."""

    kind: Literal["drift"]
    rate: Rate
    for_: Duration | None = Field(default=None, alias="for")


class Offset(_OfClient):
    """The wall clock differs from what it showed, for good or for `for`. U12, E4, E5."""

    kind: Literal["offset"]
    by: Shift
    for_: Duration | None = Field(default=None, alias="for")


class Step(_OfClient):
    """The wall clock jumps, forward or back. E31."""

    kind: Literal["step"]
    by: Shift


class Freeze(_OfClient):
    """Clocks stand still while tasks may run; timers wait, then the wall clock catches up in one step."""

    kind: Literal["freeze"]
    for_: Duration = Field(alias="for")


class Partition(_Fault):
    """Groups that cannot talk to each other; `store` and `resource` are members like clients."""

    kind: Literal["partition"]
    groups: Annotated[list[list[str]], Field(min_length=2, max_length=16)]
    for_: Duration = Field(alias="for")
    one_way: bool = False


class _Filtered(_Fault):
    """Strikes requests from `at` on for `for`: those of `client` and `op`, with `probability`.

    nth: only the n-th of them, and `times` - 1 after it.
    """

    at: Duration | None = None
    for_: Duration | None = Field(default=None, alias="for")
    client: ClientName | None = None
    op: StoreOp | None = None
    service: Service | None = None
    nth: Annotated[int, Field(ge=1)] | None = None
    times: Count | None = None
    probability: Probability = 1.0

    @model_validator(mode="after")
    def _strikes_once(self) -> _Filtered:
        if self.when is not None and (self.at is not None or self.for_ is not None):
            raise ValueError("has both 'at' and 'when'; a fault strikes in one way")
        return self


class LoseRequest(_Filtered):
    """The request never arrives (c1); the caller sees a timeout. E15."""

    kind: Literal["lose_request"]


class LoseReply(_Filtered):
    """The request lands, its answer is lost (c3); the caller sees a timeout. E11-E14."""

    kind: Literal["lose_reply"]


class Delay(_Filtered):
    """The request, or with `direction: reply` its answer, takes longer by `by`."""

    kind: Literal["delay"]
    by: Duration
    direction: Literal["request", "reply"] = "request"


class Duplicate(_Filtered):
    """The request arrives twice, the second time `gap` later."""

    kind: Literal["duplicate"]
    gap: Duration | None = None


class Error(_Filtered):
    """The store answers with `status`, before applying (cut c1) or after (cut c2). E6, E16, E29."""

    kind: Literal["error"]
    status: Literal[403, 409, 412, 429, 500, 501, 502, 503, "reset", "timeout"]
    cut: Literal["c1", "c2"] | None = None


class GhostWrite(_Filtered):
    """The write lands `by` later, long after the caller gave up. E30."""

    kind: Literal["ghost_write"]
    by: Duration


class StaleRead(_Filtered):
    """A read answers with an older state, at most `lag` old."""

    kind: Literal["stale_read"]
    lag: Duration


class HiddenRetry(_Filtered):
    """The SDK resends a write that landed, and reports the 412 of the second. E17."""

    kind: Literal["hidden_retry"]
    gap: Duration | None = None


class IgnoreConditions(_Filtered):
    """The store applies conditional writes whatever their condition. U13."""

    kind: Literal["ignore_conditions"]


class DeleteObject(_Fault):
    """An operator or a lifecycle rule deletes the lock object. U9, E23, E24."""

    kind: Literal["delete_object"]


Body = Annotated[str, Field(max_length=4096)]


class CorruptObject(_Fault):
    """An operator overwrites the lock object with `body`; of several, a seed chooses one. D6, E25.

    charset: how its characters become bytes. In latin-1 each is one byte, so that they need not be UTF-8.
    """

    kind: Literal["corrupt_object"]
    body: Body | Annotated[list[Body], Field(min_length=1, max_length=64)] = "{"
    charset: Literal["utf-8", "latin-1"] = "utf-8"

    @model_validator(mode="after")
    def _has_bytes(self) -> CorruptObject:
        for body in self.bodies:
            try:
                body.encode(self.charset)
            except UnicodeEncodeError:
                raise ValueError(f"has a body with a character that is not in {self.charset}") from None
        return self

    @property
    def bodies(self) -> tuple[str, ...]:
        """What a seed may choose from."""
        return (self.body,) if isinstance(self.body, str) else tuple(self.body)


FaultSpec = Annotated[
    Pause
    | Suspend
    | Crash
    | Drift
    | Offset
    | Step
    | Freeze
    | Partition
    | LoseRequest
    | LoseReply
    | Delay
    | Duplicate
    | Error
    | GhostWrite
    | StaleRead
    | HiddenRetry
    | IgnoreConditions
    | DeleteObject
    | CorruptObject,
    Field(discriminator="kind"),
]

FAULT_KINDS: tuple[str, ...] = tuple(
    str(get_args(fault.model_fields["kind"].annotation)[0]) for fault in get_args(get_args(FaultSpec)[0])
)
"""The kinds that a scenario may name."""
