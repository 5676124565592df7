"""The names that the plugin's parts share: of its options as pytest keeps them, and of scenario files."""

from __future__ import annotations

from typing import Final

PROVIDER: Final = "lockref_provider"
SEEDS: Final = "lockref_seeds"
SUFFIX: Final = ".lock.yaml"
