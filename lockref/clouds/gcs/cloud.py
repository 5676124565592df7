"""Google Cloud Storage among the clouds."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult

from lockref.clouds.cloud import Cloud, Signer
from lockref.clouds.gcs import answers, facts, requests
from lockref.errors import ConfigError
from lockref.stores.address import StoreAddress, parse_options, parse_prefix, refuse_credentials
from lockref.stores.port import ObjectStore


def _parse(uri: str, parts: SplitResult) -> StoreAddress:
    bucket = parts.netloc
    refuse_credentials(parts, facts.FORM)
    if not bucket:
        raise ConfigError(f"the store {uri!r} names no bucket; expected {facts.FORM}")
    if fault := facts.bucket_fault(bucket):
        raise ConfigError(f"the bucket {bucket!r} is not possible: {fault}; expected {facts.FORM}")
    options = parse_options(parts, bucket=bucket, known=facts.OPTIONS)
    return StoreAddress(scheme=parts.scheme, container=bucket, prefix=parse_prefix(parts, bucket), **options)


def _open(address: StoreAddress, request_timeout_ns: int, pool_size: int) -> ObjectStore:
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


def _create_container(address: StoreAddress, request_timeout_ns: int) -> None:
    from lockref.clouds.gcs.client import create_container

    create_container(address, request_timeout_ns)


def _signer(address: StoreAddress) -> Signer:
    from lockref.clouds.gcs.signing import GcsSigner

    return GcsSigner(address)


GCS: Final = Cloud(
    name="gcs",
    forms={"gs": facts.FORM},
    parse=_parse,
    open_store=_open,
    protocol=(requests, answers),
    traffic=(requests, answers),
    readable=facts.READABLE,
    signer=_signer,
    create_container=_create_container,
    refusal=answers.write_refusal,
    title=facts.SERVICE,
    statuses=facts.STATUSES,
    modes=facts.MODES,
)
