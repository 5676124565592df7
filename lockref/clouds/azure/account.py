"""Which storage account a container of Azure lies in, and by what right we ask there.

A bucket's name says where it is; a container's does not: its account must be
known too. An `abfss://` URI names it, an `az://` URI leaves it to the
environment, and `?endpoint=` says where to ask instead.

Credentials come from the environment, under the names of Azure's own tools. An
account's key is used for that account alone: sent to another one it would be
refused there as a wrong signature, and nobody would see why. No message and no
`repr` repeats a key, a token or a connection string.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from lockref.errors import ConfigError
from lockref.stores.endpoints import TRANSPORTS

CONNECTION_STRING: Final = "AZURE_STORAGE_CONNECTION_STRING"
ACCOUNT: Final = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
KEY: Final = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")
SAS: Final = "AZURE_STORAGE_SAS_TOKEN"
"""The first of two names is that of Azure's command line, the second that of other clients, such as delta-rs'."""

EMULATOR: Final = "devstoreaccount1"
_EMULATOR_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""No secret: Microsoft documents it, and every emulator has it."""
EMULATOR_NOTE: Final = f"the emulator's well-known key is sent, as the account is {EMULATOR}"

_CLOUD: Final = "blob.core.windows.net"
_NAME: Final = re.compile(r"[a-z0-9]{3,24}")
# An account may have a zone in its name: lake.z12.blob.storage.azure.net.
_HOST: Final = re.compile(r"([a-z0-9]{3,24}(?:\.z[0-9]{1,3})?)\.(?:blob|dfs)\.([a-z0-9-]+(?:\.[a-z0-9-]+)+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials for one account in the environment. name: of the account; "" if the environment names none."""

    name: str = ""
    key: str = field(default="", repr=False)
    sas: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account as it is asked.

    url: of its Blob service, such as `https://lake.blob.core.windows.net` or `http://127.0.0.1:10000/devstoreaccount1`.
    host: by which the account is known, whoever stands in for it: `lake.blob.core.windows.net`.
    key, sas: of which one is set, or neither where only an identity can ask.
    note: what a user must be told about the credentials; "" for nothing.
    """

    url: str
    name: str
    host: str
    key: str = field(default="", repr=False)
    sas: str = field(default="", repr=False)
    note: str = ""


def blob_host(host: str) -> str:
    """The host of the Blob service of the account at `host`; both services of an account hold the same objects.

    Errors: ValueError if it is no host of a storage account.
    Source: Hudi 1.2.0 `AzureStorageLockClient`, which rewrites `.dfs.` to `.blob.` too.
    """
    found = _HOST.fullmatch(host.lower())
    if found is None:
        raise ValueError(f"{host!r} is not of the form ACCOUNT.blob.core.windows.net or ACCOUNT.dfs.core.windows.net")
    return f"{found[1]}.blob.{found[2]}"


def same_container(authority: str) -> str:
    """`container@lake.dfs.core.windows.net` in the one spelling by which two URIs of a container are compared."""
    container, _, host = authority.rpartition("@")
    try:
        return f"{container}@{blob_host(host)}"
    except ValueError:
        return authority


def find_account(*, host: str, endpoint: str, environ: Mapping[str, str]) -> Account:
    """The account that a URI means, with the credentials that the environment has for it.

    host: the account's, as the URI names it; "" leaves the account to the environment.
    endpoint: of a server to ask instead of Azure; its path is the account, as emulators have it.
    Errors: ConfigError, in words that name no secret, if there is no account, or a malformed key, token or connection
        string. Credentials may be missing: an identity may ask as well (`missing_credentials`).
    """
    offered = _offered(environ)
    url, name = _place(host, endpoint, environ, offered)
    known_as = blob_host(host) if host else _known_as(url, name)
    for each in offered:
        if each.name == name or (not each.name and name != EMULATOR):
            return Account(url=url, name=name, host=known_as, key=each.key, sas=each.sas)
    if name == EMULATOR:
        return Account(url=url, name=name, host=known_as, key=_EMULATOR_KEY, note=EMULATOR_NOTE)
    return Account(url=url, name=name, host=known_as)


def connection_string(account: Account, url: str) -> str:
    """A connection string that leads any Azure client to this account at `url`, with the account's key or token."""
    parts = {
        "DefaultEndpointsProtocol": urlsplit(url).scheme,
        "AccountName": account.name,
        "AccountKey": account.key,
        "SharedAccessSignature": account.sas,
        "BlobEndpoint": url,
    }
    return ";".join(f"{name}={value}" for name, value in parts.items() if value)


def missing_credentials(account: Account, environ: Mapping[str, str]) -> ConfigError:
    """The complaint about an account that nothing in the environment is for."""
    others = sorted({each.name for each in _offered(environ) if each.name})
    told = f"those in the environment are of account {', '.join(others)}; " if others else ""
    return ConfigError(
        f"there are no credentials for the storage account {account.name!r}; {told}set {CONNECTION_STRING}, or "
        f"{ACCOUNT[0]} with {KEY[0]} or {SAS}, or install azure-identity"
    )


def _place(host: str, endpoint: str, environ: Mapping[str, str], offered: list[Credentials]) -> tuple[str, str]:
    """The URL to ask at, and the account's name."""
    if endpoint:
        name = _name_in(endpoint) or (_label(host) if host else "") or _named(environ, offered)
        if not name:
            raise ConfigError(f"the endpoint {endpoint} names no account; write it as http://HOST:PORT/{EMULATOR}")
        return endpoint, name
    if host:
        return f"https://{blob_host(host)}", _label(host)
    settings = _settings(environ)
    if settings:
        return _url_of(settings)
    name = _named(environ, offered)
    if not name:
        raise ConfigError(
            f"no storage account is named; set {ACCOUNT[0]} or {CONNECTION_STRING}, or write the account into the URI: "
            "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net"
        )
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{ACCOUNT[0]} is {name!r}; a storage account has 3 to 24 lower-case letters and digits")
    return f"https://{name}.{_CLOUD}", name


def _label(host: str) -> str:
    return host.partition(".")[0].lower()


def _name_in(url: str) -> str:
    """The account that a URL names: in its path, as emulators have it, or in its host."""
    parts = urlsplit(url)
    if path := parts.path.strip("/"):
        return path
    return _label(parts.hostname) if parts.hostname and _HOST.fullmatch(parts.hostname) else ""


def _known_as(url: str, name: str) -> str:
    hostname = urlsplit(url).hostname or ""
    return blob_host(hostname) if _HOST.fullmatch(hostname) else f"{name}.{_CLOUD}"


def _named(environ: Mapping[str, str], offered: list[Credentials]) -> str:
    """The account that the environment names."""
    return _first(environ, ACCOUNT) or next((each.name for each in offered if each.name), "")


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _offered(environ: Mapping[str, str]) -> list[Credentials]:
    """The credentials in the environment, in the order of Azure's command line: connection string, key, token."""
    found = []
    if settings := _settings(environ):
        name = settings.get("accountname", "")
        key, sas = settings.get("accountkey", ""), settings.get("sharedaccesssignature", "")
        if settings.get("usedevelopmentstorage", "").lower() == "true":
            name, key = EMULATOR, _EMULATOR_KEY
        name = name or _name_in(settings.get("blobendpoint", ""))
        if key:
            found.append(Credentials(name=name, key=_checked_key(key, CONNECTION_STRING)))
        elif sas:
            found.append(Credentials(name=name, sas=_checked_sas(sas, CONNECTION_STRING)))
    account = _first(environ, ACCOUNT)
    if key := _first(environ, KEY):
        found.append(Credentials(name=account, key=_checked_key(key, KEY[0])))
    if sas := environ.get(SAS, ""):
        found.append(Credentials(name=account, sas=_checked_sas(sas, SAS)))
    return found


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The parts of the connection string, their names in lower case; empty where there is none."""
    parts = [part.partition("=") for part in environ.get(CONNECTION_STRING, "").split(";") if part.strip()]
    if any(not equals for _, equals, _ in parts):
        raise ConfigError(f"{CONNECTION_STRING} is malformed; expected NAME=VALUE;NAME=VALUE, as the portal shows it")
    return {name.strip().lower(): value.strip() for name, _, value in parts}


def _url_of(settings: dict[str, str]) -> tuple[str, str]:
    """The address of the service that a connection string names."""
    if settings.get("usedevelopmentstorage", "").lower() == "true":
        return f"http://127.0.0.1:10000/{EMULATOR}", EMULATOR
    name, url = settings.get("accountname", ""), settings.get("blobendpoint", "").rstrip("/")
    if not url and name:
        protocol = settings.get("defaultendpointsprotocol", "https")
        url = f"{protocol}://{name}.blob.{settings.get('endpointsuffix', _CLOUD.removeprefix('blob.'))}"
    name = name or (_name_in(url) if url else "")
    if not name or TRANSPORTS.get(urlsplit(url).scheme) is None:
        raise ConfigError(f"{CONNECTION_STRING} names no account; expected AccountName=… or BlobEndpoint=https://…")
    return url, name


def _checked_key(key: str, source: str) -> str:
    try:
        base64.b64decode(key, validate=True)
    except ValueError:  # No base64, or a character that is none of ASCII's.
        raise ConfigError(f"the account key in {source} is no base64; copy it whole") from None
    return key


def _checked_sas(sas: str, source: str) -> str:
    if "sig=" not in sas:
        raise ConfigError(f"the shared access signature in {source} has no sig=; copy it whole")
    return sas.lstrip("?")
