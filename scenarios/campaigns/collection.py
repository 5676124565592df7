"""The chunks of campaigns, joined in the order of their seeds, whatever executor runs them and in whatever order.

The one loop of all commands that run campaigns. Counts, distinct failures and one running hash stay in this process,
and the kept histories of a campaign without a place. A chunk that is committed already is read, not run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from lockref.errors import BackendUnavailable, ConfigError, LockrefError
from lockref.history import SCHEMA
from reports.checks.summary import Finding
from reports.history_files import CHUNKS, EVENTS, RUNS
from scenarios.campaigns.account import ChunkAccount, NotAnAccount, read_account
from scenarios.campaigns.chunks import ChunkAnswer, account_name, committed_chunks, drop_kept, run_sheltered
from scenarios.campaigns.identity import REMEDY, Identity, read_identity, write_identity
from scenarios.campaigns.orders import ChunkOrder, Order
from scenarios.campaigns.result import CampaignResult
from scenarios.executor import Executor
from scenarios.worlds.judged_result import only_runs

OnFound = Callable[[CampaignResult, Finding], None]
OnProgress = Callable[[CampaignResult], None]
Work = Callable[[ChunkOrder], ChunkAnswer]


def begin(order: Order, identity: Identity, *, is_resumed: bool, remedy: str = REMEDY) -> None:
    """Make a place ready for a campaign: what stands there is taken over, or removed.

    remedy: what the user can do where it cannot be taken over.
    Raises ConfigError where the chunks of another campaign stand there, or of this one and nobody asked to go on.
    """
    place = order.place
    assert place is not None, "only what is committed is begun in a place"
    known = read_identity(place, remedy=remedy)
    if known is None:
        if place.names(CHUNKS):
            raise ConfigError(f"{place} holds chunks and no campaign.json: {remedy}")
    elif changed := identity.differences(known):
        raise ConfigError(
            f"{place}: another campaign stands there; it differs in {', '.join(changed)}. Its chunks say nothing "
            f"about what would run now: {remedy}"
        )
    elif known.digest != identity.digest:
        raise ConfigError(f"{place}: another campaign stands there: {remedy}")
    elif not is_resumed:
        raise ConfigError(
            f"{place}: this very campaign has begun there: add --resume to go on, or choose another --out"
        )
    # An account of before says nothing of what runs now.
    for name in ("results.json", "junit.xml"):
        place.remove(name)
    if known is None:
        for table in (EVENTS, RUNS):
            place.remove(f"{table}.parquet")
    write_identity(place, identity)


def collect(
    orders: Sequence[Order],
    executor: Executor,
    *,
    earlier: Sequence[CampaignResult | None] = (),
    work: Work | None = None,
    is_over: Callable[[], bool] = lambda: False,
    on_progress: OnProgress = lambda _result: None,
    on_found: OnFound = lambda _result, _finding: None,
) -> Generator[CampaignResult, None, None]:
    """Run what is left of each campaign; the results in the order of the campaigns, each as soon as it is complete.

    earlier: of each campaign, the result of lower seeds of the same scenario under the same lock, to which these are
    added; empty where there is none of any. work: runs a chunk; default `run_sheltered`. is_over: asked after each
    chunk; True ends all: of the campaigns that are left, what was committed before is joined, and nothing more.
    on_found: called with each new distinct failure, the lowest seed of it.
    An error ends the campaign that it meets, which has it as `error`, and the others go on; an error of the executor
    ends all. KeyboardInterrupt ends all: the campaign that it met has `is_interrupted`, and is the last one.
    """
    # The first table imports pandas, for a second or more: before the run, so no account waits for it after Ctrl-C.
    SCHEMA.empty_table()
    before = earlier or [None] * len(orders)
    collection = _Collection(
        [_Running(order, number, result) for number, (order, result) in enumerate(zip(orders, before, strict=True))],
        executor,
        work or run_sheltered,
        ends_all=is_over,
        on_progress=on_progress,
        on_found=on_found,
    )
    yield from collection.results()


class _Running:
    """One campaign on its way. is_closed: no further chunk of it is begun. number: among those that run together."""

    __slots__ = ("committed", "is_closed", "number", "order", "total")

    def __init__(self, order: Order, number: int, earlier: CampaignResult | None) -> None:
        self.order = order = replace(order, scenario=order.scenario.owed_by(len(order.seeds)))
        self.number = number
        self.is_closed = False
        # One that cannot be used runs again.
        self.committed = frozenset(() if order.place is None else committed_chunks(order.place))
        self.total = CampaignResult.begun(order) if earlier is None else earlier

    def chunk(self, number: int) -> ChunkOrder:
        """The order of one chunk, as far as is known now."""
        failures_left = max(0, self.order.keep_failures - self.total.failures_kept)
        return self.order.chunk(number, failures_left=failures_left, campaign=self.number)

    def join(self, account: ChunkAccount, answer: ChunkAnswer | None) -> list[Finding]:
        """Add the next chunk; the failures in it that are new. answer: None for one that was committed before."""
        order, total = self.order, self.total
        failures_left = max(0, order.keep_failures - total.failures_kept)
        new = total.absorb(account)
        if answer is None:
            total.resumed += account.runs
        else:
            total.processor_ns += account.processor_ns
            total.spent_ns += answer.spent_ns
        if order.keeps_speakers:
            further = frozenset(account.failures_kept) - {finding.run for finding in new}
        else:
            further = frozenset(account.failures_kept[failures_left:])
        surplus = further - frozenset(order.chunk(account.chunk).sample)
        total.kept -= len(surplus)
        total.failures_kept -= len(surplus)
        if order.place is not None:
            if surplus:
                drop_kept(order.place, account.chunk, surplus)
        elif answer is not None and answer.histories is not None and (left := {*account.kept} - surplus):
            total.tables.append(only_runs(answer.histories, left) if surplus else answer.histories)
        return new


class _Collection:
    """The campaigns that run together, and who is told of them."""

    def __init__(
        self,
        running: Sequence[_Running],
        executor: Executor,
        work: Work,
        *,
        ends_all: Callable[[], bool],
        on_progress: OnProgress,
        on_found: OnFound,
    ) -> None:
        self._running = running
        self._executor = executor
        self._work = work
        self._ends_all = ends_all
        self._on_progress = on_progress
        self._on_found = on_found

    def results(self) -> Generator[CampaignResult, None, None]:
        """The results, as of `collect`."""
        failed: LockrefError | None = None
        # Closed here, because the worker processes of a pool end with it.
        with closing(self._executor.map(self._work, self._left())) as answers:
            for each in self._running:
                # Not before its turn: after a Ctrl-C, an earlier result that it never came to must not ask for more.
                each.total.expect(each.order)
                try:
                    if failed is None:
                        self._join_chunks(each, answers)
                    else:
                        each.total.error = each.total.error or failed
                except KeyboardInterrupt:
                    each.total.is_interrupted = True
                    yield each.total
                    return
                except LockrefError as error:
                    failed = each.total.error = error
                yield each.total

    def _left(self) -> Iterator[ChunkOrder]:
        """The chunks that are to be run, each when an executor asks for it."""
        for each in self._running:
            for number in range(each.order.chunks):
                if each.is_closed:
                    break
                if number not in each.committed:
                    yield each.chunk(number)

    def _join_chunks(self, current: _Running, answers: Iterator[ChunkAnswer]) -> None:
        """Join the chunks of one campaign. Raises LockrefError for what ends all: the executor's, or the place's."""
        order, total = current.order, current.total
        was_closed = current.is_closed
        for number in range(order.chunks):
            if was_closed and number not in current.committed:
                break
            account = _read(order, number) if number in current.committed else None
            answer: ChunkAnswer | None = None
            if account is None:
                answer = self._answer(current, number, answers)
                if answer.error is not None:
                    total.error = answer.error
                    break
                account = answer.account
                assert account is not None, "an answer holds an account or an error"
                if number == 0:
                    _expect_shared(order)
            for finding in current.join(account, answer):
                self._on_found(total, finding)
            self._on_progress(total)
            if not was_closed and self._ends_all():
                for each in self._running:
                    each.is_closed = True
                break
        current.is_closed = True

    def _answer(self, current: _Running, number: int, answers: Iterator[ChunkAnswer]) -> ChunkAnswer:
        """The answer of a chunk. Those before it belong to a campaign that ended early, while they were under way."""
        if number in current.committed:
            # Its account is torn, as a power failure leaves it, and its turn among the others has passed. Rejected: to
            # run it in this process, which may have threads (a lease, Spark) that a shelter must not fork.
            with closing(self._executor.map(self._work, [current.chunk(number)])) as alone:
                return next(alone)
        for answer in answers:
            if (answer.campaign, answer.chunk) == (current.number, number):
                return answer
        raise BackendUnavailable(f"the executor ended before {current.chunk(number)}")


def _read(order: Order, number: int) -> ChunkAccount | None:
    """The account of a committed chunk; None where it cannot be used."""
    assert order.place is not None, "chunks are committed in a place alone"
    content = order.place.read(account_name(number))
    try:
        return None if content is None else read_account(content, campaign=order.identity, chunk=number)
    except NotAnAccount:
        return None


def _expect_shared(order: Order) -> None:
    """Raise ConfigError where executors write to disks of their own: their chunks would be lost to everybody else."""
    if order.place is not None and order.place.read(account_name(0)) is None:
        raise ConfigError(
            f"{order.place}: what the executors wrote is not there: they are on other machines. Give --out a "
            "place that all of them share, such as s3a://bucket/prefix or a network folder"
        )
