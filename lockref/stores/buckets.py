"""Rules that the names of buckets share. Each cloud's own rules stand in its facts.

An impossible name is found before anything is sent, because servers answer it
in many ways. Names that S3 reserves, such as aliases of access points, are
accepted: they stand for buckets that exist.
"""

from __future__ import annotations

import re
from typing import Final

CHARS_MAX: Final = 63
_IP: Final = re.compile(r"\d+\.\d+\.\d+\.\d+")


def common_fault(name: str) -> str:
    """Why `name` is impossible in S3 and in GCS, in words to follow "is not possible:"; "" if it is possible."""
    if len(name) < 3:
        return "a name has 3 characters or more"
    if ".." in name:
        return "two dots stand side by side"
    if _IP.fullmatch(name):
        return "it looks like an IP address"
    return ""
