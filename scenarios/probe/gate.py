"""From a fingerprint to an exit code: what was required decides; without that, the store's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lockref.errors import BackendUnavailable, ConfigError, did_you_mean
from lockref.stores.probe.clauses import CLAUSES, DESIGNS, Verdict
from scenarios import interrupts

if TYPE_CHECKING:
    from lockref.stores.probe.fingerprint import Fingerprint

FIT: Final = 0
UNSAFE: Final = 1
NOT_ANSWERED: Final = 3

_ALIASES: Final = {
    "create-only": "create",
    "compare-and-swap": "cas",
    "conditional-delete": "delete",
    "fence": "fencing",
}


def parse_required(text: str) -> list[str]:
    """`cas,create` or `C13`: designs and clauses. Errors: ConfigError for a word that is neither."""
    found = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            continue
        name = _ALIASES.get(part.lower(), part.lower())
        if name not in DESIGNS:
            name = part.upper()
        if name not in DESIGNS and name not in CLAUSES:
            known = [*DESIGNS, *CLAUSES]
            raise ConfigError(
                f"--require {part!r} is neither a design of lock nor a clause; expected of {', '.join(DESIGNS)} "
                f"or C1 to C{len(CLAUSES)}.{did_you_mean(part, known)}"
            )
        found.append(name)
    return list(dict.fromkeys(found))


def unmet(found: Fingerprint, required: Sequence[str]) -> tuple[list[str], list[str]]:
    """The unmet requirements in words: those that are refuted, and those without an answer."""
    refuted, open_ = [], []
    for name in required:
        if name in DESIGNS:
            design = found.designs[name]
            told = f"{design.title}: {design.why}"
            if design.verdict == "cannot carry":
                refuted.append(told)
            elif design.verdict != "can carry":
                open_.append(told)
            continue
        verdict = found.clauses[name].verdict
        told = f"{name}: {verdict.replace('_', ' ')}"
        if verdict in (Verdict.UNSAFE, Verdict.UNSUPPORTED):
            refuted.append(told)
        elif verdict is Verdict.NOT_ANSWERED:
            open_.append(told)
    return refuted, open_


def exit_code(
    found: Fingerprint, required: Sequence[str] = (), *, is_gone: bool = False, is_interrupted: bool = False
) -> int:
    """The code for one store. is_gone: it stopped answering, or never did. is_interrupted: by a signal."""
    if is_interrupted:
        return interrupts.EXIT_CODE
    if required:
        refuted, open_ = unmet(found, required)
        return UNSAFE if refuted else NOT_ANSWERED if open_ else FIT
    if found.verdict is Verdict.UNSAFE:
        return UNSAFE
    if is_gone:
        return BackendUnavailable.exit_code
    # A store without conditional writes is not unsafe: it says so. It carries no lock all the same.
    return NOT_ANSWERED if found.verdict in (Verdict.NOT_ANSWERED, Verdict.UNSUPPORTED) else FIT
