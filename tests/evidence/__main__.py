"""Repeat experiments on originals and servers, which are installed on first use.

    python -m tests.evidence STUDY [EXPERIMENT ... | all]

Without an experiment it lists those of the study. Exit code 0: all was seen as the study's page tells; 1: something
else was seen; 5: an original or a server could not be had, and nothing else was wrong.
"""

from __future__ import annotations

import argparse
import sys

from tests.evidence.delta.study import DELTA
from tests.evidence.experiments import run_experiments
from tests.evidence.helix.study import HELIX
from tests.evidence.wire.study import WIRE

STUDIES = (DELTA, HELIX, WIRE)


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.evidence", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    studies = parser.add_subparsers(metavar="STUDY", required=True)
    for study in STUDIES:
        one = studies.add_parser(study.name, help=study.about, description=f"{study.about} Its page: {study.page}.")
        # The empty list: argparse asks whether it is among the choices, too, where no name is given.
        one.add_argument(
            "experiment", nargs="*", choices=[*study.names, "all", []], metavar="EXPERIMENT", help="none: list them"
        )
        study.add_options(one)
        one.set_defaults(study=study)
    options = parser.parse_args(arguments)
    study, chosen = options.study, options.experiment
    if not chosen:
        print(*study.names, sep="\n")
        return 0
    return run_experiments(study, study.names if "all" in chosen else chosen, options)


if __name__ == "__main__":
    sys.exit(main())
