"""Making the bucket that a started server does not have yet."""

from __future__ import annotations

from http import HTTPStatus

import requests
from botocore.exceptions import BotoCoreError, ClientError

from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S
from lockref.stores.s3 import make_client
from lockref.stores.uri import StoreAddress


def create_bucket(address: StoreAddress, *, request_timeout_ns: int) -> None:
    """Create the bucket of `address` at its endpoint; one that is there already is fine.

    Errors: BackendUnavailable if the server does not answer or refuses.
    """
    assert address.endpoint, "buckets are made on started servers only, never in a cloud"
    if address.scheme == "s3":
        _create_s3(address, request_timeout_ns)
    else:
        _create_gcs(address, request_timeout_ns)


def _create_s3(address: StoreAddress, request_timeout_ns: int) -> None:
    client = make_client(endpoint=address.endpoint, region="", request_timeout_ns=request_timeout_ns, pool_size=1)
    try:
        client.create_bucket(Bucket=address.container)
    except client.exceptions.BucketAlreadyOwnedByYou:
        return
    except (BotoCoreError, ClientError) as error:
        raise BackendUnavailable(f"creating the bucket of {address} failed: {type(error).__name__}") from error
    finally:
        client.close()


def _create_gcs(address: StoreAddress, request_timeout_ns: int) -> None:
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.post(
                f"{address.endpoint}/storage/v1/b",
                params={"project": "lockref"},
                json={"name": address.container},
                timeout=request_timeout_ns / NS_PER_S,
            )
    except requests.RequestException as error:
        raise BackendUnavailable(f"creating the bucket of {address} failed: {type(error).__name__}") from error
    if answer.status_code not in (HTTPStatus.OK, HTTPStatus.CONFLICT):
        raise BackendUnavailable(f"creating the bucket of {address} failed: status {answer.status_code}")
