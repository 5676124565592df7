"""Bugs in Delta's lease: the same mistakes as others made, each in one place of the corrected lock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lockref.delta.lease import DELTA
from lockref.delta.record import DURATION, OWNER, VERSION, LeaseItem
from lockref.delta.watching import Watch, WatchingAcquisition
from lockref.delta.writer import LeaseItemWriter
from lockref.dynamodb import item
from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.rows import Rows
from lockref.dynamodb.table import TableClient, equals, number, text
from lockref.locks.cell import Cell
from lockref.locks.heartbeat import Heartbeat
from lockref.locks.tenure import Tenure
from lockref.locks.values import Attempt, Lease, Purpose
from lockref.ports import Reply
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_S, MonoNs, Runtime
from lockref.stores.port import Version, WriteReply
from tests.quality.planted.broken import FOREVER_NS, counted_from_now, postponed


class _NeverAnew(Watch):
    """Remembers when it saw the row first, whatever becomes of it."""

    def saw(self, version: Version | None, now_ns: MonoNs) -> None:
        if self._version is None:
            self._since_ns = now_ns
        self._version = version


class WatchIsNotRestarted(DynamoLock):
    """The waiter's clock goes on when the row changes: a holder that renews is taken over (T4)."""

    watch = _NeverAnew


class _AlwaysAnew(Watch):
    def saw(self, version: Version | None, now_ns: MonoNs) -> None:
        self._version, self._since_ns = version, now_ns


class WatchRestartsWithEachLook(DynamoLock):
    """The waiter's clock begins anew with each look: nobody takes a dead holder's lock over (T4, B7)."""

    watch = _AlwaysAnew


class _WatchesTheWall(Watch):
    """Counts on another clock than it is asked on."""

    runtime: Runtime | None = None

    def saw(self, version: Version | None, now_ns: MonoNs) -> None:
        assert self.runtime is not None
        super().saw(version, MonoNs(self.runtime.wall_ns()))

    def stood_ns(self, version: Version | None, now_ns: MonoNs) -> int:
        assert self.runtime is not None
        return super().stood_ns(version, MonoNs(self.runtime.wall_ns()))


class WatchesTheWallClock(DynamoLock):
    """The waiter counts on its wall clock, as dynamodb_lock 0.5 does (T2, B4)."""

    @classmethod
    def from_context(cls, context: LockContext) -> Any:
        watch = _WatchesTheWall()
        watch.runtime = context.runtime
        made = type(cls.__name__, (cls,), {"watch": staticmethod(lambda: watch)})
        return DynamoLock.from_context.__func__(made, context)  # type: ignore[attr-defined]


class CountsSecondsTwiceAsFast(DynamoLock):
    """The waiter gives up on its holder after half of its lease (T5)."""

    @classmethod
    def from_context(cls, context: LockContext) -> Any:
        lock = DynamoLock.from_context.__func__(cls, context)  # type: ignore[attr-defined]
        client = lock.gated.client
        made = client.new_acquisition

        def impatient(*arguments: Any) -> Any:
            acquisition = made(*arguments)
            acquisition._rate_ratio_ppm //= 2
            return acquisition

        client.new_acquisition = impatient
        return lock


class _BegunAndExtendedLate(Tenure[LeaseItem]):
    def __init__(self, first: Lease[LeaseItem], *, runtime: Runtime, **more: Any) -> None:
        super().__init__(_from_now(first, runtime), runtime=runtime, **more)

    def extend(self, extended: Lease[LeaseItem]) -> bool:
        return super().extend(_from_now(extended, self.runtime))


def _from_now(lease: Lease[LeaseItem], runtime: Runtime) -> Lease[LeaseItem]:
    found: Any = counted_from_now(lease, runtime)  # type: ignore[arg-type]
    return found  # type: ignore[no-any-return]


class StampedAfterTheReply(DynamoLock):
    """The holder counts its lease from the answer (T3, B15)."""

    parts = replace(DELTA, tenure=_BegunAndExtendedLate)


class BelievesForEver(DynamoLock):
    """No local deadline, as in every shipped lock (T6, B9)."""

    parts = replace(
        DELTA,
        rules=replace(
            DELTA.rules,
            deadline_after=lambda sent, terms: postponed(
                DELTA.rules.deadline_after(sent, terms), FOREVER_NS - sent.wall_ns, FOREVER_NS - sent.mono_ns
            ),
        ),
    )


class _ByName(Cell[LeaseItem]):
    """Gives back whatever row has this owner's name."""

    def swap(self, if_version: Version | None, record: LeaseItem, purpose: Purpose) -> WriteReply:
        if purpose is Purpose.RELEASE:
            return self.store.free_by_name(self.key, record)  # type: ignore[attr-defined,no-any-return]
        return super().swap(if_version, record, purpose)


class _RowsByName(Rows):
    def free_by_name(self, key: str, record: LeaseItem) -> WriteReply:
        attributes = item.attributes(record)
        reply = self._table.put(key, attributes, equals(OWNER, text(record.name)))
        return _answer(reply, attributes)


def _answer(reply: Reply, attributes: Any) -> WriteReply:
    from lockref.dynamodb.rows import written

    return written(reply, attributes)


