"""Loading a stranger's lock: every way it can fail is one line that says what to change."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from lockref.claims import DECLARATIONS, LEASE, NO_LEASE
from lockref.errors import ConfigError
from lockref.history import to_table
from lockref.lab.contract import CheckedDecoder, OneRecord
from lockref.lab.loading import BUILT_IN, load_provider, provider_from, registered
from lockref.provider import INTERFACE_VERSION, LockSettings
from lockref.runtime import NS_PER_S
from lockref.storage import lockfile
from lockref.storage.config import RFC91_LOCK_KEY
from lockref.storage.provider import StorageLock
from scenarios.definition.load import parse_scenario
from scenarios.worlds.real import run_real
from scenarios.worlds.simulated import run_simulated

METHODS = """
    grant = None
    def __init__(self, context): self.context = context
    def try_lock(self): return False
    def lock(self, timeout_s): return False
    def unlock(self): pass
    def holds(self): return False
    def close(self): pass
"""


def file_with(folder: Path, body: str) -> Path:
    path = folder / "mine.py"
    path.write_text(body)
    return path


def test_built_in_locks_load_by_name() -> None:
    """`hudi` and `hardened` are there, with the decoder of RFC-91 records."""
    assert {"hudi", "hardened"} <= set(registered())
    for name in ("hudi", "hardened"):
        spec = load_provider(name)
        assert (spec.name, spec.reference) == (name, name)
        body = lockfile.serialize(lockfile.LockFile("a", 5, expired=False))
        assert spec.decode("any/key", body) == OneRecord(lockfile.decode)("any/key", body)
        assert spec.decode("any/key", b"{") == ()


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_key_of_rfc_91_is_that_of_its_own_locks_alone(name: str) -> None:
    """A row, a znode and a lock of a cluster are not called as Hudi's lock file is."""
    spec = load_provider(name)
    assert (spec.default_lock_key == RFC91_LOCK_KEY) is (spec.record_format == "rfc91")
    assert spec.record_format == "rfc91" or ".hoodie" not in spec.default_lock_key


def test_a_lock_names_the_key_of_its_lock(tmp_path: Path) -> None:
    """In a simulation as it is, in a real run behind that run's folder; without one the key says nothing of RFC-91."""
    path = file_with(tmp_path, f"class Mine:{METHODS}\nclass Own(Mine):\n    default_lock_key = 'a/b'\n")
    assert load_provider(f"{path}:Mine").default_lock_key == LockSettings().key == "table/lock"
    own = load_provider(f"{path}:Own")
    scenario = parse_scenario(
        "version: 1\nname: x\nclients: 1\nduration: 5s\nworkload: {cycles: 1, start: 0s, wait: 1s}\n"
    )
    simulated = to_table([run_simulated(scenario, own, 1).recorder])
    real = run_real(scenario, own, (tmp_path / "store").as_uri(), duration_ns=NS_PER_S).events
    for events, name in ((simulated, "a/b"), (real, "lockref-[0-9a-f]{12}/a/b")):
        locks = {row["lock"] for row in events.to_pylist() if row["kind"] == "call"}
        assert len(locks) == 1
        assert re.fullmatch(name, locks.pop())


def test_a_lock_in_a_file_loads_and_makes_locks(tmp_path: Path) -> None:
    """`path/file.py:Class` makes `Class(context)`; its neighbours can be imported; claims are kept."""
    (tmp_path / "neighbour_of_mine.py").write_text("CLAIMS = ('F2',)\n")
    path = file_with(tmp_path, f"from neighbour_of_mine import CLAIMS\nclass Mine:\n    claims = CLAIMS\n{METHODS}")
    spec = load_provider(f"{path}:Mine")
    context = object()
    made = spec.factory(context)  # type: ignore[arg-type]
    assert type(made).__name__ == "Mine"
    assert made.context is context  # type: ignore[attr-defined]
    assert spec.claims == ("F2",)


def test_a_file_may_use_what_needs_its_module(tmp_path: Path) -> None:
    """Dataclasses with postponed annotations look their module up by name while it is being imported."""
    path = file_with(
        tmp_path,
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        f"@dataclass\nclass Settings:\n    size: int = 1\nclass Mine:\n{METHODS}",
    )
    assert load_provider(f"{path}:Mine").name.endswith("mine.py:Mine")


