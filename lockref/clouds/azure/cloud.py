"""Azure Blob Storage among the clouds."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import SplitResult

from lockref.clouds.azure import answers, facts, requests
from lockref.clouds.azure.account import (
    CONNECTION_STRING,
    EMULATOR,
    blob_host,
    connection_string,
    find_account,
    same_container,
)
from lockref.clouds.cloud import Cloud, on_use
from lockref.errors import ConfigError
from lockref.stores.address import StoreAddress, parse_options, parse_prefix, refuse_credentials


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


def _environment(address: StoreAddress, endpoint: str) -> dict[str, str]:
    account = find_account(host=address.account, endpoint=address.endpoint, environ=os.environ)
    return {CONNECTION_STRING: connection_string(account, endpoint)}


_CLIENT: Final = "lockref.clouds.azure.client"

AZURE: Final = Cloud(
    name=facts.STATUSES.name,
    forms=facts.FORMS,
    parse=_parse,
    open_store=on_use(_CLIENT, "open_store"),
    create_container=on_use(_CLIENT, "create_container"),
    signer=on_use("lockref.clouds.azure.signing", "AzureSigner"),
    protocol=(requests, answers),
    traffic=(requests, answers),
    readable=facts.READABLE,
    refusal=answers.write_refusal,
    title=facts.SERVICE,
    outcomes=facts.OUTCOMES,
    environment=_environment,
    local_path=f"/{EMULATOR}",
    statuses=facts.STATUSES,
    modes=facts.MODES,
    may_name_account=True,
    same_container=same_container,
    domains=facts.DOMAINS,
    clients=("azure-storage-blob",),
)
