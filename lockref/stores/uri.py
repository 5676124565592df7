"""From a line of text to a store: `memory:`, `file:///…`, `s3://…`, `gs://…`, `az://…`, `dynamodb://…`, `zookeeper://…`.

Parsing is separate from opening, so that a scenario can be checked without
importing an SDK or opening a socket. Whatever is wrong with a URI is a
`ConfigError` in one line that names the accepted form. Credentials never
belong in a URI, and a message never repeats one that was put there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from lockref.clouds.azure.account import blob_host
from lockref.errors import CapabilityMissing, ConfigError
from lockref.stores.buckets import bucket_fault, container_fault
from lockref.stores.endpoints import check_endpoint
from lockref.stores.keys import check_key
from lockref.stores.port import ObjectStore

POOL_SIZE_DEFAULT: Final = 10

_AT_AZURE: Final = "[/PREFIX][?endpoint=http://HOST:PORT/ACCOUNT]"
_ABFS: Final = f"abfs[s]://CONTAINER@ACCOUNT.dfs.core.windows.net{_AT_AZURE}"
_WASB: Final = f"wasb[s]://CONTAINER@ACCOUNT.blob.core.windows.net{_AT_AZURE}"
AZURE: Final = ("az", "abfs", "abfss", "wasb", "wasbs")
"""Schemes of Azure. All but the first name the account; they are those of Hadoop, and of RFC-91."""

FORMS: Final = {
    "memory": "memory: or memory:NAME",
    "file": "file:///FOLDER",
    "s3": "s3://BUCKET[/PREFIX][?endpoint=http://HOST:PORT&region=REGION]",
    "gs": "gs://BUCKET[/PREFIX][?endpoint=http://HOST:PORT]",
    "az": f"az://CONTAINER{_AT_AZURE}",
    "abfs": _ABFS,
    "abfss": _ABFS,
    "wasb": _WASB,
    "wasbs": _WASB,
    "dynamodb": "dynamodb://TABLE[?endpoint=http://HOST:PORT&region=REGION]",
    "zookeeper": "zookeeper://HOST:PORT[,HOST:PORT][/FOLDER]",
}
_OPTIONS: Final = {
    "s3": ("endpoint", "region"),
    "gs": ("endpoint",),
    "dynamodb": ("endpoint", "region"),
    **dict.fromkeys(AZURE, ("endpoint",)),
}
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")
_ENSEMBLE_SERVER: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:]{2,45}\]):([0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """A parsed store URI.

    container: the bucket, container or table; for `file:` the absolute path of the folder, for `memory:` the name, for
        `zookeeper:` the servers, `HOST:PORT,HOST:PORT`.
    prefix: what stands before every key or znode, without slashes at its ends; "" for none.
    endpoint: `http://host:port` of a server to use instead of the cloud's own; "" for the cloud.
    region: Amazon's services only; "" for what the SDK finds.
    account: Azure only: the account's host as the URI names it; "" for the environment's account.
    """

    scheme: str
    container: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    account: str = ""

    def __str__(self) -> str:
        """A line for people, such as `s3://bucket/prefix at http://127.0.0.1:4566`."""
        if self.scheme == "memory":
            return f"memory:{self.container}"
        path = f"{self.container}@{self.account}" if self.account else self.container
        path = f"{path}/{self.prefix}" if self.prefix else path
        return f"{self.scheme}://{path}{f' at {self.endpoint}' if self.endpoint else ''}"

    def store(self) -> dict[str, str]:
        """Which store it is, by the words of a fingerprint. The prefix of the bucket is no part of that."""
        container = f"{self.container}@{self.account}" if self.account else self.container
        return {"scheme": self.scheme, "container": container, "endpoint": self.endpoint}


def parse_store_uri(uri: str) -> StoreAddress:
    """Take a store URI apart.

    Errors: ConfigError for an unknown scheme, a missing or impossible bucket, a
        bad endpoint, an unknown option, credentials in the URI.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme not in FORMS:
        # Only the scheme is repeated: whatever follows it may hold a password.
        shown = f"scheme {scheme!r}" if colon else f"store {uri!r}"
        raise ConfigError(f"the {shown} is not known; expected one of {'; '.join(dict.fromkeys(FORMS.values()))}")
    if scheme == "memory":
        if re.fullmatch(r"[\w.-]*", rest, re.ASCII) is None:
            raise ConfigError(f"the store {uri!r} is not of the form {FORMS[scheme]}")
        return StoreAddress(scheme=scheme, container=rest)
    try:
        parts = urlsplit(uri)
    except ValueError:
        # The parser's own words quote the host, and what may stand before it.
        raise ConfigError(f"the {scheme} store's URI has an unreadable host; expected {FORMS[scheme]}") from None
    if scheme == "file":
        return _parse_folder(uri, parts)
    if scheme == "zookeeper":
        return _parse_ensemble(parts)
    if scheme in AZURE:
        return _parse_container(parts)
    return _parse_table(uri, parts) if scheme == "dynamodb" else _parse_bucket(uri, parts)


