"""The study of Apache Helix 1.4.3 as released, beside ours, on a real ZooKeeper. It needs a JDK of Java 17 or newer."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lockref.temporary_folders import owned_folder
from scenarios.backends.zookeeper import started_zookeeper
from tests.evidence.experiments import Ask, Study, say
from tests.evidence.helix.experiments import TOGETHER, Experiment
from tests.evidence.helix.hazards import HAZARDS
from tests.evidence.helix.lock_mistakes import LOCK_MISTAKES
from tests.evidence.helix.one_znode import ONE_ZNODE
from tests.evidence.helix.operated import OPERATED
from tests.evidence.helix.plain import PLAIN
from tests.evidence.helix.size import SIZE

ALL: Final = {**TOGETHER, **OPERATED, **HAZARDS, **PLAIN, **SIZE, **ONE_ZNODE, **LOCK_MISTAKES}


@contextmanager
def _opened(_options: argparse.Namespace) -> Iterator[Ask]:
    with owned_folder("fleet") as folder, started_zookeeper() as server:
        run = Experiment(hosts=server.hosts, log_folder=folder, say=say)
        yield lambda name: ALL[name](run)


HELIX: Final = Study(
    name="helix",
    about="Apache Helix 1.4.3 as released, in one fleet with ours.",
    page="docs/helix.md",
    names=tuple(ALL),
    opened=_opened,
)
