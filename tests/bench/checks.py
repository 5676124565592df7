"""How fast is judging, in CPU time? Operations a second by size, and how that grows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import pyarrow as pa

from lockref.history import Recorder, runs_table, to_table
from lockref.words import IF_ABSENT, Kind, Op, Outcome
from reports.checks import judge_with_handoffs
from reports.checks.judgement import TABLES
from reports.checks.second_opinion.token_order import LockOp, Result, find_illegal
from tests.bench.figures import Figure, Spread, cpu_seconds, warm
from tests.histories import Held, History

SIZES = (10_000, 100_000, 1_000_000)
CLIENTS = 20
ROUNDS = 3
BATCH_RUNS = 5_000


def history(operations: int, *, runs: int = 1) -> tuple[pa.Table, pa.Table]:
    """A legal history: half the operations acquire, half release; seven events an operation, clients in turn."""
    recorders = [_one_run(operations // runs) for _ in range(runs)]
    rows = [{"run": run, "scenario": "bench", "provider": "none", "world": "simulated"} for run in range(runs)]
    return to_table(recorders), runs_table(rows)


def _one_run(operations: int) -> Recorder:
    recorder = Recorder()
    event = recorder.event
    now, number, version = 0, 0, "absent"
    for turn in range(operations // 2):
        node, token = f"n{turn % CLIENTS}", turn + 1
        owner = f"{node}-owner"
        for op in (Op.ACQUIRE, Op.RELEASE):
            call, request, made = number, number + 1, f"v{number}"
            number += 2
            event(Kind.CALL, (now, now, now, "main"), node, "lock", op, 0, request=call)
            for kind, outcome, told in (
                (Kind.SENT, Outcome.NONE, ""),
                (Kind.APPLIED, Outcome.APPLIED, made),
                (Kind.REPLIED, Outcome.APPLIED, made),
            ):
                now += 1
                event(
                    kind, (now, now, now, "main"), node, "lock", op, outcome, request=request, attempt=0,
                    if_version=version, version=told, content=made, token=token, owner=owner,
                    valid_until_ns=now + 10**10,
                )  # fmt: skip
            version = made
            now += 1
            tenure = {"request": call, "token": token, "owner": owner}
            event(Kind.RETURN, (now, now, now, "main"), node, "lock", op, Outcome.APPLIED, **tenure)
            if op is Op.ACQUIRE:
                event(Kind.BELIEVED, (now, now, now, "main"), node, "lock", Op.ACQUIRE, **tenure)
                now += 1
                event(Kind.BELIEVED, (now, now, now, "main"), node, "lock", Op.GUARD, **tenure)
                now += 1
                event(
                    Kind.EFFECT, (now, now, now, "main"), node, "lock", Op.APPEND, Outcome.APPLIED,
                    if_version=str(turn), version=str(turn + 1), attempt=0, **tenure,
                )  # fmt: skip
                event(Kind.DISBELIEVED, (now, now, now, "main"), node, "lock", Op.NONE, **tenure)
    return recorder


def unread(acquires: int) -> History:
    """A lock whose records nobody can read: clients in turn, each waiting from the turn before."""
    return _cycles(acquires, is_readable=False)


def by_helpers(acquires: int) -> History:
    """A lock that sends its requests from a task of its own."""
    return _cycles(acquires, helper="io")


def lying(acquires: int) -> History:
    """A lock that denies once in every cycle, though nobody has it."""
    return _cycles(acquires, is_denying=True)


def silent(acquires: int) -> History:
    """A lock that lets every grant lapse and never gives it back, nor says so."""
    return _cycles(acquires, is_releasing=False)


def reviving(acquires: int) -> History:
    """A lock whose heartbeat writes its record again after every release."""
    return _cycles(acquires, is_reviving=True)


def under_one_name(acquires: int) -> History:
    """A lock whose clients all write one name and no token, and take over what has lapsed."""
    return _cycles(acquires, name="shared", is_releasing=False)


def in_two_writes(acquires: int) -> History:
    """A lock that is taken over in two writes: what has lapsed is deleted, and then a record is created."""
    return _cycles(acquires, is_releasing=False, is_clearing=True)


def counting_writes(acquires: int) -> History:
    """A lock whose token rises with every write, renewed in every cycle, and given back by a stamp that has passed."""
    return _cycles(acquires, token_step=3, is_renewing=True, is_past_stamp=True)


def handing_over(acquires: int) -> History:
    """A lock that its holder gives to the next client, by a record in that one's name."""
    h = _timed()
    for turn in range(acquires):
        at, node, following = 40 * turn, f"n{turn % CLIENTS}", f"n{(turn + 1) % CLIENTS}"
        request = h.call(node, Op.ACQUIRE, at - 30)
        if not turn:
            h.write(node, Op.ACQUIRE, sent=at, applied=at + 1, owner=f"owner-{node}", token=turn, valid_until=at + 8)
        h.returns(node, Op.ACQUIRE, at + 3, request, Outcome.APPLIED, owner=f"owner-{node}", token=turn)
        release = h.call(node, Op.RELEASE, at + 5)
        h.write(node, Op.ACQUIRE, sent=at + 6, owner=f"owner-{following}", token=turn + 1,
                valid_until=at + 60)  # fmt: skip
        h.returns(node, Op.RELEASE, at + 7, release, Outcome.APPLIED)
    return h


