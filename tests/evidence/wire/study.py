"""The study of released programs on the wire. Each run's history stays below `.lockref/released/`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lockref.runtime import ThreadRuntime
from reports.history_files import write_history
from tests.evidence.experiments import Ask, Study
from tests.evidence.wire.experiments import EXPERIMENTS, show, tell


@contextmanager
def _opened(_options: argparse.Namespace) -> Iterator[Ask]:
    yield _ask


def _ask(name: str) -> bool:
    experiment = EXPERIMENTS[name]
    folder = Path(".lockref/released") / f"{name}-{ThreadRuntime().token_bytes(3).hex()}"
    folder.mkdir(parents=True)
    shown = show(experiment, folder)
    write_history(folder, shown.outcome.events, shown.outcome.runs)
    tell(experiment, shown)
    return shown.is_expected


WIRE: Final = Study(
    name="wire",
    about="Released, unmodified programs under faults; all of them take a quarter of an hour.",
    page="docs/findings.md",
    names=tuple(EXPERIMENTS),
    opened=_opened,
)