def _parse_folder(uri: str, parts: SplitResult) -> StoreAddress:
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not path.startswith("/"):
        raise ConfigError(f"the store {uri!r} is not of the form {FORMS['file']}: give the folder's absolute path")
    if path.rstrip("/") == "" or "\0" in path:
        raise ConfigError(f"the store {uri!r} names no folder that is possible; expected {FORMS['file']}")
    return StoreAddress(scheme="file", container=path.rstrip("/"))


def _parse_table(uri: str, parts: SplitResult) -> StoreAddress:
    scheme, form, table = parts.scheme, FORMS[parts.scheme], parts.netloc
    _refuse_credentials(scheme, table)
    if _TABLE.fullmatch(table) is None or parts.path.strip("/") or parts.fragment:
        raise ConfigError(f"the store {uri!r} names no table that is possible; expected {form}")
    return StoreAddress(scheme=scheme, container=table, **_parse_options(parts.query, scheme=scheme, bucket=table))


def _parse_ensemble(parts: SplitResult) -> StoreAddress:
    scheme, form, hosts = parts.scheme, FORMS[parts.scheme], parts.netloc
    _refuse_credentials(scheme, hosts)
    for server in hosts.split(","):
        found = _ENSEMBLE_SERVER.fullmatch(server)
        if found is None or not 0 < int(found[2]) < 65536:
            raise ConfigError(f"the {scheme} address names {server!r} as a server; expected {form}")
    if parts.query or parts.fragment:
        raise ConfigError(f"the {scheme} address has options, but this scheme takes none; expected {form}")
    return StoreAddress(scheme=scheme, container=hosts, prefix=unquote(parts.path).strip("/"))


def _refuse_credentials(scheme: str, host: str) -> None:
    if "@" in host:
        raise ConfigError(
            f"the {scheme} store's URI holds credentials; put them into the environment; expected {FORMS[scheme]}"
        )


def _parse_bucket(uri: str, parts: SplitResult) -> StoreAddress:
    scheme, form = parts.scheme, FORMS[parts.scheme]
    bucket = parts.netloc
    _refuse_credentials(scheme, bucket)
    if not bucket:
        raise ConfigError(f"the store {uri!r} names no bucket; expected {form}")
    if fault := bucket_fault(scheme, bucket):
        raise ConfigError(f"the bucket {bucket!r} is not possible: {fault}; expected {form}")
    options = _parse_options(parts.query, scheme=scheme, bucket=bucket)
    return StoreAddress(scheme=scheme, container=bucket, prefix=_parse_prefix(parts, bucket), **options)


def _parse_container(parts: SplitResult) -> StoreAddress:
    scheme, form = parts.scheme, FORMS[parts.scheme]
    container, at, account = parts.netloc.partition("@")
    if scheme == "az" or ":" in container:
        _refuse_credentials(scheme, parts.netloc)
    if not container:
        raise ConfigError(f"the {scheme} store's URI names no container; expected {form}")
    if fault := container_fault(container):
        raise ConfigError(f"the container {container!r} is not possible: {fault}; expected {form}")
    if scheme != "az":
        if not at:
            raise ConfigError(f"the store {scheme}://{container} names no account; expected {form}")
        try:
            blob_host(account)
        except ValueError as error:
            raise ConfigError(f"the store {scheme}://{container}: the account {error}") from None
    options = _parse_options(parts.query, scheme=scheme, bucket=container)
    prefix = _parse_prefix(parts, container)
    return StoreAddress(scheme=scheme, container=container, prefix=prefix, account=account, **options)


def _parse_prefix(parts: SplitResult, bucket: str) -> str:
    prefix = unquote(parts.path).strip("/")
    if prefix:
        try:
            check_key(prefix)
        except ValueError as error:
            raise ConfigError(f"the prefix of the store in bucket {bucket!r} is no key: {error}") from None
    return prefix


