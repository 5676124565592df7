"""The frame of every experiment: what a study is, and how its experiments are run and told."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable

ROOT: Final = Path(__file__).parents[2]
"""The repository."""

Ask = Callable[[str], bool]
"""Runs the experiment of that name. True: seen as the study's page tells.

Raises BackendUnavailable where an original or a server cannot be had.
"""


def no_options(parser: argparse.ArgumentParser) -> None:
    """A study without options of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The experiments on one original.

    about: one sentence for the help. page: where docs tell what is seen. names: of the experiments, in their order.
    opened: starts what they stand on, and gives what runs one. add_options: the study's own options.
    """

    name: str
    about: str
    page: str
    names: Sequence[str]
    opened: Callable[[argparse.Namespace], AbstractContextManager[Ask]]
    add_options: Callable[[argparse.ArgumentParser], None] = no_options


def say(line: str) -> None:
    """Tell one thing that an experiment has seen."""
    print(f"  {line}", flush=True)


def run_experiments(study: Study, names: Sequence[str], options: argparse.Namespace) -> int:
    """Run these experiments one after the other, and tell of each whether it was seen. Returns the exit code."""
    unseen: list[str] = []
    unavailable: list[BackendUnavailable] = []
    try:
        with study.opened(options) as ask:
            for name in names:
                print(f"{name}:", flush=True)
                began_s = time.monotonic()
                try:
                    is_seen = ask(name)
                except BackendUnavailable as error:
                    say(f"not run: {error}")
                    unavailable.append(error)
                    continue
                say(f"{'seen' if is_seen else 'NOT SEEN'}, {time.monotonic() - began_s:.0f} s")
                unseen += [] if is_seen else [name]
    except BackendUnavailable as error:
        print(error, file=sys.stderr)
        unavailable.append(error)
    if unseen:
        return 1
    return unavailable[0].exit_code if unavailable else 0
