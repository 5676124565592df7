"""The dialect of foreign clients' requests and answers: that of the cloud which the store's scheme names."""

from __future__ import annotations

from dataclasses import dataclass

from lockref.clouds.cloud import TrafficReplies, TrafficRequests
from lockref.clouds.traffic import Exchange, ObjectReply, ObjectRequest
from lockref.clouds.uri import CLOUDS


@dataclass(frozen=True, slots=True)
class Dialect:
    """Reads the requests and answers of one store. bucket: that of the run, see `TrafficRequests`."""

    name: str
    bucket: str
    requests: TrafficRequests
    replies: TrafficReplies

    def request(self, exchange: Exchange) -> ObjectRequest:
        """The meaning of a request, as far as it has come."""
        return self.requests.read_request(exchange, self.bucket)

    def reply(self, exchange: Exchange, request: ObjectRequest) -> ObjectReply:
        """The meaning of a complete answer to this request."""
        return self.replies.reply_to(exchange, request)


def schemes_read() -> list[str]:
    """The schemes of the stores whose protocol is read on a wire."""
    return [scheme for scheme, cloud in CLOUDS.items() if cloud.traffic is not None]


def dialect_of(scheme: str, bucket: str) -> Dialect:
    """The dialect for a store with this scheme. scheme: one of `schemes_read`."""
    cloud = CLOUDS[scheme]
    assert cloud.traffic is not None, "the caller has asked for a scheme that is read"
    return Dialect(cloud.name, bucket, *cloud.traffic)
