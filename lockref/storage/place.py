"""Is this the object that the table's other writers lock?

A lock excludes those who lock the same object, and nobody else. A table's base
path says which object Hudi locks. A store that lies in another bucket, or that
puts a prefix of its own before that key, would make a lock that works and
excludes nobody. So the key is computed here, from both, and a store that
disagrees with the base path is refused.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from lockref.clouds.uri import CLOUDS, parse_store_uri
from lockref.errors import ConfigError
from lockref.storage.config import (
    CLOUD_OF_SCHEME,
    LOCK_FILE_NAME,
    LOCKS_FOLDER,
    LockFileLocation,
    check_scheme,
    lock_file_location,
)
from lockref.stores.keys import check_key
from lockref.stores.port import ObjectStore, PlacedStore

LOCAL_LOCK_KEY: Final = f"{LOCKS_FOLDER}/{LOCK_FILE_NAME}"
"""The key of the lock object in the store of a table on this machine."""


def key_in(store: ObjectStore, base_path: str) -> str:
    """The key, within `store`, of the lock object of the table at `base_path`.

    A store that does not know where it lies (one in memory, or somebody's own)
    is taken for the root of the bucket that the base path names.

    Errors: ConfigError if the store lies in another bucket, or does not contain the lock object.
    """
    location = lock_file_location(base_path)
    try:
        check_key(location.key)
    except ValueError as error:
        raise ConfigError(f"the table at {base_path!r} can have no lock object: {error}") from None
    if not isinstance(store, PlacedStore):
        return location.key
    place = store.place
    folder = f"{place.prefix}/" if place.prefix else ""
    cloud = CLOUD_OF_SCHEME.get(location.scheme)
    named = CLOUDS.get(location.scheme)
    bucket = named.same_container(location.bucket) if named else location.bucket
    is_same_bucket = (place.cloud, place.container) == (cloud, bucket)
    if not is_same_bucket or not location.key.startswith(folder):
        raise ConfigError(
            f"the store {place} does not hold the lock object of the table at {base_path}, which is "
            f"{location.scheme}://{location.bucket}/{location.key}: a lock there would exclude no other writer. "
            "Open the table's own bucket, use open_lock, or name another object with key=…"
        )
    return location.key.removeprefix(folder)


def local_store(base_path: str) -> str | None:
    """The URI of the store of a table on this machine, `memory:NAME` or `file:///FOLDER`; None for one in a cloud.

    The store is the table's alone, and its lock object lies at `LOCAL_LOCK_KEY`. Hudi has no storage lock for such a
    table: a lock there excludes those that this package opens, for tests of an application.

    Errors: ConfigError for `memory:` without a name, which is a new store each time, and for what is no such URI.
    """
    named = CLOUDS.get(base_path.partition(":")[0])
    if named is None or not named.is_on_this_machine:
        return None
    address = parse_store_uri(base_path)
    if not address.container:
        raise ConfigError(f"{base_path!r} is another store for each lock, and would exclude nobody: write memory:NAME")
    return base_path


def store_uri(location: LockFileLocation, *, endpoint: str = "", region: str = "") -> str:
    """The URI of the store that holds a lock object: its whole bucket.

    Errors: ConfigError for a scheme that Hudi has no lock client for.
    """
    check_scheme(location.scheme)
    # A scheme that our stores have stays: Azure's say how the account is written. `s3a` is Hadoop's word for S3.
    hudis = location.scheme
    scheme = hudis if hudis in CLOUDS else CLOUD_OF_SCHEME[hudis]
    options = urlencode({name: value for name, value in (("endpoint", endpoint), ("region", region)) if value})
    return f"{scheme}://{location.bucket}{'?' if options else ''}{options}"
