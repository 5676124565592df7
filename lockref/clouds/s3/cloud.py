"""S3 among the clouds."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult

from lockref.clouds.cloud import Cloud, Signer
from lockref.clouds.s3 import answers, facts, requests
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


def _create_container(address: StoreAddress, request_timeout_ns: int) -> None:
    from lockref.clouds.s3.client import create_container

    create_container(address, request_timeout_ns)


def _signer(address: StoreAddress) -> Signer:
    from lockref.clouds.s3.signing import S3Signer

    return S3Signer(address)


S3: Final = Cloud(
    name="s3",
    forms={"s3": facts.FORM},
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
    amplifiers=facts.AMPLIFIERS,
)