def resumed(acquires: int) -> History:
    """A lock whose only client dies in every cycle; the next process of its name takes what that one has left."""
    h = _timed()
    for turn in range(acquires):
        at = 40 * turn
        request = h.call("n0", Op.ACQUIRE, at)
        h.write("n0", Op.ACQUIRE, sent=at, applied=at + 1, owner=f"owner-{turn}", token=turn, valid_until=at + 60)
        h.returns("n0", Op.ACQUIRE, at + 3, request, Outcome.APPLIED, owner=f"owner-{turn}", token=turn)
        h.fault("n0", at + 4, "crash", "begin", f"f{turn}")
        h.fault("n0", at + 5, "crash", "end", f"f{turn}")
    return h


def unheard(acquires: int) -> History:
    """A real run in which every grant is answered by silence and found by reading."""
    return _cycles(acquires, is_heard=False)


def forked(acquires: int) -> History:
    """A real run in which every write names a version that nobody made."""
    return _cycles(acquires, is_forking=True)


def mixed(acquires: int) -> History:
    """A real run of one lock with lost answers, forks, unrecorded writers, blind writes and deletes."""
    return mixture(acquires)


def mixed_locks(acquires: int) -> History:
    """The same on many locks at once, eight turns on each."""
    return mixture(acquires, locks=max(1, acquires // 8))


def slow_and_blind(acquires: int) -> History:
    """A real run in which writes that ask for no version stay under way for a hundred turns."""
    return mixture(acquires, odds={"blind": 0.5, "slow": 0.5})


def lost_and_forked(acquires: int) -> History:
    """A real run with many writes that never landed, and as many forks to which they might lead."""
    return mixture(acquires, odds={"lost": 0.4, "refused": 0.5, "fork": 0.3})


def without_record(acquires: int) -> History:
    """A real run with an unrecorded writer, and many writes without an answer that never landed."""
    return mixture(acquires, odds={"hole": 0.3, "lost": 0.3, "refused": 0.5, "delete": 0.3})


ODDS = {"lost": 0.15, "refused": 0.1, "fork": 0.1, "hole": 0.1, "blind": 0.15, "slow": 0.1, "delete": 0.2, "read": 0.3}
"""How often a write of a mixture is of a kind. refused: the store did not apply it; slow: under way for long."""


def mixture(acquires: int, *, locks: int = 1, odds: Mapping[str, float] = ODDS, seed: int = 0) -> History:
    """A real run of writes drawn at random, three in a cycle; a conditional write is sent after what it replaces."""
    chance = random.Random(seed)
    h = _timed(is_simulated=False)

    def is_drawn(kind: str) -> bool:
        return chance.random() < odds.get(kind, 0)

    # Per lock the last states, the last one in force, and since when.
    states = [[("", 0)] for _ in range(locks)]
    for turn in range(3 * acquires):
        at, node = 10 * turn, f"n{chance.randrange(CLIENTS)}"
        number = chance.randrange(locks)
        past = states[number]
        h.lock = f"lock{number}"
        is_hidden, is_blind, is_forking = is_drawn("hole"), is_drawn("blind"), is_drawn("fork")
        version, since = chance.choice(past[-4:]) if is_forking else past[-1]
        is_refused = not is_hidden and is_drawn("refused")
        op = Op.DELETE if version and is_drawn("delete") else chance.choice((Op.ACQUIRE, Op.RENEW, Op.RELEASE))
        made = "" if op is Op.DELETE else f"made{turn}"
        if not is_hidden:
            late = 1_000 if is_drawn("slow") else chance.randrange(20)
            h.write(
                node, op, sent=max(since, at - chance.randrange(20)), replied=at + late,
                owner=f"owner-{node}", token=turn, valid_until=at + 8, content=f"content{turn}", version=made,
                if_version="" if is_blind else version or IF_ABSENT,
                outcome=Outcome.PRECONDITION_FAILED if is_refused else Outcome.APPLIED,
                reply=Outcome.AMBIGUOUS if is_drawn("lost") else None,
            )  # fmt: skip
        if is_refused:
            continue
        past.append((made, at + 1))
        del past[:-4]
        if is_drawn("read"):
            h.read(node, at + 1, version=made, content=f"content{turn}" if made else "", owner=f"owner-{node}")
    return h


SHAPES: dict[str, Callable[[int], History]] = {
    "records that nobody can read": unread,
    "requests sent by a helper task": by_helpers,
    "a false denial in every cycle": lying,
    "every grant lapses unheard": silent,
    "every grant is revived": reviving,
    "one name for all clients": under_one_name,
    "every grant is taken over in two writes": in_two_writes,
    "a token with every write, a release by stamp": counting_writes,
    "every grant is handed over": handing_over,
    "every holder dies, and its next process goes on": resumed,
    "every answer is lost, real run": unheard,
    "every condition is another, real run": forked,
    "a mixture of everything, real run": mixed,
    "a mixture on many locks, real run": mixed_locks,
    "slow writes without a condition, real run": slow_and_blind,
    "forks and writes that never landed, real run": lost_and_forked,
    "an unrecorded writer and lost answers, real run": without_record,
}
"""What once took the square of its size, or could: each with as many violations, or excuses to look for, as cycles."""


def _timed(*, is_simulated: bool = True) -> History:
    return History(
        run={"validity_ns": 8, "poll_interval_ns": 1, "request_timeout_ns": 1, "wait_timeout_ns": 50,
             "faults_end_ns": 0, "claims": ["L4"]},
        is_simulated=is_simulated,
    )  # fmt: skip


def _cycles(
    acquires: int,
    *,
    is_readable: bool = True,
    helper: str = "main",
    is_denying: bool = False,
    is_releasing: bool = True,
    is_reviving: bool = False,
    name: str | None = None,
    is_clearing: bool = False,
    token_step: int = 1,
    is_renewing: bool = False,
    is_past_stamp: bool = False,
    is_heard: bool = True,
    is_forking: bool = False,
) -> History:
    """Clients in turn on one lock; every waiting call begins a turn before it is served."""
    h = _timed(is_simulated=is_heard and not is_forking)
    for turn in range(acquires):
        at, node = 40 * turn, f"n{turn % CLIENTS}"
        owner = (name or f"owner-{node}") if is_readable else ""
        token = None if name else token_step * turn
        request = h.call(node, Op.ACQUIRE, at - 30)
        if is_denying:
            h.read("liar", at - 12, version=h.version, sent=at - 13)
            h.fails("liar", call=at - 14, returned=at - 11)
        if is_clearing and turn:
            h.write(node, Op.DELETE, sent=at - 2, replied=at - 1, task=helper)
        version = h.write(node, Op.ACQUIRE, sent=at, applied=at + 1, replied=at + 2, owner=owner, token=token,
                          valid_until=at + 8, task=helper, if_version="another" if is_forking else None,
                          reply=None if is_heard else Outcome.AMBIGUOUS)  # fmt: skip
        if not is_heard:
            h.read(node, at + 3, version=version, owner=owner)
        h.returns(node, Op.ACQUIRE, at + 3, request, Outcome.APPLIED, owner=owner, token=token, version=version)
        held = Held(node, "main", request, owner, token, version)
        h.believes(held, at + 3, at + 4)
        if is_renewing:
            token = token_step * turn + 1
            h.write(node, Op.RENEW, sent=at + 4, owner=owner, token=token, valid_until=at + 12, task="heartbeat")
        if is_releasing:
            release = h.call(node, Op.RELEASE, at + 5)
            given_back = Op.RENEW if is_past_stamp else Op.RELEASE
            h.write(node, given_back, sent=at + 6, owner=owner, token=token,
                    valid_until=at + 5 if is_past_stamp else None)  # fmt: skip
            h.returns(node, Op.RELEASE, at + 7, release, Outcome.APPLIED)
        if is_reviving:
            h.write(node, Op.RENEW, sent=at + 8, owner=owner, token=turn, valid_until=at + 9, task="heartbeat")
    return h


def growth(shape: Callable[[int], History], sizes: tuple[int, int] = (1_500, 12_000)) -> tuple[Spread, Spread, Spread]:
    """The exponent with which judging grows between two sizes, and the CPU seconds that each took."""
    small, large = (judging(*shape(size).tables()) for size in sizes)
    return exponent(small, large, sizes[1] / sizes[0]), small, large


def exponent(small: Spread, large: Spread, times_as_many: float) -> Spread:
    """With which power of the size the time grows. 1: twice as much takes twice as long."""
    return Spread(tuple(math.log(ratio) / math.log(times_as_many) for ratio in large.over(small).values))


def every_table(events: pa.Table, runs: pa.Table) -> None:
    """Judge, and make the tables that wait until somebody asks for them."""
    judgement, _handoffs = judge_with_handoffs(events, runs)
    for name in TABLES:
        judgement.table(name)


def judging(events: pa.Table, runs: pa.Table) -> Spread:
    """CPU seconds to judge a history, with every table that a judgement has."""
    return warm(lambda: cpu_seconds(lambda: every_table(events, runs)), ROUNDS)


def deciding(operations: int) -> Spread:
    """CPU seconds of the second definition, in plain Python, on a legal history of one lock."""
    ops = []
    for turn in range(operations // 2):
        at, client = 10 * turn, f"c{turn % CLIENTS}"
        ops.append(LockOp(client=client, result=Result.GRANTED, call_ns=at - 5, return_ns=at + 1, token=turn + 1))
        ops.append(LockOp(client=client, result=Result.RELEASED, call_ns=at + 2, return_ns=at + 8))
    assert find_illegal(ops) is None, "the history is legal"
    return warm(lambda: cpu_seconds(lambda: find_illegal(ops)), ROUNDS)


def measure() -> list[Figure]:
    """All figures of this part."""
    figures: list[Figure] = []
    took: list[Spread] = []
    for size in SIZES:
        events, runs = history(size)
        took.append(judging(events, runs))
        is_largest = size == SIZES[-1]
        figures.append(
            Figure.of(
                f"judge {size:,} operations ({len(events):,} events), one run",
                took[-1],
                "CPU s",
                aim="<= 1 CPU s" if is_largest else "",
                is_met=took[-1].median <= 1.0 if is_largest else None,
            )
        )
        del events, runs
    power = exponent(took[0], took[-1], SIZES[-1] / SIZES[0])
    figures.append(Figure.of("growth exponent of judging", power, "", aim="<= 1.2", is_met=power.median <= 1.2))
    events, runs = history(100_000, runs=BATCH_RUNS)
    per_run = judging(events, runs).times(1e6 / BATCH_RUNS)
    figures.append(
        Figure.of(
            f"judge a short run ({len(events) // BATCH_RUNS} events) in a batch of {BATCH_RUNS:,}",
            per_run,
            "µs",
            aim="<= 200 µs",
            is_met=per_run.median <= 200,
        )
    )
    for name, shape in SHAPES.items():
        power, small, large = growth(shape)
        figures.append(
            Figure.of(
                f"growth exponent, {name}",
                power,
                "",
                aim="<= 1.3",
                is_met=power.median <= 1.3,
                note=f"{small.times(1e3)} to {large.times(1e3)} ms for 8 times as many cycles",
            )
        )
    figures.append(Figure.of("second opinion, 100,000 operations, plain Python", deciding(100_000), "CPU s"))
    return figures
