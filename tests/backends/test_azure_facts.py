"""What Azure has and other clouds have not: its own leases on an object, and a star as a condition.

Locks use neither. But an operator may lease an object that a lock writes, and a
version that is a star would turn a renewal into an overwrite.
"""

from __future__ import annotations

import contextlib
import os
from urllib.parse import urlsplit

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobClient, BlobLeaseClient, ContainerClient

from lockref.clouds.azure.account import find_account
from lockref.clouds.azure.sdk import make_client, make_session
from lockref.clouds.uri import create_container, parse_store_uri
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.probe.races import race
from lockref.words import Outcome
from tests.backends.conftest import on

azurite = pytest.mark.parametrize("address", [on("azurite")], indirect=True)
RACERS, ROUNDS = 8, 15
LEASE_S = 15
"""The shortest that Azure gives; no test waits for its end."""


@pytest.fixture
def container(address):
    """The SDK's own client of the container under `address`."""
    parsed = parse_store_uri(address)
    account = find_account(host="", endpoint=parsed.endpoint, environ=os.environ)
    with contextlib.closing(make_session(account, pool_size=RACERS)) as session:
        yield make_client(account, parsed.container, session=session, request_timeout_ns=20 * NS_PER_S)


@pytest.fixture
def blob(container: ContainerClient, address: str) -> BlobClient:
    """The object `k` of the store under `address`."""
    return container.get_blob_client(f"{parse_store_uri(address).prefix}/k")


@azurite
def test_a_write_that_a_lease_blocks_is_a_conflict(store, blob) -> None:
    """C25: 412, as on a stale version; but the version is right, and the write may be tried again."""
    version = store.put_if_absent("k", b"mine").version
    lease = blob.acquire_lease(LEASE_S)
    for reply in (store.put_if_version("k", b"x", version), store.put("k", b"x"), store.delete("k", version)):
        assert (reply.outcome, reply.status, "lease" in reply.reason) == (Outcome.CONFLICT, 412, True)
    assert store.put_if_absent("k", b"x").outcome is Outcome.PRECONDITION_FAILED
    assert (store.read("k").body, store.read("k").version) == (b"mine", version)
    lease.break_lease(0)
    assert store.put_if_version("k", b"x", version).outcome is Outcome.APPLIED


@azurite
def test_of_simultaneous_leases_one_is_given(blob) -> None:
    """C25: the losers hear 409 LeaseAlreadyPresent."""
    blob.upload_blob(b"x")

    def attempt() -> str:
        try:
            BlobLeaseClient(blob).acquire(LEASE_S)
        except HttpResponseError as error:
            return f"{error.status_code} {getattr(error.error_code, 'value', error.error_code)}"
        return "given"

    for _ in range(ROUNDS):
        heard = sorted(race(ThreadRuntime(), [attempt] * RACERS))
        assert heard == ["409 LeaseAlreadyPresent"] * (RACERS - 1) + ["given"]
        BlobLeaseClient(blob).break_lease(0)


@azurite
def test_a_lease_that_was_given_up_cannot_be_renewed(blob) -> None:
    """C25: neither after its end nor after somebody wrote in between."""
    blob.upload_blob(b"x")
    lease = blob.acquire_lease(LEASE_S)
    lease.renew()
    lease.break_lease(0)
    with pytest.raises(HttpResponseError) as broken:
        lease.renew()
    assert broken.value.status_code == 409
    blob.upload_blob(b"y", overwrite=True)
    with pytest.raises(HttpResponseError) as changed:
        lease.renew()
    assert changed.value.status_code == 409


@azurite
def test_making_a_container_that_is_there_is_no_mistake(store, address) -> None:
    """A server that is asked until it is ready is asked for its container more than once; what is in it stays."""
    store.put("k", b"mine")
    create_container(parse_store_uri(address), request_timeout_ns=20 * NS_PER_S)
    assert store.read("k").body == b"mine"


@azurite
def test_azurite_lets_a_star_match_nothing(blob) -> None:
    """A deviation of Azurite 3.35.0: Azure itself refuses `If-Match: *` where there is no object. No lock sends it."""
    heard = []
    blob.upload_blob(b"x", overwrite=True, match_condition=MatchConditions.IfPresent, raw_response_hook=heard.append)
    assert [reply.http_response.status_code for reply in heard] == [201]
    (sent,) = (reply.http_request for reply in heard)
    assert (sent.headers["If-Match"], urlsplit(sent.url).hostname) == ("*", "127.0.0.1")
