"""The promise of a lock, clause by clause: what docs/spec.md says of each limit, from both sides of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockref.lab.loading import ProviderSpec, load_provider
from reports.checks.spec import CLAUSES
from scenarios.envelope.contended import Point
from scenarios.envelope.promise import BETA_NS, CLOCKS, STAMP, promises_of

S = 1_000_000_000
HUDI, HARDENED, DYNAMODB = (load_provider(name) for name in ("hudi", "hardened", "dynamodb"))
SAFETY = ("S1", "S2", "S3", "S4", "S5", "S6", "S7")


def promised(spec: ProviderSpec, point: Point, *, shows_tokens: bool) -> list[str]:
    return [clause for clause, each in promises_of(spec, shows_tokens=shows_tokens).items() if each.covers(point)]


def test_clocks_may_differ_by_beta_and_no_more() -> None:
    """Envelope: offset up to β; a rate error adds what it amounts to by the end of the run."""
    assert CLOCKS.left_ns(Point(offset=BETA_NS)) == 0
    assert CLOCKS.left_ns(Point(offset=BETA_NS + 1)) < 0
    # 45 s at 1 % are 450 ms.
    slow = Point(rate=10_000)
    assert slow.duration_ns == 45 * S
    assert CLOCKS.left_ns(slow) == pytest.approx(BETA_NS - 0.45 * S)


def test_a_lease_outlasts_a_pause_of_what_is_left_of_it() -> None:
    """V + β after the last renewal, which is one interval and two messages old, less the waiter's clock."""
    point = Point(validity=10 * S, latency=5_000_000)
    limit = 10 * S + BETA_NS - S - 10_000_000
    assert STAMP.left_ns(replace(point, pause=limit)) == 0
    assert STAMP.left_ns(replace(point, pause=limit + 1)) < 0
    assert STAMP.left_ns(replace(point, pause=limit - S // 4, offset=S // 4)) == 0
    assert STAMP.left_ns(replace(point, pause=limit - S // 4, offset=S // 4 + 1)) < 0


def test_nobody_knows_the_age_of_a_renewal_where_messages_are_lost() -> None:
    assert STAMP.left_ns(Point(loss=1)) == float("-inf")


def test_a_lock_that_tells_of_losses_needs_no_short_pause() -> None:
    """hardened claims L4: any pause, while clocks agree within β; a token keeps S4 beyond that."""
    assert promised(HARDENED, Point(pause=600 * S, offset=BETA_NS), shows_tokens=True) == list(SAFETY)
    assert promised(HARDENED, Point(pause=600 * S, offset=BETA_NS + 1), shows_tokens=True) == ["S1", "S2", "S4"]


def test_without_a_token_nothing_stops_the_write_of_a_long_pause() -> None:
    assert "S4" not in promised(HARDENED, Point(pause=10 * S), shows_tokens=False)
    assert "S4" in promised(HARDENED, Point(pause=9 * S), shows_tokens=False)


def test_a_lock_that_tells_nothing_promises_as_long_as_its_lease_covers_the_pause() -> None:
    assert promised(HUDI, Point(pause=9 * S), shows_tokens=False) == list(SAFETY)
    assert promised(HUDI, Point(pause=10 * S), shows_tokens=False) == ["S1", "S2", "S5"]


def test_a_lock_that_watches_records_compares_no_wall_clocks() -> None:
    """dynamodb's record tells a duration: no offset matters, a rate does, once V slow seconds outlast W."""
    assert promised(DYNAMODB, Point(offset=600 * S, pause=600 * S), shows_tokens=True) == list(SAFETY)
    assert "S3" not in promised(DYNAMODB, Point(rate=200_000), shows_tokens=True)


def test_a_timing_that_a_lock_refuses_is_not_promised() -> None:
    """dynamodb needs a lease of 1.2 times its renewals and more: it refuses one of a nanosecond."""
    assert "S3" not in promised(DYNAMODB, Point(validity=1), shows_tokens=True)


def test_a_lock_without_a_lease_is_never_taken_over() -> None:
    spec = replace(HUDI, claims=("no-lease",))
    assert promised(spec, Point(pause=600 * S, offset=600 * S, loss=900_000), shows_tokens=False) == list(SAFETY)


def test_a_lock_that_says_nothing_promises_nothing() -> None:
    """Its records are its own, and it claims nothing: nobody can say for how long they are good."""
    unknown = replace(HUDI, record_format="own", claims=())
    assert promises_of(unknown, shows_tokens=True) == {}
    assert promises_of(replace(unknown, claims=("lease",)), shows_tokens=True)


def test_each_limit_names_its_place_in_the_specification() -> None:
    for spec in (HUDI, HARDENED, DYNAMODB):
        for promise in promises_of(spec, shows_tokens=True).values():
            assert promise.references[0] == f"{promise.clause}: {CLAUSES[promise.clause]}"
            assert len(promise.references) == 1 + len(promise.limits)
