"""The fault vocabulary: every disturbance as plain data, and a plan of them.

Two families. *State faults* change the world at one instant: a pause, a crash,
a partition, a clock, an object in the store. *Request faults* strike requests
that pass a filter: lost, delayed, answered wrongly. Either begins at `at_ns`
(true time) or at a trigger, `when`: the n-th request of one kind by one client
at one of the five cut points

    c0 not sent | c1 sent, not applied | c2 applied, reply not sent |
    c3 reply in flight | c4 reply delivered

so that "pause between PUT applied and reply" (E9) is `cut: c2`, and "pause
between timestamp and PUT" (E10) is `cut: c0`: the lock has computed its record
but the request has not left. A plan is stored with a failure and survives
edits that move random draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from lockref.errors import ConfigError, did_you_mean

PLAN_FORMAT: Literal[1] = 1
"""Written into every plan; another number is refused."""

CUTS = ("c0", "c1", "c2", "c3", "c4")
Cut = Literal["c0", "c1", "c2", "c3", "c4"]
HeldTasks = Literal["main", "heartbeat"]
"""Whose tasks a pause holds: the client's own ones, or those that its lock started."""
RequestOp = Literal["acquire", "renew", "release", "read", "write", "delete"]

_Duration = Annotated[int, Field(ge=0, le=2**60)]
_Instant = Annotated[int, Field(ge=0, le=2**60)]
_Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
_Shift = Annotated[int, Field(ge=-(2**60), le=2**60)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_bytes="base64", val_json_bytes="base64")


class Trigger(_Model):
    """A place in a client's life: its `nth` request of kind `op` to `service`, at cut point `cut`.

    op None: any; service None: any. Counting starts with the run and goes on
    through restarts. after_ns, before_ns: only requests that are made from
    then on, or before then, in true time, are counted at all.
    """

    client: str
    op: RequestOp | None = None
    nth: _Count = 1
    cut: Cut = "c0"
    service: str | None = None
    after_ns: _Instant | None = None
    before_ns: _Instant | None = None

    @property
    def has_window(self) -> bool:
        return self.after_ns is not None or self.before_ns is not None

    def is_open(self, now_ns: int) -> bool:
        """True if a request that is made now counts."""
        return (self.after_ns or 0) <= now_ns and (self.before_ns is None or now_ns < self.before_ns)


class Fault(_Model):
    """What all faults share: a stable id, a kind, and when to begin."""

    is_request_fault: ClassVar[bool] = False

    id: Annotated[str, Field(min_length=1, max_length=64)]
    at_ns: _Instant | None = None
    when: Trigger | None = None

    @property
    def target(self) -> str:
        """Whom the fault is about, for messages and FAULT rows."""
        return str(getattr(self, "client", None) or "")

    @property
    def length_ns(self) -> int | None:
        """How long it lasts once begun; None where it has no end or no length."""
        length: int | None = getattr(self, "for_ns", None)
        return length


class StateFault(Fault):
    """Changes the world once, at `at_ns` or at the trigger."""

    @model_validator(mode="after")
    def _begins_once(self) -> StateFault:
        if (self.at_ns is None) == (self.when is None):
            raise ValueError("needs exactly one of 'at_ns' and 'when'")
        return self


class Pause(StateFault):
    """No task of the process runs for `for_ns`; requests already sent still land (U2, E8).

    task: "heartbeat" holds only what the lock started through its runtime,
    whatever it calls it; "main" only the client's own tasks.
    """

    kind: Literal["pause"] = "pause"
    client: str
    for_ns: _Duration
    task: HeldTasks | None = None


class Suspend(StateFault):
    """The machine sleeps: the process is paused and its clocks freeze; the wall then catches up (H1)."""

    kind: Literal["suspend"] = "suspend"
    client: str
    for_ns: _Duration


class Crash(StateFault):
    """The process ends at once; `restart_after_ns` later a new one, with a new identity, repeats its work (E3)."""

    kind: Literal["crash"] = "crash"
    client: str
    restart_after_ns: _Duration | None = None


class Partition(StateFault):
    """Groups that cannot reach each other, for `for_ns`. Services are members by name, like clients.

    one_way: only messages from the first group to the others are lost.
    A message is cut when it departs; what is in flight still lands.
    """

    kind: Literal["partition"] = "partition"
    groups: Annotated[tuple[tuple[str, ...], ...], Field(min_length=2)]
    for_ns: _Duration
    one_way: bool = False

    @model_validator(mode="after")
    def _groups_are_apart(self) -> Partition:
        names = [name for group in self.groups for name in group]
        if len(names) != len(set(names)):
            raise ValueError("groups share a member; each name belongs to one group")
        return self

    @property
    def target(self) -> str:
        return self.groups[0][0] if self.groups[0] else ""


