"""The command line of a product that also has the made-up service and the made-up fault.

Its argument is a list of commands in JSON. A line of JSON tells of each the exit code, the document and what was said
beside it. A worker process imports this module as its main one, and so knows the service and the fault, too.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

from lockref.clouds.uri import CLOUDS
from lockref.services import SERVICES
from scenarios.backends.hosts import HOSTS
from sim.services.kinds import SIMULATED
from tests.sim.made_up import fault  # noqa: F401 - a kind of fault registers itself
from tests.sim.made_up.revisions import ADDRESS, HOST, KIND, REVISIONS, SIMULATION

CLOUDS["revisions"] = ADDRESS
SERVICES[REVISIONS.name] = KIND
SIMULATED[REVISIONS.name] = SIMULATION
HOSTS[REVISIONS.name] = HOST

if __name__ == "__main__":
    from lockref.cli.main import run

    for words in json.loads(sys.argv[1]):
        with redirect_stdout(io.StringIO()) as told, redirect_stderr(io.StringIO()) as said:
            code = run(words)
        line = json.dumps([code, json.loads(told.getvalue() or "{}"), said.getvalue()])
        sys.stdout.write(f"{line}\n")