class ReleasesByNameAlone(DynamoLock):
    """The release asks for the owner's name and for nothing else: it frees a successor of the same name (T9)."""

    parts = replace(DELTA, cell=lambda store, *rest, **more: _ByName(_RowsByName(store._table), *rest, **more))

    @classmethod
    def from_context(cls, context: LockContext) -> Any:
        settings = replace(context.settings, options={**context.settings.options, "owner_name": "worker"})
        return DynamoLock.from_context.__func__(cls, replace(context, settings=settings))  # type: ignore[attr-defined]


class _ResumesByName(WatchingAcquisition):
    def _is_left_by_our_own(self, record: LeaseItem) -> bool:
        return record.name == self.client.writer.owner.rpartition("/")[0]


class ResumesByNameAlone(DynamoLock):
    """Whatever lease has its owner name is its own: two processes of one name hold together (T9)."""

    acquisition = _ResumesByName

    @classmethod
    def from_context(cls, context: LockContext) -> Any:
        settings = replace(context.settings, options={**context.settings.options, "owner_name": "worker"})
        return DynamoLock.from_context.__func__(cls, replace(context, settings=settings))  # type: ignore[attr-defined]


class _Deletes(Cell[LeaseItem]):
    def swap(self, if_version: Version | None, record: LeaseItem, purpose: Purpose) -> WriteReply:
        if purpose is Purpose.RELEASE:
            assert if_version is not None
            reply = self.store._table.delete(self.key, equals(VERSION, text(if_version)))  # type: ignore[attr-defined]
            return WriteReply(outcome=reply.outcome, version=None, missing=reply.missing, status=reply.status)
        return super().swap(if_version, record, purpose)


class _FromTheRowAlone:
    """Tokens as the row has them: without a row they begin anew."""

    def __init__(self, *_arguments: Any, **_more: Any) -> None: ...

    def reserve(self, stored: Any, *, seen: int, is_over: Any) -> Any:
        from lockref.locks.values import Reserved

        before = None if stored.record is None else stored.record.token
        return Reserved((before or 0) + 1, None)

    def forget(self) -> None: ...


class GenerationIsResetByRelease(DynamoLock):
    """The release deletes the row, and the generation with it (T9)."""

    parts = replace(DELTA, cell=_Deletes, tokens=_FromTheRowAlone)

    def __init__(self, table: TableClient, key: str, options: Any, **more: Any) -> None:
        super().__init__(table, key, options, **more)

    @staticmethod
    def _tokens(tokens: Any, _table: TableClient, _rows: Rows, _key: str, **_how: Any) -> Any:
        return tokens()


class _TellsTheEnd(Rows):
    """Writes the lease as the epoch second of its end, where the table's time to live looks."""

    runtime: Runtime

    def item(self, document: Any) -> Any:
        lease_s = int(document[DURATION]["S"])
        return {**document, DURATION: number(self.runtime.wall_ns() // NS_PER_S + lease_s)}


def _telling(store: Rows, *rest: Any, runtime: Runtime, **more: Any) -> Cell[LeaseItem]:
    rows = _TellsTheEnd(store._table)
    rows.runtime = runtime
    return Cell(rows, *rest, runtime=runtime, **more)


class TimeToLiveIsTheLease(DynamoLock):
    """The row expires with the lease, so a live one may be deleted before its renewal lands (T10, B5)."""

    parts = replace(DELTA, cell=_telling)


class _NeverBeats(Heartbeat[LeaseItem]):
    def start(self) -> bool:
        return True


class HasNoHeartbeat(DynamoLock):
    """Renews nothing, and says so: it stops at its deadline. Correct, if not of much use."""

    parts = replace(DELTA, heartbeat=_NeverBeats)
    claims = ()


class _RenewsAnything(Cell[LeaseItem]):
    def swap(self, if_version: Version | None, record: LeaseItem, purpose: Purpose) -> WriteReply:
        if purpose is Purpose.RENEW:
            attributes = item.attributes(record)
            return _answer(self.store._table.put(self.key, attributes), attributes)  # type: ignore[attr-defined]
        return super().swap(if_version, record, purpose)


class RenewsUnconditionally(DynamoLock):
    """Its heartbeat puts the row back, whoever has it by now (B14)."""

    parts = replace(DELTA, cell=_RenewsAnything)


class PatientLease(DynamoLock):
    """Correct: it waits for three leases, as object_store's DynamoCommit does by default (T5)."""

    @classmethod
    def from_context(cls, context: LockContext) -> Any:
        settings = replace(context.settings, options={**context.settings.options, "rate_ratio_percent": "300"})
        return DynamoLock.from_context.__func__(cls, replace(context, settings=settings))  # type: ignore[attr-defined]

    @staticmethod
    def watch_ns(settings: LockSettings) -> int:
        return 3 * DynamoLock.watch_ns(settings) * 10 // 11


class TellsMilliseconds(LeaseItemWriter):
    """Writes the lease in milliseconds, which everybody else reads as seconds."""

    def attempt(self, *arguments: Any) -> Attempt[LeaseItem]:
        made = super().attempt(*arguments)
        assert made.record.duration_s is not None
        return replace(made, record=replace(made.record, duration_s=made.record.duration_s * 1000))


class MillisecondsForSeconds(DynamoLock):
    """Its dead holders keep the lock a thousand times as long (the unit of the Java client)."""

    parts = replace(DELTA, writer=TellsMilliseconds)
