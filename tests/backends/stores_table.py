"""Write the table of stores in docs/backends.md anew: `python -m tests.backends.stores_table [NAME=URI ...]`.

Every server that the project can start is started and probed for 25 s; servers that were started by hand are named with
their addresses. A server that cannot be started here keeps no column, and the reason is printed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lockref.atomic_files import write_atomically
from lockref.errors import LockrefError
from lockref.runtime import NS_PER_S
from reports.formats.fingerprint import MARKS
from scenarios.backends import BACKENDS, start_backend
from scenarios.backends.further import FURTHER, started_further
from scenarios.probe.fingerprint import fingerprint_of
from scenarios.probe.opening import addresses_of
from scenarios.probe.run import FOR_NS_DEFAULT, probe

DOCUMENT: Final = Path("docs/backends.md")
BEGIN: Final = "<!-- stores: `python -m tests.backends.stores_table` writes what follows -->"
END: Final = "<!-- stores: end -->"
_DESIGNS: Final = {"can carry": "✓", "cannot carry": "✗", "not answered": "?"}


def table_of(stores: Mapping[str, Mapping[str, Any]]) -> str:
    """One column for each store by its name, from the fingerprints."""
    every = list(stores.values())
    rows = [["", *stores], ["---"] * (len(stores) + 1)]
    rows.append(["**verdict**", *(f"{MARKS[one['verdict']][0]} {one['verdict'].replace('_', ' ')}" for one in every)])
    for name, design in every[0]["designs"].items():
        rows.append([design["title"], *(_DESIGNS[one["designs"][name]["verdict"]] for one in every)])
    rows += [[clause, *(_cell(one["clauses"][clause]) for one in every)] for clause in every[0]["clauses"]]
    rows.append(["requests", *(f"{one['requests']:,}" for one in every)])
    rows.append(["seconds", *(f"{one['lasted_ns'] / NS_PER_S:.0f}" for one in every)])
    return "\n".join(f"|{'|'.join(row)}|" for row in rows)


def _cell(clause: Mapping[str, Any]) -> str:
    rate = clause["rate"]
    counted = f" {rate['faulty']}/{rate['rounds']}" if rate and rate["rounds"] else ""
    return f"{MARKS[clause['verdict']][0]}{counted}"


def with_table(text: str, table: str) -> str:
    """The document with another table between its marks. Raises ValueError where it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{DOCUMENT} has no place for the table: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def probed(name: str, uri: str = "", *, for_ns: int = FOR_NS_DEFAULT) -> dict[str, Any]:
    """The fingerprint of a server of ours by its name, or of any by its address."""
    with contextlib.ExitStack() as stack:
        if not uri:
            start = started_further if name in FURTHER else start_backend
            uri = stack.enter_context(start(name)).uri
        return fingerprint_of(probe(addresses_of(uri), for_ns=for_ns), name=name).document()


def main(arguments: list[str]) -> int:
    """Probe them all, one after the other, and write the table."""
    named = [argument.partition("=")[::2] for argument in arguments]
    stores: dict[str, dict[str, Any]] = {}
    for name, uri in [*((name, "") for name in (*BACKENDS, *FURTHER)), *named]:
        sys.stderr.write(f"probing {name}\n")
        try:
            stores[name] = probed(name, uri)
        except LockrefError as error:
            sys.stderr.write(f"  left out: {error}\n")
    write_atomically(DOCUMENT, with_table(DOCUMENT.read_text(encoding="utf-8"), table_of(stores)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