def test_from_context_is_preferred(tmp_path: Path) -> None:
    """A lock whose constructor serves applications is made by `from_context`."""
    path = file_with(
        tmp_path,
        f"class Mine:\n{METHODS}\n    @classmethod\n    def from_context(cls, context): return cls(('via', context))\n",
    )
    assert load_provider(f"{path}:Mine").factory("c").context[0] == "via"  # type: ignore[arg-type, attr-defined]


def test_a_spec_crosses_to_another_process_by_its_reference(tmp_path: Path) -> None:
    """Worker processes load the lock again by the name that was given."""
    path = file_with(tmp_path, f"class Mine:\n{METHODS}")
    spec = load_provider(f"{path}:Mine")
    again = pickle.loads(pickle.dumps(spec))
    assert (again.name, again.reference) == (spec.name, spec.reference)


def test_a_lock_has_one_name_in_all_processes_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker names a file as it was given, by its relative path, too, else what it saw would not count."""
    file_with(tmp_path, f"class Mine:\n{METHODS}")
    monkeypatch.chdir(tmp_path)
    spec = load_provider("./mine.py:Mine")
    again = pickle.loads(pickle.dumps(spec))
    assert (again.name, again.reference) == ("./mine.py:Mine", f"{tmp_path.resolve()}/mine.py:Mine")


def test_a_worker_names_a_lock_in_its_messages_as_the_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A complaint about a decoder named the lock twice: by the argument, and by the path of the worker."""
    file_with(tmp_path, f"class Mine:\n{METHODS}\n    @staticmethod\n    def decode_record(body): return 7\n")
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(pickle.dumps(load_provider("./mine.py:Mine")))
    with pytest.raises(ConfigError, match=r"^provider '\./mine\.py:Mine': decode_record answered"):
        again.decode("key", b"{}")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("hardend", "Did you mean 'hardened'"),
        ("no.such.module:Lock", "there is no module 'no'"),
        ("lockref.provider:Grnat", "Did you mean 'Grant'"),
        ("lockref.provider:", "expected 'module:Class'"),
        (":Lock", "expected 'module:Class'"),
        ("lockref.provider:Grant", "has no try_lock, lock, unlock, holds, close"),
        ("lockref.provider:INTERFACE_VERSION", "expected a class"),
        ("./nowhere.py:Lock", "there is no file"),
        ("./README.md:Lock", "not a Python file"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(reference: str, words: str) -> None:
    """A wrong name, module, class or file is a ConfigError of one line."""
    with pytest.raises(ConfigError) as caught:
        load_provider(reference)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("class Mine(:\n", "fails to import: SyntaxError"),
        ("import no_such_library\n", "fails to import: ModuleNotFoundError"),
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines"),
        (f"class Mine:\n    interface_version = {INTERFACE_VERSION + 1}\n{METHODS}", "interface version"),
        (f"class Mine:\n    claims = ('S1',)\n{METHODS}", "claims ('S1',)"),
        (f"class Mine:\n    claims = 'F1'\n{METHODS}", "claims 'F1'"),
        (f"class Mine:\n    decode_record = 5\n{METHODS}", "decode_record must be a function"),
        (f"class Mine:\n    default_lock_key = 5\n{METHODS}", "default_lock_key is 5; expected a key"),
        (f"class Mine:\n    default_lock_key = ''\n{METHODS}", "default_lock_key: the key is empty"),
        (f"class Mine:\n    from_context = 5\n{METHODS}", "from_context is not callable"),
        (f"class Mine:{METHODS}    def __init__(self): pass\n", "cannot be called as Mine(context)"),
        (f"class Mine:{METHODS}    def __init__(self, store, key): pass\n", "cannot be called as Mine(context)"),
        (f"class Mine:{METHODS}    def lock(self): pass\n", "cannot be called as lock(1)"),
        (f"class Mine:{METHODS}    def try_lock(self, timeout_s): pass\n", "cannot be called as try_lock()"),
        (f"class Mine:{METHODS}    async def lock(self, timeout_s): pass\n", "lock(1) is async"),
    ],
)
def test_a_file_that_cannot_serve_is_one_line(tmp_path: Path, body: str, words: str) -> None:
    """A module that fails to import, or a class that is no lock, is a ConfigError of one line."""
    with pytest.raises(ConfigError) as caught:
        load_provider(f"{file_with(tmp_path, body)}:Mine")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_lock_made_in_code_is_checked_too() -> None:
    """`provider_from` accepts a class with the protocol's methods and a decoder of its own."""

    def decode(_body: bytes) -> None:
        return None

    mine = type("Mine", (), {name: lambda _self, *_: None for name in ("try_lock", "lock", "unlock", "holds", "close")})
    mine.__init__ = lambda _self, _context: None  # type: ignore[misc]
    mine.decode_record = staticmethod(decode)  # type: ignore[attr-defined]
    assert provider_from(mine, name="mine").decode == CheckedDecoder(decode, "mine")


