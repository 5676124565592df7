"""Azure Blob Storage among the clouds."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import SplitResult

from lockref.clouds.azure import answers, facts, requests
from lockref.clouds.azure.account import CONNECTION_STRING, EMULATOR, blob_host, connection_string, find_account
from lockref.clouds.cloud import Cloud, Signer
from lockref.errors import ConfigError
from lockref.stores.address import StoreAddress, parse_options, parse_prefix, refuse_credentials
from lockref.stores.port import ObjectStore


def _parse(_uri: str, parts: SplitResult) -> StoreAddress:
    scheme, form = parts.scheme, facts.FORMS[parts.scheme]
    container, at, account = parts.netloc.partition("@")
    names_account = facts.NAMES_ACCOUNT[scheme]
    if not names_account or ":" in container:
        refuse_credentials(parts, form)
    if not container:
        raise ConfigError(f"the {scheme} store's URI names no container; expected {form}")
    if fault := facts.container_fault(container):
        raise ConfigError(f"the container {container!r} is not possible: {fault}; expected {form}")
    if names_account:
        if not at:
            raise ConfigError(f"the store {scheme}://{container} names no account; expected {form}")
        try:
            blob_host(account)
        except ValueError as error:
            raise ConfigError(f"the store {scheme}://{container}: the account {error}") from None
    options = parse_options(parts, bucket=container, known=facts.OPTIONS, may_name_account=True)
    prefix = parse_prefix(parts, container)
    return StoreAddress(scheme=scheme, container=container, prefix=prefix, account=account, **options)


def _open(address: StoreAddress, request_timeout_ns: int, pool_size: int) -> ObjectStore:
    from lockref.clouds.azure.client import AzureStore

    return AzureStore(
        container=address.container,
        prefix=address.prefix,
        account_host=address.account,
        endpoint=address.endpoint,
        request_timeout_ns=request_timeout_ns,
        pool_size=pool_size,
    )


def _create_container(address: StoreAddress, request_timeout_ns: int) -> None:
    from lockref.clouds.azure.client import create_container

    create_container(address, request_timeout_ns)


def _environment(address: StoreAddress, endpoint: str) -> dict[str, str]:
    account = find_account(host=address.account, endpoint=address.endpoint, environ=os.environ)
    return {CONNECTION_STRING: connection_string(account, endpoint)}


def _signer(address: StoreAddress) -> Signer:
    from lockref.clouds.azure.signing import AzureSigner

    return AzureSigner(address)


AZURE: Final = Cloud(
    name="azure",
    forms=facts.FORMS,
    parse=_parse,
    open_store=_open,
    protocol=(requests, answers),
    traffic=(requests, answers),
    readable=facts.READABLE,
    signer=_signer,
    create_container=_create_container,
    refusal=answers.write_refusal,
    title=facts.SERVICE,
    environment=_environment,
    local_path=f"/{EMULATOR}",
    statuses=facts.STATUSES,
    modes=facts.MODES,
    may_name_account=True,
)
