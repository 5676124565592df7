"""What a probe costs, and how many rounds it takes to find a double winner that comes about at a given rate.

The store of the second figure is a server whose races leak in a known share of the rounds. Rounds are counted, so a
busy machine does not change them: one over the share is what chance gives on average.
"""

from __future__ import annotations

import contextlib
import os
from unittest.mock import patch

from lockref.runtime import NS_PER_S
from scenarios.backends import start_backend
from scenarios.probe.findings import Finding, Rate
from scenarios.probe.opening import addresses_of
from scenarios.probe.questions import races
from scenarios.probe.run import ProbeResult, probe
from scenarios.probe.session import Session, Unanswered
from tests.bench.figures import Figure, Spread
from tests.conditional_server import serving
from tests.lying_servers import LeakyNowAndThen

SHARES = (0.2, 0.05)
SEEDS = 7
ROUNDS_MAX = 400
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}


def _probed(uri: str, *only: str, rounds: int) -> ProbeResult:
    return probe(addresses_of(uri), for_ns=300 * NS_PER_S, rounds=rounds, only=only)


def _cost() -> list[Figure]:
    """Of a whole probe with twenty rounds of each race."""
    with start_backend("ministack") as running:
        done = [_probed(running.uri, rounds=20) for _ in range(3)]
    return [
        Figure.of(
            "requests of a probe, 20 rounds of each race", Spread(tuple(float(one.requests) for one in done)), ""
        ),
        Figure.of("the same in seconds", Spread(tuple(one.lasted_ns / NS_PER_S for one in done)), "s"),
    ]


class _Found(Exception):
    """A double winner."""


def _rounds_until_found(share: float, seed: int) -> float:
    """Rounds of simultaneous creates until the first one that shows two winners."""
    seen: list[Rate] = []

    def until_faulty(session: Session, finding: Finding, rate: Rate, form: races.Form, **options: bool) -> None:
        seen[:] = [rate]
        create_round(session, finding, rate, form, **options)
        if rate.faulty:
            raise _Found

    create_round = races.create_round
    with (
        serving(LeakyNowAndThen(share=share, seed=seed)) as uri,
        patch.object(races, "create_round", until_faulty),
        contextlib.suppress(_Found, Unanswered),
    ):
        _probed(uri, "C2", rounds=ROUNDS_MAX)
    return float(seen[0].rounds)


def measure() -> list[Figure]:
    """The figures of this part."""
    with patch.dict(os.environ, CREDENTIALS):
        found = [
            Figure.of(
                f"rounds until two winners are seen, at {share:.0%} of the rounds",
                Spread(tuple(_rounds_until_found(share, seed) for seed in range(SEEDS))),
                "rounds",
                note=f"chance gives {1 / share:.0f} on average",
            )
            for share in SHARES
        ]
    return [*_cost(), *found]