def _parse_options(query: str, *, scheme: str, bucket: str) -> dict[str, str]:
    where = f"the store {scheme}://{bucket}"
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS[scheme]:
            raise ConfigError(f"{where} has an unknown option {name!r}; expected {' or '.join(_OPTIONS[scheme])}")
        if name in options:
            raise ConfigError(f"{where} has the option {name!r} twice; give it once")
        options[name] = value
    if "endpoint" in options:
        try:
            options["endpoint"] = check_endpoint(options["endpoint"], may_name_account=scheme in AZURE)
        except ValueError as error:
            raise ConfigError(f"{where}: the endpoint {error}") from None
    if "region" in options and _REGION.fullmatch(options["region"]) is None:
        raise ConfigError(f"{where}: the region {options['region']!r} is not of a form like us-east-1")
    return options


# The SDKs load on first use: a run on `memory:` needs neither, and they take most of a second.


def _open_memory(address: StoreAddress, _request_timeout_ns: int, _pool_size: int) -> ObjectStore:
    from lockref.stores.memory import MemoryStore

    return MemoryStore(address.container)


def _open_folder(address: StoreAddress, request_timeout_ns: int, _pool_size: int) -> ObjectStore:
    from lockref.stores.localfs import FileStore

    return FileStore(address.container, request_timeout_ns=request_timeout_ns)


def _open_s3(address: StoreAddress, request_timeout_ns: int, pool_size: int) -> ObjectStore:
    from botocore.exceptions import BotoCoreError

    from lockref.clouds.s3.client import S3Store

    try:
        return S3Store(
            bucket=address.container,
            prefix=address.prefix,
            endpoint=address.endpoint,
            region=address.region,
            request_timeout_ns=request_timeout_ns,
            pool_size=pool_size,
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"the store {address} cannot be opened with this AWS configuration: {error}") from error


def _open_gcs(address: StoreAddress, request_timeout_ns: int, pool_size: int) -> ObjectStore:
    from google.auth.exceptions import GoogleAuthError

    from lockref.clouds.gcs.client import GcsStore

    try:
        return GcsStore(
            bucket=address.container,
            prefix=address.prefix,
            endpoint=address.endpoint,
            request_timeout_ns=request_timeout_ns,
            pool_size=pool_size,
        )
    except GoogleAuthError as error:
        raise ConfigError(
            f"the store {address} has no Google credentials ({type(error).__name__}); "
            "set GOOGLE_APPLICATION_CREDENTIALS or add ?endpoint="
        ) from error


def _open_azure(address: StoreAddress, request_timeout_ns: int, pool_size: int) -> ObjectStore:
    from lockref.clouds.azure.client import AzureStore

    return AzureStore(
        container=address.container,
        prefix=address.prefix,
        account_host=address.account,
        endpoint=address.endpoint,
        request_timeout_ns=request_timeout_ns,
        pool_size=pool_size,
    )


def _open_table(address: StoreAddress, request_timeout_ns: int, pool_size: int) -> ObjectStore:
    from lockref.dynamodb.objects import TableStore
    from lockref.dynamodb.place import table_channel
    from lockref.dynamodb.table import TABLE

    channel = table_channel(address, request_timeout_ns=request_timeout_ns, pool_size=pool_size)
    return TableStore(TABLE.over(channel, request_timeout_ns))


def _open_ensemble(address: StoreAddress, _request_timeout_ns: int, _pool_size: int) -> ObjectStore:
    raise CapabilityMissing(f"{address} holds no objects; a lock that stands on a coordination service uses it")


_OPENERS: Final[dict[str, Callable[[StoreAddress, int, int], ObjectStore]]] = {
    "memory": _open_memory,
    "file": _open_folder,
    "s3": _open_s3,
    "gs": _open_gcs,
    **dict.fromkeys(AZURE, _open_azure),
    "dynamodb": _open_table,
    "zookeeper": _open_ensemble,
}


def open_store(uri: str, *, request_timeout_ns: int, pool_size: int = POOL_SIZE_DEFAULT) -> ObjectStore:
    """Open the store that `uri` names; no request is sent. A table holds each object as an item.

    request_timeout_ns: how long one request may take before its outcome is AMBIGUOUS.
    pool_size: connections kept; make it the number of threads that share the store.
    Errors: ConfigError for a bad URI, unusable credentials, a time-out or a pool of nothing; CapabilityMissing for a
        ZooKeeper, which holds no objects.
    """
    address = parse_store_uri(uri)
    if request_timeout_ns <= 0:
        raise ConfigError(f"the request time-out is {request_timeout_ns} ns; it must be above 0")
    if pool_size < 1:
        raise ConfigError(f"the pool has {pool_size} connections; it needs at least one")
    return _OPENERS[address.scheme](address, request_timeout_ns, pool_size)
