"""The study of delta-rs' lock: its experiments and their options."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.evidence.delta.comparison import COMPARISON
from tests.evidence.delta.danger import DANGERS
from tests.evidence.delta.findings import FINDINGS, Experiment
from tests.evidence.delta.lake import started_lake
from tests.evidence.delta.log_store import LOG_STORES
from tests.evidence.delta.queues import QUEUES
from tests.evidence.delta.today import TODAY
from tests.evidence.delta.turns import TURNS
from tests.evidence.experiments import Ask, Study, say

ALL: Final = {**FINDINGS, **TURNS, **DANGERS, **LOG_STORES, **TODAY, **QUEUES, **COMPARISON}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lease", type=int, default=5, metavar="SECONDS", help="of the writers (default 5)")
    parser.add_argument("--writers", type=int, default=4, metavar="N", help="processes at once (default 4)")
    parser.add_argument("--appends", type=int, default=5, metavar="N", help="of each process (default 5)")


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[Ask]:
    with started_lake() as lake:
        yield lambda name: ALL[name](
            Experiment(lake=lake, lease_s=options.lease, writers=options.writers, appends=options.appends, say=say)
        )


DELTA: Final = Study(
    name="delta",
    about="The released deltalake wheels and the lock crate, on a real table.",
    page="docs/delta-originals.md",
    names=tuple(ALL),
    opened=_opened,
    add_options=_add_options,
)
