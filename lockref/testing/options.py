"""The names that the plugin's parts share: of its options as pytest keeps them, of its markers, of scenario files."""

from __future__ import annotations

from typing import Final

PROVIDER: Final = "lockref_provider"
SEEDS: Final = "lockref_seeds"
SUFFIX: Final = ".lock.yaml"
MARKERS: Final = (
    "lock_known_unsafe(*scenarios, reason): these scenarios break the lock, and that is known; all, without a name. "
    "One that holds fails.",
    "lock_requires(*abilities): skips the items of a lock that lacks one, such as tokens, renews, reentrant.",
)
"""The markers, as `pytest --markers` shows them; `lockref.testing.markers` reads them."""
