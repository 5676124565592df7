"""`python -m scenarios.peers.wire [NAME…]`: released programs on the wire, and what they do when something goes wrong.

Without names all of them, which takes about a quarter of an hour. Each run's history stays below `.lockref/released/`.
Exit code 0 if everything was as expected, 1 if not, 5 if a program could not be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lockref.errors import BackendUnavailable, ConfigError
from lockref.runtime import ThreadRuntime
from reports.history_files import write_history
from scenarios.peers.wire.experiments import find_experiments, show, tell


def main(names: tuple[str, ...]) -> int:
    """Run the experiments of these names, one after the other."""
    try:
        chosen = find_experiments(names)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    code = 0
    for experiment in chosen:
        folder = Path(".lockref/released") / f"{experiment.name}-{ThreadRuntime().token_bytes(3).hex()}"
        folder.mkdir(parents=True)
        try:
            shown = show(experiment, folder)
        except BackendUnavailable as error:
            sys.stdout.write(f"{experiment.name}: not run: {error}\n")
            code = code or error.exit_code
            continue
        write_history(folder, shown.outcome.events, shown.outcome.runs)
        tell(experiment, shown)
        code = code if shown.is_expected else 1
    return code


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
