"""`make docs`: put the example locks and the tables of keys and faults into the documents that explain them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from docs.site.scenario_keys import keys_of_a_file
from scenarios.definition.fault_forms import written_name
from sim.faults.fault import Fault, RequestFault
from sim.faults.plan import FAULT_TYPES
from tests.docs import ROOT

GUIDE = ROOT / "docs" / "bring-your-own-lock.md"
EXAMPLES = ("lease_lock.py", "variants.py")
GATE = ROOT / "docs" / "gate.md"
GATE_EXAMPLES = ("lock-gate.yaml", "known-failures.yaml")
SCENARIOS = ROOT / "docs" / "scenarios.md"


def main() -> None:
    """Replace what stands between two marks: by an example to the letter, or by what each kind of fault says."""
    for name in EXAMPLES:
        code = (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8")
        _embed(GUIDE, f"examples/{name}", f"```python\n{code}```\n")
    for name in GATE_EXAMPLES:
        text = (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8")
        _embed(GATE, f"examples/{name}", f"```yaml\n{text}```\n")
    _embed(SCENARIOS, "fault kinds", fault_table())
    _embed(SCENARIOS, "keys", keys_of_a_file())


def _embed(document: Path, mark: str, text: str) -> None:
    place = re.compile(rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- end -->)", re.DOTALL)
    before = document.read_text(encoding="utf-8")
    assert place.search(before), f"{document.name} has no place for {mark!r}"
    document.write_text(place.sub(lambda found: found[1] + text + found[2], before), encoding="utf-8")


def fault_table() -> str:
    """One row for each kind, from its class: its keys, the first paragraphs of its docstring, and real servers."""
    rows = ["| kind | own keys | what happens | on real servers |", "|---|---|---|---|"]
    for kind, fault in FAULT_TYPES.items():
        rows.append(f"| `{kind}` | {_keys(fault)} | {_sentences(fault)} | {_obstacle(fault)} |")
    return "\n".join(rows) + "\n"


def _keys(fault: type[Fault]) -> str:
    is_filter = issubclass(fault, RequestFault)
    shared = {"kind", *(RequestFault.model_fields if is_filter else Fault.model_fields)}
    own = [f"`{written_name(name)}`" for name in fault.model_fields if name not in shared]
    return ", ".join([*(["filter"] if is_filter else []), *own]) or "–"


def _obstacle(fault: type[Fault]) -> str:
    why = fault.never_real
    return f"no: {why}" if why else "yes"


def _sentences(fault: type[Fault]) -> str:
    return " ".join((inspect.getdoc(fault) or "").split())


if __name__ == "__main__":
    main()