@pytest.mark.parametrize("statement", ["raise SystemExit(0)", "import sys; sys.exit('bye')"])
def test_a_module_that_exits_on_import_does_not_end_the_command(tmp_path: Path, statement: str) -> None:
    """An exit code of a stranger's choosing would be read as a verdict."""
    with pytest.raises(ConfigError, match="fails to import: SystemExit"):
        load_provider(f"{file_with(tmp_path, statement)}:Mine")


def test_what_is_made_must_be_a_lock(tmp_path: Path) -> None:
    """A lock without `grant`, or a `from_context` that forgets to return one, is told so before it is asked."""
    for body, words in (
        (f"class Mine:{METHODS.replace('grant = None', '')}", "it has no grant"),
        (f"class Mine:{METHODS}    @classmethod\n    def from_context(cls, context): cls(context)\n", "made NoneType"),
    ):
        spec = load_provider(f"{file_with(tmp_path, body)}:Mine")
        with pytest.raises(ConfigError, match=words):
            spec.factory(object())  # type: ignore[arg-type]


def test_what_a_module_prints_while_imported_is_not_on_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output belongs to the command: with `--json` it is one document."""
    path = file_with(tmp_path, f"print(1)\nclass Mine:{METHODS}")
    load_provider(f"{path}:Mine")
    assert capsys.readouterr() == ("", "1\n")


@pytest.mark.parametrize("claims", [("F1",), ("F1:8", "F2"), (), ("L4", *sorted({*DECLARATIONS} - {LEASE})), (LEASE,)])
def test_claims_are_taken_as_documented(claims: tuple[str, ...]) -> None:
    """`F1:K` is a claim like the others (docs/spec.md)."""
    made = type("Claims", (StorageLock,), {"claims": claims})
    assert provider_from(made, name="x").claims == tuple(sorted(claims))


@pytest.mark.parametrize("claims", ["F1", ("F3",), ("F1:",), ("F1:-1",), (1,), 5, ("no lease",)])
def test_other_claims_are_refused(claims: object) -> None:
    """With what is expected."""
    with pytest.raises(ConfigError, match="F1:K"):
        provider_from(type("Claims", (StorageLock,), {"claims": claims}), name="x")


def test_a_lock_has_a_lease_or_none() -> None:
    """Two declarations that contradict each other are refused."""
    with pytest.raises(ConfigError, match="a lease or none"):
        provider_from(type("Claims", (StorageLock,), {"claims": (LEASE, NO_LEASE)}), name="x")


@pytest.mark.parametrize(("kind", "said"), [("'tabel'", "'tabel'.*Did you mean 'table'"), ("7", "7; expected one of")])
def test_a_lock_that_stands_on_no_known_kind_is_refused(kind: str, said: str, tmp_path: Path) -> None:
    """A misspelt kind ran on an object store in a real run, and ended a simulation with an error of ours."""
    path = file_with(tmp_path, f"class Mine:\n    stands_on = {kind}\n{METHODS}")
    with pytest.raises(ConfigError, match=f"stands_on is {said}"):
        load_provider(f"{path}:Mine")
