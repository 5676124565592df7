"""The address of a store, and the parts of a URI that stores of several kinds share.

Whatever is wrong with a URI is a `ConfigError` in one line that names the accepted form. Credentials never belong in a
URI, and a message never repeats one that was put there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote

from lockref.errors import ConfigError
from lockref.stores.endpoints import check_endpoint
from lockref.stores.keys import check_key

_BEHIND: Final = {"memory": ":"}
"""The rest of an address whose scheme is not followed by a host or a folder."""
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """A parsed store URI.

    container: the bucket, container or table; for `file:` the absolute path of the folder, for `memory:` the name, for
        `zookeeper:` the servers, `HOST:PORT,HOST:PORT`.
    prefix: what stands before every key or znode, without slashes at its ends; "" for none.
    endpoint: `http://host:port` of a server to use instead of the cloud's own; "" for the cloud.
    region: Amazon's services only; "" for what the SDK finds.
    account: Azure only: the account's host as the URI names it; "" for the environment's account.
    client: S3 only: the library that sends the requests; "" for the usual one.
    """

    scheme: str
    container: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    account: str = ""
    client: str = ""

    def __str__(self) -> str:
        """A line for people, such as `s3://bucket/prefix at http://127.0.0.1:4566`."""
        path = f"{self.container}@{self.account}" if self.account else self.container
        path = f"{path}/{self.prefix}" if self.prefix else path
        through = f" through {self.client}" if self.client else ""
        return f"{in_words(self.scheme, path)}{f' at {self.endpoint}' if self.endpoint else ''}{through}"

    @property
    def key_prefix(self) -> str:
        """The prefix with a slash behind it, as it stands before a key; "" for none."""
        return f"{self.prefix}/" if self.prefix else ""

    def store(self) -> dict[str, str]:
        """Which store it is, by the words of a fingerprint. The prefix of the bucket is no part of that."""
        container = f"{self.container}@{self.account}" if self.account else self.container
        return {"scheme": self.scheme, "container": container, "endpoint": self.endpoint}


def in_words(scheme: str, path: str) -> str:
    """A store's scheme and what stands behind it, such as `s3://bucket/prefix` and `memory:name`."""
    return f"{scheme}{_BEHIND.get(scheme, '://')}{path}"


def refuse_credentials(parts: SplitResult, form: str) -> None:
    """Raise ConfigError if something stands before an `@`."""
    if "@" in parts.netloc:
        raise ConfigError(
            f"the {parts.scheme} store's URI holds credentials; put them into the environment; expected {form}"
        )


def parse_bucket(
    uri: str,
    parts: SplitResult,
    *,
    form: str,
    fault: Callable[[str], str],
    known: tuple[str, ...],
    clients: tuple[str, ...] = (),
) -> StoreAddress:
    """The address in a URI of the form `SCHEME://BUCKET[/PREFIX][?OPTIONS]`.

    form: how such a URI is written, for messages. fault: what makes a bucket's name impossible, "" if nothing does.
    known: the options that this scheme takes. clients: the libraries that the option `client` may name.
    Errors: ConfigError for no bucket or an impossible one, and see `parse_options`, `parse_prefix`.
    """
    bucket = parts.netloc
    refuse_credentials(parts, form)
    if not bucket:
        raise ConfigError(f"the store {uri!r} names no bucket; expected {form}")
    if told := fault(bucket):
        raise ConfigError(f"the bucket {bucket!r} is not possible: {told}; expected {form}")
    options = parse_options(parts, bucket=bucket, known=known, clients=clients)
    return StoreAddress(scheme=parts.scheme, container=bucket, prefix=parse_prefix(parts, bucket), **options)


def parse_prefix(parts: SplitResult, bucket: str) -> str:
    """The prefix that a URI's path names. Raises ConfigError for one that is no key."""
    prefix = unquote(parts.path).strip("/")
    if prefix:
        try:
            check_key(prefix)
        except ValueError as error:
            raise ConfigError(f"the prefix of the store in bucket {bucket!r} is no key: {error}") from None
    return prefix


def parse_options(
    parts: SplitResult,
    *,
    bucket: str,
    known: tuple[str, ...],
    may_name_account: bool = False,
    clients: tuple[str, ...] = (),
) -> dict[str, str]:
    """The options behind a URI's question mark, as arguments of `StoreAddress`.

    known: the options that this scheme takes. may_name_account: an endpoint may end in an account. clients: the values
    of the option `client`.
    Errors: ConfigError for an unknown option, one given twice, and a value of a wrong form.
    """
    where = f"the store {parts.scheme}://{bucket}"
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            raise ConfigError(f"{where} has an unknown option {name!r}; expected {' or '.join(known)}")
        if name in options:
            raise ConfigError(f"{where} has the option {name!r} twice; give it once")
        options[name] = value
    if "endpoint" in options:
        try:
            options["endpoint"] = check_endpoint(options["endpoint"], may_name_account=may_name_account)
        except ValueError as error:
            raise ConfigError(f"{where}: the endpoint {error}") from None
    if "region" in options and _REGION.fullmatch(options["region"]) is None:
        raise ConfigError(f"{where}: the region {options['region']!r} is not of a form like us-east-1")
    if "client" in options and options["client"] not in clients:
        raise ConfigError(f"{where}: the client {options['client']!r} is not known; expected {' or '.join(clients)}")
    return options
