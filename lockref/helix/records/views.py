"""Read a current state as lock views, for the checks, whether our participant wrote it or Helix' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lockref.grammar import decimal
from lockref.provider import LockView
from lockref.strict_json import NotJson, read_object

TOKEN: Final = "FENCING_TOKEN"
"""The field of a current state that carries the token of the grant. Helix keeps fields that it does not know."""

TOP_STATES: Final = ("LOCKED", "MASTER", "LEADER", "ONLINE")
"""The top states of the recipe and of the models that Helix has built in."""


def decode_state(key: str, body: bytes) -> Sequence[LockView]:
    """The locks in the znode `…/INSTANCES/<instance>/CURRENTSTATES/<session>/<resource>`; nothing of other znodes.

    A replica in a top state holds; in any other it has given back.
    """
    parts = key.split("/")
    if len(parts) < 6 or parts[-3] != "CURRENTSTATES" or parts[-5] != "INSTANCES":
        return ()
    try:
        maps = read_object(body)["mapFields"]
        return [
            LockView(
                owner=parts[-4],
                lock=lock,
                token=_number(entry.get(TOKEN)),
                is_released=entry["CURRENT_STATE"] not in TOP_STATES,
                nonce=parts[-2],
            )
            for lock, entry in sorted(maps.items())
            if "CURRENT_STATE" in entry
        ]
    except (NotJson, KeyError, TypeError, AttributeError):
        return ()


def _number(text: object) -> int | None:
    return decimal(text) if isinstance(text, str) else None
