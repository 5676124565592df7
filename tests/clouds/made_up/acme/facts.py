"""What is known of Acme: what its versions are, and the meaning of each of its answers."""

from __future__ import annotations

import re
from typing import Final

from lockref.clouds.statuses import OBJECT_STORES, ServerStatuses, StatusRow, Versions
from lockref.clouds.traffic import Readable
from lockref.words import Outcome

SERVICE: Final = "Acme Vaults"
FORM: Final = "acme://VAULT[/PREFIX][?endpoint=http://HOST:PORT]"
OPTIONS: Final = ("endpoint",)
LIKE, UNLIKE, VERSION = "x-acme-like", "x-acme-unlike", "x-acme-version"
"""The headers of conditions, and of the version that an answer names."""
NOTHING: Final = "nothing"
"""The version of an object that is not there."""

_FAILED = Outcome.PRECONDITION_FAILED
OUTCOMES: Final[tuple[StatusRow, ...]] = (
    *OBJECT_STORES,
    StatusRow(status=460, code="Unlike", outcome=_FAILED, why="the object has another version"),
    StatusRow(status=461, code="Taken", outcome=_FAILED, why="the object is there already"),
    StatusRow(status=462, code="NoSuchThing", outcome=_FAILED, missing=True, why="there is no such object"),
    StatusRow(status=462, code="NoSuchVault", outcome=Outcome.REJECTED, why="there is no such vault; create it"),
    StatusRow(status=463, code="Crowded", outcome=Outcome.CONFLICT, why="a concurrent request got in the way"),
    StatusRow(status=464, code="Hurried", outcome=Outcome.THROTTLED, why="too many requests; slow down"),
    StatusRow(status=403, outcome=Outcome.REJECTED, why="access denied; check ACME_KEY"),
)
STATUSES: Final = ServerStatuses(
    name="acme", versions=Versions.RISING, created=201, exists=461, stale=460, absent=462, deleted=200,
    delete_absent=462, delete_conditional_absent=462, tells_absence=True,
)  # fmt: skip
REFUSALS: Final = {
    403: (403, "Forbidden"),
    409: (463, "Crowded"),
    412: (460, "Unlike"),
    429: (464, "Hurried"),
}
"""The status and the code for a refusal that a fault may send under the status that others have."""
READABLE: Final = Readable(headers=frozenset({LIKE, UNLIKE, VERSION}))
_VAULT: Final = re.compile(r"[a-z]{3,30}")


def vault_fault(name: str) -> str:
    """What makes `name` impossible; "" if nothing does."""
    return "" if _VAULT.fullmatch(name) else "a name has 3 to 30 letters"
