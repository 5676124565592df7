"""The chunks of campaigns, joined in the order of their seeds, whatever executor runs them and in whatever order.

Only counts, the first distinct failures and one running hash stay in this process. So its memory does not grow with the
seeds. A chunk that is committed already is read, not run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from lockref.errors import BackendUnavailable, ConfigError, LockrefError
from lockref.history import SCHEMA
from lockref.lab.loading import ProviderSpec
from lockref.words import counted
from reports.checks.demands import demand_text
from reports.checks.summary import Finding, Summary
from reports.history_files import CHUNKS, EVENTS, RUNS
from scenarios.campaign import demanded_by, idle_faults, seed_notices, sure_faults, told_demands
from scenarios.campaigns.account import ChunkAccount, NotAnAccount, read_account
from scenarios.campaigns.chunks import (
    ChunkAnswer,
    account_name,
    committed_chunks,
    drop_kept,
    read_kept,
    run_sheltered,
)
from scenarios.campaigns.identity import REMEDY, Identity, read_identity, write_identity
from scenarios.campaigns.orders import ChunkOrder, Order
from scenarios.campaigns.places import Place
from scenarios.definition.schema import RENEWALS, Scenario
from scenarios.executor import Executor
from scenarios.worlds.judged_result import History, JudgedResult, joined_histories

DISTINCT_MAX: Final = 100
"""Distinct failures of a campaign that are told apart; further ones are counted by clause."""


@dataclass(slots=True, kw_only=True)
class Collected(JudgedResult):
    """The result of one campaign.

    seeds: asked for. resumed: seeds that had been committed before. chunks, done: chunks in all, and joined so far.
    further: clause to runs that broke it in a way that is not among the distinct failures, which were too many.
    processor_ns: processor time that the chunks of this command took, over all executors. kept, failures_kept:
    histories that are kept, and those of them in which a demanded clause broke. sure_faults, effects, compared: as of
    `scenarios.campaign.CampaignResult`. kept_in: where the kept histories are read from, of a campaign that is kept as
    a whole; None where they stay in their place. tells_all: every distinct failure is told apart. not_asked:
    demanded situations that no lock held by a session brings about.
    """

    seeds: int
    chunks: int
    done: int = 0
    resumed: int = 0
    compared: int = 0
    kept: int = 0
    failures_kept: int = 0
    processor_ns: int = 0
    further: Counter[str] = field(default_factory=Counter)
    sure_faults: tuple[str, ...] = ()
    effects: Counter[str] = field(default_factory=Counter)
    kept_in: Place | None = None
    tells_all: bool = False
    not_asked: tuple[str, ...] = ()
    _asked: tuple[str, ...] | None = None
    _trace: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    @property
    def title(self) -> str:
        return f"{self.scenario} under {self.provider}"

    @property
    def digest(self) -> str:
        """One hash over all traces in the order of seeds: that of `lockref sim` over the same seeds."""
        return self._trace.hexdigest()

    @property
    def history(self) -> History:
        """The kept histories in the order of the seeds; none where they stay where the executors wrote them."""
        if self.kept_in is None:
            return joined_histories([])
        kept = [each for number in range(self.chunks) if (each := read_kept(self.kept_in, number)) is not None]
        events, runs = joined_histories(kept)
        return events, runs if self._asked is None else told_demands(runs, self._asked)

    @property
    def is_history_written(self) -> bool:
        return self.kept_in is None

    def ask(self, scenario: Scenario, spec: ProviderSpec, *, without: Collection[str] = ()) -> None:
        """As `scenarios.campaign.CampaignResult.ask`."""
        least = demanded_by(scenario, spec, self.seeds, without=without)
        self.summary.demanded[(scenario.name, spec.name)] = least
        self._asked = tuple(demand_text(name, count) for name, count in least.items())
        self.not_asked = ()

    @property
    def notices(self) -> list[str]:
        """The notices about the way in which the seeds were run."""
        found = [
            *self.notes,
            *seed_notices(self, seeds=self.seeds, compared=self.compared, resumed=self.resumed),
        ]
        if self.not_asked:
            found.append(
                f"not asked of this lock: {', '.join(self.not_asked)}: a session holds it, and it declares no renewals"
            )
        if self.further:
            told = ", ".join(f"{clause} in {counted(runs, 'run')}" for clause, runs in sorted(self.further.items()))
            found.append(
                f"only the first {DISTINCT_MAX} distinct failures are told apart; of further ones there is {told}"
            )
        return [*found, *idle_faults(self.sure_faults, self.effects, runs=self.summary.runs)]

    def absorb(self, account: ChunkAccount, *, was_there: bool) -> list[Finding]:
        """Add the next chunk in the order of the seeds; the failures in it that are new."""
        part = account.summary(self.summary.not_demanded)
        known = {finding.key for finding in self.summary.findings}
        new: list[Finding] = []
        told: list[Finding] = []
        for finding in part.findings:
            if finding.key in known:
                told.append(finding)
            elif self.tells_all or len(known) + len(new) < DISTINCT_MAX:
                told.append(finding)
                new.append(finding)
            else:
                self.further[finding.clause] += 1 + finding.similar
        part.findings = told
        self.summary.add(part)
        for digest in account.trace_digests:
            self._trace.update(digest.encode())
        self.effects.update(account.effects)
        self.compared += account.compared
        self.kept += len(account.kept)
        self.failures_kept += len(account.failures_kept)
        self.done += 1
        if was_there:
            self.resumed += account.runs
        else:
            self.processor_ns += account.processor_ns
        return new


OnFound = Callable[[Collected, Finding], None]
OnProgress = Callable[[Collected], None]


def begin(order: Order, identity: Identity, *, is_resumed: bool, remedy: str = REMEDY) -> None:
    """Make a place ready for a campaign: what stands there is taken over, or removed.

    remedy: what the user can do where it cannot be taken over.
    Raises ConfigError where the chunks of another campaign stand there, or of this one and nobody asked to go on.
    """
    known = read_identity(order.place, remedy=remedy)
    if known is None:
        if order.place.names(CHUNKS):
            raise ConfigError(f"{order.place} holds chunks and no campaign.json: {remedy}")
    elif changed := identity.differences(known):
        raise ConfigError(
            f"{order.place}: another campaign stands there; it differs in {', '.join(changed)}. Its chunks say nothing "
            f"about what would run now: {remedy}"
        )
    elif known.digest != identity.digest:
        raise ConfigError(f"{order.place}: another campaign stands there: {remedy}")
    elif not is_resumed:
        raise ConfigError(
            f"{order.place}: this very campaign has begun there: add --resume to go on, or choose another --out"
        )
    # An account of before says nothing of what runs now.
    for name in ("results.json", "junit.xml"):
        order.place.remove(name)
    if known is None:
        for table in (EVENTS, RUNS):
            order.place.remove(f"{table}.parquet")
    write_identity(order.place, identity)


def collect(
    orders: Sequence[Order],
    executor: Executor,
    *,
    work: Callable[[ChunkOrder], ChunkAnswer] | None = None,
    is_over: Callable[[], bool] = lambda: False,
    on_progress: OnProgress = lambda _result: None,
    on_found: OnFound = lambda _result, _finding: None,
) -> Generator[Collected, None, None]:
    """Run what is left of each campaign; the results in the order of the campaigns, each as soon as it is complete.

    work: runs a chunk; default `run_sheltered`. is_over: asked after each chunk; True ends all: of the campaigns that
    are left, what was committed before is joined, and nothing more. on_found: called with each new distinct failure,
    the lowest seed of it. An error ends the campaign that it meets, and the others go on; an error of the executor
    ends all. KeyboardInterrupt ends all: the campaign that it met has `is_interrupted`, and is the last one.
    """
    # The first table imports pandas, for a second or more: before the run, so no account waits for it after Ctrl-C.
    SCHEMA.empty_table()
    running = [_Running(order) for order in orders]
    failed: LockrefError | None = None
    run = work or run_sheltered

    def ends_all() -> bool:
        if not is_over():
            return False
        for each in running:
            each.is_over = True
        return True

    with closing(executor.map(run, _left(running))) as answers:
        for each in running:
            try:
                if failed is None:
                    yield from _joined(each, answers, run, ends_all, on_progress, on_found)
                else:
                    each.total.error = failed
                    yield each.total
            except KeyboardInterrupt:
                each.total.is_interrupted = True
                yield each.total
                return
            except LockrefError as error:
                failed = each.total.error = error
                yield each.total


class _Running:
    """One campaign on its way. is_over: no further chunk of it is begun."""

    __slots__ = ("committed", "is_over", "order", "total")

    def __init__(self, order: Order) -> None:
        self.order = order
        self.is_over = False
        self.committed = _committed(order)
        spec, scenario = order.spec, order.scenario
        self.total = Collected(
            scenario=scenario.name,
            provider=spec.name,
            seeds=len(order.seeds),
            chunks=order.chunks,
            sure_faults=sure_faults(scenario),
            summary=Summary(not_demanded=order.not_demanded),
            kept_in=order.place if order.keeps_speakers else None,
            tells_all=order.keeps_speakers,
            not_asked=tuple(sorted(RENEWALS & scenario.unreachable_by(spec))),
        )
        demands = scenario.demanded_of(spec, clients=scenario.clients, duration_ns=scenario.duration.least)
        self.total.summary.demand((scenario.name, spec.name), demands)

    @property
    def failures_left(self) -> int:
        return max(0, self.order.keep_failures - self.total.failures_kept)


def _committed(order: Order) -> frozenset[int]:
    """The chunks that stand in the place, whole. One that cannot be used runs again."""
    return frozenset(committed_chunks(order.place))


def _left(running: Sequence[_Running]) -> Iterator[ChunkOrder]:
    for each in running:
        for number in range(each.order.chunks):
            if each.is_over:
                break
            if number not in each.committed:
                yield each.order.chunk(number, failures_left=each.failures_left)


def _joined(
    current: _Running,
    answers: Iterator[ChunkAnswer],
    run: Callable[[ChunkOrder], ChunkAnswer],
    ends_all: Callable[[], bool],
    on_progress: OnProgress,
    on_found: OnFound,
) -> Iterator[Collected]:
    order, total = current.order, current.total
    was_over = current.is_over
    for number in range(order.chunks):
        if was_over and number not in current.committed:
            break
        account = _read(order, number) if number in current.committed else None
        was_there = account is not None
        if account is None:
            # One that is torn, as a power failure leaves it, runs here: its turn on the executor has passed.
            is_torn = number in current.committed
            answer = (
                run(order.chunk(number, failures_left=current.failures_left))
                if is_torn
                else _next(answers, order, number)
            )
            if answer.error is not None:
                total.error = answer.error
                break
            account = answer.account
            assert account is not None, "an answer holds an account or an error"
            if number == 0:
                _expect_shared(order)
        left = current.failures_left
        new = total.absorb(account, was_there=was_there)
        if order.keeps_speakers:
            further = frozenset(account.failures_kept) - {finding.run for finding in new}
        else:
            further = frozenset(account.failures_kept[left:])
        if surplus := further - frozenset(order.chunk(number, failures_left=0).sample):
            drop_kept(order.place, number, surplus)
            total.kept -= len(surplus)
            total.failures_kept -= len(surplus)
        for finding in new:
            on_found(total, finding)
        on_progress(total)
        if not was_over and ends_all():
            break
    current.is_over = True
    yield total


def _next(answers: Iterator[ChunkAnswer], order: Order, number: int) -> ChunkAnswer:
    """The answer of this chunk. Those before it belong to a campaign that ended early, while they were under way."""
    for answer in answers:
        if (answer.campaign, answer.chunk) == (order.identity, number):
            return answer
    raise BackendUnavailable(f"the executor ended before {order.chunk(number, failures_left=0)}")


def _read(order: Order, number: int) -> ChunkAccount | None:
    """The account of a committed chunk; None where it cannot be used."""
    content = order.place.read(account_name(number))
    try:
        return None if content is None else read_account(content, campaign=order.identity, chunk=number)
    except NotAnAccount:
        return None


def _expect_shared(order: Order) -> None:
    """Raise ConfigError where executors write to disks of their own: their chunks would be lost to everybody else."""
    if order.place.read(account_name(0)) is None:
        raise ConfigError(
            f"{order.place}: what the executors wrote is not there: they are on other machines. Give --out a "
            "place that all of them share, such as s3a://bucket/prefix or a network folder"
        )
