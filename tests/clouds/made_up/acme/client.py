"""Acme as an `ObjectStore`. It has no SDK: a request goes out on a connection of its own, once."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from lockref.clouds.answers import Meaning, read_reply, silence, write_reply
from lockref.clouds.calls import ANYTHING, DELETE, PUT, READ, Call
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S
from lockref.stores.address import StoreAddress
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, StorePlace, Version, WriteReply
from lockref.words import Outcome
from tests.clouds.made_up.acme.answers import read_answer
from tests.clouds.made_up.acme.facts import STATUSES
from tests.clouds.made_up.acme.requests import write_request
from tests.clouds.made_up.acme.signing import AcmeSigner


class AcmeStore:
    """One vault, or a prefix of it."""

    def __init__(self, address: StoreAddress, request_timeout_ns: int) -> None:
        self._signer = AcmeSigner(address)
        self._timeout_s = request_timeout_ns / NS_PER_S
        self.place = StorePlace(cloud=STATUSES.name, container=address.container, prefix=address.prefix)

    @property
    def capabilities(self) -> StoreCapabilities:
        return STATUSES.capabilities

    def read(self, key: str) -> ReadReply:
        return read_reply(*self._send(Call(verb=READ, key=check_key(key))))

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._write(Call(verb=PUT, key=check_key(key), body=body, none_match=ANYTHING))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._write(Call(verb=PUT, key=check_key(key), body=body, match=version))

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._write(Call(verb=PUT, key=check_key(key), body=body))

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        return self._write(Call(verb=DELETE, key=check_key(key), match=version))

    def close(self) -> None:
        """Nothing is kept."""

    def _write(self, call: Call) -> WriteReply:
        return write_reply(self._send(call)[0])

    def _send(self, call: Call) -> tuple[Meaning, bytes]:
        request = self._signer.signed(write_request(self._signer.place, call))
        connection = http.client.HTTPConnection(urlsplit(self._signer.place.origin).netloc, timeout=self._timeout_s)
        try:
            connection.request(request.method, request.target, request.body, request.headers)
            reply = connection.getresponse()
            body = reply.read()
        except (OSError, http.client.HTTPException) as error:
            return silence(Outcome.AMBIGUOUS, f"no answer ({type(error).__name__})"), b""
        finally:
            connection.close()
        headers = {name.lower(): value for name, value in reply.getheaders()}
        return read_answer(call.question, reply.status, headers, body), body


def open_store(address: StoreAddress, request_timeout_ns: int, _pool_size: int) -> AcmeStore:
    """See `Cloud`."""
    return AcmeStore(address, request_timeout_ns)


def create_container(address: StoreAddress, request_timeout_ns: int) -> None:
    """Vaults are made by hand; a store that answers a read has one. Errors: BackendUnavailable."""
    if AcmeStore(address, request_timeout_ns).read("any").outcome is not Outcome.APPLIED:
        raise BackendUnavailable(f"the vault of {address} is not there")
