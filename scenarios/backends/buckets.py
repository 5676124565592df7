"""Making the bucket, the container or the table that a started server does not have yet.

Each cloud's client is imported on use: the three take two seconds to load, and a server is of one cloud.
"""

from __future__ import annotations

import os
from http import HTTPStatus

from lockref.clouds.azure.account import find_account
from lockref.dynamodb.place import require_table
from lockref.errors import BackendUnavailable
from lockref.stores.endpoints import split_timeout_s
from lockref.stores.uri import AZURE, StoreAddress


def create_bucket(address: StoreAddress, *, request_timeout_ns: int) -> None:
    """Create the bucket, container or table of `address` at its endpoint; one that is there already is fine.

    request_timeout_ns: bounds the request as a whole.
    Errors: BackendUnavailable if the server does not answer or refuses.
    """
    assert address.endpoint, "buckets are made on started servers only, never in a cloud"
    if address.scheme == "s3":
        _create_s3(address, request_timeout_ns)
    elif address.scheme == "dynamodb":
        require_table(address, request_timeout_ns=request_timeout_ns, may_create=True)
    elif address.scheme in AZURE:
        _create_container(address, request_timeout_ns)
    else:
        _create_gcs(address, request_timeout_ns)


def _create_s3(address: StoreAddress, request_timeout_ns: int) -> None:
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    from lockref.clouds.bounded_exchange import bounded
    from lockref.clouds.s3.client import make_client

    # The client loads its service's model from files. On a busy machine that takes seconds, and is no request.
    client = make_client(endpoint=address.endpoint, region="", request_timeout_ns=request_timeout_ns, pool_size=1)
    try:
        with bounded(request_timeout_ns):
            client.create_bucket(Bucket=address.container)
    except client.exceptions.BucketAlreadyOwnedByYou:
        return
    except (BotoCoreError, ClientError, ResponseParserError, HTTPError) as error:
        raise BackendUnavailable(f"creating the bucket of {address} failed: {type(error).__name__}") from error
    finally:
        client.close()


def _create_gcs(address: StoreAddress, request_timeout_ns: int) -> None:
    import requests
    from urllib3.exceptions import HTTPError

    from lockref.clouds.bounded_exchange import bounded
    from lockref.clouds.gcs.client import make_session

    try:
        with make_session(endpoint=address.endpoint, pool_size=1) as session, bounded(request_timeout_ns):
            answer = session.post(
                f"{address.endpoint}/storage/v1/b",
                params={"project": "lockref"},
                json={"name": address.container},
                timeout=split_timeout_s(request_timeout_ns),
            )
    except (requests.RequestException, HTTPError) as error:
        raise BackendUnavailable(f"creating the bucket of {address} failed: {type(error).__name__}") from error
    if answer.status_code not in (HTTPStatus.OK, HTTPStatus.CONFLICT):
        raise BackendUnavailable(f"creating the bucket of {address} failed: status {answer.status_code}")


def _create_container(address: StoreAddress, request_timeout_ns: int) -> None:
    from lockref.clouds.azure import sdk
    from lockref.clouds.bounded_exchange import bounded

    account = find_account(host=address.account, endpoint=address.endpoint, environ=os.environ)
    with sdk.make_session(account, pool_size=1) as session:
        client = sdk.make_client(account, address.container, session=session, request_timeout_ns=request_timeout_ns)
        try:
            with bounded(request_timeout_ns):
                client.create_container()
        except sdk.NO_ANSWER as error:
            if getattr(error, "error_code", None) != "ContainerAlreadyExists":
                raise BackendUnavailable(
                    f"creating the container of {address} failed: {type(error).__name__}"
                ) from error
