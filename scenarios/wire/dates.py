"""When a client says that it made a request: the date that it signs, on its own clock, to the second."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from lockref.runtime import NS_PER_S

_S3: Final = "x-amz-date"
_AZURE: Final = "x-ms-date"
_S3_FORM: Final = "%Y%m%dT%H%M%SZ"


def date_ns(headers: Mapping[str, str]) -> int | None:
    """The date as wall time; None where the request has none that can be read."""
    try:
        if _S3 in headers:
            date = datetime.strptime(headers[_S3], _S3_FORM).replace(tzinfo=UTC)
        elif _AZURE in headers:
            date = parsedate_to_datetime(headers[_AZURE])
        else:
            return None
        return int(date.timestamp()) * NS_PER_S
    except (ValueError, OverflowError):
        return None
