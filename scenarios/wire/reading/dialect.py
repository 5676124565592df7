"""The dialect of foreign clients' requests and answers: that of the cloud which the store's scheme names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lockref.clouds.cloud import TrafficReplies, TrafficRequests
from lockref.clouds.statuses import reason_text
from lockref.clouds.traffic import Exchange, ObjectReply, ObjectRequest
from lockref.clouds.uri import CLOUDS
from lockref.words import Outcome

UNFINISHED: Final = "a success that did not come to its end; the request may have taken effect"


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
        """The meaning of the answer to this request.

        A success whose body did not come to its end is AMBIGUOUS. To believe its status alone would accuse the store of
        a write that it never finished to confirm, such as of two creates by a server that sends bytes for ever.
        """
        reply = self.replies.reply_to(exchange, request)
        if exchange.is_unfinished and reply.outcome is Outcome.APPLIED:
            return ObjectReply(outcome=Outcome.AMBIGUOUS, reason=reason_text(UNFINISHED, exchange.status))
        return reply


def schemes_read() -> list[str]:
    """The schemes of the stores whose protocol is read on a wire."""
    return [scheme for scheme, cloud in CLOUDS.items() if cloud.traffic is not None]


def dialect_of(scheme: str, bucket: str) -> Dialect:
    """The dialect for a store with this scheme. scheme: one of `schemes_read`."""
    cloud = CLOUDS[scheme]
    assert cloud.traffic is not None, "the caller has asked for a scheme that is read"
    return Dialect(cloud.name, bucket, *cloud.traffic)