class Drift(StateFault):
    """Both clocks run `rate_ppm` too fast; for good, or for `for_ns`."""

    kind: Literal["drift"] = "drift"
    client: str
    rate_ppm: Annotated[int, Field(gt=-1_000_000, lt=1_000_000)]
    for_ns: _Duration | None = None


class Offset(StateFault):
    """The wall clock is `by_ns` ahead of what it showed; for good, or for `for_ns` (U12, E4, E5)."""

    kind: Literal["offset"] = "offset"
    client: str
    by_ns: _Shift
    for_ns: _Duration | None = None


class Step(StateFault):
    """The wall clock jumps by `by_ns` (E31)."""

    kind: Literal["step"] = "step"
    client: str
    by_ns: _Shift


class Freeze(StateFault):
    """The clocks stand still for `for_ns` while tasks may run; timers wait, then the wall catches up in one step."""

    kind: Literal["freeze"] = "freeze"
    client: str
    for_ns: _Duration


class DeleteObject(StateFault):
    """An operator or a lifecycle rule deletes an object; key None: every lock record (U9, E23, E24)."""

    kind: Literal["delete_object"] = "delete_object"
    key: str | None = None
    service: str = "store"

    @property
    def target(self) -> str:
        return self.service


class CorruptObject(StateFault):
    """An operator overwrites an object with `body`; key None: every lock record (D6, E25)."""

    kind: Literal["corrupt_object"] = "corrupt_object"
    key: str | None = None
    body: Annotated[bytes, Field(max_length=65_536)] = b"{"
    service: str = "store"

    @property
    def target(self) -> str:
        return self.service


class RequestFault(Fault):
    """Strikes requests. With `when`, exactly the one it names; else all that pass the filter.

    client, op, service: None passes any. at_ns: the filter opens then (None:
    from the start); for_ns: and closes after that long (None: never). nth: only
    the n-th request that passes, and `times` - 1 after it. probability: of each
    request that got so far.
    """

    is_request_fault: ClassVar[bool] = True

    client: str | None = None
    op: RequestOp | None = None
    service: str | None = None
    for_ns: _Duration | None = None
    nth: _Count | None = None
    times: _Count | None = None
    probability: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0

    @model_validator(mode="after")
    def _strikes_in_one_way(self) -> RequestFault:
        if self.when is not None and (
            self.at_ns is not None or self.for_ns is not None or self.nth is not None or self.times is not None
        ):
            raise ValueError("has 'when', which names one request; 'at_ns', 'for_ns', 'nth' and 'times' do not apply")
        return self

    @property
    def target(self) -> str:
        return self.client or (self.when.client if self.when else "")

    @property
    def is_endless(self) -> bool:
        """True if nothing in the fault itself bounds how long it strikes."""
        return self.when is None and self.for_ns is None and self.nth is None and self.times is None


class LoseRequest(RequestFault):
    """The request never arrives (c1); the caller sees a timeout (E15)."""

    kind: Literal["lose_request"] = "lose_request"


class LoseReply(RequestFault):
    """The request is applied, its reply lost (c3); the caller sees a timeout (E11 to E14)."""

    kind: Literal["lose_reply"] = "lose_reply"


class Delay(RequestFault):
    """The request, or with direction "reply" its answer, takes `by_ns` longer."""

    kind: Literal["delay"] = "delay"
    by_ns: _Duration
    direction: Literal["request", "reply"] = "request"


class Duplicate(RequestFault):
    """The network delivers the request again `gap_ns` later; nobody hears the second answer."""

    kind: Literal["duplicate"] = "duplicate"
    gap_ns: _Duration = 1_000_000


class Error(RequestFault):
    """The service answers with `status`, before applying (cut c1) or after (cut c2) (E6, E16, E29).

    status: an HTTP status, or "reset" for a broken connection, or "timeout"
        for no answer at all. cut None: the trigger's if that is c1 or c2, else c1.
    """

    kind: Literal["error"] = "error"
    status: Annotated[int, Field(ge=400, le=599)] | Literal["reset", "timeout"]
    cut: Literal["c1", "c2"] | None = None

    @property
    def strikes_at(self) -> Cut:
        """The cut that counts."""
        if self.cut is not None:
            return self.cut
        return "c2" if self.when is not None and self.when.cut == "c2" else "c1"


class GhostWrite(RequestFault):
    """The request is held up and applied `by_ns` later, long after its caller gave up; no answer (E30, A7)."""

    kind: Literal["ghost_write"] = "ghost_write"
    by_ns: _Duration


