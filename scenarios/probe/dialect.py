"""One store, asked by calls: each becomes one signed HTTP request of the store's cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockref.clouds.uri import CLOUDS, cloud_of
from lockref.errors import CapabilityMissing

if TYPE_CHECKING:
    from lockref.clouds.calls import Answer, Call, HttpReply, HttpRequest, WriteMode
    from lockref.clouds.cloud import Answers, Cloud, Signer, Writer
    from lockref.clouds.statuses import ServerStatuses
    from lockref.stores.address import StoreAddress


@dataclass(frozen=True, slots=True)
class Dialect:
    """The dialect in which one store is asked. It is picklable, so that a racing process need not load an SDK.

    scheme: of the store's URI.
    """

    scheme: str
    signer: Signer

    @property
    def name(self) -> str:
        return self._cloud.name

    @property
    def origin(self) -> str:
        """The origin that requests go to, see `Place`."""
        return self.signer.place.origin

    @property
    def statuses(self) -> ServerStatuses:
        return self._cloud.statuses

    @property
    def modes(self) -> tuple[WriteMode, ...]:
        return self._cloud.modes

    @property
    def amplifiers(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        return self._cloud.amplifiers

    def form(self, call: Call) -> HttpRequest:
        """The signed request. Errors: Inexpressible where the cloud has no such request; Unsigned."""
        requests, _ = self._protocol()
        return self.signer.signed(requests.write_request(self.signer.place, call))

    def answer(self, call: Call, reply: HttpReply) -> Answer:
        """The meaning of a reply."""
        _, answers = self._protocol()
        return answers.answer_to(self.signer.place, call, reply)

    @property
    def _cloud(self) -> Cloud:
        return CLOUDS[self.scheme]

    def _protocol(self) -> tuple[Writer, Answers]:
        assert self._cloud.protocol is not None, "a store with a signer has requests"
        return self._cloud.protocol


def dialect_of(address: StoreAddress) -> Dialect:
    """The dialect of the store at this address. Only a table is sent a request, for the name of its key.

    Errors: ConfigError for a configuration without usable credentials; BackendUnavailable for a table that does not
    answer; CapabilityMissing for a store without a wire.
    """
    signer = cloud_of(address).signer
    if signer is None:
        raise CapabilityMissing(f"{address} holds no objects that could be probed")
    return Dialect(address.scheme, signer(address))
