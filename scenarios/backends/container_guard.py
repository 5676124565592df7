"""A process that removes a container of ours, so that the container never outlives us.

Run as a script, as `guard.py` is. The engine starts containers, so no process of ours is the parent of a container, and
no signal ends it together with us. This process waits at its standard input, a pipe whose other end our process holds.
A byte on the pipe is our order to end. However our process ends, `kill -9` included, the pipe closes. Either way this
process keeps the container's log and removes the container; after the death of our process it also clears away the
folder of the run, which nobody else will.

The only failure is an engine that no longer answers. Nobody may be left to be told of it but the user, so it goes to
standard error, with the command that removes the container later.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

STOP = b"."
CONTAINER_GUARD = Path(__file__)
"""This script. Our process asks for its path and its order alone."""
_ENGINE_TIMEOUT_S = 20


def main(name: str, log_path: str, folder: str) -> int:
    """Wait for our parent's word or its end, then remove the container of that name. 1 if that cannot be done."""
    # Imported here: our process asks this module for its path alone, also where no client of an engine is installed.
    import docker
    from docker.errors import DockerException, NotFound
    from requests.exceptions import RequestException

    order = os.read(0, 1)
    try:
        with_engine = docker.from_env(timeout=_ENGINE_TIMEOUT_S)
        container = with_engine.containers.get(name)
        # Without its log where the folder has gone: the next command may sweep it before this process is done.
        with contextlib.suppress(FileNotFoundError):
            Path(log_path).write_bytes(container.logs())
        container.remove(force=True, v=True)
    except NotFound:
        # It was never made, or somebody else has removed it.
        return 0
    except (DockerException, RequestException) as error:
        sys.stderr.write(
            f"lockref: the container {name} could not be removed, because its engine does not answer ({error}); "
            f"once it does: docker rm --force {name}\n"
        )
        return 1
    finally:
        if not order:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