class StaleRead(RequestFault):
    """A read is answered with the state of `lag_ns` ago (A8)."""

    kind: Literal["stale_read"] = "stale_read"
    lag_ns: _Duration


class HiddenRetry(RequestFault):
    """Applied, the reply lost inside the SDK, sent again: the caller sees the second answer only (A2, E17)."""

    kind: Literal["hidden_retry"] = "hidden_retry"
    gap_ns: _Duration = 10_000_000


class IgnoreConditions(RequestFault):
    """The store writes although the condition fails (U13, M16)."""

    kind: Literal["ignore_conditions"] = "ignore_conditions"


AnyFault = Annotated[
    Pause
    | Suspend
    | Crash
    | Partition
    | Drift
    | Offset
    | Step
    | Freeze
    | DeleteObject
    | CorruptObject
    | LoseRequest
    | LoseReply
    | Delay
    | Duplicate
    | Error
    | GhostWrite
    | StaleRead
    | HiddenRetry
    | IgnoreConditions,
    Field(discriminator="kind"),
]

FAULT_TYPES: dict[str, type[Fault]] = {
    str(fault.model_fields["kind"].default): fault for fault in get_args(get_args(AnyFault)[0])
}
"""Every kind and its class."""


class FaultPlan(_Model):
    """All faults of one run, in order of their writing.

    heal_ns: true time from which nothing disturbs any more: windows end, later
        faults never begin, the network stops losing. None: no such promise.
    """

    format: Literal[1] = PLAN_FORMAT
    faults: tuple[AnyFault, ...] = ()
    heal_ns: _Instant | None = None

    @model_validator(mode="after")
    def _ids_are_unique(self) -> FaultPlan:
        ids = [fault.id for fault in self.faults]
        for position, fault_id in enumerate(ids):
            if fault_id in ids[:position]:
                raise ValueError(f"fault id {fault_id!r} occurs twice")
        return self

    @classmethod
    def of(cls, *faults: Fault, heal_ns: int | None = None) -> FaultPlan:
        """A plan of these faults. Raises ConfigError."""
        return _validated(cls, {"faults": faults, "heal_ns": heal_ns})

    @classmethod
    def from_json(cls, text: str | bytes) -> FaultPlan:
        """Read a plan. Raises ConfigError that names the place, the value and what is accepted."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ConfigError(_explain(error)) from None

    def to_json(self) -> str:
        """Write a plan; what is written can be read, checked here and again when it is loaded."""
        text = self.model_dump_json(exclude_defaults=False, exclude_none=True)
        assert FaultPlan.from_json(text) == self, "a plan did not survive its own writing"
        return text

    def without(self, fault_ids: Sequence[str]) -> FaultPlan:
        """The same plan less these faults."""
        return self.model_copy(update={"faults": tuple(f for f in self.faults if f.id not in fault_ids)})

    def replacing(self, fault: Fault) -> FaultPlan:
        """The same plan with the fault of that id exchanged."""
        return self.model_copy(update={"faults": tuple(fault if f.id == fault.id else f for f in self.faults)})


EMPTY_PLAN = FaultPlan()
"""Nothing goes wrong."""

_FAULT: TypeAdapter[Fault] = TypeAdapter(AnyFault)


def parse_fault(entry: dict[str, Any]) -> Fault:
    """One fault from plain data. Raises ConfigError with a suggestion for unknown kinds and keys."""
    try:
        return _FAULT.validate_python(entry)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def _validated(cls: type[FaultPlan], data: dict[str, Any]) -> FaultPlan:
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def _explain(error: ValidationError) -> str:
    """The first complaint as one line: place, value, what is accepted, the nearest good word."""
    first = error.errors(include_url=False)[0]
    path = [part for part in first["loc"] if part not in FAULT_TYPES]
    place = ".".join(str(part) for part in path) or "plan"
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        kind = str((first.get("ctx") or {}).get("tag", "missing"))
        return f"{place}.kind is {kind!r}; expected one of {', '.join(FAULT_TYPES)}.{did_you_mean(kind, FAULT_TYPES)}"
    if first["type"] == "extra_forbidden":
        kind = next((str(part) for part in first["loc"] if part in FAULT_TYPES), "")
        model: type[BaseModel] = FAULT_TYPES[kind] if kind else FaultPlan
        if "when" in path[:-1]:
            model = Trigger
        known = list(model.model_fields)
        return f"{place} is no known key; expected one of {', '.join(known)}.{did_you_mean(str(path[-1]), known)}"
    return f"{place}: {first['msg']} (got {first.get('input')!r})"
