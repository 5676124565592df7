"""The console script where only the lock is installed: what is there, and how the rest is had.

It needs the standard library alone.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence

import lockref
from lockref.cli.commands import COMMANDS
from lockref.errors import CapabilityMissing, ConfigError, did_you_mean
from lockref.extras import EXTRAS, install, missing_from

_HELP = ("-h", "--help")


def answer(words: Sequence[str]) -> int:
    """Answer one command line, and return its exit code: 0, 2 for a command that does not exist, else 5."""
    named = next((word for word in words if not word.startswith("-")), "")
    if "--version" in words:
        print(f"lockref, version {lockref.__version__}")
    elif named == "doctor" and not set(_HELP) & set(words):
        _examine(as_json="--json" in words)
    elif not named:
        _help()
    elif named not in COMMANDS:
        print(f"lockref: No such command {named!r}.{did_you_mean(named, COMMANDS)}", file=sys.stderr)
        return ConfigError.exit_code
    else:
        need = f"lockref {named} needs the laboratory, which is not installed: {install('lab')}"
        print(f"lockref: {need}", file=sys.stderr)
        return CapabilityMissing.exit_code
    return 0


def _help() -> None:
    width = max(map(len, COMMANDS))
    print("Usage: lockref [OPTIONS] COMMAND [ARGS]...\n")
    print("  Can a lock that lives in cloud storage be trusted?\n")
    print(f"  Only the lock is installed. All commands but `doctor` need the laboratory: {install('lab')}\n")
    print("Commands:")
    for name, (_, line) in COMMANDS.items():
        print(f"  {name:<{width}}  {line}")


def _examine(*, as_json: bool) -> None:
    missing = {name: missing_from(name) for name in EXTRAS}
    if as_json:
        findings = [{"name": "Python", "status": "ok", "found": platform.python_version(), "disables": ""}]
        findings += [
            {"name": f"lockref[{name}]", "status": "absent" if gaps else "ok",
             "found": f"without {', '.join(gaps)}: {install(name)}" if gaps else "installed",
             "disables": EXTRAS[name].gives if gaps else ""}
            for name, gaps in missing.items()
        ]  # fmt: skip
        print(json.dumps({"ok": True, "findings": findings}, indent=2))
        return
    print(f"✓ {'Python':<22} {platform.python_version()} ({sys.executable})")
    for name, gaps in missing.items():
        print(f"{'–' if gaps else '✓'} {f'lockref[{name}]':<22} {'not installed' if gaps else 'installed'}")
        if gaps:
            print(f"    without it: {EXTRAS[name].gives}; {install(name)}")
