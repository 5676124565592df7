"""Which names a bucket can have, by the rules of S3 and of Google Cloud Storage, and a container of Azure.

An impossible name is found before anything is sent, because servers answer it
in many ways. Names that S3 reserves, such as aliases of access points, are
accepted: they stand for buckets that exist.
"""

from __future__ import annotations

import re
from typing import Final

CHARS_MAX: Final = 63
DOTTED_CHARS_MAX: Final = 222
"""GCS: the whole of a name with dots, of which each part has at most 63."""

_S3: Final = re.compile(r"[a-z0-9][a-z0-9.-]*[a-z0-9]")
_GCS: Final = re.compile(r"[a-z0-9][a-z0-9._-]*[a-z0-9]")
_AZURE: Final = re.compile(r"[a-z0-9](-?[a-z0-9])*")
_IP: Final = re.compile(r"\d+\.\d+\.\d+\.\d+")


def bucket_fault(scheme: str, name: str) -> str:
    """What makes `name` impossible, to stand after "the bucket … is not possible:"; "" if nothing does."""
    if (fault := _common_fault(name)) or scheme != "gs":
        return fault or _s3_fault(name)
    return _gcs_fault(name)


def _common_fault(name: str) -> str:
    if len(name) < 3:
        return "a name has 3 characters or more"
    if ".." in name:
        return "two dots stand side by side"
    if _IP.fullmatch(name):
        return "it looks like an IP address"
    return ""


def _s3_fault(name: str) -> str:
    if len(name) > CHARS_MAX:
        return f"a name has {CHARS_MAX} characters at most"
    if _S3.fullmatch(name) is None:
        return "a name has lower-case letters, digits, dots and hyphens, and a letter or digit at both ends"
    return ""


def _gcs_fault(name: str) -> str:
    if _GCS.fullmatch(name) is None:
        return (
            "a name has lower-case letters, digits, dots, hyphens and underscores, and a letter or digit at both ends"
        )
    if len(name) > DOTTED_CHARS_MAX or any(len(part) > CHARS_MAX for part in name.split(".")):
        return f"a name, or each part of one with dots, has {CHARS_MAX} characters at most"
    if name.startswith("goog") or "google" in name:
        return "Google keeps names that begin with goog or hold google"
    return ""


def container_fault(name: str) -> str:
    """What makes a container's name impossible, to stand after "the container … is not possible:"; "" if nothing."""
    if not 3 <= len(name) <= CHARS_MAX:
        return f"a name has 3 to {CHARS_MAX} characters"
    if _AZURE.fullmatch(name) is None:
        return "a name has lower-case letters, digits and single hyphens, and a letter or digit at both ends"
    return ""
