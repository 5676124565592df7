"""`SERVICES[kind]` is the one lookup by kind of service: no other module asks which kind it has before it.

The same holds for the families of servers that are started here: they stand in `HOSTS`, and no other module tells them
apart by their names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

import pytest

from lockref.clouds.uri import CLOUDS
from lockref.services import SERVICES
from scenarios.backends.hosts import HOSTS
from sim.services.kinds import SIMULATED
from tests.quality.test_rooms import MODULES

TABLES = ("lockref.services", "sim.services.kinds", "scenarios.backends.hosts")
"""The modules with the three tables; each entry may speak of its own kind."""

OWN = {
    "lockref.coordination.place": "the channel of this kind refuses the addresses of others",
    "lockref.provider": "a context that has only an object store opens nothing else",
}
"""Modules that may name one kind, each with the reason."""

_ASKED = re.compile(r"kind|stands_on|service")
_PORT = re.compile(r'^([A-Z_]+)\b.*= PortKind\("(\w+)"', re.MULTILINE)
PORTS = {
    constant
    for path in MODULES.values()
    for constant, kind in _PORT.findall(path.read_text(encoding="utf-8"))
    if kind in SERVICES
}
"""The constants that are ports of these kinds, such as `TABLE`."""


def branches(source: str, kinds: tuple[str, ...]) -> Iterator[int]:
    """The lines that compare with the name of a kind, or look something up by such names."""
    if not any(f"{word}{mark}" in source for word in (*PORTS, *kinds) for mark in (".name", "'", '"')):
        return
    for node in ast.walk(ast.parse(source)):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            sides += [part for side in sides if isinstance(side, ast.Tuple | ast.List | ast.Set) for part in side.elts]
        elif isinstance(node, ast.MatchValue):
            sides = [node.value]
        elif isinstance(node, ast.Dict):
            sides = [key for key in node.keys if _is_port_name(key)]
        if any(_is_port_name(side) for side in sides):
            yield sides[0].lineno
        elif any(isinstance(side, ast.Constant) and side.value in kinds for side in sides):
            words = " ".join(ast.unparse(side) for side in sides if not isinstance(side, ast.Constant))
            if _ASKED.search(words):
                yield sides[0].lineno


def _is_port_name(side: ast.expr | None) -> bool:
    """`TABLE.name` and its like."""
    return (
        isinstance(side, ast.Attribute)
        and side.attr == "name"
        and isinstance(side.value, ast.Name)
        and side.value.id in PORTS
    )


def test_no_module_branches_on_the_name_of_a_kind() -> None:
    """A kind that comes later would fall through such a branch, and nothing would say so."""
    wrong = [
        f"{path}:{line}"
        for module, path in MODULES.items()
        if module not in TABLES and module not in OWN
        for line in branches(path.read_text(encoding="utf-8"), tuple(SERVICES))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "if kind == TABLE.name: pass",
        "if kind not in (OBJECT_STORE.name, mixture.stands_on): pass",
        "if service.kind != 'object_store': pass",
        "x = {TABLE.name: 'dynamodb'}",
        "x = next(name for name, each in services.items() if each.kind == TABLE.name)",
        "match kind:\n    case TABLE.name: pass",
    ],
)
def test_such_a_branch_is_found(line: str) -> None:
    """Each form in which modules once asked for a kind."""
    assert len(list(branches(line, tuple(SERVICES)))) == 1


@pytest.mark.parametrize(
    "line", ["if workload.lock_key == 'table': pass", "x = {RESOURCE: 1}", "if fault.service == RESOURCE.name: pass"]
)
def test_other_words_are_no_branch(line: str) -> None:
    """`table` also says which lock the writers of a table take."""
    assert list(branches(line, tuple(SERVICES))) == []


FAMILIES = {
    constant: number
    for number, names in enumerate(
        {id(host.servers): host.servers.names for host in HOSTS.values() if host.servers}.values()
    )
    for module in MODULES
    if module in sys.modules
    for constant, value in vars(sys.modules[module]).items()
    if value is names
}
"""The constants that hold the names of a family of servers, such as `BACKENDS`, each with the number of its family."""


def told_apart(source: str) -> Iterator[int]:
    """The lines that ask whether a server is of one family; line 1 where a module lists several families."""
    if not any(constant in source for constant in FAMILIES):
        return
    named = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name | ast.Attribute):
            named.add(node.id if isinstance(node, ast.Name) else node.attr)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            right = node.comparators[0]
            if isinstance(right, ast.Name | ast.Attribute) and ast.unparse(right).rpartition(".")[2] in FAMILIES:
                yield node.lineno
    if len({FAMILIES[name] for name in named & set(FAMILIES)}) > 1:
        yield 1


def test_no_module_tells_the_families_of_servers_apart() -> None:
    """A server of a new kind would be listed by none of them, and started by none."""
    wrong = [
        f"{path}:{line}"
        for module, path in MODULES.items()
        if module not in TABLES
        for line in told_apart(path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "lines",
    [
        "if name in ZOOKEEPERS: start(name)",
        "x = [name for name in names if name not in pins.BACKENDS]",
        "known = [*BACKENDS, *ZOOKEEPERS]",
        "rows = [*map(row, BACKENDS)]\nrows += [row(name, count) for name, count in ZOOKEEPERS.items()]",
    ],
)
def test_families_that_are_told_apart_are_found(lines: str) -> None:
    """Each form in which modules once told a store from a ZooKeeper."""
    assert len(list(told_apart(lines))) == 1


def test_a_module_of_one_family_is_let_be() -> None:
    """Stores are told apart by what they can."""
    assert list(told_apart("able = [name for name, each in BACKENDS.items() if each.keeps]")) == []


def test_the_ports_are_found() -> None:
    """Without them no branch is."""
    assert {"OBJECT_STORE", "TABLE", "COORDINATION"} <= PORTS


def test_each_kind_has_its_half_in_the_simulator() -> None:
    """A kind without a state machine could be locked on in no scenario; one without an entry could never run."""
    assert list(SIMULATED) == list(SERVICES)
    assert set(HOSTS) <= set(SERVICES)


def test_each_address_is_that_of_a_known_kind() -> None:
    """The clouds write the kind as a word, because the ports stand above them."""
    assert {cloud.service for cloud in CLOUDS.values()} == set(SERVICES)
