"""Which keys every store takes.

One rule for all, so that a lock that works on one store works on the next: the
strictest of S3 (1,024 bytes), GCS and a folder (no climbing out, no name that
the file system reads differently). A bad key is the caller's own mistake, and
therefore a `ValueError`, never an outcome.
"""

from __future__ import annotations

KEY_BYTES_MAX = 1024


def check_key(key: str) -> str:
    """Return `key` if every store can hold an object under it.

    Errors: ValueError if it is empty, longer than 1,024 bytes of UTF-8, holds a
        control character, or has an empty, `.` or `..` segment.
    """
    if not key:
        raise ValueError("the key is empty; give the object a name, such as 'locks/orders.json'")
    if len(key.encode()) > KEY_BYTES_MAX:
        raise ValueError(f"the key has {len(key.encode())} bytes; at most {KEY_BYTES_MAX} are accepted")
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in key):
        raise ValueError(f"the key {key!r} holds a control character; use printable characters")
    if any(segment in ("", ".", "..") for segment in key.split("/")):
        raise ValueError(f"the key {key!r} has an empty, '.' or '..' segment; write it as 'folder/name'")
    return key
