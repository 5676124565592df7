"""The simple locks with one part wrong, two of them with two parts, and two that hide what they can do.

Each docstring names the clauses that break first, so the causes that a gate may tell.
"""

from lockref import Outcome, ReleaseFailed
from lockref.dynamodb.table import KEY, absent
from lockref.runtime import NS_PER_S
from tests.sim.simple_locks.ephemeral import EphemeralLock
from tests.sim.simple_locks.lapsing import LapsingLock
from tests.sim.simple_locks.marked import Line, MarkedLock
from tests.sim.simple_locks.marker import MarkerLock
from tests.sim.simple_locks.renewing import HeartbeatLock
from tests.sim.simple_locks.row import RowLock


class DeletesAnyMarker(MarkerLock):
    """An unlock deletes whatever is there: after a lost answer that is the successor's marker (S6)."""

    def release(self, _version):
        for _ in range(4):
            if self.store.delete(self.key).outcome is Outcome.APPLIED:
                return
            self.rt.sleep(self.pause_ns // 4)
        raise ReleaseFailed("the marker may still be there")


class PaysNoHeedToTheClock(LapsingLock):
    """Held is held, until unlock (S3)."""

    def holds(self):
        return self.depth > 0


class ReusesTokens(MarkedLock):
    """A grant after a release gets the number of the one before (S2)."""

    def next_token(self, old: Line) -> int:
        return old.token if old.owner == "free" and old.token else old.token + 1


class KeepsWhatIsGone(HeartbeatLock):
    """A renewal that was refused is tried again, while the guard says yes (S3)."""

    def is_lost(self, version):
        return False


class RenewsFromTheAnswer(HeartbeatLock):
    """The deadline counts from the answer to a write, and not from before it was sent (S3)."""

    def holds_from(self, version):
        self.sent = (self.rt.monotonic_ns(), self.rt.wall_ns())
        return super().holds_from(version)


class PutsOverALapsedRow(RowLock):
    """Of two that see a row lapse, each writes its own: the take-over has no condition (S1 to S5)."""

    def condition(self, row):
        return (absent(KEY),) if row.item() is None else ()


class DeletesAnyZnode(EphemeralLock):
    """An unlock deletes the znode, whose ever it is: after a lost answer that is the successor's (S3)."""

    def gone(self):
        return self.session.delete(self.PATH).outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED)


class TwoOfOneKind(KeepsWhatIsGone):
    """Its guard asks no clock (S3), and it keeps what is gone (S3 again): one needs no fault, one a changed record."""

    def holds(self):
        return self.version is not None


class TwoMistakes(PaysNoHeedToTheClock):
    """Its guard asks no clock (S3), and its unlock deletes a successor's record (S6)."""

    def release(self, _version):
        self.store.delete(self.conf.key)


class RenewsOnlyLater(KeepsWhatIsGone):
    """It renews once its process is older than a minute, and keeps what is gone (S3). No scenario lasts so long."""

    def __init__(self, context):
        super().__init__(context)
        self.begun = self.rt.monotonic_ns()

    def beat(self, stop):
        if self.rt.monotonic_ns() - self.begun > 60 * NS_PER_S:
            super().beat(stop)


class ShowsSomeTokens(ReusesTokens):
    """Every second grant shows its number, which is that of the one before (S2)."""

    count = 0

    @property
    def grant(self):
        whole = super().grant
        shown = whole is not None and whole.token is not None and self.count % 2 == 0
        return whole if shown or whole is None else type(whole)(owner=whole.owner, version=whole.version)

    def once(self, until):
        answer = super().once(until)
        self.count += bool(answer)
        return answer


UNSOUND = {
    DeletesAnyMarker: {"S6"},
    PaysNoHeedToTheClock: {"S3"},
    ReusesTokens: {"S2"},
    KeepsWhatIsGone: {"S3"},
    RenewsFromTheAnswer: {"S3"},
    PutsOverALapsedRow: {"S5"},
    DeletesAnyZnode: {"S3"},
    TwoMistakes: {"S3", "S6"},
    ShowsSomeTokens: {"S2"},
}
"""Lock to the clauses of its causes. `RenewsOnlyLater` breaks none where it is tried: a gate of it must stay open."""
