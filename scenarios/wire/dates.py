"""When a client says that it made a request: the date that it signs, on its own clock, to the second."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from lockref.runtime import NS_PER_S

_S3: Final = "x-amz-date"
_AZURE: Final = "x-ms-date"
_S3_FORM: Final = "%Y%m%dT%H%M%SZ"
_S3_DATE: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_HTTP_DATE: Final = re.compile(r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT")
"""RFC 9110, section 5.6.7; the older forms of dates are not sent by any client of a store."""


def date_ns(headers: Mapping[str, str]) -> int | None:
    """The date as wall time; None where the request has none that can be read."""
    try:
        if _S3_DATE.fullmatch(headers.get(_S3, "")):
            date = datetime.strptime(headers[_S3], _S3_FORM).replace(tzinfo=UTC)
        elif _HTTP_DATE.fullmatch(headers.get(_AZURE, "")):
            date = parsedate_to_datetime(headers[_AZURE])
        else:
            return None
        return int(date.timestamp()) * NS_PER_S
    except (ValueError, OverflowError):
        return None
